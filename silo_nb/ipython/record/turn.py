"""A turn as it is shown, and how much of it there is room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from silo_nb.ipython.record.diffs import DiffText
from silo_nb.ipython.record.rows import Gap, Note, Prompt, Row, Said, Thought, Tool
from silo_nb.model import PlanEntry, Usage

__all__ = ["Limits", "TurnRecord"]

_PLAN = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a turn is shown: characters of each text, and rows."""

    said: int
    detail: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What is shown of one turn. Every text in it is inert.

    Attributes:
        agent: what the agent calls itself.
        state: ``working``, ``waiting``, or how the turn ended: ``done``, ``cancelled``, ``failed``,
            or the agent's own stop reason; or how a session came about.
        rows: what happened, in order.
        elapsed: seconds; None when nobody counted them.
        plan: the agent's plan.
        usage: context and cost.
        where: the directory the agent works in, when it is to be told.
        journal: where the whole of it is kept; empty when it is not.
        footnotes: what else is to be known of the journal or the session.
    """

    agent: str
    state: str
    rows: tuple[Row, ...]
    elapsed: float | None = None
    plan: tuple[PlanEntry, ...] = ()
    usage: Usage | None = None
    where: str = ""
    journal: str = ""
    footnotes: tuple[str, ...] = ()

    def within(self, limits: Limits) -> TurnRecord:
        """Return this record with no more than `limits` allow; what is cut says so."""
        rows = tuple(_cut(row, limits) for row in _kept(self.rows, limits.rows))
        return replace(self, rows=rows, plan=self.plan[: max(_PLAN, limits.rows)])

    def without_rows(self) -> TurnRecord:
        """Return the bare outcome."""
        return replace(self, rows=(), plan=(), usage=None, journal="", footnotes=())

    @property
    def is_cut(self) -> bool:
        """Whether something is not shown."""
        return any(map(_is_cut, self.rows))

    def __len__(self) -> int:
        """How many characters are shown, roughly."""
        return sum(_length(row) for row in self.rows)


def _kept(rows: Sequence[Row], most: int) -> Iterable[Row]:
    if len(rows) <= most:
        return rows
    first, last = most // 4, most - most // 4
    gap = len(rows) - first - last
    earlier = sum(row.count for row in rows[first : first + gap] if isinstance(row, Gap))
    return (*rows[:first], Gap(gap + max(0, earlier - 1)), *rows[len(rows) - last :])


def _cut(row: Row, limits: Limits) -> Row:
    match row:
        case Prompt() | Said() | Note():
            return replace(row, text=row.text.cut(limits.said))
        case Thought():
            return replace(row, text=row.text.cut(limits.detail))
        case Tool():
            details = tuple(
                replace(d, text=d.text.cut(limits.detail))
                if not isinstance(d, DiffText)
                else d.cut(limits.detail)
                for d in row.details[: max(2, limits.rows // 4)]
            )
            return replace(row, details=details)
        case _:
            return row


def _is_cut(row: Row) -> bool:
    match row:
        case Gap():
            return True
        case Tool():
            return any(
                d.left_out if isinstance(d, DiffText) else d.text.left_out for d in row.details
            )
        case _:
            return bool(row.text.left_out)


def _length(row: Row) -> int:
    return sum(_lengths(row)) + 100


def _lengths(row: Row) -> Iterator[int]:
    match row:
        case Tool():
            yield from (len(d) if isinstance(d, DiffText) else len(d.text) for d in row.details)
        case Gap():
            pass
        case _:
            yield len(row.text)
