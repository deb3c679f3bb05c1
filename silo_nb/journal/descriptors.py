"""Descriptors a forked child must not inherit.

``O_CLOEXEC`` closes them on exec, but ``os.fork`` and ``multiprocessing`` do not exec: the child
would hold the session's lock for as long as it lives, after the kernel that owned it is gone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# A fork waits this long at most for an open() in another thread, which a dead network disk could
# hold up for ever.
_FORK_PATIENCE = 1.0


class _Descriptors:
    """The open descriptors of this process's journals and locks."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        # Held from before the system call until the descriptor is noted: a fork in between would
        # give the child a descriptor nobody closes.
        self._lock = threading.Lock()
        self._held_for_fork = False

    def open(self, path: str | Path, flags: int, mode: int, dir_fd: int | None) -> int:
        with self._lock:
            fd = os.open(path, flags, mode, dir_fd=dir_fd)
            self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self._open.discard(fd)
        # Not under the lock: on a network disk this may take long, and nobody else should wait.
        os.close(fd)

    def before_fork(self) -> None:
        self._held_for_fork = self._lock.acquire(timeout=_FORK_PATIENCE)

    def after_fork_in_parent(self) -> None:
        if self._held_for_fork:
            self._held_for_fork = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        self._held_for_fork = False
        for fd in self._open:
            # No LOCK_UN here: it would take the parent's lock away. Closing only drops our share.
            with contextlib.suppress(OSError):  # user code may have closed it by number
                os.close(fd)
        self._open.clear()


_descriptors = _Descriptors()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_descriptors.before_fork,
        after_in_parent=_descriptors.after_fork_in_parent,
        after_in_child=_descriptors.after_fork_in_child,
    )


def open_private(
    path: str | Path, flags: int, mode: int = 0o600, *, dir_fd: int | None = None
) -> int:
    """Return a descriptor that exec and fork close; give it back with ``close_private``.

    Symbolic links are refused, and opening a FIFO or a device never waits.

    Raises:
        OSError: as ``os.open`` does.
    """
    always = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    return _descriptors.open(path, flags | always, mode, dir_fd)


def close_private(fd: int) -> None:
    """Close a descriptor that ``open_private`` returned."""
    _descriptors.close(fd)
