"""Fixtures of the wire level: sessions with scripted agents, and nothing left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import silo_nb
from silo_nb import Session
from silo_nb.runtime import agent_thread
from silo_nb.session import manager
from silo_nb.testing import FakeAgent

Connect = Callable[..., Awaitable[Session]]


@pytest.fixture
async def connect(notebook_dir: Path) -> AsyncIterator[Connect]:
    """Connect to a scripted agent; what is still open when the test ends is disposed."""

    async def connect(agent: FakeAgent | str, **options: Any) -> Session:
        profile = agent if isinstance(agent, str) else agent.profile
        return await silo_nb.connect(profile, **options)

    yield connect
    manager.dispose_all()
    agent_thread().stop()


async def eventually(condition: Callable[[], bool], *, within: float = 10.0) -> None:
    """Wait until `condition` holds, where nothing announces it; fail after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        await asyncio.sleep(0)
