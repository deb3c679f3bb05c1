"""Restoring a session: what was, and which way back the agent offers.

==================  =============  ============  ===============================================
the agent offers    it answers     outcome       the conversation
==================  =============  ============  ===============================================
session/resume      a result       resumed       goes on; the journal is its record
session/load        a result       resumed       goes on; what its replay adds is put on record
either or both      only errors    new           a fresh one; the old journal stays as it is
neither             –              journal-only  can be read; there is no agent to prompt
(start_fresh)       –              new           a fresh one, with the old journal or without it
==================  =============  ============  ===============================================

A stale target is never an error (R51); a missing login and a lost process are. (PROTOCOL §8)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from silo_nb.journal import agent_session_ids, find_session, read_records
from silo_nb.model import Message, Transcript, Update
from silo_nb.session.records import read_updates

__all__ = ["Past", "Restore", "elsewhere", "read_past", "unseen"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Restore:
    """Which session to go on with, and how.

    Attributes:
        session_id: our id of it, or any id its agent ever gave it.
        start_fresh: begin a new session of the agent's instead of asking for the old one back.
        transcript: with `start_fresh` alone: ``"carry"`` the journal into the new session, or
            ``"discard"`` it for good.

    >>> Restore("demo-01kbb").transcript
    'carry'
    """

    session_id: str
    start_fresh: bool = False
    transcript: Literal["carry", "discard"] = "carry"


@dataclass(frozen=True, slots=True)
class Past:
    """What is on record of a session.

    Attributes:
        journal_id: our id of it; None when there is no journal.
        agent_session_id: the last id its agent gave it.
        updates: everything that happened.
        chosen: options that were set through us, by id.
    """

    journal_id: str | None
    agent_session_id: str
    updates: tuple[Update, ...] = ()
    chosen: tuple[tuple[str, Any], ...] = ()


async def read_past(journals: Path, session_id: str) -> Past:
    """Read what is on record of a session, without holding up the others meanwhile."""
    return await elsewhere(_read_past, journals, session_id)


async def elsewhere(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do what may wait for a disk in a thread of its own, which ends with it."""
    with ThreadPoolExecutor(1, thread_name_prefix="silo-disk") as pool:
        call = partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(pool, call)


def _read_past(journals: Path, session_id: str) -> Past:
    path = find_session(journals, session_id)
    if path is None:
        return Past(None, session_id)
    reading = read_records(path)
    ids = agent_session_ids(reading.header, reading.records)
    chosen: dict[str, Any] = {}
    for record in reading.records:
        if record["k"] == "meta" and isinstance(record.get("configOptions"), dict):
            chosen |= record["configOptions"]
    updates = tuple(read_updates(reading.records))
    return Past(path.stem, ids[-1] if ids else session_id, updates, tuple(chosen.items()))


def unseen(known: Transcript, replayed: Sequence[Update]) -> Iterator[Update]:
    """Yield what of a session/load replay `known` does not have yet.

    Agents join chunks, leave ids out or make new ones, add a chunk or two of their own, or replay
    only some kinds: what can be relied on is the order of what the user said. Where all of it is
    known, only what follows its last turn is new; where none is, everything; where the two do not
    meet, the record stands. What is no row, such as commands and title, is the agent's present
    state and always taken. (cases 22 to 24; REAL_AGENTS §4c)
    """
    new = {id(update) for update in _unseen_rows(known, replayed)}
    for update in replayed:
        is_state = update.text is None and update.content is None and update.tool_call is None
        if is_state or id(update) in new:
            yield update


def _unseen_rows(known: Transcript, replayed: Sequence[Update]) -> list[Update]:
    prompts = list(_prompts(known))
    if not prompts:
        return list(replayed)
    turns = _turns(replayed)
    met, last = 0, -1
    for number, turn in enumerate(turns):
        if met < len(prompts) and _same(_prompt(turn), prompts[met]):
            met, last = met + 1, number
    if met < len(prompts):
        return []
    return [
        update
        for turn in turns[last + 1 :]
        for update in turn
        if update.tool_call is None or known.find(update.tool_call.tool_call_id) is None
    ]


def _prompts(known: Transcript) -> Iterator[str]:
    """Yield what the user said, one text a turn."""
    prompt = ""
    for entry in known.entries:
        if isinstance(entry, Message) and entry.role == "user":
            prompt += entry.text
        elif prompt:
            yield prompt
            prompt = ""
    if prompt:
        yield prompt


def _turns(updates: Iterable[Update]) -> list[list[Update]]:
    """Cut a conversation where the user begins to speak; what precedes is no turn."""
    turns: list[list[Update]] = []
    user_speaks = False
    for update in updates:
        if update.kind == "user_message_chunk":
            if not user_speaks:
                turns.append([])
            user_speaks = True
        elif update.text is not None or update.tool_call is not None or update.kind == "turn_end":
            user_speaks = False
        if turns:
            turns[-1].append(update)
    return turns


def _prompt(turn: Iterable[Update]) -> str:
    return "".join(u.text or "" for u in turn if u.kind == "user_message_chunk")


def _same(replayed: str, prompt: str) -> bool:
    """Whether a replayed prompt is this one; agents may put context of theirs around it."""
    return "".join(prompt.split()) in "".join(replayed.split())
