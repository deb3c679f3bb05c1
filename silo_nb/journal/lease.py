"""A lock for file systems without ``flock``: a file only one process can create.

Network home directories may be mounted without locking. There, ``locks/<id>.lease`` is created
with ``O_EXCL``, names its owner, and is touched regularly. A lease whose owner is dead, or has not
touched it for `STALE_AFTER` seconds and cannot be asked, is taken over.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from silo_nb.journal.descriptors import close_private, open_private
from silo_nb.journal.layout import LOCKS, open_directory, open_file
from silo_nb.journal.owner import Owner, taken

if TYPE_CHECKING:
    from pathlib import Path

BEAT_EVERY = 10.0
STALE_AFTER = 60.0

_OWNER_BYTES = 4096
_TRIES = 5
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Lease:
    """The lease on a session, held; raises what `silo_nb.journal.lock.acquire` does."""

    beat_every: float | None = BEAT_EVERY

    def __init__(self, directory: Path, locks: int, session_id: str) -> None:
        self.directory = directory
        self._session_id = session_id
        self._name = f"{session_id}.lease"
        self._me = Owner.current()
        for _ in range(_TRIES):
            if self._create(locks):
                return
            self._remove_if_stale(locks)
        raise taken(session_id, _read_owner(self._name, locks))

    def beat(self) -> None:
        """Touch the lease, so that other hosts see that we live.

        Raises:
            JournalError: somebody took it over, because we were stopped for longer than it lasts
                (a closed laptop, say).
            OSError: the disk failed.
        """
        locks = open_directory(self.directory, LOCKS)
        try:
            owner = _read_owner(self._name, locks)
            if owner is None or owner.token != self._me.token:
                raise taken(self._session_id, owner)
            os.utime(self._name, dir_fd=locks, follow_symlinks=False)
        finally:
            close_private(locks)

    def is_intact(self) -> bool:
        """Return whether the lease still names us."""
        try:
            locks = open_directory(self.directory, LOCKS)
            try:
                owner = _read_owner(self._name, locks)
            finally:
                close_private(locks)
        except OSError:
            return False
        return owner is not None and owner.token == self._me.token

    def release(self) -> None:
        """Remove the lease, unless it is somebody else's by now. Idempotent."""
        if self.is_intact():
            with contextlib.suppress(OSError):
                (self.directory / LOCKS / self._name).unlink()

    def _create(self, locks: int) -> bool:
        try:
            fd = open_file(self._name, _NEW_FILE, dir_fd=locks)
        except FileExistsError:
            return False
        try:
            os.write(fd, self._me.to_bytes())
        except OSError:
            # A lease without an owner would keep everybody out until it is stale.
            os.unlink(self._name, dir_fd=locks)
            raise
        finally:
            close_private(fd)
        return True

    def _remove_if_stale(self, locks: int) -> None:
        """Remove a dead owner's lease; one process at a time, or two would remove each other's."""
        guard = f"{self._name}.takeover"
        try:
            close_private(open_private(guard, _NEW_FILE, dir_fd=locks))
        except FileExistsError:
            _remove_if_left_behind(guard, locks)
            return
        try:
            age = _age(self._name, locks)
            if age is None:
                return  # released meanwhile
            owner = _read_owner(self._name, locks)
            if not _is_stale(owner, age):
                raise taken(self._session_id, owner)
            os.unlink(self._name, dir_fd=locks)
        finally:
            os.unlink(guard, dir_fd=locks)


def _is_stale(owner: Owner | None, age: float) -> bool:
    if owner is not None and owner.is_gone():
        return True
    if owner is not None and owner.is_local() and owner.started:
        return False  # alive, only stopped or slow
    return age > STALE_AFTER


def _remove_if_left_behind(guard: str, locks: int) -> None:
    age = _age(guard, locks)
    if age is not None and age > STALE_AFTER:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(guard, dir_fd=locks)


def _read_owner(name: str, locks: int) -> Owner | None:
    try:
        fd = open_file(name, os.O_RDONLY, dir_fd=locks)
    except FileNotFoundError:
        return None
    try:
        return Owner.parse(os.pread(fd, _OWNER_BYTES, 0))
    finally:
        close_private(fd)


def _age(name: str, locks: int) -> float | None:
    """Return how many seconds ago a file was touched, or None when it is missing.

    By the clock of the file system: a server's and ours may differ by more than a lease lasts.
    """
    probe = f".now-{os.getpid()}-{os.urandom(4).hex()}"
    fd = open_private(probe, _NEW_FILE, dir_fd=locks)
    try:
        os.unlink(probe, dir_fd=locks)
        now = os.fstat(fd).st_mtime
    finally:
        close_private(fd)
    try:
        return now - os.stat(name, dir_fd=locks, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return None
