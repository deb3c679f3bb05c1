"""Which processes an agent has, and whether they are gone.

An agent's processes are told by their environment: each has the HOME of the recipe. That finds
those that left the tree as well: in sessions of their own, or adopted by init.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLL_SECONDS = 0.05


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the live processes whose HOME is an agent's."""
    return list(_processes_of(home))


def _processes_of(home: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        # One that ends while we look, or belongs to somebody else, is none of ours.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get("HOME") == str(home):
                yield process


def is_running(home: Path, tag: str) -> bool:
    """Whether an agent's shell runs a command with a tag in it."""
    for process in processes_of(home):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(tag in argument for argument in process.cmdline()):
                return True
    return False


def wait_until_gone(home: Path, *, within: float) -> list[psutil.Process]:
    """Wait for an agent's processes to end; return those that still live after `within` seconds."""
    deadline = time.monotonic() + within
    while (alive := processes_of(home)) and time.monotonic() < deadline:
        psutil.wait_procs(alive, timeout=POLL_SECONDS)
    return alive
