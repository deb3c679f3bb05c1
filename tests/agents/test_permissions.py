"""Permissions of real agents: allowed, rejected, and cancelled while the question is open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import silo_nb
from silo_nb import DiffContent
from tests.agents.driving import (
    ASKING,
    SECONDS_TO_ACT,
    answer_all,
    each_agent,
    first_ask,
    option_of_kind,
    turn,
)
from tests.agents.expected import EXPECTED
from tests.agents.stub_model import prompt_for, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from silo_nb import Session
    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]


@each_agent("write-allow")
async def test_an_allowed_write_is_on_disk_and_the_model_is_told_so(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R38: the diff is there before the answer; R33. pi never asks, which nobody can change."""
    expected, file = EXPECTED[agent.name], agent.cwd / script.FILE_NAME
    diff = DiffContent(str(file), script.FILE_CONTENT)
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        asks = answer_all(session, "allow_once")
        result = await session.prompt(prompt_for("write", cwd=agent.cwd))

    assert file.read_text("utf-8") == script.FILE_CONTENT
    (told,) = agent.model.told("write")
    assert expected.allowed in told
    (row,) = result.tool_calls
    assert (row.kind, row.status) == ("edit", "completed")
    assert (diff in map(_without_old, row.content)) is expected.shows_diff
    assert result.stop_reason == "end_turn"
    assert result.text == "I will write the file.\n\nFile step over."
    if not expected.asks:
        assert asks == []
        assert row.permissions == ()
        cell("never asks")
        return
    (ask,) = asks
    assert ask.tool_call.kind == "edit"
    assert ask.tool_call.tool_call_id == row.tool_call_id
    assert (diff in map(_without_old, ask.tool_call.content)) is expected.shows_diff
    (permission,) = row.permissions
    assert (permission.allowed, permission.answered_by) == (True, "listener")


@each_agent("write-reject", ASKING)
async def test_a_rejected_write_is_not_on_disk_and_the_session_goes_on(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R38; gemini closes such a row no more, so we do (R32)."""
    expected = EXPECTED[agent.name]
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        asks = answer_all(session, "reject_once")
        result = await session.prompt(prompt_for("write", cwd=agent.cwd))
        told = agent.model.told("write")

        assert len(asks) == 1
        assert not (agent.cwd / script.FILE_NAME).exists()
        if expected.rejected is None:
            assert told == ()
        else:
            assert expected.rejected in "".join(told)
        assert result.stop_reason == expected.rejected_ends
        assert not result.cancel_requested
        (row,) = result.tool_calls
        assert (row.status, row.settled) == expected.rejected_row
        assert row.permissions[-1].allowed is False
        cell("goes on" if expected.rejected_ends == "end_turn" else "ends")
        await _require_a_following_prompt_works(session)


@each_agent("cancel-with-open-permission", ASKING)
async def test_cancelling_settles_an_open_permission_for_good(agent: Agent) -> None:
    """R19, R38, cases 8 and 9."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        async with turn(session, prompt_for("write", cwd=agent.cwd)) as running:
            ask = await first_ask(session)
            assert session.status == "waiting"
            session.cancel()
            result = await asyncio.wait_for(running, SECONDS_TO_ACT)

        assert result.stop_reason == "cancelled"
        assert result.cancel_requested
        assert ask.answered
        assert not ask.respond(option_of_kind(ask, "allow_once"))
        (row,) = result.tool_calls
        assert (row.status, row.settled) == EXPECTED[agent.name].cancelled_row
        assert row.permissions[-1].outcome in {"cancelled", "withdrawn"}
        await _require_a_following_prompt_works(session)
        assert not (agent.cwd / script.FILE_NAME).exists()


@each_agent("no-listener", ASKING)
async def test_with_nobody_to_ask_nothing_is_written_and_the_turn_ends(agent: Agent) -> None:
    """R39."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        result = await session.prompt(prompt_for("write", cwd=agent.cwd))

    assert not (agent.cwd / script.FILE_NAME).exists()
    (row,) = result.tool_calls
    assert not row.is_open
    (permission,) = row.permissions
    assert (permission.outcome, permission.answered_by) == ("cancelled", "no-listener")


async def _require_a_following_prompt_works(session: Session) -> None:
    following = await session.prompt(prompt_for("text"))
    assert following.stop_reason == "end_turn"
    assert following.text == script.TEXT
    assert following.tool_calls == ()


def _without_old(content: object) -> object:
    # What stood in a file that is new is said in two ways: nothing, and an empty text.
    if isinstance(content, DiffContent):
        return DiffContent(content.path, content.new_text, content.old_text or None)
    return content
