"""Discarding: a new session in the place of an old one, whose journal goes.

::

    Journal.create(…, discards=old)   the new file says so in its header
    discard(journal, old)             new file and its name synced ▸ old file deleted ▸ on record

At no moment are both gone. A process that dies on the way leaves either no new file, and the old
session is as it was, or both, and `finish_discards` deletes the old one when a session is opened
next; unless somebody went on with it, for that is not what was to be discarded.
"""

from __future__ import annotations

import contextlib
import errno
import os
from concurrent.futures import Future
from typing import TYPE_CHECKING

from silo_nb.errors import JournalError
from silo_nb.journal.descriptors import close_private
from silo_nb.journal.header import DISCARDS, DISCARDS_BYTES
from silo_nb.journal.ids import is_session_id
from silo_nb.journal.journal import Journal
from silo_nb.journal.layout import (
    SESSIONS,
    open_directory,
    open_file,
    session_path,
    sync_directories,
)
from silo_nb.journal.reader import RecordReader, read_beginning
from silo_nb.journal.removal import remove, remove_drafts
from silo_nb.journal.search import newest_first

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE = 5.0


def discard(journal: Journal, session_id: str) -> Future[None]:
    """Delete the journal of a session in whose place a new one was begun.

    Args:
        journal: the new session's, made with ``discards=session_id``; not closed before this is
            done.
        session_id: our own id of the old session.

    Returns:
        A future that is done when the old journal is gone; the new one has a ``discarded`` record
        then. It fails with a JournalError, and nothing is deleted, when another process writes the
        old session (the message says which; a ``kept`` record remembers it), or when the disk
        fails.
    """
    return _discard(journal, session_id, if_size=None)


def finish_discards(directory: Path) -> tuple[str, ...]:
    """Finish what killed processes left undone: discards, and drafts of carried journals.

    To be called before a session is opened. Reads the first line of every journal, so not on the
    agent's thread.

    Args:
        directory: the ``.silo_nb`` to look in.

    Returns:
        The ids of sessions whose journals were deleted.
    """
    remove_drafts(directory)
    return tuple(
        discarded
        for path in newest_first(directory)
        if (discarded := _finish(directory, path)) is not None
    )


def _finish(directory: Path, path: Path) -> str | None:
    """Finish the discard that a journal declares, if it is unfinished; return whose."""
    # Unreadable, or its own process is at it, or the disk hangs: then another time.
    with contextlib.suppress(JournalError, TimeoutError):
        header = read_beginning(path).header or {}
        old = header.get(DISCARDS)
        if not isinstance(old, str) or not is_session_id(old) or old == path.stem:
            return None
        if not session_path(directory, old).exists():
            return None
        journal = Journal.open(directory, path.stem)
        try:
            if not _was_kept(path, old):
                size = header.get(DISCARDS_BYTES)
                done = _discard(journal, old, if_size=size if isinstance(size, int) else -1)
                done.result(_PATIENCE)
                return old
        finally:
            journal.close().result(_PATIENCE)
    return None


def _was_kept(path: Path, old: str) -> bool:
    return any(record["k"] == "kept" and record.get("id") == old for record in RecordReader(path))


def _discard(journal: Journal, old: str, *, if_size: int | None) -> Future[None]:
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # from here on nobody can call it off
    if journal.header.get(DISCARDS) != old:
        msg = f"session {journal.id!r} was not begun in the place of {old!r}: create(…, discards=…)"
        done.set_exception(JournalError(msg))
        return done

    def delete(_: Future[None]) -> None:
        # On the journal thread, when the new journal has been synced.
        try:
            _replace(journal, old, if_size)
        except JournalError as error:  # a refusal: on record, or the next connect would delete it
            journal.append_beside("kept", {"id": old, "why": str(error)})
            done.set_exception(error)
        except OSError as error:
            why = error.strerror or str(error)
            msg = f"session {old!r} cannot be discarded: {why}; tried again at the next connect"
            done.set_exception(JournalError(msg))
        else:
            journal.append_beside("discarded", {"id": old})
            done.set_result(None)

    journal.sync().add_done_callback(delete)
    return done


def _replace(journal: Journal, old: str, if_size: int | None) -> None:
    path = journal.path
    if path is None or journal.problem is not None:
        raise OSError(errno.EIO, f"the new session is {journal.problem}")
    directory = path.parents[1]
    _make_durable(directory, path)
    remove(directory, old, if_size=if_size)


def _make_durable(directory: Path, path: Path) -> None:
    """Sync the new file whatever its own journal's durability is: the old one goes for good."""
    sessions = open_directory(directory, SESSIONS)
    try:
        fd = open_file(path.name, os.O_RDONLY, dir_fd=sessions)
        try:
            os.fsync(fd)
        finally:
            close_private(fd)
    finally:
        close_private(sessions)
    sync_directories(directory)
