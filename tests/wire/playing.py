"""Playing scenarios through the public session, and what must hold after every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

import silo_nb
from silo_nb import Session, Transcript, Update, apply_update
from silo_nb.model import EMPTY_TRANSCRIPT
from silo_nb.runtime import agent_thread
from silo_nb.session.manager import live_sessions
from silo_nb.testing import FakeAgent
from silo_nb.testing.plugin import FakeAgentFactory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Scenario = str | Path | Sequence[Mapping[str, Any]]

SPARE_FDS = 2


class Play:
    """Connects to the agents of scenarios and, at the end, looks whether all is as it must be.

    The fixture ``play`` of this level. What it finds is what no fault may ever cause: a call that
    waits for ever, a journal that says other than the session did, a descriptor that stays open.
    """

    def __init__(
        self, fake_agent: FakeAgentFactory, connect: Callable[..., Awaitable[Session]]
    ) -> None:
        self.agent = fake_agent
        self._connect = connect
        self._sessions: list[Session] = []
        self._cut: set[str] = set()
        # The thread's own loop is not a leak.
        agent_thread().run(asyncio.sleep(0)).result(5)
        self._fds = psutil.Process().num_fds()

    async def __call__(
        self, scenario: Scenario | FakeAgent, *, cut_on_record: bool = False, **options: Any
    ) -> tuple[FakeAgent, Session]:
        """Start an agent that plays `scenario` and open a session with it.

        Args:
            scenario: the name of a scenario file, its steps, or an agent that was made of one.
            cut_on_record: something of it will be too long for a record of the journal, 1 MiB.
            options: for `connect`.
        """
        agent = scenario if isinstance(scenario, FakeAgent) else self.agent(scenario)
        session = await self._connect(agent, **options)
        self._sessions.append(session)
        if cut_on_record:
            self._cut.add(session.id)
        return agent, session

    async def end(self) -> None:
        """Dispose every session and check what is left."""
        for session in self._sessions:
            await session.dispose()
            assert_settled(session)
            await assert_on_record(session, cut=session.id in self._cut)
        assert live_sessions() == ()

    def descriptors_are_closed(self) -> bool:
        """Whether as many are open as before, two more or less. (T-1)"""
        return bool(abs(psutil.Process().num_fds() - self._fds) <= SPARE_FDS)


def assert_settled(session: Session) -> None:
    """Check that nobody waits for anything of a session that has ended."""
    live = session._live
    assert not live.connection._pending
    assert not live.connection._incoming
    assert not live.desk.open
    assert live.turns.running is None
    assert all(not row.is_open for row in session.transcript.tool_calls)


async def assert_on_record(session: Session, *, cut: bool = False) -> None:
    """Check that the journal, folded, is the transcript, long texts that were `cut` aside; R64."""
    record, live = folded(await silo_nb.read_journal(session.id)), session.transcript
    if cut:
        assert record.head == live.head
        assert [type(entry) for entry in record.entries] == [type(entry) for entry in live.entries]
    else:
        assert record == live


def folded(updates: Sequence[Update]) -> Transcript:
    """Return what `updates` amount to."""
    return reduce(apply_update, updates, EMPTY_TRANSCRIPT)


def bubbles(session: Session) -> list[tuple[str, str]]:
    """Return who said what, in order."""
    return [(message.role, message.text) for message in session.transcript.messages]


def rows(session: Session) -> dict[str, str]:
    """Return the status of every tool row by its id."""
    return {row.tool_call_id: row.status for row in session.transcript.tool_calls}


def counted(session: Session, oddity: str) -> int:
    """Return how often the connection's log noted an oddity."""
    return session._live.connection.diagnostics.counts[oddity]


async def goes_on(session: Session) -> None:
    """Check that the prompt that follows works: what the scenario leaves open is answered "ok"."""
    result = await session.prompt("and now?")
    assert (result.text, result.stop_reason) == ("ok", "end_turn")
    assert session.status == "idle"


class Ticks:
    """Measures how long the running loop, such as a kernel's, was held up at most."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._next: asyncio.Handle = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self._next = self._loop.call_later(0.005, self._tick)

    def stop(self) -> None:
        self._next.cancel()


@asynccontextmanager
async def no_stall(seconds: float = 0.25) -> AsyncIterator[None]:
    """Check that the caller's loop is never held up for longer than `seconds`; T-5."""
    ticks = Ticks()
    try:
        yield
    finally:
        ticks.stop()
    assert ticks.longest < seconds
