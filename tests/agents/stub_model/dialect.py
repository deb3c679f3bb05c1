"""What the four model APIs have in common, and what each has to bring.

A request becomes a `Conversation`; `next_blocks` picks what to answer; a `Writer` puts it on the
wire. Nothing is remembered between requests: the step of a script follows from the conversation,
so retries, resent histories and parallel sessions need no care.
"""

from __future__ import annotations

import abc
import itertools
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .script import MARKER, TITLE, Block, Call, Hold, Playable, Text, Thought, step_of
from .tools import Schema, call_for

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]

TOKENS_IN = 1234
TOKENS_OUT = 56
ARGUMENT_PIECES = 4
SECONDS_BETWEEN_PINGS = 0.2


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a conversation: ``role`` is ``"user"``, ``"assistant"`` or ``"result"``."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one request tells the model: everything said so far, and the tools it may call.

    `answers_with` are the properties of the object that the answer has to be, if it has to be one.
    """

    entries: tuple[Entry, ...]
    tools: Mapping[str, Schema | None] = field(default_factory=dict)
    answers_with: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results that nobody has answered yet."""
        fresh: list[str] = []
        for entry in reversed(self.entries):
            if entry.role == "assistant":
                break
            if entry.role == "result":
                fresh.insert(0, entry.text)
        return tuple(fresh)


@dataclass(frozen=True, slots=True)
class Turn:
    """What to answer: which script and step, and its blocks. No script: a text of our own."""

    script: str | None
    step: int
    blocks: tuple[Playable, ...]


class Sse(Protocol):
    """A stream of server-sent events."""

    def event(self, data: Json | str, name: str | None = None) -> None:
        """Send one event."""

    def comment(self) -> None:
        """Send a line that every client skips; it fails once the client is gone."""


class Writer(abc.ABC):
    """Streams one answer in the shape of one API."""

    @abc.abstractmethod
    def text(self, pieces: Iterator[str]) -> None:
        """Stream a part of the answer."""

    @abc.abstractmethod
    def thought(self, pieces: Iterator[str]) -> None:
        """Stream a part of the reasoning."""

    @abc.abstractmethod
    def call(self, call: Call) -> None:
        """Call a tool."""

    @abc.abstractmethod
    def ping(self) -> None:
        """Send something that says nothing."""

    @abc.abstractmethod
    def finish(self, *, called: bool) -> None:
        """End the answer; ``called`` if a tool was called in it."""


class Dialect(Protocol):
    """One model API."""

    name: str

    def conversation(self, body: Json) -> Conversation:
        """Read a request."""

    def writer(self, sse: Sse, body: Json, model: str) -> Writer:
        """Begin the answer to a request."""


def new_id(prefix: str) -> str:
    """Return an identifier as the APIs make them."""
    return f"{prefix}{uuid.uuid4().hex[:20]}"


def cut(text: str, pieces: int) -> Iterator[str]:
    """Cut a text into at most so many pieces of equal length.

    >>> list(cut("abcdefg", 3))
    ['abc', 'def', 'g']
    """
    size = max(1, -(-len(text) // max(1, pieces)))
    return (text[at : at + size] for at in range(0, len(text), size))


def joined_text(content: object) -> str:
    """Return the text of a message whose content is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part
    )


def as_told(value: object) -> str:
    """Return a tool result as one text to search in."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def next_turn(conversation: Conversation) -> Turn:
    """Decide what the model says next."""
    found = _last_marker(conversation.entries)
    if found is None or not conversation.tools:
        # Titles, summaries and classifiers offer no tools and quote the prompt, marker included.
        keys = conversation.answers_with
        return Turn(None, 0, (Text(json.dumps(dict.fromkeys(keys, TITLE)) if keys else TITLE),))
    at, script, arguments = found
    step = _runs_of_results(conversation.entries[at + 1 :])
    blocks = step_of(script, arguments, step)
    return Turn(script, step, tuple(_playable(block, conversation.tools) for block in blocks))


def scripts_of(conversation: Conversation) -> tuple[str, ...]:
    """Return the script of each prompt that names one, oldest first."""
    said = (entry.text for entry in conversation.entries if entry.role == "user")
    markers = (MARKER.findall(text) for text in said)
    return tuple(found[-1][0] for found in markers if found)


def play(blocks: Sequence[Playable], writer: Writer, closing: threading.Event) -> None:
    """Stream blocks to their end, or until the client hangs up or the server closes."""
    for block in blocks:
        match block:
            case Text():
                writer.text(cut(block.text, block.pieces))
            case Thought():
                writer.thought(cut(block.text, block.pieces))
            case Call():
                writer.call(block)
            case Hold():
                while not closing.wait(SECONDS_BETWEEN_PINGS):
                    writer.ping()
    writer.finish(called=any(isinstance(block, Call) for block in blocks))


def _playable(block: Block, tools: Mapping[str, Schema | None]) -> Playable:
    match block:
        case Text() | Thought() | Hold():
            return block
        case _:
            return call_for(block, tools)


def _last_marker(entries: Sequence[Entry]) -> tuple[int, str, dict[str, str]] | None:
    for at in range(len(entries) - 1, -1, -1):
        if entries[at].role != "user":
            continue
        markers = MARKER.findall(entries[at].text)
        if markers:
            script, arguments = markers[-1]
            return at, script, dict(pair.split("=", 1) for pair in arguments.split())
    return None


def _runs_of_results(entries: Sequence[Entry]) -> int:
    runs = itertools.groupby(entry.role for entry in entries)
    return sum(role == "result" for role, _ in runs)
