"""The one thread that owns all session state, and its event loop.

Connections, turns, transcripts and open questions live on this thread alone, so none of them
needs a lock: whoever else wants something (a cell, a comm handler, a subshell) hops in.

This module is never reloaded with the extension: the thread survives ``%reload_ext``.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["AgentThread", "agent_thread"]

T = TypeVar("T")

THREAD_NAME = "silo-agent"
STOP_TIMEOUT = 5.0
# What the interpreter's end may cost when an agent is slow to go, in seconds.
EXIT_TIMEOUT = 2.0

logger = logging.getLogger(__name__)
_here = threading.local()  # .owner: the AgentThread whose thread this is


@dataclass(slots=True)
class _Running:
    """One life of the thread, from the first ``run()`` to ``stop()``."""

    loop: asyncio.AbstractEventLoop
    stopped: asyncio.Future[None]
    patience: float = STOP_TIMEOUT
    thread: threading.Thread | None = None


class AgentThread:
    """A daemon thread with an asyncio loop, started by the first :meth:`run`.

    Every method may be called from any thread. A forked child sees a thread that was never
    started; its parent's goes on.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> agents = AgentThread()
        >>> agents.run(double(21)).result(timeout=5)
        42
        >>> agents.stop()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Running | None = None
        _instances.add(self)

    def run(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine on the agent loop.

        Args:
            coro: what to run; it sees the caller's context variables.

        Returns:
            A future any thread may wait for. Cancelling it cancels the coroutine. On the agent
            thread itself await the coroutine instead: nothing can be waited for there.

        Raises:
            RuntimeError: the interpreter is shutting down and starts no more threads.
        """
        if self.is_current():
            return asyncio.run_coroutine_threadsafe(coro, asyncio.get_running_loop())
        with self._lock:
            try:
                loop = self._started().loop
            except BaseException:
                coro.close()
                raise
            # Under the lock: stop() must not come between, or nobody would ever run this.
            return asyncio.run_coroutine_threadsafe(coro, loop)

    def call(self, fn: Callable[..., object], *args: object) -> None:
        """Have ``fn(*args)`` called on the agent thread, soon and in order.

        What :meth:`run` was given before has begun by then: a turn that is cancelled at once is
        cancelled.

        Raises:
            RuntimeError: the thread is not running, so there is no state to act on.
        """
        loop = self.loop
        # Twice, as a coroutine needs it: one call to make its task, one for the task's first step.
        loop.call_soon_threadsafe(loop.call_soon, fn, *args)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The agent loop.

        Raises:
            RuntimeError: the thread is not running.
        """
        if self.is_current():
            return asyncio.get_running_loop()
        running = self._running
        if running is None:
            raise RuntimeError("the agent thread is not running; AgentThread.run() starts it")
        return running.loop

    def is_current(self) -> bool:
        """Whether the caller runs on the agent thread."""
        return getattr(_here, "owner", None) is self

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Cancel everything that runs on the loop, close it and end the thread.

        The next :meth:`run` starts a new thread. Without a running thread this does nothing.

        Args:
            timeout: how long the cancelled work may take to clean up, in seconds.

        Raises:
            RuntimeError: called on the agent thread, which cannot wait for its own end.
        """
        if self.is_current():
            raise RuntimeError("the agent thread cannot stop itself; call stop() from another one")
        with self._lock:
            running, self._running = self._running, None
            if running is None:
                return
            running.patience = timeout
            running.loop.call_soon_threadsafe(running.stopped.set_result, None)
        thread = running.thread
        if thread is not None:
            # Closing the loop comes after the clean-up: hence a little more than its timeout.
            thread.join(timeout + 0.5)
            if thread.is_alive():
                logger.warning(
                    "the agent thread did not end within %s s; it is left behind", timeout
                )

    def _started(self) -> _Running:
        if self._running is None:
            loop = asyncio.new_event_loop()
            running = _Running(loop, loop.create_future())
            running.thread = threading.Thread(
                target=self._serve, args=(running,), name=THREAD_NAME, daemon=True
            )
            try:
                running.thread.start()
            except BaseException:
                loop.close()
                raise
            self._running = running
        return self._running

    def _serve(self, running: _Running) -> None:
        _here.owner = self
        asyncio.set_event_loop(running.loop)
        try:
            _run_until_stopped(running)
            _cancel_all(running)
            running.loop.run_until_complete(running.loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            running.loop.close()

    def _forget(self) -> None:
        """Start afresh in a forked child, which has this object but not the thread."""
        if self._running is not None:
            # Both processes share the loop's epoll object: a child that closed or collected the
            # loop would cut the parent's agents off.
            _parents_lives.append(self._running)
        self._lock = threading.Lock()
        self._running = None


def agent_thread() -> AgentThread:
    """Return the agent thread of this process; nothing is started by asking for it."""
    return _process_wide


def _run_until_stopped(running: _Running) -> None:
    while not running.stopped.done():
        try:
            running.loop.run_until_complete(running.stopped)
        except (KeyboardInterrupt, SystemExit) as error:
            # asyncio lets these two out of the loop. A listener's sys.exit() is no reason to
            # end every session of the notebook.
            running.loop.call_exception_handler(
                {"message": "the agent thread goes on after this", "exception": error}
            )


def _cancel_all(running: _Running) -> None:
    loop = running.loop
    deadline = loop.time() + running.patience
    # More than once: what is cancelled may start new work to clean up after itself.
    while tasks := asyncio.all_tasks(loop):
        left = deadline - loop.time()
        if left <= 0:
            logger.warning(
                "%d tasks of the agent thread ignore that they are cancelled", len(tasks)
            )
            return
        for task in tasks:
            task.cancel()
        try:
            loop.run_until_complete(asyncio.wait(tasks, timeout=left))
        except (KeyboardInterrupt, SystemExit):  # see _run_until_stopped
            continue


_instances: weakref.WeakSet[AgentThread] = weakref.WeakSet()
_parents_lives: list[_Running] = []
_process_wide = AgentThread()


def _after_fork_in_child() -> None:
    _here.__dict__.clear()
    for instance in tuple(_instances):
        instance._forget()  # noqa: SLF001 -- the module looks after its own class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
# Registered at import, so that what sessions register later runs before it, on a living loop.
atexit.register(_process_wide.stop, EXIT_TIMEOUT)
