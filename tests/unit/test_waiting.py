"""Waiting for the agent thread without a kernel: interrupts, cancellation, jobs, loops.

What only a kernel shows is in tests/kernel/test_runtime_matrix.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent import futures
from concurrent.futures import Future
from typing import Any

import pytest

from silo_nb.runtime import (
    JobInterrupted,
    agent_thread,
    interrupts,
    main_jobs,
    run_on_main,
    wait_async,
    wait_sync,
    waiting,
)

LIMIT = 10.0

posix = pytest.mark.skipif(os.name == "nt", reason="os.kill() ends the process on Windows")


@pytest.fixture(autouse=True)
def _handlers_are_restored() -> Iterator[None]:
    """Whatever a wait does to SIGINT, it undoes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def _no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is woken by a tick alone comes too late."""
    monkeypatch.setattr(waiting, "BLOCKING_TICK", 2 * LIMIT)
    monkeypatch.setattr(waiting, "HEARTBEAT", 2 * LIMIT)


def nothing() -> None:
    """An agent that does not react, or a turn without incidents."""


def interrupt() -> None:
    """Press Ctrl-C: a real signal, sent from the agent thread, handled by the main one."""
    os.kill(os.getpid(), signal.SIGINT)


async def somebody_waits(*, blocking: bool) -> None:
    """Return when an interrupt would find a wait and not the test."""
    while True:
        handler = signal.getsignal(signal.SIGINT)
        waits = handler.waits if isinstance(handler, interrupts._Handler) else []
        if any(wait.blocking is blocking for wait in waits):
            return
        await asyncio.sleep(0)


class Turn:
    """Work on the agent thread that begins with an interrupt and ends when it is told.

    Args:
        during: the kind of wait that the interrupt is for; None: there is no interrupt.
        deaf: answer being cancelled with another interrupt.
    """

    def __init__(self, during: str | None = None, *, deaf: bool = False) -> None:
        self.during = during
        self.deaf = deaf
        self.cancels: list[str] = []
        self.ended: Future[str] = Future()

    def start(self) -> Future[str]:
        return agent_thread().run(self._run())

    async def _run(self) -> str:
        if self.during is not None:
            await somebody_waits(blocking=self.during == "sync")
            interrupt()
        return await asyncio.wrap_future(self.ended)

    def cancel(self) -> None:
        self.cancels.append(threading.current_thread().name)
        if self.deaf:
            interrupt()
        else:
            agent_thread().call(self.ended.set_result, "cancelled")


async def answer() -> int:
    return 42


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def in_thread(work: Callable[[], Any]) -> Any:
    with futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(LIMIT)


class TestWaitSync:
    def test_results_and_errors_come_back(self) -> None:
        async def fail() -> None:
            raise LookupError("nothing there")

        assert wait_sync(agent_thread().run(answer())) == 42
        with pytest.raises(LookupError, match="nothing there"):
            wait_sync(agent_thread().run(fail()))

    def test_so_they_do_in_any_thread(self) -> None:
        assert in_thread(lambda: wait_sync(agent_thread().run(answer()))) == 42

    @pytest.mark.usefixtures("_no_ticks")
    def test_the_end_of_a_turn_wakes_it_at_once(self) -> None:
        future: Future[str] = Future()
        agent_thread().run(answer()).result(LIMIT)
        agent_thread().loop.call_soon_threadsafe(
            agent_thread().loop.call_later, 0.05, future.set_result, "done"
        )
        started = time.monotonic()
        assert wait_sync(future) == "done"
        assert time.monotonic() - started < 1

    def test_on_the_agent_thread_it_is_refused(self) -> None:
        """Instead of waiting for itself for ever."""

        async def wrong() -> int:
            return wait_sync(agent_thread().run(answer()))

        with pytest.raises(RuntimeError, match="use 'await' there"):
            wait_sync(agent_thread().run(wrong()))

    def test_a_cancelled_future_says_so(self) -> None:
        future = agent_thread().run(forever())
        future.cancel()
        with pytest.raises(futures.CancelledError):
            wait_sync(future)


@posix
@pytest.mark.usefixtures("_no_ticks")
class TestInterruptsOfAScript:
    """FAULTS K2, K3: Ctrl-C where there is no kernel."""

    def test_the_first_ends_the_turn(self) -> None:
        turn = Turn("sync")
        assert wait_sync(turn.start(), on_interrupt=turn.cancel) == "cancelled"
        assert turn.cancels == ["MainThread"]

    def test_the_second_is_raised_at_once(self) -> None:
        turn = Turn("sync", deaf=True)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait_sync(turn.start(), on_interrupt=turn.cancel)
        assert time.monotonic() - started < 2
        assert len(turn.cancels) == 1
        turn.ended.set_result("late")

    def test_without_on_interrupt_the_work_is_cancelled(self) -> None:
        """Say, a handshake."""
        future = Turn("sync").start()
        with pytest.raises(KeyboardInterrupt):
            wait_sync(future)
        assert future.cancelled()

    def test_threads_are_not_interrupted(self) -> None:
        assert (
            in_thread(lambda: wait_sync(agent_thread().run(answer()), on_interrupt=nothing)) == 42
        )

    def test_a_handler_of_the_users_own_is_back_afterwards(self) -> None:
        seen: list[int] = []

        def mine(number: int, _frame: object) -> None:
            seen.append(number)

        before = signal.signal(signal.SIGINT, mine)
        turn = Turn("sync")
        assert wait_sync(turn.start(), on_interrupt=turn.cancel) == "cancelled"
        assert signal.getsignal(signal.SIGINT) is mine
        signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT]
        signal.signal(signal.SIGINT, before)

    def test_an_ignored_sigint_stays_ignored(self) -> None:
        """As under nohup."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        turn = Turn()
        future = turn.start()
        agent_thread().call(interrupt)
        agent_thread().call(turn.ended.set_result, "unharmed")
        assert wait_sync(future, on_interrupt=turn.cancel) == "unharmed"
        signal.signal(signal.SIGINT, before)


