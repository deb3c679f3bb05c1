"""Transcript: the conversation so far, as one immutable value.

One ordered list of entries, plus the three things of which only the last state counts: plan, usage
and title. :func:`silo_nb.apply_update` makes the next one out of an update.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from silo_nb.model.content import ContentBlock, Location, ToolContent
from silo_nb.model.entries import Entries
from silo_nb.model.rope import EMPTY_ROPE, Rope
from silo_nb.model.update import Notice, Permission, PlanEntry, Role, TerminalExit, Turn, Usage

__all__ = [
    "EMPTY_TRANSCRIPT",
    "Attachment",
    "CompactionRow",
    "Entry",
    "Message",
    "NoticeRow",
    "ToolCall",
    "Transcript",
    "TurnEnd",
]

CLOSED_STATUSES = frozenset({"completed", "failed", "cancelled", "unfinished"})


class Message(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A run of text from one side: one bubble."""

    role: Role
    message_id: str | None
    body: Rope
    timestamp: str | None = None

    @property
    def text(self) -> str:
        """The whole text so far."""
        return str(self.body)


class Attachment(Struct, frozen=True, repr_omit_defaults=True):
    """A block within a message that is not text: an image, a link, or a kind unknown to us."""

    role: Role
    message_id: str | None
    content: ContentBlock
    timestamp: str | None = None


class ToolCall(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One tool call: a row, known by its id.

    Attributes:
        title: what the agent calls it, for people; may be empty.
        kind: read, edit, execute … or a vendor's own word.
        status: pending, in_progress, completed, failed, or a vendor's own; ``cancelled`` and
            ``unfinished`` are ours, for rows the agent left open at the end of a turn.
        content: text, diffs and terminal pointers.
        output: what a command printed, when the agent sends that apart from `content`.
        permissions: the asks about this call, the latest last.
        settled: the status is ours, not the agent's.
    """

    tool_call_id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    content: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    name: str | None = None
    parent_id: str | None = None
    output: Rope = EMPTY_ROPE
    exit: TerminalExit | None = None
    permissions: tuple[Permission, ...] = ()
    settled: bool = False

    @property
    def is_open(self) -> bool:
        """Whether more is to be expected of this call."""
        return self.status not in CLOSED_STATUSES


class NoticeRow(Struct, frozen=True, repr_omit_defaults=True):
    """A notice of the agent's."""

    notice: Notice


class CompactionRow(Struct, frozen=True, repr_omit_defaults=True):
    """The agent summarizing its own context, known by its id."""

    compaction_id: str
    status: str = "in_progress"
    summary: Rope = EMPTY_ROPE
    error: str | None = None


class TurnEnd(Struct, frozen=True, repr_omit_defaults=True):
    """The end of a turn."""

    turn: Turn
    timestamp: str | None = None


Entry = Message | Attachment | ToolCall | NoticeRow | CompactionRow | TurnEnd


class Head(Struct, frozen=True, repr_omit_defaults=True):
    """What a transcript knows besides its entries; only the last state of each counts."""

    plan: tuple[PlanEntry, ...] = ()
    usage: Usage | None = None
    title: str | None = None
    turns: int = 0
    turn_running: bool = False


OpenRows = tuple[int, "OpenRows | None"]
"""Positions of rows opened since the last turn ended, as a linked list: adding costs nothing."""


NO_ROWS: dict[str, int] = {}
"""The index of transcripts without rows. Never written to."""


class Transcript(Struct, frozen=True, eq=False):
    """The conversation so far. Immutable; compare, keep and share it freely.

    >>> from silo_nb import EMPTY_TRANSCRIPT, Update, apply_update
    >>> hello = Update("agent_message_chunk", text="Hello", message_id="m1")
    >>> apply_update(EMPTY_TRANSCRIPT, hello).entries[0].text
    'Hello'
    """

    entries: Entries[Entry] = field(default_factory=Entries)
    head: Head = Head()
    # Where rows stand, shared between versions: a hint that `row` checks before it believes it.
    rows: dict[str, int] = field(default_factory=lambda: NO_ROWS)
    opened: OpenRows | None = None

    @property
    def plan(self) -> tuple[PlanEntry, ...]:
        """The agent's plan, empty when there is none."""
        return self.head.plan

    @property
    def usage(self) -> Usage | None:
        """The last usage the agent reported; None when it never did."""
        return self.head.usage

    @property
    def title(self) -> str | None:
        """The title the agent gave the session."""
        return self.head.title

    @property
    def turn_running(self) -> bool:
        """Whether a turn has started and not ended."""
        return self.head.turn_running

    @property
    def messages(self) -> Iterator[Message]:
        """The bubbles, in order."""
        return (entry for entry in self.entries if isinstance(entry, Message))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool rows, in order."""
        return tuple(entry for entry in self.entries if isinstance(entry, ToolCall))

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """Return the row `tool_call_id`, or None."""
        match self.find(tool_call_id):
            case (_, ToolCall() as row):
                return row
        return None

    def find(self, key: str) -> tuple[int, ToolCall | CompactionRow] | None:
        """Return the tool call or compaction `key` and where it stands in `entries`, or None."""
        at = self.rows.get(key)
        if at is None or at >= len(self.entries):
            return None
        row = self.entries[at]
        match row:
            case ToolCall(tool_call_id=found) | CompactionRow(compaction_id=found) if found == key:
                return at, row
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self.head == other.head and self.entries == other.entries

    def __hash__(self) -> int:
        return hash((self.head, len(self.entries)))

    def __repr__(self) -> str:
        return f"Transcript({self.entries!r}, {self.head!r})"


EMPTY_TRANSCRIPT = Transcript()
