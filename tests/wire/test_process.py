"""What passes through an agent's pipes, and how its end is reported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.wire.small_agents import Agent, Bench, eventually


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bench(tmp_path) as bench:
        yield bench


class TestPipes:
    async def test_all_it_said_comes_before_its_end(self, bench: Bench) -> None:
        agent = await bench.start(
            "data = bytes(range(256)) * 20_000\n"
            "while data: data = data[os.write(1, data):]\n"
            "os._exit(3)"
        )
        assert (await agent.exit()).code == 3
        assert agent.stdout == bytes(range(256)) * 20_000

    async def test_what_is_written_arrives_in_order(self, bench: Bench) -> None:
        agent = await bench.launch("cat")
        lines = [b"%d\n" % number for number in range(20_000)]
        for line in lines:
            agent.process.write(line)
        await agent.until(lambda agent: len(agent.stdout) == sum(map(len, lines)))
        assert agent.stdout == b"".join(lines)
        assert agent.process.unwritten == 0
        assert (await agent.process.stop()).code == 0

    async def test_p10_an_agent_that_closes_its_stdin_is_still_heard(self, bench: Bench) -> None:
        agent = await bench.start("os.close(0); say('closed'); on_term(7); say('ready'); wait()")
        await agent.says("ready")
        async with asyncio.timeout(5):
            while agent.process.accepts_input:
                agent.process.write(b"x" * 100_000)
                await asyncio.sleep(0)
        agent.process.write(b"nobody reads this")
        assert agent.process.unwritten == 0
        assert (await agent.process.stop(eof_grace=0.05)).code == 7

    async def test_p11_an_agent_that_closes_its_stderr_goes_on(self, bench: Bench) -> None:
        agent = await bench.start("os.write(2, b'last\\n'); os.close(2); say('on'); wait_for_eof()")
        await agent.says("on")
        assert (await agent.process.stop()).code == 0
        assert agent.process.stderr_tail() == ("last",)

    @pytest.mark.parametrize("how", ["stop", "kill"])
    async def test_p12_case_10_an_agent_that_never_reads_blocks_nobody(
        self, bench: Bench, how: str
    ) -> None:
        agent = await bench.start("say('up'); wait()")
        await agent.says("up")
        began = time.monotonic()
        agent.process.write(b"x" * 10_000_000)
        assert time.monotonic() - began < 1
        assert agent.process.unwritten > 9_000_000
        if how == "kill":
            agent.process.kill()
        report = await agent.process.stop(eof_grace=0.05)
        assert report.signal == (signal.SIGKILL if how == "kill" else signal.SIGTERM)
        assert agent.process.unwritten == 0
        agent.process.write(b"dropped")
        assert agent.process.unwritten == 0

    async def test_p4_of_much_stderr_the_end_is_kept(self, bench: Bench) -> None:
        agent = await bench.start(
            "for n in range(4000): os.write(2, b'line %04d %s\\n' % (n, b'x' * 40))\nos._exit(1)"
        )
        report = await agent.exit()
        assert report.code == 1
        assert [line[:9] for line in report.stderr] == [f"line {n}" for n in range(3980, 4000)]
        assert report.stderr == agent.process.stderr_tail()

    async def test_p13_a_flood_on_stderr_costs_no_memory_and_stops_nothing(
        self, bench: Bench
    ) -> None:
        agent = await bench.start(
            "block = b'e' * 65_535 + b'\\n'\n"
            "for n in range(7_500):\n"
            "    os.write(2, block)\n"
            "    if n % 500 == 0: say(f'{n};')\n"
            "say('done'); wait_for_eof()"
        )
        before = highest = psutil.Process().memory_info().rss

        def measured(agent: Agent) -> bool:
            nonlocal highest
            highest = max(highest, psutil.Process().memory_info().rss)
            return b"done" in agent.stdout

        await agent.until(measured, limit=30)
        assert agent.stdout.count(b";") == 15
        assert highest - before < 5_000_000

    async def test_stderr_is_inert_and_short(self, bench: Bench) -> None:
        agent = await bench.start(
            r"os.write(2, b'\x1b]0;title\x07\x1b[31mred\x1b[0m\r50%\r100%\n\n  \n\xff\n')"
            "\nos.write(2, b'z' * 9999)"
        )
        report = await agent.exit()
        assert report.stderr[:4] == ("red", "50%", "100%", "\N{REPLACEMENT CHARACTER}")
        assert report.stderr[4].startswith("zzz")
        assert len(report.stderr[4]) == 500
        assert agent.process.stderr_tail(0) == ()

    async def test_p22_noise_of_a_slow_starter_is_delivered_like_all_else(
        self, bench: Bench
    ) -> None:
        agent = await bench.start(
            "for n in range(50): say(f'noise {n}')\nsay('{}'); wait_for_eof()"
        )
        await agent.says("{}")
        assert agent.stdout.count(b"noise") == 50

    async def test_a_paused_agent_has_to_wait_and_loses_nothing(self, bench: Bench) -> None:
        agent = await bench.start(
            "sys.stdin.readline()\n"
            "for n in range(40): os.write(1, b'x' * 100_000); os.write(2, b'%d\\n' % n)\n"
            "os._exit(5)"
        )
        agent.process.pause_reading()
        agent.process.write(b"\n")
        waiting = psutil.Process(agent.process.pid)
        await eventually(lambda: agent.process.stderr_tail() != () or blocked(waiting))
        assert agent.stdout == b""
        assert agent.exits == []
        agent.process.resume_reading()
        assert (await agent.exit()).code == 5
        assert len(agent.stdout) == 4_000_000

    async def test_the_end_of_a_paused_agent_waits_for_its_last_words(self, bench: Bench) -> None:
        agent = await bench.start("sys.stdin.readline(); say('last words')")
        agent.process.pause_reading()
        agent.process.write(b"\n")
        await eventually(lambda: bench.alive() == [] and psutil.Process().children() == [])
        assert agent.exits == []
        agent.process.resume_reading()
        assert (await agent.exit()).code == 0
        assert agent.stdout == b"last words\n"

    async def test_an_agent_that_is_paused_can_be_stopped(self, bench: Bench) -> None:
        agent = await bench.start("os.write(1, b'x' * 1_000_000); wait_for_eof(); os._exit(4)")
        agent.process.pause_reading()
        assert (await agent.process.stop()).code == 4
        assert len(agent.stdout) == 1_000_000


def blocked(process: psutil.Process) -> bool:
    """Return whether a process waits for somebody to read its pipe."""
    with contextlib.suppress(OSError):
        return "pipe" in Path(f"/proc/{process.pid}/wchan").read_text(encoding="ascii")
    return False


class TestEnd:
    @pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
    async def test_p3_p8_its_exit_code_is_exact(self, bench: Bench, code: int) -> None:
        report = await (await bench.start(f"os._exit({code})")).exit()
        assert (report.code, report.signal) == (code, None)
        assert report.describe() == f"exited with code {code}"

    @pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 13, 15, 36])
    async def test_p7_the_signal_that_ended_it_is_exact(self, bench: Bench, number: int) -> None:
        agent = await bench.start(
            f"if {number} != 9: signal.signal({number}, signal.SIG_DFL)\n"
            f"os.kill(os.getpid(), {number}); wait()"
        )
        report = await agent.exit()
        assert (report.code, report.signal) == (None, number)
        name = "signal 36" if number == 36 else signal.Signals(number).name
        assert report.describe() == f"was ended by {name}"

    async def test_p8_case_13_its_end_between_turns_is_told_at_once(self, bench: Bench) -> None:
        agent = await bench.start("say('up'); wait()")
        await agent.says("up")
        began = time.monotonic()
        os.kill(agent.process.pid, signal.SIGKILL)
        assert (await agent.exit()).signal == signal.SIGKILL
        assert time.monotonic() - began < 2
        agent.process.write(b"too late")
        assert agent.process.unwritten == 0
        assert await agent.process.stop() is agent.exits[0]
        agent.process.kill()
        assert len(agent.exits) == 1

    async def test_p9_an_agent_that_closes_its_stdout_has_ended(self, bench: Bench) -> None:
        agent = await bench.start("say('bye'); os.close(1); deaf(15); wait()")
        report = await agent.exit(limit=4)
        assert report.closed_stdout
        assert report.describe() == "closed its stdout, so it was stopped"
        assert agent.stdout == b"bye\n"
        assert bench.alive() == []

    async def test_p9_closing_stdout_on_the_way_out_is_no_offence(self, bench: Bench) -> None:
        agent = await bench.start("os.close(1); os._exit(6)")
        report = await agent.exit()
        assert (report.code, report.closed_stdout) == (6, False)
        agent = await bench.start("wait_for_eof(); os.close(1); on_term(6); wait()")
        report = await agent.process.stop(eof_grace=0.7)
        assert (report.code, report.closed_stdout) == (6, False)

    async def test_a_polite_agent_ends_with_its_stdin(self, bench: Bench) -> None:
        agent = await bench.start("wait_for_eof(); say('bye'); os._exit(2)")
        began = time.monotonic()
        assert (await agent.process.stop()).code == 2
        assert time.monotonic() - began < 2  # its grace is 2.5 s
        assert agent.stdout == b"bye\n"
        assert agent.exits == [agent.process.exited]

    async def test_p14_a_deaf_agent_gets_sigterm_after_its_grace(self, bench: Bench) -> None:
        agent = await bench.start("on_term(42); say('up'); wait()")
        await agent.says("up")
        began = time.monotonic()
        assert (await agent.process.stop(eof_grace=0.3)).code == 42
        assert 0.3 <= time.monotonic() - began < 2

    async def test_p15_an_agent_immune_to_sigterm_gets_sigkill(self, bench: Bench) -> None:
        agent = await bench.start("deaf(15); deaf(1); deaf(2); say('up'); wait()")
        await agent.says("up")
        report = await agent.process.stop(eof_grace=0.1, term_grace=0.3)
        assert report.signal == signal.SIGKILL

    async def test_everyone_who_stops_it_waits_for_the_same_end(self, bench: Bench) -> None:
        agent = await bench.start("on_term(1); say('up'); wait()")
        await agent.says("up")
        calls = [asyncio.create_task(agent.process.stop(eof_grace=0.2)) for _ in range(5)]
        await asyncio.sleep(0)
        calls[0].cancel()
        reports = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(reports[0], asyncio.CancelledError)
        assert reports[1:] == [agent.exits[0]] * 4

    async def test_kill_cuts_a_stop_short(self, bench: Bench) -> None:
        agent = await bench.start("deaf(15); say('up'); wait()")
        await agent.says("up")
        began = time.monotonic()
        stopping = asyncio.create_task(agent.process.stop(eof_grace=30))
        await asyncio.sleep(0)
        agent.process.kill()
        assert (await stopping).signal == signal.SIGKILL
        assert time.monotonic() - began < 5

    async def test_p21_case_15_agents_do_not_share_an_end(self, bench: Bench) -> None:
        first = await bench.start("say('up'); wait_for_eof()")
        second = await bench.start("say('up'); wait_for_eof()")
        await asyncio.gather(first.says("up"), second.says("up"))
        first.process.kill()
        await first.exit()
        assert [process.pid for process in bench.alive()] == [second.process.pid]
        assert (await second.process.stop()).code == 0
