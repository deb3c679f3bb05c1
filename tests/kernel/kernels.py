"""Real kernels for tests: run cells, answer them, interrupt them, and see all they said.

::

    with Kernel() as kernel:                       # this environment's ipykernel
        cell = kernel.run("1 + 1")                 # Cell: .text .stderr .outputs .error .status
        cells = kernel.run_all(["a = 1", "b = 2"])     # queued at once, as by "Run All"

        cell = kernel.submit("session.prompt(…)")  # runs while the test goes on
        kernel.wait_for(cell, "may I?")            # until the cell has printed that
        kernel.comm(comm_id, {"answer": "yes"})    # as the browser sends it
        kernel.interrupt()
        kernel.finish(cell)

``kernel_python("7.3.0")`` is the interpreter of an environment with that ipykernel; the fixtures
``kernel`` (every version of the matrix in turn) and ``own_kernel`` (the same, fresh for one test)
are in conftest.py. Nothing here sleeps: whatever is waited for is a message, with a limit.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]

LIMIT = 20.0
NEWEST = "newest"
VERSIONS = ("6.31.0", "7.0.1", "7.3.0", "7.4.0", NEWEST)
# How long an environment called "newest" may be taken for it, in seconds.
NEWEST_FOR = 24 * 3600.0


@dataclass
class Cell:
    """One execute request and everything that came back under it."""

    code: str
    msg_id: str
    iopub: list[dict[str, Any]] = field(default_factory=list)
    reply: dict[str, Any] | None = None
    idle: bool = False

    @property
    def done(self) -> bool:
        """Whether the kernel has replied and gone idle for it."""
        return self.reply is not None and self.idle

    @property
    def status(self) -> str:
        """What the reply says: "ok", "error" or "aborted"; empty before it came."""
        return str(self.reply["content"]["status"]) if self.reply else ""

    @property
    def text(self) -> str:
        """All it printed on stdout."""
        return self._stream("stdout")

    @property
    def stderr(self) -> str:
        """All it printed on stderr."""
        return self._stream("stderr")

    @property
    def error(self) -> str:
        """The name of the exception it ended with, or nothing."""
        return str(self.reply["content"].get("ename", "")) if self.reply else ""

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Content of its display_data, update_display_data and execute_result messages."""
        kinds = {"display_data", "update_display_data", "execute_result"}
        return [m["content"] for m in self.iopub if m["msg_type"] in kinds]

    def _stream(self, name: str) -> str:
        return "".join(
            message["content"]["text"]
            for message in self.iopub
            if message["msg_type"] == "stream" and message["content"]["name"] == name
        )


