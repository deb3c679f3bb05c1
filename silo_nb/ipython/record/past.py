"""What is on record of a session, as records of turns: as their cells would have kept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from silo_nb.ipython.record.entries import plan_steps, rows_of
from silo_nb.ipython.record.excerpt import WHOLE
from silo_nb.ipython.record.rows import Gap, Row
from silo_nb.ipython.record.turn import TurnRecord
from silo_nb.ipython.record.words import token_words
from silo_nb.model import (
    EMPTY_TRANSCRIPT,
    Attachment,
    Entry,
    Message,
    PlanEntry,
    ResourceLink,
    Transcript,
    TurnEnd,
    Update,
    Usage,
    apply_update,
)

__all__ = ["PastTurn", "SessionRecord", "last_rows", "turns_of", "turns_of_transcript"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """One turn of a session that is on record.

    Attributes:
        record: what is shown of it.
        prompt: the text that was sent, as it was written; empty when there was none.
        links: the URIs of what was linked to, in order.
    """

    record: TurnRecord
    prompt: str = ""
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A whole session. Title, facts and records are inert; the rest is as it was written.

    Attributes:
        title: what it is about.
        profile: id of the profile it was connected from; empty when nobody knows.
        cwd: the directory the agent worked in, as it is on record.
        facts: what else is to be known of it, each with a name.
        turns: what happened, in order.
    """

    title: str
    profile: str
    cwd: str
    facts: tuple[tuple[str, str], ...]
    turns: tuple[PastTurn, ...]


@dataclass(frozen=True, slots=True)
class _Figures:
    """What a turn left that is no entry of a transcript."""

    plan: tuple[PlanEntry, ...] = ()
    usage: Usage | None = None


def turns_of(updates: Iterable[Update], *, agent: str, cwd: str) -> tuple[PastTurn, ...]:
    """Return the turns that updates tell of.

    Args:
        updates: all of a session's, in order.
        agent: what the agent calls itself, inert.
        cwd: the directory it worked in.
    """
    transcript = EMPTY_TRANSCRIPT
    figures: list[_Figures] = []
    now = _Figures()
    for update in updates:
        transcript = apply_update(transcript, update)
        if update.plan is not None:
            now = replace(now, plan=update.plan)
        if update.usage is not None:
            now = replace(now, usage=update.usage)
        if update.kind == "turn_end":
            figures.append(now)
            now = _Figures()
    return _turns(transcript, [*figures, now], agent, cwd)


def turns_of_transcript(transcript: Transcript, *, agent: str, cwd: str) -> tuple[PastTurn, ...]:
    """Return the turns of a transcript; of plan and usage, it knows the last alone."""
    ends = sum(isinstance(entry, TurnEnd) for entry in transcript.entries)
    last = _Figures(transcript.plan, transcript.usage)
    figures = [_Figures()] * (ends - 1) + [last] * min(ends, 1)
    return _turns(transcript, [*figures, _Figures() if ends else last], agent, cwd)


def last_rows(entries: Sequence[Entry], cwd: str, most: int) -> tuple[Row, ...]:
    """Return the end of a conversation, from the beginning of a turn if that is not far.

    Args:
        entries: of a transcript.
        cwd: the directory the agent worked in.
        most: how many entries are shown.
    """
    start = max(0, len(entries) - most)
    if start:
        near = range(start, start + most // 2)
        start = next((n for n in near if _begins_turn(entries[n - 1], entries[n])), start)
    left_out = sum(not isinstance(entry, TurnEnd) for entry in entries[:start])
    rows = rows_of(entries[start:], cwd)
    return (Gap(left_out), *rows) if left_out else tuple(rows)


def _turns(
    transcript: Transcript, figures: Sequence[_Figures], agent: str, cwd: str
) -> tuple[PastTurn, ...]:
    turns: list[PastTurn] = []
    ends = 0
    slices = list(_slices(transcript.entries))
    for number, entries in enumerate(slices, start=1):
        is_running = transcript.turn_running and number == len(slices)
        has_end = isinstance(entries[-1], TurnEnd)
        mine = figures[ends] if has_end or number == len(slices) else _Figures()
        ends += has_end
        turn = _turn(entries, mine, agent, cwd, is_running=is_running)
        if turn.record.rows or turn.record.plan:
            turns.append(turn)
    return tuple(turns)


def _slices(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Cut a conversation behind each end of a turn, and before a prompt that follows no end.

    An agent that replays a conversation tells of no ends. What came between two turns is part of
    the later one, as it is in cells.
    """
    current: list[Entry] = []
    has_prompt = False
    for entry in entries:
        if has_prompt and _begins_turn(current[-1], entry):
            yield current
            current, has_prompt = [], False
        current.append(entry)
        has_prompt = has_prompt or _is_users(entry)
        if isinstance(entry, TurnEnd):
            yield current
            current, has_prompt = [], False
    if current:
        yield current


def _begins_turn(before: Entry, entry: Entry) -> bool:
    return _is_users(entry) and not _is_users(before)


def _is_users(entry: Entry) -> bool:
    return isinstance(entry, Message | Attachment) and entry.role == "user"


def _turn(
    entries: Sequence[Entry], figures: _Figures, agent: str, cwd: str, *, is_running: bool
) -> PastTurn:
    users = [entry for entry in entries if isinstance(entry, Message | Attachment)]
    users = [entry for entry in users if entry.role == "user"]
    end = entries[-1] if isinstance(entries[-1], TurnEnd) else None
    tokens = token_words(end.turn.usage or {}) if end is not None else ""
    record = TurnRecord(
        agent=agent,
        state="unfinished" if is_running else _state(end, asked=bool(users)),
        rows=tuple(rows_of(entries, cwd, most=WHOLE)),
        elapsed=_seconds(users[0].timestamp, end.timestamp) if users and end else None,
        plan=plan_steps(figures.plan),
        usage=figures.usage,
        footnotes=(tokens,) if tokens else (),
    )
    return PastTurn(
        record=record,
        prompt="\n".join(entry.text for entry in users if isinstance(entry, Message)),
        links=tuple(
            entry.content.uri
            for entry in users
            if isinstance(entry, Attachment) and isinstance(entry.content, ResourceLink)
        ),
    )


def _state(end: TurnEnd | None, *, asked: bool) -> str:
    if not asked:
        return "aside"
    reason = end.turn.stop_reason if end is not None else "end_turn"
    return "done" if reason == "end_turn" else reason or "unknown"


def _seconds(start: str | None, end: str | None) -> float | None:
    try:
        times = [datetime.fromisoformat(time) for time in (start or "", end or "")]
        return max(0.0, (times[1] - times[0]).total_seconds())
    except (ValueError, TypeError):  # not on record, damaged, or only one knows its time zone
        return None
