"""Finding processes that a test left behind, by a text in their command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

_LOOK = 0.01


class Found(NamedTuple):
    """A process that is running.

    Attributes:
        pid: its id.
        command: its command line, as one text.
    """

    pid: int
    command: str


class AgentProcesses:
    """The processes whose command line carries a tag.

    Args:
        tag: a text no other process has in its command line.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def alive(self) -> list[Found]:
        """Return those that run now, this process aside. The dead but unreaped do not count."""
        me = os.getpid()
        return [found for found in _running() if self.tag in found.command and found.pid != me]

    async def gone(self, within: float = 5.0) -> list[Found]:
        """Wait (seconds) until none is left; return those that still are."""
        deadline = time.monotonic() + within
        # Nothing tells when a process that is not our child ends: looking again is all there is.
        while (left := self.alive()) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)
        return left

    def wait_gone(self, within: float = 5.0) -> list[Found]:
        """Do as `gone`, blocking."""
        deadline = time.monotonic() + within
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(_LOOK)
        return left

    def kill(self) -> None:
        """Kill every one of them at once."""
        for found in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)


def _running() -> list[Found]:
    proc = Path("/proc")
    if (proc / "self" / "cmdline").exists():
        return [found for entry in proc.iterdir() if (found := _in_proc(entry))]
    listing = subprocess.run(
        ["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.strip().partition(" ") for line in listing.splitlines())
    return [Found(int(pid), command) for pid, _, command in rows]


def _in_proc(entry: Path) -> Found | None:
    if not entry.name.isdigit():
        return None
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        # It ended while we looked.
        return None
    return Found(int(entry.name), " ".join(word.decode(errors="replace") for word in words))
