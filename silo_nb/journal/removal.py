"""Deleting a session's journal, with its backups and drafts, as the holder of its lock."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from silo_nb.errors import JournalError
from silo_nb.journal.descriptors import close_private
from silo_nb.journal.draft import DRAFT_SUFFIX
from silo_nb.journal.ids import is_session_id
from silo_nb.journal.layout import (
    SESSIONS,
    SUFFIX,
    create_directories,
    no_journal,
    open_directory,
    session_path,
    sync_directories,
)
from silo_nb.journal.lock import acquire

if TYPE_CHECKING:
    from pathlib import Path


def purge(directory: Path, session_id: str) -> None:
    """Delete a session's journal for good, with the backups beside it.

    Copies of its records in journals they were carried into stay.

    Args:
        directory: the ``.silo_nb`` it lies in.
        session_id: our own id; for an agent's id ask `find_session` first.

    Raises:
        JournalError: there is none, another process writes it (the message says which), or it
            cannot be deleted.
    """
    path = session_path(directory, session_id)
    if not os.path.lexists(path):
        raise no_journal(path)
    try:
        remove(directory, session_id)
    except OSError as error:
        msg = f"the journal of session {session_id!r} cannot be deleted: {error.strerror or error}"
        raise JournalError(msg) from error


def remove(directory: Path, session_id: str, *, if_size: int | None = None) -> None:
    """Delete a session's files, the journal itself last; what is missing is no error.

    Args:
        directory: the ``.silo_nb`` they lie in.
        session_id: one of our own session ids.
        if_size: delete only what still has this size, in bytes.

    Raises:
        JournalError: somebody else writes the session, or it has another size; nothing was deleted.
        OSError: the disk failed.
    """
    create_directories(directory)
    lock = acquire(directory, session_id)
    try:
        sessions = open_directory(directory, SESSIONS)
        try:
            name = session_id + SUFFIX
            if if_size is not None and os.stat(name, dir_fd=sessions).st_size != if_size:
                msg = f"session {session_id!r} was continued meanwhile, so it is kept"
                raise JournalError(msg)
            for companion in _companions(sessions, name):
                os.unlink(companion, dir_fd=sessions)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=sessions)
        finally:
            close_private(sessions)
        sync_directories(directory)
    finally:
        lock.release()


def remove_drafts(directory: Path) -> None:
    """Remove what killed processes left half written; what cannot be removed stays.

    A draft belongs to the holder of its session's lock, so those of living processes are safe.
    """
    with contextlib.suppress(OSError):
        names = [entry.name for entry in os.scandir(directory / SESSIONS)]
        for name in names:
            session_id = name.removesuffix(SUFFIX + DRAFT_SUFFIX)
            if session_id != name and is_session_id(session_id):
                _remove_draft(directory, session_id)


def _remove_draft(directory: Path, session_id: str) -> None:
    with contextlib.suppress(OSError, JournalError):
        create_directories(directory)
        lock = acquire(directory, session_id)
        try:
            (session_path(directory, session_id)).with_suffix(SUFFIX + DRAFT_SUFFIX).unlink()
        finally:
            lock.release()


def _companions(sessions: int, name: str) -> list[str]:
    pattern = re.compile(re.escape(name) + rf"(\.bak\d+|{re.escape(DRAFT_SUFFIX)})")
    return [entry.name for entry in os.scandir(sessions) if pattern.fullmatch(entry.name)]
