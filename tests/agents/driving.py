"""Driving a session from a test: answering, and waiting for what an agent says or does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.processes import POLL_SECONDS, is_running
from tests.agents.table import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from silo_nb import PermissionRequest, Session, Update
    from tests.agents.conftest import Agent

ASKING = ("claude", "codex", "gemini", "qwen", "kimi")
AGENTS = (*ASKING, "pi")
SECONDS_TO_ACT = 30


def each_agent(
    scenario: str, agents: Sequence[str] = AGENTS, fixture: str = "agent"
) -> pytest.MarkDecorator:
    """Run a test once per agent; the cell of the table is its id: ``claude-write-allow``."""
    assert scenario in SCENARIOS
    ids = [f"{name}-{scenario}" for name in agents]
    return pytest.mark.parametrize(fixture, agents, ids=ids, indirect=True)


def option_of_kind(ask: PermissionRequest, kind: str) -> str:
    """Return the id of the one option of a kind that an agent offers."""
    (option_id,) = (option.option_id for option in ask.options if option.kind == kind)
    return option_id


def answer_all(session: Session, kind: str) -> list[PermissionRequest]:
    """Answer every permission request with the option of a kind; return the list they go to."""
    asks: list[PermissionRequest] = []

    def answer(ask: PermissionRequest) -> None:
        asks.append(ask)
        ask.respond(option_of_kind(ask, kind))

    session.on_permission(answer)
    return asks


async def first_ask(session: Session) -> PermissionRequest:
    """Wait for a permission request and leave it open."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[PermissionRequest] = loop.create_future()

    def take(ask: PermissionRequest) -> None:
        loop.call_soon_threadsafe(_set, asked, ask)

    session.on_permission(take)
    return await asyncio.wait_for(asked, SECONDS_TO_ACT)


async def has_said(session: Session, text: str) -> None:
    """Wait until the agent's answer ends with a text."""
    loop = asyncio.get_running_loop()
    said: asyncio.Future[None] = loop.create_future()
    pieces: list[str] = []

    def listen(update: Update) -> None:
        if update.kind == "agent_message_chunk":
            pieces.append(update.text or "")
            if "".join(pieces).endswith(text):
                loop.call_soon_threadsafe(_set, said, None)

    with session.on_update(listen):
        await asyncio.wait_for(said, SECONDS_TO_ACT)


@contextlib.asynccontextmanager
async def turn(session: Session, prompt: str) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a turn beside the test; one that still runs at the end is not waited for."""
    running = asyncio.ensure_future(session.prompt(prompt))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def shell_runs(agent: Agent, tag: str) -> None:
    """Wait until the agent's shell runs a command with a tag in it."""
    async with asyncio.timeout(SECONDS_TO_ACT):
        while not is_running(agent.home, tag):  # noqa: ASYNC110 - a process start sends no event
            await asyncio.sleep(POLL_SECONDS)


async def has_stored(agent: Agent, text: str) -> None:
    """Wait until an agent has written down what was said; kimi does that in its own time."""
    async with asyncio.timeout(SECONDS_TO_ACT):
        while not holds(agent.home, text):  # noqa: ASYNC110 - a file sends no event
            await asyncio.sleep(POLL_SECONDS)


async def has_title(session: Session) -> None:
    """Wait until a session has a title; some agents give it after the turn."""
    async with asyncio.timeout(SECONDS_TO_ACT):
        while not session.title:  # noqa: ASYNC110 - what matters is what the property says
            await asyncio.sleep(POLL_SECONDS)


async def has_usage(session: Session) -> None:
    """Wait until a session knows how full its context is."""
    async with asyncio.timeout(SECONDS_TO_ACT):
        while session.usage is None:  # noqa: ASYNC110 - what matters is what the property says
            await asyncio.sleep(POLL_SECONDS)


async def has_exited(session: Session) -> None:
    """Wait until a session knows that its agent is gone."""
    async with asyncio.timeout(SECONDS_TO_ACT):
        while session.status != "exited":  # noqa: ASYNC110 - a status sends no event
            await asyncio.sleep(POLL_SECONDS)


def holds(directory: Path, text: str) -> bool:
    """Whether any of an agent's own files has a text in it."""
    wanted = json.dumps(text)[1:-1].encode()
    return any(wanted in file.read_bytes() for file in directory.rglob("*.jsonl"))


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
