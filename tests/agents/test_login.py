"""Real agents that nobody has logged in: one kind of error, at whatever point they say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import silo_nb
from silo_nb import AuthRequired
from tests.agents.driving import each_agent
from tests.agents.expected import EXPECTED
from tests.agents.stub_model import prompt_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]


@each_agent("no-auth", fixture="signed_out_agent")
async def test_a_missing_login_is_said_as_such(
    signed_out_agent: Agent, cell: Callable[[str], None]
) -> None:
    """R4, R5: -32000 means it, on whichever call it comes."""
    agent, expected = signed_out_agent, EXPECTED[signed_out_agent.name]
    if expected.login_at == "connect":
        with pytest.raises(AuthRequired) as caught:
            await silo_nb.connect(agent.name, cwd=agent.cwd)
    else:
        async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
            with pytest.raises(AuthRequired) as caught:
                await session.prompt(prompt_for("text"))
            assert session.status == "idle"

    error = caught.value
    assert error.profile == agent.name
    assert error.phase in {"session/new", "prompt"}
    assert len(error.methods) == expected.login_methods
    assert agent.model.requests == ()
    cell(expected.login_at)
