"""What an agent started ends with it: descendants of every kind, and the guard that finds them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from silo_nb.acp import guard
from silo_nb.acp.process_guard import pack_launch
from tests.wire.small_agents import FAMILIES, PRELUDE, PYTHON, Bench, eventually

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")

REPEATS = 5


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bench(tmp_path) as bench:
        yield bench


ENDS = {
    "exits": "sys.stdin.readline(); os._exit(0)",
    "ends with its stdin": "wait_for_eof()",
    "deaf": "wait()",
    "immune": "deaf(15); wait()",
}


class TestDescendants:
    """R15, case 12, T-1: whatever an agent starts ends with it."""

    @pytest.mark.parametrize("end", ENDS)
    @pytest.mark.parametrize("family", FAMILIES)
    async def test_none_is_left(self, bench: Bench, family: str, end: str) -> None:
        async def once() -> None:
            agent = await bench.start(f"{FAMILIES[family]}\n{ENDS[end]}")
            await agent.says("child")
            if end == "exits":
                agent.process.write(b"\n")
                assert (await agent.exit()).code == 0
            else:
                await agent.process.stop(eof_grace=0.2, term_grace=0.2)

        await asyncio.gather(*(once() for _ in range(REPEATS)))
        assert bench.alive() == []

    @pytest.mark.parametrize("family", FAMILIES)
    async def test_none_survives_a_kill(self, bench: Bench, family: str) -> None:
        agent = await bench.start(f"{FAMILIES[family]}\ndeaf(15); wait()")
        await agent.says("child")
        began = time.monotonic()
        agent.process.kill()
        assert (await agent.exit()).signal == signal.SIGKILL
        assert bench.alive() == []
        assert time.monotonic() - began < 2

    async def test_a_family_that_goes_on_forking_is_caught(self, bench: Bench) -> None:
        agent = await bench.start(
            "deaf(15); say('up')\n"
            "while True:\n"
            "    if os.fork(): os._exit(0)\n"
            "    os.setsid(); time.sleep(0.002)"
        )
        report = await agent.exit()
        assert report.code == 0
        assert bench.alive() == []

    async def test_a_child_that_holds_stdout_does_not_delay_the_end(self, bench: Bench) -> None:
        agent = await bench.start("child(session=True, immune=True); sys.stdin.readline()")
        await agent.says("child")
        began = time.monotonic()
        agent.process.write(b"\n")
        await agent.exit()
        assert time.monotonic() - began < 2

    async def test_nor_does_a_stranger_who_was_given_it(self, bench: Bench) -> None:
        ours = socket.socket(socket.AF_UNIX)
        ours.bind(str(bench.cwd / "s"))
        ours.listen()
        agent = await bench.start(
            "import socket; there = socket.socket(socket.AF_UNIX); there.connect(sys.argv[2])\n"
            "say('last'); socket.send_fds(there, [b'x'], [1])",
            str(bench.cwd / "s"),
        )
        with ours, ours.accept()[0] as there:
            _, (stdout,), *_ = socket.recv_fds(there, 1, 1)
            assert (await agent.exit(limit=3)).code == 0
            os.close(stdout)
        assert agent.stdout == b"last\n"


class TestGuard:
    async def test_signals_meant_for_others_do_not_end_it(self, bench: Bench) -> None:
        agent = await bench.launch("cat")
        guard_pid = psutil.Process(agent.process.pid).ppid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(guard_pid, number)
        agent.process.write(b"hello\n")
        await agent.says("hello")
        assert (await agent.process.stop()).code == 0

    async def test_without_its_guard_an_agent_ends_as_well(self, bench: Bench) -> None:
        agent = await bench.start("deaf(15); child(session=True); wait()")
        await agent.says("child")
        os.kill(psutil.Process(agent.process.pid).ppid(), signal.SIGKILL)
        report = await agent.exit()
        assert (report.code, report.signal) == (None, None)
        assert report.describe() == "ended, and its exit status was lost"
        await eventually(lambda: bench.alive() == [])

    async def test_a_guard_that_hangs_is_overruled(self, bench: Bench) -> None:
        agent = await bench.start("child(session=True); wait()")
        await agent.says("child")
        os.kill(psutil.Process(agent.process.pid).ppid(), signal.SIGSTOP)
        agent.process.kill()
        await agent.exit()
        await eventually(lambda: bench.alive() == [])

    async def test_user_code_that_waits_for_any_child_does_no_harm(self, bench: Bench) -> None:
        agent = await bench.start("sys.stdin.readline(); os._exit(9)")
        guard_pid = psutil.Process(agent.process.pid).ppid()
        agent.process.write(b"\n")
        assert child_that_ended() == guard_pid
        assert (await agent.exit()).code == 9

    async def test_k7_a_forked_child_of_the_kernel_does_not_keep_an_agent_alive(
        self, bench: Bench
    ) -> None:
        agent = await bench.launch("cat")
        release, hold = os.pipe()
        forked = os.fork()
        if forked == 0:
            os.close(hold)
            os.read(release, 1)
            os._exit(0)
        report = await agent.process.stop(eof_grace=5)
        assert report.code == 0  # its stdin did end, though the child lives
        os.close(hold)
        os.close(release)
        assert child_that_ended() == forked

    @pytest.mark.parametrize("end", ["deaf(15); wait()", "wait_for_eof()"])
    async def test_where_orphans_cannot_be_adopted_a_look_now_and_then_has_to_do(
        self, tmp_path: Path, end: str
    ) -> None:
        """What happens on macOS, on any system: `ps` instead of /proc, and no subreaper."""
        bench = Bench(tmp_path)
        agent = "child(session=True, immune=True); child(session=False, immune=True); " + end
        near, far = socket.socketpair()
        with near, far:
            process = run_guard_as_on_macos(far)
            argv = [word.encode() for word in (*PYTHON, PRELUDE + agent, bench.tag)]
            near.sendall(pack_launch(b"/", argv[0], argv, {}))
            assert process.stdout is not None
            assert process.stdout.readline() == process.stdout.readline() == b"child\n"
            assert len(bench.alive()) == 3
            await eventually(lambda: looks_taken(process.pid) > 0)
        process.communicate(timeout=5)
        assert bench.alive() == []


def child_that_ended() -> int:
    """Do what user code may do in a kernel: wait for any child, whoever's it is."""
    return os.waitpid(-1, 0)[0]


