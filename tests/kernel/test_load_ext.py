"""Loading starts nothing, and unloading leaves nothing (FAULTS T1, T-13, K11, K12)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from silo_nb.testing import AgentProcesses
from silo_nb.testing.plugin import FakeAgentFactory
from tests.kernel.front_ends import FrontEnd, frozen, notebook

# Runs by itself: an audit hook cannot be taken off again.
WATCHED = r"""
import json, os, sys, threading
import IPython, asyncio, anywidget, ipywidgets   # what any widget needs has ways of its own
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
events, armed = [], False
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system",
          "_thread.start_new_thread", "socket.__new__", "socket.bind", "socket.connect",
          "os.mkdir", "os.rename", "os.remove")

def hook(event, args):
    if not armed:
        return
    if event in STARTS:
        events.append(event)
    elif event == "open":
        path, mode, flags = args
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            events.append(f"open {path}")

sys.addaudithook(hook)
modules = set(sys.modules)
armed = True
import silo_nb
shell.run_line_magic("load_ext", "silo_nb")
loaded = sorted(set(sys.modules) - modules)
for _ in range(20):
    shell.run_line_magic("reload_ext", "silo_nb")
    shell.run_line_magic("unload_ext", "silo_nb")
    shell.run_line_magic("load_ext", "silo_nb")
armed = False
print(json.dumps({"events": events, "loaded": loaded, "threads": threading.active_count()}))
"""


def test_import_and_load_start_no_process_thread_socket_or_file(tmp_path: Path) -> None:
    """FAULTS T1: an audit hook sees everything Python does; 20 rounds, and it saw nothing."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED],
        cwd=Path(__file__).parents[2],
        env={"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout.splitlines()[-1])

    assert seen["events"] == []
    assert seen["threads"] == 1
    ours = [name for name in seen["loaded"] if name.startswith("silo_nb")]
    assert ours == [
        "silo_nb",
        "silo_nb.ipython",
        "silo_nb.ipython.extension",
        "silo_nb.ipython.magics",
    ]
    assert not {"pydantic", "orjson", "silo_nb.session", "msgspec"} & set(seen["loaded"])


@pytest.fixture
def kernel(
    notebook_dir: Path, silo_config: Path, agent_processes: AgentProcesses
) -> Iterator[FrontEnd]:
    with notebook(notebook_dir) as running:
        yield running
        print(running.log[-4000:])  # noqa: T201 -- shown when the test fails


TURNS = [{"loop": "forever", "steps": [{"expect": "session/prompt"}, {"reply": "end_turn"}]}]

LEFT = """
import gc, os, psutil, threading
from IPython import get_ipython
me, shell = psutil.Process(), get_ipython()
def left():
    gc.collect()
    magics = shell.magics_manager.magics
    return (
        [name for kind in magics.values() for name in kind if name in ("agent", "ask")],
        sum("Ask" in getattr(t, "__name__", "") for t in
            shell.input_transformer_manager.token_transformers),
        [thread.name for thread in threading.enumerate() if "silo" in thread.name],
        len(me.children(recursive=True)),
    )
"""


def test_twenty_rounds_leave_nothing(
    kernel: FrontEnd, fake_agent: FakeAgentFactory, agent_processes: AgentProcesses
) -> None:
    """K11: sessions are disposed, the thread ends, magics and hooks go, descriptors too."""
    agent = fake_agent(TURNS)
    kernel.run(LEFT)
    for number in range(20):
        kernel.run("%load_ext silo_nb")
        if number % 5 == 0:
            kernel.run("%%agent fake\nhi")
        kernel.run("%unload_ext silo_nb")
        if number == 0:
            descriptors = open_descriptors(kernel)

    assert kernel.run("print(left())").text == "([], 0, [], 0)\n"
    assert agent_processes.wait_gone(3) == []
    assert len(agent.pids) == 4
    # ipykernel keeps a socket for each thread that displays, and every ten seconds closes those
    # of threads that have ended.
    deadline = time.monotonic() + 40
    while (left := open_descriptors(kernel)) > descriptors + 2 and time.monotonic() < deadline:
        pass
    assert left <= descriptors + 2


def open_descriptors(kernel: FrontEnd) -> int:
    return int(kernel.run("left(); print(me.num_fds())").text)


def test_loading_twice_makes_no_difference(kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
    """K12."""
    agent = fake_agent(TURNS)
    kernel.run("%load_ext silo_nb")
    kernel.run("%%agent fake\nhi")
    kernel.run("%load_ext silo_nb\nimport silo_nb\nsilo_nb.load_ipython_extension(get_ipython())")
    kernel.run("%%agent fake\nhi")

    assert len(agent.pids) == 1
    shown = kernel.run(LEFT + "print(left()[:2], left()[2].count('silo-agent'))").text
    assert shown == "(['agent', 'ask', 'agent'], 1) 1\n"


def test_sessions_outlive_a_reload(
    kernel: FrontEnd, fake_agent: FakeAgentFactory, agent_processes: AgentProcesses
) -> None:
    """R10: whoever runs the first cell of a notebook once more goes on where they were."""
    agent = fake_agent(TURNS)
    kernel.run("%load_ext silo_nb")
    kernel.run("%%agent fake\nhi")
    kernel.run("%reload_ext silo_nb")

    cell = kernel.run("%%agent fake\nhi")

    assert "Done" in frozen(cell)["text/plain"]
    assert len(agent.pids) == 1
    table = kernel.run("%agent sessions").outputs[0]["data"]["text/plain"]
    assert len(table.splitlines()) == 2


def test_unloaded_magics_are_gone(kernel: FrontEnd) -> None:
    kernel.run("%load_ext silo_nb")
    kernel.run("%unload_ext silo_nb")

    assert "not found" in kernel.run("%%agent demo\nhi", check=False).stderr
    assert "not found" in kernel.run("%ask hi", check=False).stderr