@posix
def test_the_grace_is_bounded() -> None:
    turn = Turn("sync")
    with pytest.raises(KeyboardInterrupt, match=r"did not end within 0\.1 s"):
        wait_sync(turn.start(), on_interrupt=nothing, grace=0.1)
    turn.ended.set_result("late")


class TestWaitAsync:
    async def test_results_and_errors_come_back(self) -> None:
        async def fail() -> None:
            raise LookupError("nothing there")

        assert await wait_async(agent_thread().run(answer())) == 42
        with pytest.raises(LookupError, match="nothing there"):
            await wait_async(agent_thread().run(fail()))

    async def test_on_the_agent_loop_it_just_awaits(self) -> None:
        async def inner() -> int:
            return await wait_async(agent_thread().run(answer()))

        assert await wait_async(agent_thread().run(inner())) == 42

    def test_any_loop_in_any_thread_will_do(self) -> None:
        """FAULTS K13."""

        async def main() -> int:
            return await wait_async(agent_thread().run(answer()), on_interrupt=nothing)

        assert in_thread(lambda: asyncio.run(main())) == 42
        assert asyncio.run(main()) == 42

    async def test_a_cancelled_future_says_so(self) -> None:
        future = agent_thread().run(forever())
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait_async(future)

    @pytest.mark.usefixtures("_no_ticks")
    async def test_the_end_of_a_turn_wakes_it_at_once(self) -> None:
        started = time.monotonic()
        await wait_async(agent_thread().run(asyncio.sleep(0.05)))
        assert time.monotonic() - started < 1

    async def test_a_loop_that_is_gone_is_not_missed(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The turn outlives the loop that wanted it."""
        turn = Turn()

        def main() -> None:
            loop = asyncio.new_event_loop()
            task = loop.create_task(wait_async(turn.start()))
            loop.run_until_complete(asyncio.sleep(0))
            task.cancel()
            loop.run_until_complete(asyncio.wait((task,)))
            loop.close()

        in_thread(main)
        turn.ended.cancel()
        assert await wait_async(agent_thread().run(answer())) == 42
        assert caplog.text == ""


class TestCancellationOfTheAwaitingTask:
    """It belongs to whoever cancels; the turn still ends in order first."""

    async def test_a_timeout_around_a_prompt_is_a_timeout(self) -> None:
        turn = Turn()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await wait_async(turn.start(), on_interrupt=turn.cancel)
        assert turn.cancels == ["MainThread"]
        assert turn.ended.result(LIMIT) == "cancelled"

    async def test_a_cancelled_task_is_cancelled(self) -> None:
        turn = Turn()
        future = turn.start()
        task = asyncio.create_task(wait_async(future, on_interrupt=turn.cancel))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert future.result(LIMIT) == "cancelled"

    async def test_a_second_cancellation_does_not_wait(self) -> None:
        turn = Turn()
        begun = asyncio.Event()
        task = asyncio.create_task(wait_async(turn.start(), on_interrupt=begun.set))
        await asyncio.sleep(0)
        task.cancel()
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not turn.ended.done()
        turn.ended.set_result("late")

    async def test_nor_does_one_after_the_grace(self) -> None:
        turn = Turn()
        future = turn.start()
        task = asyncio.create_task(wait_async(future, on_interrupt=nothing, grace=0.05))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        turn.ended.set_result("late")

    async def test_without_on_interrupt_the_work_is_cancelled(self) -> None:
        """Cancelling a connect aborts the handshake (ARCHITECTURE §10)."""
        future = agent_thread().run(forever())
        task = asyncio.create_task(wait_async(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert future.cancelled()


@posix
@pytest.mark.usefixtures("_no_ticks")
class TestInterruptsOfAnAsyncScript:
    def test_the_first_ends_the_turn(self) -> None:
        turn = Turn("async")

        async def main() -> str:
            return await wait_async(turn.start(), on_interrupt=turn.cancel)

        assert asyncio.run(main()) == "cancelled"
        assert turn.cancels == ["MainThread"]

    def test_one_ends_all_turns_that_are_awaited(self) -> None:
        quiet, loud = Turn(), Turn("async")

        async def main() -> list[str]:
            waits: list[Coroutine[Any, Any, str]] = [
                wait_async(quiet.start(), on_interrupt=quiet.cancel),
                wait_async(loud.start(), on_interrupt=loud.cancel),
            ]
            return await asyncio.gather(*waits)

        assert asyncio.run(main()) == ["cancelled", "cancelled"]

    def test_the_second_goes_to_whoever_had_sigint_before(self) -> None:
        """asyncio.run() cancels the main task, and raises KeyboardInterrupt in the end."""
        turn = Turn("async", deaf=True)

        async def main() -> str:
            return await wait_async(turn.start(), on_interrupt=turn.cancel)

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        assert len(turn.cancels) == 1
        turn.ended.set_result("late")

    def test_a_blocking_wait_in_front_gets_it_alone(self) -> None:
        behind, front = Turn(), Turn("sync")

        async def main() -> tuple[str, str]:
            waiting_behind = asyncio.create_task(
                wait_async(behind.start(), on_interrupt=behind.cancel)
            )
            await asyncio.sleep(0)
            got = wait_sync(front.start(), on_interrupt=front.cancel)
            assert behind.cancels == []
            behind.ended.set_result("unharmed")
            return got, await waiting_behind

        assert asyncio.run(main()) == ("cancelled", "unharmed")


class TestJobsForTheMainThread:
    @staticmethod
    async def ask(job: Callable[[], Any]) -> Any:
        while not main_jobs._hosts:  # noqa: ASYNC110 -- the wait begins without telling anybody
            await asyncio.sleep(0)
        return await asyncio.wrap_future(run_on_main(job))

    def where(self) -> str:
        return threading.current_thread().name

    @pytest.mark.usefixtures("_no_ticks")
    def test_a_blocking_wait_runs_them(self) -> None:
        assert wait_sync(agent_thread().run(self.ask(self.where))) == "MainThread"

    @pytest.mark.usefixtures("_no_ticks")
    def test_so_does_an_awaiting_one(self) -> None:
        async def main() -> Any:
            return await wait_async(agent_thread().run(self.ask(self.where)))

        assert asyncio.run(main()) == "MainThread"

    def test_their_errors_come_back(self) -> None:
        with pytest.raises(ZeroDivisionError):
            wait_sync(agent_thread().run(self.ask(lambda: 1 / 0)))

    def test_nobody_to_run_it_is_an_error(self) -> None:
        with pytest.raises(RuntimeError, match="nobody waits on the main thread"):
            run_on_main(print).result(LIMIT)

    def test_a_wait_in_another_thread_is_nobody(self) -> None:
        def main() -> None:
            with pytest.raises(RuntimeError, match="nobody waits on the main thread"):
                wait_sync(run_on_main(self.where))

        in_thread(main)

    def test_a_wait_that_ends_first_leaves_no_job_hanging(self) -> None:
        jobs: list[Future[None]] = []

        async def ask_too_late() -> None:
            jobs.append(run_on_main(nothing))

        for _ in range(50):
            wait_sync(agent_thread().run(ask_too_late()))
        assert futures.wait(jobs, LIMIT).not_done == set()

    def test_it_can_be_cancelled_until_it_starts(self) -> None:
        async def ask_and_cancel() -> bool:
            return run_on_main(lambda: pytest.fail("the job ran")).cancel()

        done: list[bool] = []

        def first() -> None:
            # While this one runs, the next cannot.
            done.append(agent_thread().run(ask_and_cancel()).result(LIMIT))

        wait_sync(agent_thread().run(self.ask(first)))
        assert done == [True]

    @posix
    def test_an_interrupt_ends_the_job_and_the_turn(self) -> None:
        turn = Turn()
        jobs: list[Future[None]] = []

        def hang() -> None:
            agent_thread().call(interrupt)
            threading.Event().wait(LIMIT)

        async def hang_on_main() -> None:
            await somebody_waits(blocking=True)
            jobs.append(run_on_main(hang))

        future = turn.start()
        agent_thread().run(hang_on_main())
        assert wait_sync(future, on_interrupt=turn.cancel) == "cancelled"
        assert isinstance(jobs[0].exception(LIMIT), JobInterrupted)
        assert turn.cancels == ["MainThread"]

    def test_a_job_that_exits_ends_nobody_else(self) -> None:
        def leave() -> None:
            raise SystemExit(3)

        with pytest.raises(JobInterrupted, match="SystemExit"):
            wait_sync(agent_thread().run(self.ask(leave)))
        assert wait_sync(agent_thread().run(answer())) == 42

    def test_a_job_must_not_wait_itself(self) -> None:
        """It would hold up the turn that waits for it; refused, and its work cancelled."""
        inner: list[Future[None]] = []

        def wait_inside() -> None:
            inner.append(agent_thread().run(forever()))
            wait_sync(inner[0])

        with pytest.raises(RuntimeError, match="cannot wait here"):
            wait_sync(agent_thread().run(self.ask(wait_inside)))
        assert inner[0].cancelled()
