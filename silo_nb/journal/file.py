"""The file of one journal: opened with care, appended to, watched.

Every line is handed to the system in one `os.write` on an ``O_APPEND`` descriptor, so whoever
kills the process tears at most the last line; the next to open the file ends that line first, or
the record after it would be lost with it.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from silo_nb.journal.descriptors import close_private
from silo_nb.journal.draft import Draft, sync, write_all
from silo_nb.journal.layout import (
    SESSIONS,
    create_directories,
    open_directory,
    open_file,
    session_path,
    sync_directories,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_APPEND = os.O_RDWR | os.O_APPEND
_NEW = _APPEND | os.O_CREAT | os.O_EXCL
_COMPARED_BYTES = 4096


class Fate(enum.Enum):
    """What became of an open journal's file, seen from its path."""

    HERE = "here"
    GONE = "deleted"
    REPLACED = "replaced by another file"
    TRUNCATED = "truncated"
    MOVED = "moved with its directory"


class JournalFile:
    """One journal's file; used by one thread at a time.

    Args:
        directory: the ``.silo_nb`` it belongs in.
        session_id: one of our own session ids.

    Attributes:
        directory: where it belongs now; it may be moved while the file is open.
        path: the file's own path.
    """

    def __init__(self, directory: Path, session_id: str) -> None:
        self.path = session_path(directory, session_id)
        self.directory = directory
        self._home: tuple[int, int] | None = None
        self._fd: int | None = None
        self._size = 0
        self._torn = False
        self._shrunk = False
        self._named = False

    @property
    def size(self) -> int:
        """Bytes the file has, as far as we wrote or saw them."""
        return self._size

    @property
    def is_open(self) -> bool:
        """Whether it can be appended to."""
        return self._fd is not None

    def must_be_missing(self) -> None:
        """Make sure that nothing has the name yet; its directories exist.

        Raises:
            FileExistsError: something has.
        """
        if os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))

    def create(self, header: bytes) -> None:
        """Make the file, with its first line; its directories exist.

        Raises:
            FileExistsError: there is one.
            OSError: it cannot be made; then nothing of it is left.
        """
        sessions = open_directory(self.directory, SESSIONS)
        try:
            self._adopt(open_file(self.path.name, _NEW, dir_fd=sessions))
            error = self.append(header)[1]
            if error is not None:
                self.close()
                os.unlink(self.path.name, dir_fd=sessions)
                raise error
        finally:
            close_private(sessions)
        self._named = False

    def open(self, expected_size: int | None = None) -> None:
        """Open the file, or open it again.

        Args:
            expected_size: what it had when it was read without a lock, in bytes.

        Raises:
            FileNotFoundError: there is none.
            OSError: it must not or cannot be written, or has another size.
        """
        self.close()
        sessions = open_directory(self.directory, SESSIONS)
        try:
            self._adopt(open_file(self.path.name, _APPEND, dir_fd=sessions))
        finally:
            close_private(sessions)
        self._torn = True
        self._named = True
        if expected_size is not None:
            self.expect(expected_size)

    def expect(self, size: int) -> None:
        """Make sure that nobody else wrote, after a time without a lock.

        Raises:
            OSError: somebody did; going on would mix two stories.
        """
        if os.fstat(self._descriptor).st_size != size:
            self.close()
            raise OSError(errno.ESTALE, "was continued by another process", str(self.path))

    def append(self, data: bytes) -> tuple[int, OSError | None]:
        """Write at the end; return how many bytes the system took, and what stopped it."""
        done = 0
        try:
            self._repair_tail()
            view = memoryview(data)
            while done < len(data):
                # On a full disk a write may be short without an error; only the next one fails.
                count = os.write(self._descriptor, view[done:])
                if count == 0:
                    return done, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                done += count
                self._size += count
        except OSError as error:
            self._torn = True
            return done, error
        return done, None

    def sync(self) -> None:
        """Make everything written so far, and the file's name, survive a power loss.

        Raises:
            OSError: the disk failed; what was written since the last sync may be lost.
        """
        try:
            sync(self._descriptor)
            if not self._named:
                sync_directories(self.directory)
                self._named = True
        except OSError:
            self._torn = True
            raise

    def fate(self) -> Fate:
        """Return what became of the file since it was opened.

        Raises:
            OSError: nobody can tell.
        """
        held = os.fstat(self._descriptor)
        try:
            named = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return self._fate_when_missing(held)
        if not os.path.samestat(held, named) and not self._reads_the_same(held.st_size):
            return Fate.REPLACED
        return Fate.TRUNCATED if self._shrunk or held.st_size < self._size else Fate.HERE

    def draft(self) -> Draft:
        """Begin a complete new file, for `use`; its directories exist.

        Raises:
            OSError: it cannot be made.
        """
        return Draft(self.directory, self.path.name)

    def use(self, draft: Draft) -> None:
        """Put a draft in the place of the file, and go on with it; an old file becomes a backup.

        Raises:
            OSError: that failed; then the old state is unchanged.
        """
        fd = draft.commit()
        self.close()
        self._adopt(fd)
        self._named = False

    def replace(self, lines: Iterable[bytes]) -> None:
        """Write a complete new file in the place of one that was deleted or damaged by others.

        What lies there is kept beside it, as ``<session id>.jsonl.bak1`` and so on.

        Raises:
            OSError: it cannot be written; then the old state is unchanged.
        """
        create_directories(self.directory)
        with self.draft() as draft:
            for line in lines:
                draft.write(line)
            self.use(draft)

    def close(self) -> None:
        """Give the descriptor back. Idempotent."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            # What a network disk reports here, the sync before has reported already.
            with contextlib.suppress(OSError):
                close_private(fd)

    @property
    def _descriptor(self) -> int:
        if self._fd is None:
            raise OSError(errno.EBADF, "is not open", str(self.path))
        return self._fd

    def _adopt(self, fd: int) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._torn = self._shrunk = False
        home = self.directory.parent.stat()
        self._home = (home.st_dev, home.st_ino)

    def _repair_tail(self) -> None:
        """End the last line if a crash, a full disk or another program left it open."""
        size = os.fstat(self._descriptor).st_size
        if size == self._size and not self._torn:
            return
        self._shrunk = self._shrunk or size < self._size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            write_all(self._descriptor, b"\n")
            size += 1
        self._size = size
        self._torn = False

    def _fate_when_missing(self, held: os.stat_result) -> Fate:
        try:
            home = self.directory.parent.stat()
        except (FileNotFoundError, NotADirectoryError):
            home = None
        if held.st_nlink and (home is None or (home.st_dev, home.st_ino) != self._home):
            self._follow()
            return Fate.MOVED
        return Fate.GONE

    def _follow(self) -> None:
        """Take the paths as they are now, where the system can say."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self.path = Path(f"/proc/self/fd/{self._descriptor}").readlink()
                self.directory = self.path.parents[1]

    def _reads_the_same(self, size: int) -> bool:
        """Whether path and descriptor lead to the same bytes though their inodes differ.

        Some FUSE file systems make up a new inode number for every look-up.
        """
        try:
            sessions = open_directory(self.directory, SESSIONS)
            try:
                other = open_file(self.path.name, os.O_RDONLY, dir_fd=sessions)
            finally:
                close_private(sessions)
        except OSError:
            return False
        try:
            start = max(0, size - _COMPARED_BYTES)
            return os.fstat(other).st_size == size and os.pread(
                other, _COMPARED_BYTES, start
            ) == os.pread(self._descriptor, _COMPARED_BYTES, start)
        finally:
            close_private(other)
