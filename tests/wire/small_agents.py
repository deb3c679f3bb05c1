"""Agents of one line each, and the counting of what is left of them.

Every agent is a real process. What it started carries the bench's tag in its argv, so survivors are
found whatever became of their parents.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil

from silo_nb.acp.process import AgentProcess, ExitReport, Launch

PYTHON = (sys.executable, "-I", "-S", "-c")

# What an agent's line may use.
PRELUDE = """
import os, signal, subprocess, sys, time
def say(text): os.write(1, text.encode() + b"\\n")
def on_term(code): signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
def deaf(number): signal.signal(number, signal.SIG_IGN)
def wait(): time.sleep(60)
def wait_for_eof(): sys.stdin.buffer.read()
def child(*, session, immune=False):
    code = "import time; print('child', flush=True); time.sleep(60)"
    if immune: code = "import signal; signal.signal(15, 1); signal.signal(1, 1); " + code
    argv = [sys.executable, "-I", "-S", "-c", code, sys.argv[1]]
    subprocess.Popen(argv, start_new_session=session)
"""

FAMILIES = {
    "p16 child": "child(session=False)",
    "p17 child in a session of its own": "child(session=True)",
    "p15 immune child": "child(session=False, immune=True)",
    "p15 immune child in a session of its own": "child(session=True, immune=True)",
    "p18 daemon": (
        "if os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0: child(session=False); wait()\n"
        "    os._exit(0)\n"
        "os.wait()"
    ),
    "p18 immune daemon": (
        "if os.fork() == 0:\n    os.setsid(); deaf(15); deaf(1)\n"
        "    if os.fork() == 0: say('child'); wait()\n"
        "    os._exit(0)\n"
        "os.wait()"
    ),
    "p19 zombie": "os.fork() or os._exit(0); say('child')",
}
"""What an agent may start; each says "child" once it has."""


class Agent:
    """An agent's process, and what was heard of it."""

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.exits: list[ExitReport] = []
        self.process: AgentProcess
        self._news = asyncio.Event()

    def on_stdout(self, data: bytes) -> None:
        assert not self.exits, "spoke after its end was reported"
        self.stdout += data
        self._news.set()

    def on_exit(self, report: ExitReport) -> None:
        self.exits.append(report)
        self._news.set()

    async def until(self, holds: Callable[[Agent], bool], limit: float = 10) -> None:
        async with asyncio.timeout(limit):
            while not holds(self):
                self._news.clear()
                await self._news.wait()

    async def says(self, text: str, limit: float = 10) -> None:
        await self.until(lambda agent: text.encode() in agent.stdout, limit)

    async def exit(self, limit: float = 10) -> ExitReport:
        await self.until(lambda agent: bool(agent.exits), limit)
        return self.exits[0]


class Bench:
    """Starts agents that carry one tag, and counts what is left of them."""

    def __init__(self, cwd: Path) -> None:
        self.tag = new_tag()
        self.cwd = cwd
        self.agents: list[Agent] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for agent in self.agents:
            agent.process.kill()
            await agent.process.stop()
        assert self.alive() == []
        assert zombies() == []

    async def start(self, code: str, *args: str) -> Agent:
        return await self.launch(*PYTHON, PRELUDE + code, self.tag, *args)

    async def launch(self, *argv: str, env: dict[str, str] | None = None) -> Agent:
        agent = Agent()
        launch = Launch(argv=argv, cwd=self.cwd, env=dict(os.environ) if env is None else env)
        agent.process = await AgentProcess.start(
            launch, on_stdout=agent.on_stdout, on_exit=agent.on_exit
        )
        self.agents.append(agent)
        return agent

    def alive(self) -> list[psutil.Process]:
        return alive(self.tag)


def new_tag() -> str:
    return f"tag-{uuid.uuid4().hex}"


def alive(tag: str) -> list[psutil.Process]:
    """Return every running process with a tag in its argv."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if tag in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def zombies() -> list[int]:
    """Return the children of this process that nobody has waited for."""
    children = psutil.Process().children()
    return [child.pid for child in children if child.status() == psutil.STATUS_ZOMBIE]


async def eventually(holds: Callable[[], bool], limit: float = 5) -> None:
    """Wait for what no event reports, such as the end of somebody else's child."""
    async with asyncio.timeout(limit):
        while not holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


def executable(path: Path, content: str | bytes, mode: int = 0o755) -> Path:
    """Write a file that may be executed."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path
