"""What of a turn is shown: rows of inert text.

How a row looks is up to the renderers. Every string in one has gone through
:func:`silo_nb.model.text.inert`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeAlias

from silo_nb.ipython.record.diffs import DiffText
from silo_nb.ipython.record.excerpt import Excerpt

__all__ = ["Detail", "Gap", "Note", "Prompt", "Row", "Said", "Thought", "Tool"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user said, and the names of what they attached."""

    text: Excerpt
    attached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What the agent said: markdown."""

    text: Excerpt


@dataclass(frozen=True, slots=True)
class Thought:
    """What the agent thought aloud; `fresh` while it goes on thinking."""

    text: Excerpt
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Detail:
    """Something inside a tool row; `look` is ``"command"``, ``"text"`` or ``"output"``."""

    look: str
    text: Excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool call.

    Attributes:
        title: one line.
        kind: the agent's word for what it does.
        state: ``"done"``, ``"bad"``, ``"stopped"`` or ``"open"``: how its sign is chosen.
        status: the agent's word for its state.
        places: files it touches, as ``path:line``.
        answer: what became of the agent's question whether it may, empty when it did not ask.
        facts: short figures: ``"+2 -1"``, ``"exit 1"``.
    """

    title: str
    kind: str
    state: str
    status: str
    places: tuple[str, ...] = ()
    answer: str = ""
    facts: tuple[str, ...] = ()
    details: tuple[Detail | DiffText, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A line that is not part of the conversation; `severity` is info, warning or error."""

    text: Excerpt
    severity: str = "info"

    @classmethod
    def of(cls, words: str, severity: str = "info") -> Self:
        """Return a note that says `words`."""
        return cls(Excerpt.of(words), severity)


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that are not shown."""

    count: int


Row: TypeAlias = Prompt | Said | Thought | Tool | Note | Gap
