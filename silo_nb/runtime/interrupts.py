"""Who gets an interrupt (Ctrl-C, the stop button) while the main thread waits for an agent.

A KeyboardInterrupt may strike between any two instructions, also between taking a message from
a socket and handling it. So whoever waits here takes SIGINT over: the handler only counts and
wakes, and the wait acts where nothing can be lost. When the wait is over, the handler that was
there before is back.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupts"]


class Interrupts:
    """The interrupts that arrive while this context is entered, on the main thread.

    Elsewhere, and where SIGINT is ignored or handled outside Python, nothing is taken over and
    :attr:`count` stays 0.

    Args:
        blocking: True for a wait that blocks the main thread: it takes every interrupt, alone.
            Waits that only suspend a coroutine take one interrupt each, all of them the same one;
            the next goes to whoever handled SIGINT before.

    Attributes:
        count: how many interrupts were taken.
        notify: called after each, inside the signal handler: it may wake somebody, no more.
    """

    def __init__(self, *, blocking: bool) -> None:
        self.count = 0
        self.notify: Callable[[], object] = int
        self.blocking = blocking
        self._handler: _Handler | None = None

    def __enter__(self) -> Self:
        """Take over."""
        if threading.current_thread() is threading.main_thread():
            self._handler = _Handler.in_force()
            if self._handler is not None:
                self._handler.waits.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give back."""
        if self._handler is not None:
            self._handler.waits.remove(self)
            self._handler.retire()

    def take(self) -> bool:
        """Take one interrupt, or leave it to others."""
        if self.count and not self.blocking:
            return False
        self.count += 1
        self.notify()
        return True


class _Handler:
    """The SIGINT handler while somebody waits.

    ipykernel sets and restores its own handlers around each cell. A wait that outlives its cell
    therefore loses its handler with it, as it should: an interrupt of another cell is none of its
    business.
    """

    def __init__(self, previous: Callable[[int, FrameType | None], Any]) -> None:
        self.previous = previous
        self.waits: list[Interrupts] = []

    @staticmethod
    def in_force() -> _Handler | None:
        """Return the installed handler, installing one if needed and possible."""
        current = signal.getsignal(signal.SIGINT)
        if isinstance(current, _Handler):
            return current
        if not callable(current):  # ignored, the default action, or not Python's
            return None
        handler = _Handler(current)
        signal.signal(signal.SIGINT, handler)
        return handler

    def retire(self) -> None:
        """Put the previous handler back, unless somebody else has replaced this one."""
        previous = self.previous
        if self.waits or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, previous)

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        blocking = [wait for wait in self.waits if wait.blocking]
        # A blocking wait is in front of everything else the main thread has begun.
        addressed = blocking[-1:] or self.waits
        taken = [wait.take() for wait in addressed]
        if not any(taken):
            self.previous(signum, frame)
            # ipykernel's handler queues a callback without waking the loop (ipykernel issue 881).
            for wait in addressed:
                wait.notify()
