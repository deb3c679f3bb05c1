"""Turns of real agents: text, thoughts, commands, plans and floods (REAL_AGENTS matrix)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pytest

import silo_nb
from silo_nb.model import block_text
from tests.agents.driving import answer_all, each_agent, has_usage
from tests.agents.expected import EXPECTED
from tests.agents.stub_model import prompt_for, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from silo_nb import PromptResult, ToolCall
    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

FLOOD = 2_000


@each_agent("text")
async def test_text_streams_in_and_arrives_whole(agent: Agent) -> None:
    """R17, R28, R30; the login methods that three of them list mean nothing (R5, case 18)."""
    expected = EXPECTED[agent.name]
    prompt = prompt_for("text")
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        result = await session.prompt(prompt)

        chunks = [u for u in result.updates if u.kind == "agent_message_chunk" and u.text]
        assert result.stop_reason == "end_turn"
        assert not result.cancel_requested
        assert result.text == script.TEXT
        assert len(chunks) > 1
        assert len({chunk.message_id for chunk in chunks}) == 1
        assert (chunks[0].message_id or "").startswith("syn-") is not expected.names_messages
        assert [(m.role, m.text) for m in session.transcript.messages] == [
            ("user", prompt),
            ("agent", script.TEXT),
        ]
        assert session.status == "idle"


@each_agent("usage")
async def test_usage_is_what_the_agent_reports_and_nothing_where_it_reports_none(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R35."""
    counts = EXPECTED[agent.name].counts
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        result = await session.prompt(prompt_for("text"))
        if "context" in counts:
            await has_usage(session)

        assert (session.usage.used if session.usage else None) == (1290 if counts else None)
        assert (result.tokens or {}).get("inputTokens") == (1234 if "tokens" in counts else None)
    cell(", ".join(counts) or "–")


@each_agent("thoughts")
async def test_thoughts_stand_apart_from_the_answer(agent: Agent) -> None:
    """R27, R28."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        result = await session.prompt(prompt_for("think"))

        thoughts = [m.text for m in session.transcript.messages if m.role == "thought"]
        assert thoughts == [EXPECTED[agent.name].thought]
        assert result.text == script.AFTER_THOUGHT


@each_agent("shell")
async def test_a_failing_command_leaves_its_output_and_its_exit_code_in_the_row(
    agent: Agent,
) -> None:
    """R33, case 27."""
    expected = EXPECTED[agent.name]
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        asks = answer_all(session, "allow_once")
        result = await session.prompt(prompt_for("shell"))

    row = _only_row(result)
    for ask in asks:
        assert ask.tool_call.tool_call_id == row.tool_call_id
        assert ask.tool_call.kind == "execute"
        assert expected.command in f"{ask.tool_call.title}\n{_shown(ask.tool_call)}"
    assert len(asks) == expected.asks
    assert row.kind == "execute"
    assert expected.command in row.title
    assert (row.status, row.settled) == (expected.failed_row, False)
    assert (row.exit.code if row.exit else None) == expected.exit_code
    assert all(line in _shown(row) for line in expected.output)
    (told,) = agent.model.told("shell")
    assert all(line in told for line in ("out-1", "err-1", "out-2", "3"))
    assert result.stop_reason == "end_turn"
    assert result.text == "Running a command.\n\nCommand finished."


@each_agent("plan")
async def test_a_plan_is_replaced_as_the_work_goes_on(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R34."""
    expected = EXPECTED[agent.name]
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        result = await session.prompt(prompt_for("plan"))

        plans = [u.plan for u in result.updates if u.plan is not None]
        if not expected.plans:
            assert plans == []
            assert result.plan == ()
            cell("–")
            return
        assert [[entry.status for entry in plan] for plan in plans] == [
            ["in_progress", "pending", "pending"],
            ["completed", "in_progress", "pending"],
            ["completed", "completed", "completed"],
        ]
        assert tuple(entry.content for entry in result.plan) == script.TASKS
        assert session.transcript.plan == result.plan
        # claude and codex make a plan with a tool, too, but it has no row.
        assert len(result.tool_calls) == (len(plans) if expected.plans_in_rows else 0)
        assert result.text == "Plan done."


@each_agent("flood")
async def test_two_thousand_chunks_arrive_whole_and_in_order(agent: Agent) -> None:
    """R25, R64; the journal joins the chunks, and reads as the live transcript."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        result = await session.prompt(prompt_for("flood", words=FLOOD))

    chunks = [u for u in result.updates if u.kind == "agent_message_chunk" and u.text]
    assert result.text == script.flood_text(FLOOD)
    assert len(chunks) > FLOOD * 0.9
    journal = await silo_nb.read_journal(session.id)
    assert len(journal) < len(chunks) / 4
    assert reduce(silo_nb.apply_update, journal, silo_nb.EMPTY_TRANSCRIPT) == session.transcript


def _only_row(result: PromptResult) -> ToolCall:
    (row,) = result.tool_calls
    return row


def _shown(row: ToolCall) -> str:
    return "\n".join((str(row.output), *map(block_text, row.content)))
