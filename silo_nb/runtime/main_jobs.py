"""Jobs for the kernel's main thread, where user code and its variables live.

While a wait holds the main thread, the wait runs them; otherwise the kernel's loop does, as soon
as no cell keeps it from it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from silo_nb.runtime import kernel_compat
from silo_nb.runtime.guests import run_guest, run_interruptible

__all__ = ["JobInterrupted", "hosting_jobs", "run_jobs", "run_on_main"]

T = TypeVar("T")

_jobs: deque[_Job] = deque()
_hosts: list[Callable[[], None]] = []
# Reentrant: a signal handler may want a job done.
_lock = threading.RLock()


class JobInterrupted(RuntimeError):
    """The job was ended from outside: by an interrupt of the kernel, or by ``sys.exit()``."""


@dataclass(frozen=True, slots=True)
class _Job:
    fn: Callable[[], Any]
    future: Future[Any]

    def run(self) -> None:
        """Call the function and settle the future."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.fn()
        except Exception as error:  # noqa: BLE001 -- the future carries it to whoever asked
            self.future.set_exception(error)
        except BaseException as error:
            # Not as it is: whoever awaited a KeyboardInterrupt would end the loop it runs on.
            ended = JobInterrupted(f"the job was ended by {type(error).__name__}")
            ended.__cause__ = error
            self.future.set_exception(ended)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            self.future.set_result(result)


def run_on_main(fn: Callable[[], T]) -> Future[T]:
    """Have ``fn()`` called on the main thread, and return a future of its result.

    In a kernel it runs while a cell waits for an agent, or else once the kernel is idle. In a
    plain script it needs a wait on the main thread to be going on.

    Args:
        fn: what to call; must not wait for an agent itself.

    Returns:
        A future of its result or its exception; :class:`JobInterrupted` when it was interrupted,
        ``RuntimeError`` when nobody on the main thread would run it. It can be cancelled until
        the job starts.

    Example:
        >>> run_on_main(dict).exception(timeout=5)
        RuntimeError('nobody waits on the main thread, and there is no kernel to run the job')
    """
    future: Future[T] = Future()
    kernel = kernel_compat.current_kernel()
    with _lock:
        if kernel is None and not _hosts:
            future.set_exception(_no_host())
            return future
        _jobs.append(_Job(fn, future))
        hosts = tuple(_hosts)
    for wake in hosts:
        wake()
    if kernel is not None:
        kernel.io_loop.add_callback(run_jobs)
    return future


@contextmanager
def hosting_jobs(wake: Callable[[], None]) -> Iterator[None]:
    """Say that the main thread will call :func:`run_jobs` whenever ``wake`` was called."""
    with _lock:
        _hosts.append(wake)
    try:
        yield
    finally:
        with _lock:
            with suppress(ValueError):  # a forked child has forgotten its parent's hosts
                _hosts.remove(wake)
            nobody_left = not _hosts and kernel_compat.current_kernel() is None
        while nobody_left and (job := _next_job()) is not None:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(_no_host())


def run_jobs(*, while_waiting: bool = False) -> None:
    """Run what is there, on the main thread.

    Args:
        while_waiting: True inside a wait that blocks the main thread.
    """
    # One at a time: should an interrupt get out of here, the others are still in the queue.
    while (job := _next_job()) is not None:
        (run_guest if while_waiting else run_interruptible)(job.run)


def _next_job() -> _Job | None:
    try:
        return _jobs.popleft()
    except IndexError:
        return None


def _no_host() -> RuntimeError:
    return RuntimeError("nobody waits on the main thread, and there is no kernel to run the job")


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 -- another thread may have held it
    _lock = threading.RLock()
    _jobs.clear()
    _hosts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
