"""``%agent resume``: going on with a session of an earlier kernel: R49 to R58.

What is on record is shown before a process exists; when the agent has answered, it is said how the
session goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.errors import JournalError, SiloError
from silo_nb.ipython.front_end import front_end
from silo_nb.ipython.live import Output
from silo_nb.ipython.options import did_you_mean
from silo_nb.ipython.overview import dormant_sessions, show_what_to_resume
from silo_nb.ipython.paths import short_path
from silo_nb.ipython.record import Limits, Note, Row, TurnRecord, last_rows
from silo_nb.ipython.sessions import (
    CellSession,
    connect,
    open_session,
    require_permission,
    session_book,
)
from silo_nb.ipython.words import parse_words
from silo_nb.journal import (
    SessionFile,
    describe_session,
    find_session,
    journal_directory,
    read_tail,
)
from silo_nb.model import EMPTY_TRANSCRIPT, apply_update
from silo_nb.model.text import one_line
from silo_nb.profiles import load_profiles
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session import Restore
from silo_nb.session.live import LiveSession
from silo_nb.session.records import read_updates
from silo_nb.session.workspace import notebook_home

__all__ = ["resume_command"]

USAGE = "%agent resume [ID [PROFILE]] [--fresh] [-s NAME]"

_ENTRIES = 24
_LIMITS = Limits(said=6_000, detail=600, rows=_ENTRIES + 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What is to be resumed, and what is known of it before anything is started."""

    session_id: str
    profile: str
    agent: str
    title: str | None = None
    cwd: Path | None = None
    mcp_servers: Sequence[Mapping[str, Any]] = ()
    rows: tuple[Row, ...] = ()


def resume_command(shell: InteractiveShell, line: str) -> None:
    """Show what can be resumed, or resume it."""
    words = parse_words(line, USAGE, flags=("--fresh",), most=2)
    session_id, profile = words.get(0), words.get(1)
    require_permission()
    book = session_book()
    if session_id is None:
        show_what_to_resume(book.current())
        return
    output = Output(front_end(shell))
    is_fresh = "--fresh" in words.flags
    found = open_session(session_id)
    if found is not None and not is_fresh:
        _go_on(found, output, words.session)
        return
    if found is not None:
        wait_sync(agent_thread().run(found.synced()))
    target = _of_open(found) if found is not None else _target(session_id, profile)
    _resume(target, output, words.session, is_fresh=is_fresh)
    if found is not None and found.outcome == "journal-only":
        # Nothing runs for it, and what it shows is in the new one.
        agent_thread().run(found.dispose())


# -------------------------------------------------------------------------------- what is meant


def _target(session_id: str, profile: str | None) -> _Target:
    journals = journal_directory(notebook_home())
    path = find_session(journals, session_id)
    if path is not None:
        target = _of_file(describe_session(journals, path.stem))
        return target if profile is None else replace(target, profile=profile)
    if profile is None:
        known = [file.id for file in dormant_sessions()]
        raise UsageError(
            f"Nothing is on record of a session {one_line(session_id)!r} beside this notebook."
            f"{did_you_mean(session_id, known)} If it is an agent's own id, name the profile of "
            f"the agent behind it: %agent resume {one_line(session_id)} PROFILE"
        )
    return _Target(session_id=session_id, profile=profile, agent=load_profiles().get(profile).label)


def _of_file(file: SessionFile) -> _Target:
    updates = read_updates(read_tail(file.path).records)
    transcript = reduce(apply_update, updates, EMPTY_TRANSCRIPT)
    cwd = Path(file.cwd) if file.cwd else None
    return _Target(
        session_id=file.id,
        profile=file.profile_id,
        agent=file.agent_name or file.profile_id,
        title=file.title,
        # Where it worked: agents keep their own sessions by directory.
        cwd=cwd if cwd is not None and cwd.is_dir() else None,
        rows=last_rows(transcript.entries, file.cwd, _ENTRIES),
    )


