"""However a kernel ends, its agents end with it, and a cell's interrupt ends none of them.

T-2, K1, K5, K6, K7 and FAULTS §0.4, with real kernels. Each kernel has an agent of every kind, so
one kernel's death is five trials.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.kernel.kernels import ROOT, Kernel
from tests.wire.small_agents import alive, new_tag

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no agents on Windows yet")

AGENTS = {
    "ends with its stdin": "say('ready'); wait_for_eof()",
    "deaf to the end of its stdin": "say('ready'); wait()",
    "immune to SIGTERM": "deaf(15); deaf(1); say('ready'); wait()",
    "with a child": "child(session=False, immune=True); wait_for_eof()",
    "with a child in a session of its own": "child(session=True, immune=True); wait_for_eof()",
}
PROCESSES = len(AGENTS) + 2

# What a cell runs: it starts the agents on the agent thread and waits until they are all there.
CELL = """
import os, threading, time
from pathlib import Path
from silo_nb.acp.process import AgentProcess, Launch
from silo_nb.runtime import agent_thread
from tests.wire.small_agents import PRELUDE, PYTHON

class Heard:
    def __init__(self):
        self.text = b""
        self.news = threading.Condition()
        self.exits = []
    def on_stdout(self, data):
        with self.news:
            self.text += data
            self.news.notify_all()
    def wait_for(self, word):
        with self.news:
            assert self.news.wait_for(lambda: word in self.text, timeout=10), (word, self.text)

def start(line):
    heard = Heard()
    argv = (*PYTHON, PRELUDE + line, {tag!r})
    launch = Launch(argv=argv, cwd=Path.cwd(), env=dict(os.environ))
    starting = AgentProcess.start(launch, on_stdout=heard.on_stdout, on_exit=heard.exits.append)
    return agent_thread().run(starting).result(10), heard

agents = [start(line) for line in {lines!r}]
for _, heard in agents:
    heard.wait_for(b"\\n")
print("up")
"""

# Stands for a Jupyter server that is killed: its kernel notices, and exits without any clean-up.
SERVER = """
import sys
from tests.kernel.kernels import Kernel
with Kernel() as kernel:
    kernel.run(sys.argv[1])
    print(kernel.pid, flush=True)
    sys.stdin.read()
