"""How the agents differ, as far as a user of ours can see it; each value was seen with the version
that `install` pins. Where an agent is not named, it does what the protocol says.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.agents.stub_model.dialect import cut
from tests.agents.stub_model.script import COMMAND, THOUGHT, TITLE, prompt_for

PROMPT = prompt_for("text")


@dataclass(frozen=True, slots=True)
class Expected:
    """What one agent does.

    Attributes:
        names_messages: chunks carry the agent's own message ids.
        counts: what it counts: "context" as it fills, "tokens" of a turn with its response.
        thought: how the stub's thought reads.
        plans: has a tool for plans, and sends them as such.
        plans_in_rows: the tool that makes a plan has a row as well.
        asks: whether it asks before it writes a file.
        shows_diff: whether a row shows what is written, as a diff, already with the question.
        allowed: what the model is told after a write.
        rejected: what the model is told after a rejected write; None: it is not asked again.
        rejected_ends: stop reason of a turn whose write was rejected.
        rejected_row: status of that row, and whether we had to settle it.
        cancelled_row: the same for a row whose permission was open when the turn was cancelled.
        command: as much of a command as is shown with the question and in its row.
        exit_code: how a command that ends with 3 is shown in its row.
        failed_row: status of that row.
        output: what of a command's output is sure to be found in its row.
        login_at: which call a missing login makes fail.
        login_methods: how many ways of logging in the error lists.
        is_launched: what we start only starts the agent, which outlives it by the moment that the
            guard allows what a dead agent leaves behind. It may get a last word in.
        way_back: the method that brings a session back after its process is gone.
        lists: whether it lists its sessions.
        title: the title it gives a session, of those that do.
        options: ids of the options it offers at first.
        sets_through: the methods that set them, where it is not the generic one.
    """

    names_messages: bool = False
    counts: tuple[str, ...] = ()
    thought: str = THOUGHT
    plans: bool = False
    plans_in_rows: bool = False
    asks: bool = True
    shows_diff: bool = True
    allowed: str = "uccessfully created and wrote to new file"
    rejected: str | None = None
    rejected_ends: str = "end_turn"
    rejected_row: tuple[str, bool] = ("failed", False)
    cancelled_row: tuple[str, bool] = ("failed", False)
    command: str = COMMAND
    exit_code: int | None = None
    failed_row: str = "failed"
    output: tuple[str, ...] = ("out-1", "err-1", "out-2")
    login_at: str = "connect"
    login_methods: int = 1
    is_launched: bool = False
    way_back: str = "session/resume"
    lists: bool = True
    title: str | None = None
    options: tuple[str, ...] = ("mode", "model")
    sets_through: tuple[str, ...] = ("session/set_config_option",)


EXPECTED = {
    "claude": Expected(
        names_messages=True,
        counts=("context", "tokens"),
        plans=True,
        allowed="File created successfully",
        rejected="User refused permission to run tool",
        exit_code=3,
        login_at="prompt",
        login_methods=0,
        title=TITLE,
        options=("mode", "model", "effort", "fast", "ultracode"),
    ),
    "codex": Expected(
        names_messages=True,
        counts=("context", "tokens"),
        # It opens a thought with an empty paragraph.
        thought=f"\n\n{THOUGHT}",
        plans=True,
        allowed="Success. Updated the following files",
        rejected_ends="cancelled",
        # It leaves such a row in progress for ever.
        rejected_row=("cancelled", True),
        cancelled_row=("cancelled", True),
        exit_code=3,
        # What a command prints before its row is open is lost.
        output=("out-2",),
        login_methods=2,
        title=PROMPT,
        options=("mode", "collaboration_mode", "model", "reasoning_effort", "fast-mode"),
    ),
    "gemini": Expected(
        # It takes each piece of a thought for a subject without a description.
        thought="".join(f"****\n{piece.strip()}" for piece in cut(THOUGHT, 4)),
        rejected="was canceled by the user",
        # After a rejection or a cancel it says nothing more about the row.
        rejected_row=("failed", True),
        cancelled_row=("cancelled", True),
        # A command counts as completed however it ended, and its row stays empty.
        failed_row="completed",
        output=(),
        login_methods=4,
        is_launched=True,
        way_back="session/load",
        lists=False,
        sets_through=("session/set_mode", "session/set_model"),
    ),
    "qwen": Expected(is_launched=True),
    "kimi": Expected(
        # It tells after the response.
        counts=("context",),
        plans=True,
        plans_in_rows=True,
        shows_diff=False,
        allowed="Wrote 20 bytes",
        rejected="the user rejected the approval request",
        # It cuts longer ones.
        command=COMMAND.removesuffix(" exit 3"),
        title=PROMPT,
    ),
    "pi": Expected(
        counts=("context",),
        exit_code=1,
        asks=False,
        allowed="Successfully wrote to",
        way_back="session/load",
        options=("model", "thought_level"),
    ),
}
