"""How the agents differ, as far as a user of ours can see it; each value was seen with the version
that `install` pins. Where an agent is not named, it does what the protocol says.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.agents.stub_model.dialect import cut
from tests.agents.stub_model.script import THOUGHT


@dataclass(frozen=True, slots=True)
class Expected:
    """What one agent does.

    Attributes:
        names_messages: chunks carry the agent's own message ids.
        counts_tokens: context usage is reported, and token counts with the response.
        thought: how the stub's thought reads.
        plans: has a tool for plans, and sends them as such.
        allowed: what the model is told after an allowed write.
        rejected: what the model is told after a rejected write; None: it is not asked again.
        rejected_ends: stop reason of a turn whose write was rejected.
        rejected_row: status of that row, and whether we had to settle it.
        cancelled_row: the same for a row whose permission was open when the turn was cancelled.
        exit_code: how a command that ends with 3 is shown in its row.
        failed_row: status of that row.
        output: what of a command's output is sure to be found in its row.
        login_at: which call a missing login makes fail.
        login_methods: how many ways of logging in the error lists.
        is_launched: what we start only starts the agent, which outlives it by the moment that the
            guard allows what a dead agent leaves behind. It may get a last word in.
    """

    names_messages: bool = False
    counts_tokens: bool = False
    thought: str = THOUGHT
    plans: bool = False
    allowed: str = "uccessfully created and wrote to new file"
    rejected: str | None = None
    rejected_ends: str = "end_turn"
    rejected_row: tuple[str, bool] = ("failed", False)
    cancelled_row: tuple[str, bool] = ("failed", False)
    exit_code: int | None = None
    failed_row: str = "failed"
    output: tuple[str, ...] = ("out-1", "err-1", "out-2")
    login_at: str = "connect"
    login_methods: int = 1
    is_launched: bool = False


EXPECTED = {
    "claude": Expected(
        names_messages=True,
        counts_tokens=True,
        plans=True,
        allowed="File created successfully",
        rejected="User refused permission to run tool",
        exit_code=3,
        login_at="prompt",
        login_methods=0,
    ),
    "codex": Expected(
        names_messages=True,
        counts_tokens=True,
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
    ),
    "qwen": Expected(is_launched=True),
}
