"""Waiting for the agent thread: from a cell, a script, a thread or a coroutine.

While the kernel's main thread waits, the shell pump keeps comm messages flowing and jobs for the
main thread run. An interrupt ends the turn, not the wait: the cell then ends normally, with what
there is. The second one ends the wait.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from silo_nb.runtime import kernel_compat
from silo_nb.runtime.agent_thread import agent_thread
from silo_nb.runtime.guests import guest_running
from silo_nb.runtime.interrupts import Interrupts
from silo_nb.runtime.main_jobs import hosting_jobs, run_jobs

if TYPE_CHECKING:
    from silo_nb.runtime.pump import ShellPump

__all__ = ["wait_async", "wait_sync"]

T = TypeVar("T")

GRACE = 10.0
# Everything that ends a wait wakes it. The ticks are for what cannot: Ctrl-C on Windows, and
# ipykernel's cancellation of an awaiting cell, which does not wake the loop (its issue 881).
BLOCKING_TICK = 0.05
HEARTBEAT = 0.1


def wait_sync(
    future: Future[T], *, on_interrupt: Callable[[], None] | None = None, grace: float = GRACE
) -> T:
    """Block the calling thread until ``future`` is done.

    On the kernel's main thread the shell pump runs meanwhile, with jobs for the main thread.

    Args:
        future: what :meth:`AgentThread.run` returned.
        on_interrupt: called once, on this thread, at the first interrupt; the wait goes on, for
            it is expected to make the future end. Without it, an interrupt cancels the future.
        grace: how long the future may take to end after that, in seconds.

    Returns:
        The future's result.

    Raises:
        KeyboardInterrupt: a second interrupt, or the grace has passed; at once when there is no
            ``on_interrupt``.
        RuntimeError: called where a wait would wait for itself: on the agent thread, or by a
            comm handler or a job that runs inside another wait.
        concurrent.futures.CancelledError: the future was cancelled, or the agent thread stopped.

    Example:
        >>> async def answer():
        ...     return 42
        >>> wait_sync(agent_thread().run(answer()))
        42
    """
    if agent_thread().is_current():
        _refuse(future, "wait_sync() on the agent thread would wait for itself; use 'await' there")
    if not future.done() and threading.current_thread() is threading.main_thread():
        _block_main_thread(future, on_interrupt, grace)
    return future.result()


async def wait_async(
    future: Future[T], *, on_interrupt: Callable[[], None] | None = None, grace: float = GRACE
) -> T:
    """Await a future of the agent thread, in any asyncio loop.

    In a cell the shell pump runs meanwhile. An interrupt of the kernel is treated as by
    :func:`wait_sync`: at the first the turn ends and the cell goes on with what there is.

    A cancellation of the awaiting task (``asyncio.timeout()``, a task group, ``task.cancel()``)
    also calls ``on_interrupt`` and waits for the turn to end in order, but is then raised: it
    belongs to whoever cancelled.

    Args:
        future: what :meth:`AgentThread.run` returned.
        on_interrupt: called once, in this loop. Without it, a cancellation cancels the future,
            and interrupts are left to whoever handles them.
        grace: how long the future may take to end after that, in seconds.

    Returns:
        The future's result.

    Raises:
        asyncio.CancelledError: the task was cancelled, interrupted twice, or the grace has passed
            after an interrupt; or the future was cancelled.
    """
    if agent_thread().is_current():
        return await asyncio.wrap_future(future)
    if not future.done():
        await _suspend(future, on_interrupt, grace)
    try:
        return future.result()
    except futures.CancelledError:
        raise asyncio.CancelledError from None


def _refuse(future: Future[Any], why: str) -> NoReturn:
    future.cancel()  # nobody is there to take what it would bring
    raise RuntimeError(why)


# ---------------------------------------------------------------------- blocking the main thread


class _Host(Protocol):
    """Something to block on that can be woken."""

    def wake(self) -> None: ...

    def wait(self, seconds: float) -> None: ...


class _Bare:
    """Blocks outside a kernel."""

    def __init__(self) -> None:
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def wake(self) -> None:
        self._wakes.put(None)

    def wait(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._wakes.get(timeout=seconds)


class _Pumping:
    """Blocks the kernel's main thread and serves its shell."""

    def __init__(self, pump: ShellPump) -> None:
        from silo_nb.runtime.pump import Waker

        self._pump = pump
        self._waker = Waker()
        self.wake = self._waker.wake

    def wait(self, seconds: float) -> None:
        self._pump.poll(self._waker, seconds)

    def close(self) -> None:
        self._pump.release()
        self._waker.close()


