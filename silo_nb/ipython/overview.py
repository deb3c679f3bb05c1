"""``%agent sessions``, and what ``%agent resume`` offers: who there is, with nothing started."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence

from IPython.core.interactiveshell import InteractiveShell

from silo_nb.errors import SiloError
from silo_nb.ipython.outputs import say
from silo_nb.ipython.sessions import CellSession, session_book
from silo_nb.ipython.tables import show_table
from silo_nb.ipython.words import parse_words
from silo_nb.journal import SessionFile, journal_directory, list_sessions
from silo_nb.model.text import one_line
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session import AgentInfo, SessionSummary, agents, manager
from silo_nb.session.listing import list_sessions as list_at_agent
from silo_nb.session.live import LiveSession
from silo_nb.session.workspace import notebook_home

__all__ = ["dormant_sessions", "sessions_command", "show_what_to_resume"]

USAGE = "%agent sessions [--all]"

SHOWN = 20
"""Rows of a list that nobody asked to see all of."""

LIST_PATIENCE = 10.0
"""Seconds an agent has to list its sessions."""


def sessions_command(_shell: InteractiveShell, line: str) -> None:
    """Show every session of this notebook, open or on record."""
    words = parse_words(line, USAGE, flags=("--all",))
    infos = agents.get_state()
    if not infos:
        say("No session is open or on record here; %%agent opens one.")
        return
    live = {session.id: session for session in manager.live_sessions()}
    is_open = [info for info in infos if info.id in live]
    dormant = [info for info in infos if info.id not in live]
    shown = dormant if "--all" in words.flags else dormant[:SHOWN]
    rows = [_open_row(info, live[info.id]) for info in is_open]
    rows += [("", info.id, "", info.agent_name, "dormant", "", info.title or "") for info in shown]
    show_table(("", "session", "name", "agent", "state", "attention", "title"), rows)
    if dormant:
        say("%agent resume ID goes on with one that is dormant.")
    if len(dormant) > len(shown):
        say(f"… and {len(dormant) - len(shown)} more on record: %agent sessions --all")
    for session in live.values():
        if session.journal is not None and session.journal.problem is not None:
            say(f"! {session.id} is not journaled: {one_line(session.journal.problem)}")


def _open_row(info: AgentInfo, live: LiveSession) -> tuple[str, ...]:
    book = session_book()
    state: str = info.activity if info.state == "live" else info.state
    if live.outcome == "journal-only":
        state = "read-only"
    return (
        "▸" if book.is_current(live) else "",
        info.id,
        book.name_of(live),
        info.agent_name,
        state,
        "◆ look" if info.attention else "",
        info.title or "",
    )


def dormant_sessions() -> tuple[SessionFile, ...]:
    """Return the sessions on record beside this notebook that this kernel has not open."""
    open_ids = {live.id for live in manager.live_sessions()}
    files = list_sessions(journal_directory(notebook_home()))
    return tuple(file for file in files if file.id not in open_ids)


def show_what_to_resume(current: CellSession | None) -> None:
    """Show what can be resumed, and what to type for it.

    Args:
        current: the session in use; if its agent runs and lists its sessions, it is asked. (R56)
    """
    files = [file for file in dormant_sessions() if file.turns != 0]
    if files:
        show_table(("session", "agent", "last used", "turns", "title"), _dormant_rows(files))
        say(f"%agent resume {files[0].id}" + ("   # for the first of them" * (len(files) > 1)))
    else:
        say("No other session is on record beside this notebook.")
    if current is not None and current.live.status in ("idle", "working", "waiting"):
        _show_those_of_the_agent(current.live, {id_ for file in files for id_ in file.session_ids})


def _dormant_rows(files: Sequence[SessionFile]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for file in files[:SHOWN]:
        title = file.title or (f"“{file.opening}”" if file.opening else "")
        if file.owner is not None:
            title = f"open in {file.owner}: {title}".rstrip(": ")
        when = file.updated.astimezone().strftime("%Y-%m-%d %H:%M")
        turns = "" if file.turns is None else str(file.turns)
        rows.append((file.id, file.agent_name or file.profile_id, when, turns, title))
    if len(files) > SHOWN:
        rows.append((f"… and {len(files) - SHOWN} more", "", "", "", ""))
    return rows


def _show_those_of_the_agent(live: LiveSession, known: set[str]) -> None:
    if not live.card.can_list:
        return
    agent = one_line(live.card.title or live.card.name or live.profile.label)
    try:
        listed = wait_sync(agent_thread().run(_listed(live)))
    except SiloError as error:
        say(f"! {agent} does not say which sessions it knows: {one_line(str(error))}")
        return
    known |= {session.session_id for session in manager.live_sessions()}
    # Not every agent minds the directory it was asked about.
    near = [row for row in listed if row.cwd in (None, live.cwd)]
    others = [row for row in near if row.session_id not in known]
    if not others:
        return
    say(f"\n{agent} knows more sessions in {one_line(live.cwd)}:")
    rows = [(row.session_id, row.updated_at or "", row.title or "") for row in others[:SHOWN]]
    if len(others) > SHOWN:
        rows.append((f"… and {len(others) - SHOWN} more", "", ""))
    show_table(("agent's id", "last used", "title"), rows)
    first = one_line(shlex.quote(others[0].session_id))
    say(f"%agent resume {first} {live.profile.id}" + "   # for the first of them" * (len(rows) > 1))


async def _listed(live: LiveSession) -> tuple[SessionSummary, ...]:
    try:
        async with asyncio.timeout(LIST_PATIENCE):
            return await list_at_agent(live, live.cwd)
    except TimeoutError:
        raise SiloError(f"no answer within {LIST_PATIENCE:g} s") from None