"""


def cell(tag: str, *lines: str) -> str:
    return CELL.format(tag=tag, lines=lines)


def survivors(tag: str, limit: float = 3.0) -> list[psutil.Process]:
    """Return who is left of the agents when the time is up, or as soon as nobody is."""
    deadline = time.monotonic() + limit
    while (left := alive(tag)) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.02)
    return left


@pytest.fixture
def tag() -> Iterator[str]:
    tag = new_tag()
    yield tag
    for process in alive(tag):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def kill(kernel: Kernel) -> None:
    os.kill(kernel.pid, signal.SIGKILL)


def terminate(kernel: Kernel) -> None:
    os.kill(kernel.pid, signal.SIGTERM)


def shut_down(kernel: Kernel) -> None:
    kernel.shutdown()


def shut_down_now(kernel: Kernel) -> None:
    kernel._manager.shutdown_kernel(now=True)


def restart(kernel: Kernel) -> None:
    kernel._manager.restart_kernel()


def exit_from_a_cell(kernel: Kernel) -> None:
    kernel.submit("os._exit(0)")


DEATHS = [kill, terminate, shut_down, shut_down_now, restart, exit_from_a_cell]


class TestDeath:
    @pytest.mark.parametrize("repeat", range(2))
    @pytest.mark.parametrize("end", DEATHS)
    def test_t2_no_agent_survives_its_kernel(
        self, tag: str, end: Callable[[Kernel], None], repeat: int
    ) -> None:
        with Kernel() as kernel:
            kernel.run(cell(tag, *AGENTS.values()))
            assert len(alive(tag)) == PROCESSES
            end(kernel)
            assert survivors(tag) == []

    def test_k1_nor_one_that_dies_in_the_middle_of_a_stop(self, tag: str) -> None:
        with Kernel() as kernel:
            kernel.run(cell(tag, *AGENTS.values()))
            kernel.run("for agent, _ in agents: agent_thread().run(agent.stop(eof_grace=60))")
            kill(kernel)
            assert survivors(tag) == []

    def test_k1_nor_one_that_is_just_being_started(self, tag: str) -> None:
        with Kernel() as kernel:
            kernel.run(cell(tag))
            kernel.run(
                "launch = Launch(argv=(*PYTHON, PRELUDE + 'deaf(15); wait()', "
                f"{tag!r}), cwd=Path.cwd(), env=dict(os.environ))\n"
                "for _ in range(5):\n"
                "    agent_thread().run(AgentProcess.start(\n"
                "        launch, on_stdout=lambda data: None, on_exit=lambda report: None))"
            )
            kill(kernel)
            assert survivors(tag) == []

    def test_k6_none_survives_the_server(self, tag: str) -> None:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, cell(tag, *AGENTS.values())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        with server:
            assert server.stdout is not None
            kernel = psutil.Process(int(server.stdout.readline()))
            assert len(alive(tag)) == PROCESSES
            server.kill()
        kernel.wait(10)
        assert survivors(tag) == []

    def test_agents_do_not_hold_up_a_shutdown(self, tag: str) -> None:
        """JUPYTER §7: a child in the kernel's own group would keep atexit from running."""
        with Kernel() as kernel:
            kernel.run(cell(tag, *AGENTS.values()))
            kernel.run("import atexit, sys; atexit.register(print, 'atexit', file=sys.__stderr__)")
            assert kernel.shutdown() < 2.4
            assert "atexit" in kernel.log
            assert "Traceback" not in kernel.log


FORK = """
release, hold = os.pipe()
forked = os.fork()
if forked == 0:
    os.close(hold)
    os.read(release, 1)
    os._exit(0)
print(forked)
"""


class TestFork:
    """K7: a child forked off the kernel inherits every pipe to its agents, and may outlive it."""

    def test_it_does_not_keep_agents_alive(self, tag: str) -> None:
        with Kernel() as kernel:
            kernel.run(cell(tag, *AGENTS.values()))
            # This end of the pipe stays open in the child, which so waits until it is killed.
            forked = psutil.Process(int(kernel.run(FORK.replace("os.close(hold)", "")).text))
            try:
                kill(kernel)
                assert survivors(tag) == []
                assert forked.is_running()
            finally:
                forked.kill()

    def test_it_does_not_keep_their_stdin_open(self, tag: str) -> None:
        with Kernel() as kernel:
            kernel.run(cell(tag, AGENTS["ends with its stdin"]))
            kernel.run(FORK)
            kernel.run("report = agent_thread().run(agents[0][0].stop(eof_grace=10)).result(15)")
            assert kernel.run("print(report.code)").text == "0\n"
            kernel.run("os.close(hold); os.waitpid(forked, 0)")


class TestInterrupt:
    def test_an_interrupted_cell_leaves_every_agent_alive(self, tag: str) -> None:
        """FAULTS §0.4: the interrupt is a SIGINT to the kernel's whole process group."""
        line = "signal.signal(2, signal.SIG_DFL); say('ready')\nfor _ in sys.stdin: say('still')"
        with Kernel() as kernel:
            kernel.run(cell(tag, line, *AGENTS.values()))
            kernel.interrupt()
            sleeping = kernel.submit("print('sleeping'); time.sleep(30)")
            kernel.wait_for(sleeping, "sleeping")
            kernel.interrupt()
            assert kernel.finish(sleeping, check=False).error == "KeyboardInterrupt"
            assert len(alive(tag)) == PROCESSES + 1
            kernel.run("agent_thread().call(agents[0][0].write, b'\\n')")
            kernel.run("agents[0][1].wait_for(b'still')")
