"""Which journal belongs to a session id, ours or the agent's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from silo_nb.errors import JournalError
from silo_nb.journal.descriptors import close_private, open_private
from silo_nb.journal.header import agent_session_ids
from silo_nb.journal.ids import is_session_id
from silo_nb.journal.layout import SESSIONS, SUFFIX, session_path
from silo_nb.journal.reader import RecordReader

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK_BYTES = 1 << 20


def find_session(directory: Path, any_id: str) -> Path | None:
    """Return the journal of a session, or None.

    Args:
        directory: the ``.silo_nb`` to look in.
        any_id: our own id, or any id an agent ever gave the session: the header's ``sessionId``,
            or one that a ``meta`` record of its own adopted later. When several journals know the
            id, the one written last is returned.
    """
    if not any_id:
        return None
    if is_session_id(any_id):
        path = session_path(directory, any_id)
        if path.is_file() and not path.is_symlink():
            return path
    return next((path for path in newest_first(directory) if _knows(path, any_id)), None)


def newest_first(directory: Path) -> list[Path]:
    """Return the journals of a directory, the one written last first; links are none."""
    found: list[tuple[int, Path]] = []
    try:
        with os.scandir(directory / SESSIONS) as entries:
            for entry in entries:
                path = directory / SESSIONS / entry.name
                is_journal = path.suffix == SUFFIX and is_session_id(path.stem)
                if is_journal and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, path))
    except OSError:  # no journals here, or none that we may see
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _knows(path: Path, any_id: str) -> bool:
    try:
        if not _mentions(path, msgspec.json.encode(any_id)):
            return False
        reader = RecordReader(path)
        metas = [record for record in reader if record["k"] == "meta"]
    except (
        OSError,
        JournalError,
        UnicodeEncodeError,
    ):  # vanished, unreadable, or no id that JSON can hold
        return False
    return any_id in agent_session_ids(reader.header, metas)


def _mentions(path: Path, needle: bytes) -> bool:
    """Return whether a file contains the bytes; much faster than parsing those that do not."""
    fd = open_private(path, os.O_RDONLY)
    try:
        rest = b""
        while block := os.read(fd, _BLOCK_BYTES):
            window = rest + block
            if needle in window:
                return True
            rest = window[-len(needle) :]
    finally:
        close_private(fd)
    return False
