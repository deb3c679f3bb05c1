"""Driving a session from a test: answering, and waiting for what an agent says or does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.processes import POLL_SECONDS, is_running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from silo_nb import PermissionRequest, Session, Update
    from tests.agents.conftest import Agent

AGENTS = ("claude", "codex", "gemini", "qwen")
SECONDS_TO_ACT = 30


def each_agent(scenario: str, fixture: str = "agent") -> pytest.MarkDecorator:
    """Run a test once per agent; the cell of the matrix is its id: ``claude-write-allow``."""
    ids = [f"{name}-{scenario}" for name in AGENTS]
    return pytest.mark.parametrize(fixture, AGENTS, ids=ids, indirect=True)


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


async def has_exited(session: Session) -> None:
    """Wait until a session knows that its agent is gone."""
    async with asyncio.timeout(SECONDS_TO_ACT):
        while session.status != "exited":  # noqa: ASYNC110 - a status sends no event
            await asyncio.sleep(POLL_SECONDS)


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