@contextmanager
def _host() -> Iterator[_Host]:
    pump = _current_pump()
    if pump is None:
        yield _Bare()
    else:
        with closing(_Pumping(pump)) as host:
            yield host


def _block_main_thread(
    future: Future[T], on_interrupt: Callable[[], None] | None, grace: float
) -> None:
    if guest_running():
        _refuse(
            future,
            "cannot wait here: this runs inside a cell's wait for an agent and would hold it up. "
            "Use 'await', or start it from a cell",
        )
    ending = _Ending(on_interrupt, grace)
    # Interrupts come first, so that none can strike while the pump lets go of the stream.
    with Interrupts(blocking=True) as interrupts, _host() as host, hosting_jobs(host.wake):
        interrupts.notify = host.wake
        future.add_done_callback(lambda _: host.wake())
        while not future.done():
            run_jobs(while_waiting=True)
            if ending.is_due(interrupts.count):
                break
            host.wait(BLOCKING_TICK)
    # With on_interrupt, an interrupt of the last instant wanted what has happened: a turn's end.
    if not future.done() or (on_interrupt is None and interrupts.count):
        if on_interrupt is None:
            future.cancel()
        raise KeyboardInterrupt(ending.reason)


class _Ending:
    """The end of a turn, set in motion by the first interrupt."""

    def __init__(self, on_interrupt: Callable[[], None] | None, grace: float) -> None:
        self._on_interrupt = on_interrupt
        self._grace = grace
        self._deadline: float | None = None
        self.reason = "interrupted"

    @property
    def begun(self) -> bool:
        return self._deadline is not None

    def is_due(self, interrupts: int) -> bool:
        """Act on the interrupts so far; return whether to wait no longer."""
        if not interrupts:
            return False
        if self._on_interrupt is None:
            return True
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace
            self._on_interrupt()
        if interrupts > 1:
            return True
        if time.monotonic() < self._deadline:
            return False
        self.reason = f"the turn did not end within {self._grace:g} s of the interrupt"
        return True


# ------------------------------------------------------------------------ suspending a coroutine


class _Bell:
    """Wakes a coroutine from another thread or from a signal handler."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = self._loop.create_future()

    def ring(self) -> None:
        # A loop that is closed has nobody left to wake.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self._rung.done():
            self._rung.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, or for the time to pass; unlike wait_for(), needs no task."""
        await asyncio.wait((self._rung,), timeout=seconds)
        if self._rung.done():
            self._rung = self._loop.create_future()


async def _suspend(
    future: Future[T], on_interrupt: Callable[[], None] | None, grace: float
) -> None:
    bell = _Bell()
    future.add_done_callback(lambda _: bell.ring())
    cancelled: asyncio.CancelledError | None = None
    ending = _Ending(on_interrupt, grace)
    interrupts = Interrupts(blocking=False)
    interrupts.notify = bell.ring
    with interrupts if on_interrupt else nullcontext(), _serving_main_thread():
        while not future.done():
            try:
                await bell.wait(HEARTBEAT)
            except asyncio.CancelledError as error:
                if on_interrupt is None:
                    future.cancel()
                if on_interrupt is None or ending.begun:
                    raise
                cancelled = error
            if ending.is_due(1 if cancelled else interrupts.count) and not future.done():
                raise cancelled or asyncio.CancelledError(ending.reason)
    if cancelled is not None:
        raise cancelled


@contextmanager
def _serving_main_thread() -> Iterator[None]:
    """Pump and run jobs from the running loop, where that is the main thread's."""
    loop = asyncio.get_running_loop()

    def serve_jobs() -> None:
        with suppress(RuntimeError):  # the loop was closed under a coroutine left behind
            loop.call_soon_threadsafe(run_jobs)

    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            stack.enter_context(hosting_jobs(serve_jobs))
            pump = _current_pump()
            if pump is not None and pump.kernel.io_loop.asyncio_loop is loop:
                stack.enter_context(pump.attached())
        yield


# ------------------------------------------------------------------------------------- the pump


def _current_pump() -> ShellPump | None:
    """Return the pump, when the caller is on the main thread of a kernel that has what it takes."""
    global _warned  # noqa: PLW0603 -- once per process
    kernel = kernel_compat.current_kernel()
    if kernel is None or not kernel_compat.runs_kernel_loop(kernel):
        return None
    from silo_nb.runtime.pump import shell_pump

    try:
        return shell_pump(kernel)
    except kernel_compat.PumpUnavailable as missing:
        if not _warned:
            _warned = True
            warnings.warn(
                f"silo_nb cannot receive clicks while a cell waits: {missing}",
                RuntimeWarning,
                stacklevel=2,
            )
        return None


_warned = False