def _of_open(live: LiveSession) -> _Target:
    return _Target(
        session_id=live.id,
        profile=live.profile.id,
        agent=_name(live),
        title=live.title,
        cwd=Path(live.cwd),
        mcp_servers=live.surroundings.mcp_servers,
        rows=_rows(live),
    )


# --------------------------------------------------------------------------------- going on


def _go_on(live: LiveSession, output: Output, name: str | None) -> None:
    """Make a session that is open the current one, with an agent if it can have one."""
    if live.exit is not None and live.outcome != "journal-only":
        output.paint(_record(_name(live), "connecting", _rows(live)))
        wait_sync(agent_thread().run(live.turns.make_ready()))
    _keep(session_book().named(live.id), output, _rows(live), name, state="resumed")


def _resume(target: _Target, output: Output, name: str | None, *, is_fresh: bool) -> None:
    output.paint(_record(target.agent, "connecting", target.rows, title=target.title))
    try:
        live = connect(
            target.profile,
            restore=Restore(target.session_id, start_fresh=is_fresh),
            title=target.title,
            cwd=target.cwd,
            mcp_servers=target.mcp_servers,
        )
    except (SiloError, KeyboardInterrupt) as error:
        output.give_up(_record(target.agent, "not-connected", target.rows, title=target.title))
        if isinstance(error, KeyboardInterrupt):
            error.args = ("interrupted while connecting; what was started is being ended",)
        if isinstance(error, JournalError):
            raise JournalError(
                f"{error}; in a cell: %agent resume {one_line(target.session_id)} --fresh"
            ) from None
        raise
    rows = _rows(live)
    if live.outcome == "new" and not is_fresh:
        lost = (
            f"The agent does not know session {one_line(target.session_id)} any more, so this is "
            "a new one, whose agent does not know what is shown above. That stays on record: "
            f"'%agent export -s {one_line(target.session_id)}'."
        )
        rows = (*target.rows, Note.of(lost, "warning"), *rows)
    elif is_fresh:
        carried = "A new session of the agent's, which does not know what is shown above."
        rows = (*rows, Note.of(carried, "warning"))
    state = "resumed" if live.outcome == "resumed" else "opened"
    _keep(CellSession(live), output, rows, name, state=state)


def _keep(
    session: CellSession, output: Output, rows: Sequence[Row], name: str | None, *, state: str
) -> None:
    """Keep a session for the cells to come, and leave what is on record of it in this one."""
    live = session.live
    session_book().keep(session, name)
    session.shown = len(live.transcript.entries)
    session.is_introduced = True
    agent_thread().call(live.acknowledge)
    word = f"%%agent -s {name}" if name else "%%agent"
    if live.outcome == "journal-only":
        state = "read-only"
        hint = (
            "This agent cannot bring conversations back, so this one can only be read. "
            f"'%agent resume {live.id} --fresh' begins a new one with it in front."
        )
    else:
        about = f"“{one_line(live.title, 80)}”, " if live.title else ""
        hint = f"{word} goes on with {about}session {live.id}."
    journal = live.journal.path if live.journal is not None else None
    record = _record(_name(live), state, (*rows, Note.of(hint)))
    record = replace(
        record,
        where=short_path(Path(live.cwd)),
        journal=short_path(journal) if journal is not None else "",
    )
    output.freeze(record)


def _record(agent: str, state: str, rows: Sequence[Row], *, title: str | None = None) -> TurnRecord:
    """Return what is shown; the title is that of a session that is only being opened (R58)."""
    footnotes = (f"“{one_line(title)}”",) if title else ()
    record = TurnRecord(agent=one_line(agent), state=state, rows=tuple(rows), footnotes=footnotes)
    return record.within(_LIMITS)


def _rows(live: LiveSession) -> tuple[Row, ...]:
    return last_rows(live.transcript.entries, live.cwd, _ENTRIES)


def _name(live: LiveSession) -> str:
    return live.card.title or live.card.name or live.profile.label
