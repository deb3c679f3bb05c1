"""Fixtures of the wire level: sessions with scripted agents, and nothing left behind."""

from __future__ import annotations

import asyncio
import logging
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
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.playing import Play

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


@pytest.fixture
async def play(
    fake_agent: FakeAgentFactory, connect: Connect, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Play]:
    """Plays scenarios, ``agent, session = await play(scenario)``; at the end all must be settled.

    Nothing may have been logged as an error, such as an exception that nobody retrieved. A test
    that causes one on purpose clears it from `caplog`.
    """
    play = Play(fake_agent, connect)
    yield play
    await play.end()
    # What was called off is still ending.
    await eventually(play.descriptors_are_closed)
    logged = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [r.getMessage() for r in logged if r.levelno >= logging.ERROR] == []


async def eventually(condition: Callable[[], bool], *, within: float = 10.0) -> None:
    """Wait until `condition` holds, where nothing announces it; fail after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        await asyncio.sleep(0)
