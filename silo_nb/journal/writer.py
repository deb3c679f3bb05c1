"""The journal thread: one for all journals of the process, there only while one is open.

A sync may take half a second; nobody else waits for it. Forked children have no such thread and
write nothing.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from silo_nb.journal.spool import Spool

EXIT_SECONDS = 1.0
"""How long the interpreter's exit may wait for the disk."""

_log = logging.getLogger("silo_nb.journal")


class Writer:
    """Serves every spool of the process from one thread, started with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._spools: dict[Spool, Callable[[], Future[None]]] = {}
        self._thread: threading.Thread | None = None

    def add(self, spool: Spool, close: Callable[[], Future[None]]) -> None:
        """Serve a spool until it is closed; `close` begins that, for the interpreter's exit."""
        with self._lock:
            self._spools[spool] = close
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="silo-journal", daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Make the thread look what is due."""
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(self._pause())
            self._wake.clear()
            for spool in self._served():
                _service(spool)
            with self._lock:
                for spool in [spool for spool in self._spools if spool.is_closed]:
                    del self._spools[spool]
                if not self._spools:
                    self._thread = None
                    return

    def _served(self) -> tuple[Spool, ...]:
        with self._lock:
            return tuple(self._spools)

    def _pause(self) -> float | None:
        due = min((when for s in self._served() if (when := s.due()) is not None), default=None)
        return None if due is None else max(0.0, due - time.monotonic())

    def close_all(self) -> None:
        """Write what is left when the interpreter exits, but not for ever."""
        deadline = time.monotonic() + EXIT_SECONDS
        with self._lock:
            closes = list(self._spools.values())
        for end in [close() for close in closes]:
            _wait(end, deadline - time.monotonic())


def _service(spool: Spool) -> None:
    try:
        spool.service()
    except Exception as error:  # noqa: BLE001 - one journal's bug must not end the others
        _log.exception("a journal could not be served")
        spool.abandon(error)


def _wait(end: Future[None], seconds: float) -> None:
    try:
        end.result(max(0.0, seconds))
    except TimeoutError:
        _log.warning("a journal was not written to its end: the disk is too slow")


_writer = Writer()


def writer() -> Writer:
    """Return this process's writer."""
    return _writer


def _start_over() -> None:
    """Give a forked child a writer of its own: it has no thread, and stuck locks."""
    global _writer  # noqa: PLW0603 - one per process, and a fork makes a new process
    _writer = Writer()


def _close_all_at_exit() -> None:
    _writer.close_all()


# Exit handlers run in reverse: noted on import, before anybody opens a session, ours comes after
# those that end sessions and still have something to write.
atexit.register(_close_all_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
