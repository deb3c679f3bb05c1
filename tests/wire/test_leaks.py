"""T-19: 150 sessions, ended in every way, leave nothing in the process."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Sequence
from itertools import count, cycle, islice
from typing import Any, NamedTuple

import psutil
import pytest

from silo_nb import AgentExited, Session, Update
from silo_nb.runtime import agent_thread
from silo_nb.session import manager
from silo_nb.testing import AgentProcesses, FakeAgent
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect

SESSIONS = 150
WARM_UP = 10
TOLERANCE = 2
MEGABYTE = 1_000_000
GROWTH_LIMIT = 20 * MEGABYTE

PROMPT = {"expect": "session/prompt"}
ASK: dict[str, Any] = {
    "ask": "session/request_permission",
    "params": {"toolCall": {"toolCallId": "t"}},
}

ENDINGS: Sequence[list[dict[str, Any]]] = (
    [PROMPT, {"say": "hello"}, {"reply": "end_turn"}],
    [PROMPT, {"say": "on and on"}, {"sleep": "forever"}],
    [PROMPT, {"say": "about to die"}, {"exit": 3}],
    [PROMPT, ASK, {"reply": "end_turn"}],
    [{"expect": "session/new"}, {"sleep": "forever"}],
)
CALLED_OFF = len(ENDINGS) - 1
"""The agent whose handshake is called off."""


class Held(NamedTuple):
    """What a process holds that somebody has to give back."""

    descriptors: int
    threads: int
    children: int
    tasks: int
    sessions: int
    memory: int


async def held() -> Held:
    """Count what this process holds; what only waits to be collected does not count."""
    gc.collect()
    process = psutil.Process()
    return Held(
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        children=len(process.children(recursive=True)),
        tasks=await asyncio.wrap_future(agent_thread().run(_tasks())),
        sessions=len(manager.live_sessions()),
        memory=process.memory_info().rss,
    )


async def _tasks() -> int:
    return len(asyncio.all_tasks())


async def call_off(connecting: Awaitable[Session], agent: FakeAgent, times: int) -> str:
    """Call a connect off in the middle of its handshake."""
    task = asyncio.ensure_future(connecting)
    await agent.heard("session/new", within=30, times=times)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return "called off"


async def live_through(session: Session) -> str:
    """Prompt, stop what does not stop by itself, dispose; return how the turn ended."""

    def stop_endless_talk(update: Update) -> None:
        if update.text == "on and on":
            session.cancel()

    async with session:
        session.on_update(stop_endless_talk)
        try:
            return (await session.prompt("go")).stop_reason
        except AgentExited:
            return "exited"


@pytest.mark.timeout(240)
async def test_150_sessions_leave_nothing(
    fake_agent: FakeAgentFactory,
    connect: Connect,
    agent_processes: AgentProcesses,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A turn ends, is cancelled, loses its agent, asks nobody; a handshake is called off."""
    agents = [fake_agent(steps) for steps in ENDINGS]
    called_off = count(1)

    async def play(sessions: int) -> list[str]:
        return [await one(agent) for agent in islice(cycle(agents), sessions)]

    async def one(agent: FakeAgent) -> str:
        if agent is agents[CALLED_OFF]:
            return await call_off(connect(agent), agent, next(called_off))
        return await live_through(await connect(agent))

    with caplog.at_level(logging.WARNING):
        await play(WARM_UP)
        before = await held()
        endings = await play(SESSIONS)
        after = await held()

    assert set(endings) == {"end_turn", "cancelled", "exited", "called off"}
    assert abs(after.descriptors - before.descriptors) <= TOLERANCE
    assert abs(after.threads - before.threads) <= TOLERANCE
    assert (after.children, after.sessions) == (before.children, 0)
    assert after.tasks == before.tasks
    assert after.memory - before.memory < GROWTH_LIMIT
    assert await agent_processes.gone() == []
    # "Task exception was never retrieved" and its like are logged by asyncio.
    assert [record.getMessage() for record in caplog.records] == []
