"""``%agent export``: a whole session as a file, in the look of its cells."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.ipython.options import did_you_mean
from silo_nb.ipython.outputs import say
from silo_nb.ipython.paths import short_path
from silo_nb.ipython.record import (
    PastTurn,
    SessionRecord,
    session_markdown,
    session_notebook,
    session_page,
    turns_of,
    turns_of_transcript,
)
from silo_nb.ipython.sessions import require_permission, session_book
from silo_nb.ipython.words import parse_words
from silo_nb.journal import find_session, journal_directory, list_sessions, read_records
from silo_nb.model.text import one_line
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session.live import LiveSession
from silo_nb.session.records import read_updates
from silo_nb.session.workspace import notebook_home

__all__ = ["export_command"]

USAGE = "%agent export [md|html|ipynb] [FILE] [--force] [-s NAME|ID]"

_FORMATS: Mapping[str, Callable[[SessionRecord], Iterator[str]]] = {
    "md": session_markdown,
    "html": session_page,
    "ipynb": session_notebook,
}
_TITLE = 80


def export_command(_shell: InteractiveShell, line: str) -> None:
    """Write a session into a file; one that is there is kept unless ``--force`` is said."""
    words = parse_words(line, USAGE, flags=("--force",), most=2)
    kind, named = _what(words.said)
    require_permission()
    live = _open_session(words.session)
    if live is not None:
        session_id, record = live.id, _of_live(live)
    else:
        session_id, record = _of_file(words.session or "")
    if named is None:
        file = notebook_home() / f"{session_id}.{kind}"
    else:
        file = Path(named).expanduser().absolute()
    _write(file, _FORMATS[kind](record), replace="--force" in words.flags)
    count = len(record.turns)
    say(f"{count} turn{'s' * (count != 1)} exported to {short_path(file)}")


def _what(said: tuple[str, ...]) -> tuple[str, str | None]:
    """Return the format and the name of the file, if there is one; either tells the other."""
    first, second = said[0] if said else None, said[1] if said[1:] else None
    if first in _FORMATS:
        return str(first), second
    if first is None:
        return "md", None
    kind = Path(first).suffix.removeprefix(".").lower()
    if second is not None or kind not in _FORMATS:
        raise UsageError(
            f"%agent export: {first!r} is no format.{did_you_mean(first, _FORMATS)} "
            f"There are: {', '.join(_FORMATS)}. Usage: {USAGE}"
        )
    return kind, first


# ------------------------------------------------------------------------------ what is exported


def _open_session(word: str | None) -> LiveSession | None:
    book = session_book()
    if word is None:
        return book.meant(None).live
    found = book.look_up(word)
    return None if found is None else found.live


def _of_live(live: LiveSession) -> SessionRecord:
    """Return an open session: its journal, or what is in memory where there is none."""
    wait_sync(agent_thread().run(live.synced()))
    path = _journal_of(live)
    if path is not None:
        return _of_journal(path)
    agent = one_line(live.card.title or live.card.name or live.profile.label)
    facts = {
        "agentName": agent,
        "agentVersion": live.card.version,
        "profileId": live.profile.id,
        "cwd": live.cwd,
        "id": live.id,
        "sessionId": live.session_id,
    }
    turns = turns_of_transcript(live.transcript, agent=agent, cwd=live.cwd)
    return _record(facts, live.title, turns)


def _journal_of(live: LiveSession) -> Path | None:
    if live.journal is None:  # it can only be read
        return find_session(live.surroundings.journals, live.id)
    return live.journal.path if live.journal.problem is None else None


def _of_file(session_id: str) -> tuple[str, SessionRecord]:
    journals = journal_directory(notebook_home())
    path = find_session(journals, session_id)
    if path is None:
        known = (*session_book().names(), *(file.id for file in list_sessions(journals)))
        raise UsageError(
            f"There is no session {one_line(session_id)!r}, open or on record."
            f"{did_you_mean(session_id, known)} '%agent sessions' shows those there are"
        )
    return path.stem, _of_journal(path)


def _of_journal(path: Path) -> SessionRecord:
    reading = read_records(path)
    header: dict[str, Any] = dict(reading.header or {})
    for record in reading.records:
        if record["k"] == "meta" and isinstance(record.get("sessionId"), str):
            header["sessionId"] = record["sessionId"]
    updates = list(read_updates(reading.records))
    named = [u.info["title"] for u in updates if u.info is not None and "title" in u.info]
    agent = _text(header, "agentName") or _text(header, "profileId") or "agent"
    turns = turns_of(updates, agent=agent, cwd=str(header.get("cwd") or ""))
    header["id"] = path.stem
    if reading.bad_lines:
        header["damaged"] = f"{reading.bad_lines} lines that could not be read"
    return _record(header, named[-1] if named else None, turns)


def _record(
    header: Mapping[str, Any], title: str | None, turns: tuple[PastTurn, ...]
) -> SessionRecord:
    names = {
        "agent": " ".join(filter(None, (_text(header, k) for k in ("agentName", "agentVersion")))),
        "profile": _text(header, "profileId"),
        "begun": _time(header.get("createdAt")),
        "directory": _text(header, "cwd"),
        "session": _text(header, "id"),
        "agent's id of it": _text(header, "sessionId"),
        "damaged": _text(header, "damaged"),
    }
    return SessionRecord(
        title=one_line(title or _opening(turns) or "Untitled session", _TITLE),
        profile=str(header.get("profileId") or ""),
        cwd=str(header.get("cwd") or ""),
        facts=tuple((name, value) for name, value in names.items() if value),
        turns=turns,
    )


def _opening(turns: Iterable[PastTurn]) -> str:
    return next((turn.prompt for turn in turns if turn.prompt.strip()), "")


def _time(value: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(value)):%Y-%m-%d %H:%M %Z}".rstrip()
    except ValueError:  # not on record
        return ""


def _text(header: Mapping[str, Any], key: str) -> str:
    value = header.get(key)
    return one_line(value, 400) if isinstance(value, str) else ""


# ----------------------------------------------------------------------------------- the file


def _write(file: Path, parts: Iterable[str], *, replace: bool) -> None:
    """Write a file as a whole; what is there already stays unless it is to be replaced.

    Raises:
        UsageError: it is there, or cannot be written.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp") if replace else file
    try:
        with draft.open("x", encoding="utf-8", newline="\n") as written:
            try:
                written.writelines(parts)
                written.flush()
                draft.replace(file)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise UsageError(f"{short_path(file)!r} is there already; '--force' replaces it") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{short_path(file)!r} cannot be written: {why}") from None
