"""A file that takes its name only when it is whole.

Whoever is killed while writing a draft leaves what was there before, and the draft, which nobody
takes for a journal.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from typing import TYPE_CHECKING, Self

from silo_nb.journal.descriptors import close_private
from silo_nb.journal.layout import SESSIONS, open_directory, open_file

if TYPE_CHECKING:
    from pathlib import Path

DRAFT_SUFFIX = ".tmp"

_NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL


class Draft:
    """A session's file while it is written beside the place it will take; a context manager.

    Used by the holder of the session's lock. What is not committed is gone at the end.

    Args:
        directory: the ``.silo_nb`` it belongs in; its ``sessions`` must exist.
        name: the file name it will have.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._name = name
        self._draft = name + DRAFT_SUFFIX
        self._is_committed = False
        self._sessions = open_directory(directory, SESSIONS)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._draft, dir_fd=self._sessions)
            self._fd = open_file(self._draft, _NEW, dir_fd=self._sessions)
        except OSError:
            close_private(self._sessions)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # What fails here is left for the next draft to remove.
        with contextlib.suppress(OSError):
            if not self._is_committed:
                close_private(self._fd)
                os.unlink(self._draft, dir_fd=self._sessions)
        close_private(self._sessions)

    def write(self, data: bytes) -> None:
        """Add bytes at the end.

        Raises:
            OSError: the disk does not take them.
        """
        write_all(self._fd, data)

    def commit(self) -> int:
        """Make the file durable and give it its name; return its descriptor, now the caller's.

        A file that has the name is kept beside it, as ``<name>.bak1`` and so on.

        Raises:
            OSError: that failed; then the file that has the name is unchanged.
        """
        sync(self._fd)
        self._keep_backup()
        self._rename(self._draft, self._name)
        self._is_committed = True
        return self._fd

    def _keep_backup(self) -> None:
        taken = {entry.name for entry in os.scandir(self._sessions)}
        if self._name not in taken:
            return
        names = (f"{self._name}.bak{number}" for number in itertools.count(1))
        backup = next(name for name in names if name not in taken)
        here = self._sessions
        try:
            os.link(self._name, backup, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except OSError:
            # Not every file system has hard links. A crash before the new file takes the name
            # leaves both, complete, under names that say what they are.
            self._rename(self._name, backup)

    def _rename(self, name: str, new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=self._sessions, dst_dir_fd=self._sessions)


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data, however many calls it takes.

    Raises:
        OSError: the disk does not take it.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(fd: int) -> None:
    """Make what was written survive a power loss.

    Raises:
        OSError: the disk failed.
    """
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        os.fsync(fd)
