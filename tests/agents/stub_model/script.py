"""What the stub model says: scripts, their steps, and the blocks a step is made of.

A prompt names its script with a marker, ``[[stub write cwd=/some/dir]]``; `prompt_for` makes one. A
script is a list of steps, one per request of the agent: the first answers the prompt, the next one
answers the results of the tools that the first one called, and so on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MARKER = re.compile(r"\[\[stub ([\w-]+)((?: \w+=[^\s\]]+)*)\]\]")


@dataclass(frozen=True, slots=True)
class Text:
    """Part of the answer, streamed in so many pieces."""

    text: str
    pieces: int = 1


@dataclass(frozen=True, slots=True)
class Thought:
    """Part of the reasoning, streamed in so many pieces."""

    text: str
    pieces: int = 1


@dataclass(frozen=True, slots=True)
class Write:
    """Wants a file written."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Wants a shell command run."""

    command: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Wants the plan replaced: (what, status) for each entry."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of the agent's own tools; free text for a tool without a schema."""

    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the stream open, and silent, until the agent hangs up."""


Wish = Write | Shell | Plan
Block = Text | Thought | Wish | Hold
Playable = Text | Thought | Call | Hold
Steps = tuple[tuple[Block, ...], ...]

TEXT = "Hello **world**, caf\u00e9 \u2713 and `code`:\n\n- one\n- two\n"
THOUGHT = "Let me think about this step by step. First A, then B."
AFTER_THOUGHT = "After thinking: 42."
BEFORE_HOLD = "Starting a long answer. "
FILE_NAME = "hello.txt"
FILE_CONTENT = "hello = 1\nworld = 2\n"
COMMAND = "echo out-1; sleep 0.3; echo err-1 >&2; echo out-2; exit 3"
TASKS = ("Read the code", "Write the fix", "Run the tests")
TITLE = "A stub title"


def flood_text(words: int) -> str:
    """Return the text of the script ``flood``."""
    return "".join(f"word{n:04d} " for n in range(words))


def _text(_: Mapping[str, str]) -> Steps:
    return ((Text(TEXT, pieces=12),),)


def _think(_: Mapping[str, str]) -> Steps:
    return ((Thought(THOUGHT, pieces=4), Text(AFTER_THOUGHT, pieces=3)),)


def _write(arguments: Mapping[str, str]) -> Steps:
    wish = Write(f"{arguments['cwd']}/{FILE_NAME}", FILE_CONTENT)
    return ((Text("I will write the file.", pieces=2), wish), (Text("File step over."),))


def _shell(_: Mapping[str, str]) -> Steps:
    return ((Text("Running a command.", pieces=2), Shell(COMMAND)), (Text("Command finished."),))


def _slow_shell(arguments: Mapping[str, str]) -> Steps:
    # The shell that runs it has the tag on its command line, so that a test can find it. claude and
    # qwen refuse a command that begins with a sleep.
    command = f"echo {arguments['tag']}; sleep 300; echo over"
    return ((Shell(command),), (Text("Slow command finished."),))


def _plan(_: Mapping[str, str]) -> Steps:
    stages = (
        ("in_progress", "pending", "pending"),
        ("completed", "in_progress", "pending"),
        ("completed", "completed", "completed"),
    )
    steps = tuple((Plan(tuple(zip(TASKS, stage, strict=True))),) for stage in stages)
    return (*steps, (Text("Plan done."),))


def _hold(_: Mapping[str, str]) -> Steps:
    return ((Text(BEFORE_HOLD, pieces=2), Hold()),)


def _flood(arguments: Mapping[str, str]) -> Steps:
    words = int(arguments["words"])
    return ((Text(flood_text(words), pieces=words),),)


SCRIPTS: Mapping[str, Callable[[Mapping[str, str]], Steps]] = {
    "text": _text,
    "think": _think,
    "write": _write,
    "shell": _shell,
    "slow-shell": _slow_shell,
    "plan": _plan,
    "hold": _hold,
    "flood": _flood,
}


def prompt_for(script: str, **arguments: object) -> str:
    """Return a prompt that makes the stub model play a script."""
    marker = " ".join((script, *(f"{name}={value}" for name, value in arguments.items())))
    return f"Please do the scripted thing. [[stub {marker}]]"


def step_of(script: str, arguments: Mapping[str, str], step: int) -> tuple[Block, ...]:
    """Return the blocks of one step; after the last step there is only a short text."""
    steps = SCRIPTS[script](arguments)
    return steps[step] if step < len(steps) else (Text("The script is over."),)
