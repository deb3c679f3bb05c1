"""``/run``: a harmless command, after asking."""

from __future__ import annotations

import os
import shlex
import signal
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from typing import Any

from silo_nb.demo_agent.describe import fenced
from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.tool_row import ToolRow, text_content
from silo_nb.demo_agent.turn import ALLOWED, REJECTED, Turn

_DEFAULT = "ls -l"
_MOST_OUTPUT = 256 * 1024
_CHUNK = 8192


def _anything(_: Sequence[str]) -> bool:
    return True


def _only(*allowed: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    return lambda arguments: list(arguments) in [list(one) for one in allowed]


# Commands that change nothing, with the arguments for which that holds.
_HARMLESS: dict[str, Callable[[Sequence[str]], bool]] = {
    "cat": _anything,
    "date": _only([]),
    "df": _anything,
    "du": _anything,
    "echo": _anything,
    "git": _only(["status"], ["status", "--short"], ["log", "--oneline"], ["branch"]),
    "head": _anything,
    "ls": _anything,
    "pwd": _only([]),
    "python": _only(["--version"]),
    "python3": _only(["--version"]),
    "seq": _anything,
    "sleep": _anything,
    "tail": _anything,
    "uname": _only([], ["-a"]),
    "wc": _anything,
    "whoami": _only([]),
}


def _answer(turn: Turn, prompt: Prompt) -> None:
    asked = _asked_for(prompt)
    command = _harmless(asked if asked is not None else _DEFAULT)
    if command is None:
        known = ", ".join(f"`{name}`" for name in _HARMLESS)
        turn.think("That command is not one I know to be harmless.")
        turn.say(f"I do not run `{asked}`. I only run what changes nothing: {known}.")
        return
    shown = shlex.join(command)
    turn.think(
        f"I am to run {shown!r}.", "It changes nothing, but running things is for you to decide."
    )
    if turn.session.options.mode == "plan":
        turn.say(f"I would run\n\n{fenced(shown, 'console')}\n\nbut the mode is “Plan only”.")
        return
    _run(turn, command, shown)


def _asked_for(prompt: Prompt) -> str | None:
    """Return the command line in a prompt: what is quoted, else what follows ``run``.

    >>> _asked_for(Prompt("Please run `ls -l` now")), _asked_for(Prompt("run seq 3"))
    ('ls -l', 'seq 3')
    >>> _asked_for(Prompt("Run something"))
    """
    if "`" in prompt.text and prompt.quoted():
        return prompt.quoted()[0]
    words = prompt.text.strip().rstrip(".!?").split()
    verbs = ("run", "execute", "launch")
    starts = [place + 1 for place, word in enumerate(words) if word.lower() in verbs]
    said = " ".join(words[starts[0] :] if starts else words)
    if said.lower() in {"", "something", "a command", "something harmless", "it", "a program"}:
        return None
    return said


def _harmless(command_line: str) -> list[str] | None:
    """Split a command line, if it changes nothing.

    >>> _harmless("ls -l 'a b'"), _harmless("git push"), _harmless("ls; rm x")
    (['ls', '-l', 'a b'], None, None)
    """
    try:
        words = shlex.split(command_line)
    except ValueError:
        return None
    # There is no shell: these would only puzzle whoever meant them.
    if not words or any(sign in command_line for sign in ";|&<>$\n"):
        return None
    allowed = _HARMLESS.get(words[0])
    return words if allowed is not None and allowed(words[1:]) else None


def _run(turn: Turn, command: list[str], shown: str) -> None:
    row = ToolRow(
        turn,
        kind="execute",
        name="run_command",
        title=shown,
        raw_input={"command": command, "cwd": str(turn.cwd)},
        path=turn.cwd,
    )
    if turn.terminal != "text":
        row.show_terminal(turn.cwd)
    with row:
        answer = row.permission("run", "Always allow commands in this session")
        if answer != ALLOWED:
            row.fail("not run")
            refused = "You said no" if answer == REJECTED else "Nobody answered"
            turn.say(f"{refused}, so I ran nothing.")
            return
        row.begin()
        try:
            output, status = _output_of(turn, command, row)
        except OSError as error:
            row.fail(f"`{command[0]}` could not be started: {error.strerror}")
            turn.say(f"`{command[0]}` could not be started: {error.strerror}.")
            return
        turn.count_input(output)
        _settle(turn, row, output, status)
    ended = "worked" if status == 0 else _ending(status)
    turn.say(f"`{shown}` {ended}; it printed {len(output.splitlines()):,} lines.")


def _output_of(turn: Turn, command: list[str], row: ToolRow) -> tuple[str, int]:
    """Run a command and return what it printed and its status, minus the signal if one ended it."""
    import subprocess

    turn.checkpoint()
    with subprocess.Popen(
        command,
        cwd=turn.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        try:
            # Killing it ends the reading below, wherever that is.
            with turn.when_cancelled(process.kill):
                said = _read(turn, row, process.stdout.fileno())
                status = process.wait()
        except BaseException:
            # Called off before the hook was in place: nobody else will end it.
            process.kill()
            raise
    turn.checkpoint()
    return said, status


def _read(turn: Turn, row: ToolRow, output: int) -> str:
    said = ""
    # A character can lie across two reads.
    decoder = getincrementaldecoder("utf-8")("replace")
    while chunk := os.read(output, _CHUNK):
        text = decoder.decode(chunk)
        if len(said) < _MOST_OUTPUT:
            said += text
            if turn.terminal == "delta":
                row.add_output(text)
    return said


def _settle(turn: Turn, row: ToolRow, output: str, status: int) -> None:
    fields: dict[str, Any] = {"rawOutput": {"output": output, "exitCode": status}}
    if turn.terminal == "whole":
        # As other agents do: what was printed first, how it ended in a message of its own.
        row.add_output(output, whole=True)
    if turn.terminal == "text":
        fields["content"] = [text_content(fenced(output or "(no output)", "console"))]
    else:
        fields["_meta"] = row.terminal_exit(status)
    row.update(status="completed" if status == 0 else "failed", **fields)


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"failed with exit code {status}"


SKILL = Skill(
    command="run",
    about="Run a harmless command",
    hint=f"command, for example {_DEFAULT}",
    words=r"\b(run|execute|launch)\b",
    answer=_answer,
)
