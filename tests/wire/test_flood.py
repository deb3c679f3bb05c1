"""T-5: an agent that writes as fast as a pipe takes it costs nothing but its text.

Limits are counts and bytes; the one on time is generous, for a machine that is busy otherwise.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import reduce

import psutil
import pytest

import silo_nb
from silo_nb import EMPTY_TRANSCRIPT, Message, PromptResult, Session, Update, apply_update
from silo_nb.testing import FakeAgent
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect

MEGABYTE = 1_000_000
GROWTH_LIMIT = 150 * MEGABYTE
DRAIN_LIMIT = 10.0
"""Seconds from the agent's last byte to the turn's result."""

PROMPT = {"expect": "session/prompt"}
WRITTEN = {"mark": "written"}
END = {"reply": "end_turn"}


class Memory:
    """How much memory this process has taken since `start`, looked at now and then."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before = self._now()
        self.growth = 0

    def _now(self) -> int:
        return int(self._process.memory_info().rss)

    def look(self) -> None:
        self.growth = max(self.growth, self._now() - self._before)

    def on_every(self, updates: int) -> Callable[[Update], None]:
        """Return a listener that looks once in so many updates."""
        count = 0

        def listener(_: Update) -> None:
            nonlocal count
            count += 1
            if count % updates == 0:
                self.look()

        return listener


async def flooded(agent: FakeAgent, session: Session) -> PromptResult:
    """Run the turn and check what holds for every flood."""
    memory = Memory()
    with session.on_update(memory.on_every(5_000)):
        prompting = asyncio.ensure_future(session.prompt("go"))
        await agent.reached("written", within=60)
        async with asyncio.timeout(DRAIN_LIMIT):
            result = await prompting
    memory.look()
    assert result.stop_reason == "end_turn"
    assert memory.growth < GROWTH_LIMIT
    assert session.log == ()
    return result


class Syncs:
    """Counts the syncs to disk of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def counted(fd: int) -> None:
            self.count += 1
            sync(fd)

        return counted


async def said_on_disk(session: Session) -> list[str]:
    """Return what the agent said, from the journal alone."""
    await session.dispose()
    read = reduce(apply_update, await silo_nb.read_journal(session.id), EMPTY_TRANSCRIPT)
    assert read == session.transcript
    return [entry.text for entry in read.entries if isinstance(entry, Message)][1:]


@pytest.mark.timeout(120)
async def test_300_000_chunks_at_full_speed(
    fake_agent: FakeAgentFactory, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 updates a second for three seconds: every one arrives, in order, and is on disk."""
    chunks = 300_000
    agent = fake_agent(
        [
            PROMPT,
            {"flood": chunks, "text": "Chunk ${i} of a very long answer, in order.\n"},
            WRITTEN,
            END,
        ]
    )
    session = await connect(agent)
    syncs = Syncs(monkeypatch)

    result = await flooded(agent, session)

    expected = "".join(f"Chunk {i} of a very long answer, in order.\n" for i in range(chunks))
    assert result.text == expected
    assert sum(update.kind == "agent_message_chunk" for update in result.updates) == chunks
    # At the turn's beginning and end, however much is streamed between.
    assert syncs.count <= 20
    assert await said_on_disk(session) == [expected]


async def test_100_000_chunks_of_one_character_in_one_message(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """One bubble, whose growth costs the same at its end as at its beginning."""
    chunks = 100_000
    agent = fake_agent([PROMPT, {"flood": chunks, "text": "x", "id": "m"}, WRITTEN, END])
    session = await connect(agent)

    result = await flooded(agent, session)

    assert result.text == "x" * chunks
    assert await said_on_disk(session) == ["x" * chunks]


async def test_a_line_of_50_megabytes(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """FAULTS R6: half of the longest line there may be arrives whole."""
    size = 50 * 1024 * 1024
    agent = fake_agent(
        [PROMPT, {"say": {"$repeat": "0123456789", "times": size // 10}}, WRITTEN, END]
    )
    session = await connect(agent)

    result = await flooded(agent, session)

    assert result.text == "0123456789" * (size // 10)
    assert await said_on_disk(session) == [result.text]
