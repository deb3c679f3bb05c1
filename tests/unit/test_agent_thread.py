"""The thread that owns all session state: when it starts, what it survives, how it ends."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for_futures

import pytest

import silo_nb
from silo_nb.runtime import AgentThread, agent_thread

LIMIT = 10.0


@pytest.fixture
def agents() -> Iterator[AgentThread]:
    thread = AgentThread()
    yield thread
    thread.stop()


def threads_named_silo() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "silo-agent"]


def run_script(
    code: str, *, timeout: float = LIMIT
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a script in a process of its own, warnings as errors; return it and its seconds."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done, time.monotonic() - started


async def forever(begun: Future[None] | None = None) -> None:
    if begun is not None:
        begun.set_result(None)
    await asyncio.get_running_loop().create_future()


async def answer() -> int:
    return 42


class TestStarting:
    def test_no_thread_before_the_first_run(self) -> None:
        before = threading.active_count()
        thread = AgentThread()
        assert not thread.is_current()
        assert threading.active_count() == before

    def test_import_starts_nothing(self) -> None:
        """No process, thread, socket or file but the modules themselves."""
        done, _ = run_script(
            """
            import sys, threading
            watched = ("socket.", "subprocess.", "os.fork", "os.posix_spawn", "signal.")
            seen = []
            def audit(event, args):
                if event.startswith(watched) or (event == "open" and "w" in str(args[1])):
                    seen.append((event, args))
            sys.addaudithook(audit)
            sys.dont_write_bytecode = True
            import silo_nb.runtime
            silo_nb.runtime.agent_thread()
            print(seen, threading.active_count(), "IPython" in sys.modules, "zmq" in sys.modules)
            """
        )
        assert done.stderr == ""
        assert done.stdout == "[] 1 False False\n"

    def test_it_is_a_daemon_with_a_name(self, agents: AgentThread) -> None:
        async def who() -> threading.Thread:
            return threading.current_thread()

        thread = agents.run(who()).result(LIMIT)
        assert thread.daemon
        assert thread.name == "silo-agent"

    def test_one_thread_however_many_ask_for_it_at_once(self, agents: AgentThread) -> None:
        before = len(threads_named_silo())
        barrier = threading.Barrier(8)

        def ask() -> None:
            barrier.wait(LIMIT)
            assert agents.run(answer()).result(LIMIT) == 42

        askers = [threading.Thread(target=ask) for _ in range(8)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(LIMIT)
        assert len(threads_named_silo()) == before + 1

    def test_the_process_has_one_that_outlives_a_reload(self) -> None:
        before = agent_thread()
        importlib.reload(silo_nb)
        assert agent_thread() is before


class TestRunning:
    def test_results_and_errors_come_back(self, agents: AgentThread) -> None:
        async def fail() -> None:
            raise LookupError("nothing there")

        assert agents.run(answer()).result(LIMIT) == 42
        with pytest.raises(LookupError, match="nothing there"):
            agents.run(fail()).result(LIMIT)

    def test_cancelling_the_future_cancels_the_coroutine(self, agents: AgentThread) -> None:
        begun: Future[None] = Future()
        ended: Future[str] = Future()

        async def work() -> None:
            try:
                await forever(begun)
            except asyncio.CancelledError:
                ended.set_result("cancelled")
                raise

        future = agents.run(work())
        begun.result(LIMIT)
        assert future.cancel()
        assert ended.result(LIMIT) == "cancelled"

    def test_the_agent_thread_itself_may_run_and_call(self, agents: AgentThread) -> None:
        seen: list[str] = []

        async def outer() -> int:
            assert agents.is_current()
            assert agents.loop is asyncio.get_running_loop()
            agents.call(seen.append, "called")
            return await asyncio.wrap_future(agents.run(answer()))

        assert agents.run(outer()).result(LIMIT) == 42
        assert seen == ["called"]
        assert not agents.is_current()

    def test_calls_and_first_steps_keep_their_order(self, agents: AgentThread) -> None:
        """Or cancelling a turn right after it was started would miss it."""
        order: list[str] = []

        async def step(name: str) -> None:
            order.append(name)

        agents.run(answer()).result(LIMIT)
        expected = []
        for number in range(100):
            agents.run(step(f"run {number}"))
            agents.call(order.append, f"call {number}")
            expected += [f"run {number}", f"call {number}"]
        agents.run(answer()).result(LIMIT)
        assert order == expected

    def test_without_a_thread_there_is_no_loop_to_call(self) -> None:
        with pytest.raises(RuntimeError, match="not running"):
            AgentThread().call(print)

    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
    def test_what_a_listener_raises_does_not_end_everyone(
        self, agents: AgentThread, error: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        """FAULTS K15; asyncio lets these two out of the loop."""

        def listener() -> None:
            raise error

        agents.run(answer()).result(LIMIT)
        agents.call(listener)
        assert agents.run(answer()).result(LIMIT) == 42
        assert "goes on" in caplog.text


class TestStopping:
    def test_everything_is_cancelled_and_may_clean_up(self, agents: AgentThread) -> None:
        begun: Future[None] = Future()
        cleaned: list[str] = []

        async def work() -> None:
            try:
                await forever(begun)
            finally:
                await asyncio.sleep(0)
                cleaned.append("clean")

        future = agents.run(work())
        begun.result(LIMIT)
        loop = agents.loop
        agents.stop()
        assert cleaned == ["clean"]
        assert loop.is_closed()
        with pytest.raises(CancelledError):
            future.result(LIMIT)

    def test_a_coroutine_scheduled_just_before_is_cancelled_not_forgotten(self) -> None:
        """Whatever waits has an end, wherever the stop falls."""
        for _ in range(50):
            thread = AgentThread()
            futures = [thread.run(forever()) for _ in range(3)]
            thread.stop()
            assert not wait_for_futures(futures, LIMIT).not_done

    def test_clean_up_may_run_coroutines_on_the_same_loop(self, agents: AgentThread) -> None:
        begun: Future[None] = Future()
        results: list[int] = []

        async def work() -> None:
            try:
                await forever(begun)
            finally:
                results.append(await asyncio.wrap_future(agents.run(answer())))

        before = len(threads_named_silo())
        agents.run(work())
        begun.result(LIMIT)
        agents.stop()
        assert results == [42]
        assert len(threads_named_silo()) == before

    def test_the_next_run_starts_a_new_thread(self, agents: AgentThread) -> None:
        agents.run(answer()).result(LIMIT)
        first = agents.loop
        agents.stop()
        agents.stop()
        with pytest.raises(RuntimeError, match="not running"):
            _ = agents.loop
        assert agents.run(answer()).result(LIMIT) == 42
        assert agents.loop is not first

    def test_work_that_ignores_it_is_left_behind(
        self, agents: AgentThread, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun: Future[threading.Thread] = Future()
        released = threading.Event()

        async def deaf() -> None:
            begun.set_result(threading.current_thread())
            released.wait(LIMIT)

        agents.run(deaf())
        left = begun.result(LIMIT)
        started = time.monotonic()
        agents.stop(timeout=0.1)
        assert time.monotonic() - started < 2
        assert "left behind" in caplog.text
        assert left.is_alive()
        released.set()
        left.join(LIMIT)

    def test_the_thread_cannot_stop_itself(self, agents: AgentThread) -> None:
        async def stop() -> None:
            agents.stop()

        with pytest.raises(RuntimeError, match="cannot stop itself"):
            agents.run(stop()).result(LIMIT)

    def test_nothing_is_left_and_nothing_is_said(
        self, agents: AgentThread, caplog: pytest.LogCaptureFixture
    ) -> None:
        """No warning about open loops, pending tasks, generators or sockets."""
        caplog.set_level(logging.DEBUG)
        begun: Future[None] = Future()

        async def numbers() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)

        async def work() -> None:
            async for _ in numbers():
                await forever(begun)

        agents.run(work())
        begun.result(LIMIT)
        agents.stop()
        gc.collect()
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


class TestForks:
    """FAULTS K7."""

    def test_a_child_starts_afresh_and_the_parent_goes_on(self) -> None:
        done, _ = run_script(
            """
            import asyncio, gc, os, sys, warnings
            from silo_nb.runtime import agent_thread
            warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)
            async def answer():
                await asyncio.sleep(0)
                return 42
            agents = agent_thread()
            agents.run(answer()).result(5)
            if (child := os.fork()) == 0:
                try:
                    agents.loop
                    sys.exit("the child believes it has a thread")
                except RuntimeError:
                    pass
                assert agents.run(answer()).result(5) == 42
                agents.stop()
                gc.collect()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            # Had the child closed the loop they share, nothing would wake this one any more.
            for _ in range(10):
                assert agents.run(answer()).result(5) == 42
            print("fine")
            """
        )
        assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)

    def test_a_fork_while_another_thread_starts_it_does_not_hang_the_child(self) -> None:
        done, _ = run_script(
            """
            import os, warnings
            from silo_nb.runtime import agent_thread
            warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)
            async def answer():
                return 42
            agents = agent_thread()
            with agents._lock:
                child = os.fork()
                if child == 0:
                    assert agents.run(answer()).result(5) == 42
                    os._exit(0)
            print(os.waitpid(child, 0)[1])
            """
        )
        assert (done.stdout, done.stderr) == ("0\n", "")


class TestInterpreterShutdown:
    """FAULTS K16: no traceback, at most 3 s."""

    OPEN_WORK = """
        import asyncio
        from silo_nb.runtime import agent_thread, run_on_main, wait_async, wait_sync
        async def forever():
            await asyncio.get_running_loop().create_future()
    """

    @pytest.mark.parametrize(
        "rest",
        [
            "agent_thread().run(forever())",
            "agent_thread().run(asyncio.sleep(60)); agent_thread().run(asyncio.to_thread(print))",
            "agent_thread().run(forever()); raise SystemExit(0)",
            """
            async def slow():
                try:
                    await forever()
                finally:
                    await asyncio.sleep(0.5)
                    print("cleaned up")
            agent_thread().run(slow())
            """,
            """
            import atexit
            future = agent_thread().run(forever())
            atexit.register(lambda: agent_thread().run(asyncio.sleep(0)).result(1))
            """,
        ],
    )
    def test_with_open_work(self, rest: str) -> None:
        done, seconds = run_script(textwrap.dedent(self.OPEN_WORK) + textwrap.dedent(rest))
        assert (done.stderr, done.returncode) == ("", 0)
        assert seconds < 3

    def test_with_work_that_ignores_it(self) -> None:
        stubborn = """
        async def stubborn():
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
        agent_thread().run(stubborn())
        """
        done, seconds = run_script(textwrap.dedent(self.OPEN_WORK) + textwrap.dedent(stubborn))
        assert "Traceback" not in done.stderr
        assert done.returncode == 0
        assert seconds < 3