class Kernel:
    """A running ipykernel, started on entering the context, killed on leaving it.

    Args:
        python: interpreter of the environment to run in; this one's by default.
        cwd: its working directory, as a notebook's directory would be.
        env: added to this process's environment. The checkout is importable in any case.
    """

    def __init__(
        self,
        python: Path | str = sys.executable,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._cwd = cwd
        self._resources = ExitStack()
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self._manager = KernelManager()
        self._manager._kernel_spec = KernelSpec(
            argv=[str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="test",
            language="python",
        )
        self._cells: dict[str, Cell] = {}
        self._replies: dict[str, dict[str, Any]] = {}
        self._answers: list[str] = []
        self.iopub: list[dict[str, Any]] = []
        """Every iopub message, whoever its parent is, in the order of arrival."""
        self.reply_order: list[str] = []
        """Message ids of the requests that were replied to on the shell channel, in order."""
        self.prompts: list[str] = []
        """What cells asked with ``input()``."""

    # ---------------------------------------------------------------------- life

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        self._log = self._resources.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
        if os.name != "nt":
            # No ports that another test run may take first, and no firewall.
            sockets = self._resources.enter_context(tempfile.TemporaryDirectory(prefix="k"))
            self._manager.transport = "ipc"
            self._manager.ip = f"{sockets}/s"
        options: dict[str, Any] = {"cwd": str(self._cwd)} if self._cwd else {}
        self._manager.start_kernel(
            env=self._env, stdout=self._log, stderr=self._log, independent=False, **options
        )
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=LIMIT)
        self._channels = {
            channel.socket: receive
            for channel, receive in (
                (self._client.iopub_channel, self._on_iopub),
                (self._client.shell_channel, self._on_reply),
                (self._client.control_channel, self._on_reply),
                (self._client.stdin_channel, self._on_stdin),
            )
        }
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Kill it and give everything back."""
        self._client.stop_channels()
        self._client.context.destroy(linger=0)
        if self._manager.has_kernel:
            self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
        # destroy() also closes the sockets that the manager's context holds.
        self._manager.context.destroy(linger=0)
        self._resources.close()

    @property
    def log(self) -> str:
        """What its process wrote to its own stdout and stderr: tracebacks of ipykernel, say."""
        self._log.seek(0)
        return self._log.read()

    @property
    def session(self) -> Any:
        """The jupyter_client session that signs what is sent."""
        return self._client.session

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(cast("Any", self._manager.provisioner).pid)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return bool(self._manager.is_alive())

    def shutdown(self) -> float:
        """Shut it down as a server does: interrupt, ask, wait; return the seconds that took."""
        started = time.monotonic()
        self._manager.shutdown_kernel()
        return time.monotonic() - started

    # --------------------------------------------------------------------- cells

    def run(
        self,
        code: str,
        *,
        check: bool = True,
        timeout: float = LIMIT,
        answers: Sequence[str] | None = None,
        **header: Any,
    ) -> Cell:
        """Run one cell to its end.

        Args:
            code: the cell.
            check: fail unless its status is "ok".
            timeout: seconds until the test fails.
            answers: what to answer to its ``input()`` calls; None: stdin is not allowed.
            header: further header fields, say ``subshell_id``.
        """
        cell = self.submit(code, answers=answers, **header)
        return self.finish(cell, check=check, timeout=timeout)

    def run_all(self, codes: Sequence[str], *, timeout: float = LIMIT) -> list[Cell]:
        """Queue several cells at once, as "Run All" does, and wait for all of them."""
        cells = [self.submit(code) for code in codes]
        return [self.finish(cell, check=False, timeout=timeout) for cell in cells]

    def submit(self, code: str, *, answers: Sequence[str] | None = None, **header: Any) -> Cell:
        """Start one cell, or queue it behind the running one."""
        self._answers += answers or ()
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": answers is not None,
            "stop_on_error": True,
        }
        msg_id = self.send("execute_request", content, **header)
        cell = self._cells[msg_id] = Cell(code, msg_id)
        return cell

    def finish(self, cell: Cell, *, check: bool = True, timeout: float = LIMIT) -> Cell:
        """Wait for the end of a cell that was submitted."""
        self.wait_until(lambda: cell.done, f"the end of {cell.code!r}", timeout=timeout)
        if check and cell.status != "ok":
            traceback = "\n".join(cell.reply["content"].get("traceback", ()) if cell.reply else ())
            raise AssertionError(f"cell is {cell.status}: {cell.code!r}\n{traceback}")
        return cell

    def wait_for(self, cell: Cell, text: str, *, timeout: float = LIMIT) -> None:
        """Wait until the cell has printed ``text``."""
        self.wait_until(
            lambda: text in cell.text or cell.done, f"{text!r} from {cell.code!r}", timeout=timeout
        )
        if text not in cell.text:
            self.finish(cell)
            raise AssertionError(f"the cell ended without {text!r}; it printed {cell.text!r}")

    # ------------------------------------------------------------------ messages

    def send(
        self, msg_type: str, content: Mapping[str, Any], *, channel: str = "shell", **header: Any
    ) -> str:
        """Send any request; return its id."""
        message = self._client.session.msg(msg_type, dict(content))
        message["header"].update({k: v for k, v in header.items() if v is not None})
        getattr(self._client, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def request(
        self, msg_type: str, content: Mapping[str, Any], *, channel: str = "shell", **header: Any
    ) -> dict[str, Any]:
        """Send a request and wait for the content of its reply."""
        msg_id = self.send(msg_type, content, channel=channel, **header)
        self.wait_until(lambda: msg_id in self._replies, f"the reply to {msg_type}")
        content = self._replies[msg_id]["content"]
        return dict(content)

    def comm(self, comm_id: str, data: Any, *, subshell: str | None = None) -> str:
        """Send a comm message, as a widget's view does; return its id."""
        return self.send("comm_msg", {"comm_id": comm_id, "data": data}, subshell_id=subshell)

    def create_subshell(self) -> str | None:
        """Create a subshell, or return None where the kernel has none (ipykernel 6)."""
        info = self.request("kernel_info_request", {}, channel="control")
        if "kernel subshells" not in info.get("supported_features", ()):
            return None
        return str(self.request("create_subshell_request", {}, channel="control")["subshell_id"])

    def interrupt(self) -> None:
        """Interrupt it, as the stop button does: SIGINT to its process group."""
        self._manager.interrupt_kernel()

    def statuses(self, msg_id: str) -> list[str]:
        """The execution states published under one request so far."""
        return [
            message["content"]["execution_state"]
            for message in self.iopub
            if message["msg_type"] == "status" and message["parent_header"].get("msg_id") == msg_id
        ]

    def printed(self, msg_id: str) -> str:
        """What was printed under any request, say a comm message, so far."""
        return "".join(
            message["content"]["text"]
            for message in self.iopub
            if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == msg_id
        )

    # ------------------------------------------------------------------- waiting

    def wait_until(
        self, condition: Callable[[], object], what: str, *, timeout: float = LIMIT
    ) -> None:
        """Receive messages until ``condition`` holds; fail after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        poller = zmq.Poller()
        for channel in self._channels:
            poller.register(channel, zmq.POLLIN)
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                seen = {cell.code: cell.text for cell in self._cells.values() if not cell.done}
                raise AssertionError(f"waited {timeout} s for {what}; unfinished cells: {seen}")
            if not self.is_alive:
                raise AssertionError(f"the kernel died while a test waited for {what}")
            for channel, _ in poller.poll(int(min(left, 1.0) * 1000) + 1):
                _, message = self._client.session.recv(channel, mode=zmq.NOBLOCK)
                if message is not None:
                    self._channels[channel](message)

    def wait_idle(self, msg_id: str) -> None:
        """Wait until the kernel says that it has handled a message."""
        self.wait_until(lambda: "idle" in self.statuses(msg_id), "a message to be handled")

    def _on_iopub(self, message: dict[str, Any]) -> None:
        self.iopub.append(message)
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if cell is None:
            return
        cell.iopub.append(message)
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            cell.idle = True

    def _on_reply(self, message: dict[str, Any]) -> None:
        msg_id = message["parent_header"]["msg_id"]
        self._replies[msg_id] = message
        self.reply_order.append(msg_id)
        if msg_id in self._cells:
            self._cells[msg_id].reply = message

    def _on_stdin(self, message: dict[str, Any]) -> None:
        self.prompts.append(message["content"]["prompt"])
        self._client.input(self._answers.pop(0))


# --------------------------------------------------------------------------- environments


def kernel_python(version: str) -> Path:
    """Return the interpreter of an environment with that ipykernel, made on first use.

    It has this environment's packages but for ipykernel and what that version wants otherwise, so
    it takes seconds. It is kept in SILO_NB_TEST_CACHE (default ~/.cache/silo_nb-tests).

    Args:
        version: one of :data:`VERSIONS`.
    """
    about = json.dumps([sys.version, sys.prefix, str(ROOT), version])
    name = f"ipykernel-{version}-{hashlib.sha256(about.encode()).hexdigest()[:8]}"
    home = _cache() / "venvs" / name
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    with _locked(home.with_suffix(".lock")):
        stamp = home / "complete"
        age = time.time() - stamp.stat().st_mtime if stamp.exists() else float("inf")
        if age > (NEWEST_FOR if version == NEWEST else float("inf")) or not stamp.exists():
            shutil.rmtree(home, ignore_errors=True)
            _make_environment(home, python, version)
            stamp.touch()
    return python


def _make_environment(home: Path, python: Path, version: str) -> None:
    venv.create(home, symlinks=os.name != "nt")
    paths = {"base": str(home), "platbase": str(home)}
    own = Path(sysconfig.get_path("purelib", vars=paths))
    requirement = "ipykernel" if version == NEWEST else f"ipykernel=={version}"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    # ipykernel alone first: pip takes the one behind the link below for installed already.
    _run([*pip, "--no-deps", requirement])
    parents = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    # Lines of a .pth file that start with "import" are executed. addsitedir() reads the .pth
    # files there as well, which is how an editable install of the checkout is found.
    link = "".join(f"import site; site.addsitedir({path!r})\n" for path in parents)
    (own / "parent-environment.pth").write_text(link, encoding="utf-8")
    _run([*pip, requirement])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _cache() -> Path:
    configured = os.environ.get("SILO_NB_TEST_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "silo_nb-tests"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other test runs out while an environment is being made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        if os.name != "nt":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
