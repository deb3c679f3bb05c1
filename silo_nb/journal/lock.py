"""One writer per session: the lock that says so.

``flock`` where the file system has it: the system drops it with its process, so nothing is ever
stale. POSIX ``lockf`` would not do: one process can take it twice, and closing any descriptor of
the file drops it. On file systems without ``flock``, a lease file (`silo_nb.journal.lease`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Protocol

from silo_nb.journal.descriptors import close_private, open_private
from silo_nb.journal.layout import LOCKS, open_directory, open_file
from silo_nb.journal.lease import Lease
from silo_nb.journal.owner import Owner, taken

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path

_NO_FLOCK_HERE = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_OWNER_BYTES = 4096


class Lock(Protocol):
    """A session's lock while it is held."""

    directory: Path
    """The ``.silo_nb`` with the lock; to be set when it was moved."""

    beat_every: float | None
    """Seconds between two calls of `beat`; None when none is needed."""

    def beat(self) -> None:
        """Show that the owner lives. Raises OSError, or JournalError when the lock was lost."""

    def is_intact(self) -> bool:
        """Return whether the lock still keeps others out."""

    def release(self) -> None:
        """Let others in. Idempotent."""


def acquire(directory: Path, session_id: str) -> Lock:
    """Return the lock of a session, held.

    Args:
        directory: the ``.silo_nb`` with the journal; its ``locks`` must exist.
        session_id: one of our own session ids.

    Raises:
        JournalError: somebody else holds it; the message says who.
        OSError: the disk failed.
    """
    locks = open_directory(directory, LOCKS)
    try:
        try:
            return _Flock(directory, locks, session_id)
        except OSError as error:
            if error.errno not in _NO_FLOCK_HERE:
                raise
        with contextlib.suppress(OSError):
            os.unlink(f"{session_id}.lock", dir_fd=locks)  # of no use to anybody here
        return Lease(directory, locks, session_id)
    finally:
        close_private(locks)


def owner_of(directory: Path, session_id: str) -> Owner | None:
    """Return who writes a session, as far as can be told without touching its lock.

    To take the lock, if only for a moment, would keep an owner out who comes at that moment. So
    this goes by what the lock file says; an owner on another host is believed to live.

    Args:
        directory: the ``.silo_nb`` with the journal.
        session_id: one of our own session ids.
    """
    for suffix in (".lock", ".lease"):
        try:
            fd = open_private(directory / LOCKS / f"{session_id}{suffix}", os.O_RDONLY)
        except OSError:  # nobody holds it, or nobody we could know of
            continue
        try:
            owner = Owner.parse(os.pread(fd, _OWNER_BYTES, 0))
        except OSError:  # a directory, a pipe
            owner = None
        finally:
            close_private(fd)
        if owner is not None and not owner.is_gone():
            return owner
    return None


class _Flock:
    """An exclusive ``flock`` on ``locks/<id>.lock``; the file's text is for people."""

    beat_every: float | None = None

    def __init__(self, directory: Path, locks: int, session_id: str) -> None:
        self.directory = directory
        self._name = f"{session_id}.lock"
        self._fd: int | None = None
        while self._fd is None:
            fd = open_file(self._name, os.O_RDWR | os.O_CREAT, dir_fd=locks)
            try:
                self._take(fd, session_id)
                # Its last owner may have unlinked the file after we opened it: then the next
                # process makes a new one and locks that.
                if _is_named(fd, self._name, locks):
                    self._fd = fd
            finally:
                if self._fd is None:
                    close_private(fd)

    def _take(self, fd: int, session_id: str) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise taken(session_id, Owner.parse(os.pread(fd, _OWNER_BYTES, 0))) from None
        # The text serves an error message only: a full disk must not cost us the lock.
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, Owner.current().to_bytes(), 0)

    def beat(self) -> None:
        """Do nothing: the system knows when the owner dies."""

    def is_intact(self) -> bool:
        if self._fd is None:
            return False
        try:
            locks = open_directory(self.directory, LOCKS)
            try:
                return _is_named(self._fd, self._name, locks)
            finally:
                close_private(locks)
        except OSError:
            return False

    def release(self) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        # Unlinked while we hold it, so nobody can be between opening and locking it unnoticed.
        with contextlib.suppress(OSError):
            locks = open_directory(self.directory, LOCKS)
            try:
                if _is_named(fd, self._name, locks):
                    os.unlink(self._name, dir_fd=locks)
            finally:
                close_private(locks)
        with contextlib.suppress(OSError):
            # By name, since closing is not enough if a child was forked at this very moment.
            fcntl.flock(fd, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            close_private(fd)


def _is_named(fd: int, name: str, dir_fd: int) -> bool:
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))
