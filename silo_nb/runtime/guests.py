"""Other people's code on the main thread: comm handlers and jobs.

It runs while a wait holds the main thread or between two cells, so it may take no harm to the
wait with it: an interrupt ends it wherever it hangs, and it may not start a wait of its own, which
would hold up the very answer it waits for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

__all__ = ["guest_running", "run_guest", "run_interruptible"]

_guests = 0  # only ever touched on the main thread


def guest_running() -> bool:
    """Whether the main thread is inside a guest of a wait."""
    return _guests > 0


def run_guest(fn: Callable[[], object]) -> None:
    """Run ``fn`` inside a wait: interruptible, and without the right to wait itself."""
    global _guests  # noqa: PLW0603 -- there is one main thread
    _guests += 1
    try:
        run_interruptible(fn)
    finally:
        _guests -= 1


def run_interruptible(fn: Callable[[], object]) -> None:
    """Run ``fn`` so that an interrupt ends it, whatever SIGINT does at the moment.

    The interrupt is then passed on to the handler in force: it was meant for the cell as well.
    """
    current = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or current is None:
        fn()
        return

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        # Once only, and never after fn has returned: an exception between its last instruction
        # and the line that restores the handler must not leave this one behind.
        signal.signal(signal.SIGINT, current)
        raise KeyboardInterrupt

    try:
        try:
            signal.signal(signal.SIGINT, interrupt)
            fn()
        finally:
            signal.signal(signal.SIGINT, current)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)