def run_guard_as_on_macos(lifeline: socket.socket) -> subprocess.Popen[bytes]:
    without_linux = (
        "import runpy, sys; main = runpy.run_path(sys.argv[3])['main']\n"
        "main.__globals__['_adopt_orphans'] = lambda: False\n"
        "main.__globals__['process_table'] = main.__globals__['_process_table_of_ps']\n"
        "main.__globals__['KERNEL_CHECK'] = main.__globals__['LOOK_INTERVAL'] = 0.02\n"
        "main()"
    )
    return subprocess.Popen(
        [*PYTHON, without_linux, str(lifeline.fileno()), str(os.getpid()), guard.__file__],
        pass_fds=[lifeline.fileno()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def looks_taken(guard_pid: int) -> float:
    """Return the seconds of CPU that the `ps` processes of a guard have taken together."""
    times = psutil.Process(guard_pid).cpu_times()
    return float(times.children_user + times.children_system)


class TestLeaks:
    @linux_only
    async def test_t19_p20_fifty_agents_leave_nothing(self, bench: Bench) -> None:
        async def once(number: int) -> None:
            agent = await bench.start("child(session=True); wait_for_eof()")
            bench.agents.remove(agent)
            await agent.says("child")
            if number % 5 == 0:
                agent.process.kill()
            await agent.process.stop()

        def held() -> tuple[int, int, int, int]:
            me = psutil.Process()
            return me.num_fds(), me.num_threads(), len(me.children()), len(asyncio.all_tasks())

        await once(1)
        before, memory = held(), psutil.Process().memory_info().rss
        for number in range(50):
            await once(number)
        assert held() == before
        assert psutil.Process().memory_info().rss - memory < 5_000_000
