"""Cancelling real agents in the middle of an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import silo_nb
from silo_nb import TurnEnd
from tests.agents.driving import SECONDS_TO_ACT, each_agent, has_said, turn
from tests.agents.stub_model import prompt_for, script

if TYPE_CHECKING:
    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]


@each_agent("cancel-mid-stream")
async def test_a_cancelled_turn_keeps_what_was_said_and_the_next_one_works(agent: Agent) -> None:
    """R19."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        async with turn(session, prompt_for("hold")) as running:
            await has_said(session, script.BEFORE_HOLD)
            session.cancel()
            result = await asyncio.wait_for(running, SECONDS_TO_ACT)

        assert result.stop_reason == "cancelled"
        assert result.cancel_requested
        assert result.text == script.BEFORE_HOLD
        assert session.status == "idle"

        following = await session.prompt(prompt_for("text"))
        assert following.stop_reason == "end_turn"
        assert not following.cancel_requested
        assert following.text == script.TEXT


@each_agent("interrupt")
async def test_cancelling_the_task_that_prompts_cancels_the_turn(agent: Agent) -> None:
    """R19: what `asyncio.timeout` and task groups do."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        async with turn(session, prompt_for("hold")) as running:
            await has_said(session, script.BEFORE_HOLD)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(running, SECONDS_TO_ACT)

        last = session.transcript.entries[-1]
        assert isinstance(last, TurnEnd)
        assert last.turn.stop_reason == "cancelled"
        assert session.status == "idle"
        following = await session.prompt(prompt_for("text"))
        assert following.text == script.TEXT
