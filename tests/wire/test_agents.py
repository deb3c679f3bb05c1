"""silo_nb.agents: who there is, what they do, and bringing them back. (R10, R54, R59, R88)"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import silo_nb
from silo_nb import AgentInfo, PermissionRequest, Session
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect, eventually

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
ASK = {
    "ask": "session/request_permission",
    "params": {"toolCall": {"toolCallId": "t"}},
    "answers": {"*": []},
}
RESUMABLE = {
    "defaults": {
        "initialize": {
            "protocolVersion": 1,
            "agentInfo": {"name": "acme", "version": "1"},
            "agentCapabilities": {"sessionCapabilities": {"resume": {}, "list": {}}},
        }
    }
}
TITLE = {"update": {"sessionUpdate": "session_info_update", "title": "Report"}}


def info(session: Session) -> AgentInfo:
    return next(i for i in silo_nb.agents.get_state() if i.id == session.id)


async def test_an_open_session_is_listed_with_what_it_is_up_to(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R10."""
    agent = fake_agent([RESUMABLE, PROMPT, {"mark": "busy"}, {"wait_for": "go"}, ASK, TITLE, END])
    session = await connect(agent)
    states: list[tuple[str, str | None]] = []
    subscription = silo_nb.agents.on_changed(
        lambda: states.append((info(session).activity, info(session).title))
    )
    asked: list[PermissionRequest] = []
    session.on_permission(asked.append)

    assert info(session) == AgentInfo(
        id=session.id,
        session_id=session.session_id,
        profile="fake",
        agent_name="acme",
        can_resume=True,
        cwd=str(session.cwd),
    )
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("busy")
    assert info(session).activity == "working"
    agent.release("go")
    await eventually(lambda: bool(asked))
    assert info(session).activity == "waiting"
    assert [ask.id for ask in silo_nb.agents.asks] == [asked[0].id]
    asked[0].cancel()
    await turn

    assert (info(session).activity, info(session).title) == ("idle", "Report")
    assert {activity for activity, _ in states} == {"idle", "working", "waiting"}
    assert states[-1] == ("idle", "Report")
    subscription.dispose()


async def test_attention_is_sticky_until_somebody_looks(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R88: and not raised while somebody does."""
    session = await connect(fake_agent([]))
    await session.prompt("one")
    assert info(session).attention

    silo_nb.agents.acknowledge(session.id)
    assert not info(session).attention

    with session._live.watched():
        await session.prompt("two")
    assert not info(session).attention
    await session.prompt("three")
    assert info(session).attention


async def test_a_session_on_record_is_dormant_and_can_be_resumed(
    fake_agent: FakeAgentFactory, connect: Connect, tmp_path: Path
) -> None:
    """R59: listed with what it last was, and nothing running."""
    agent = fake_agent([RESUMABLE, PROMPT, TITLE, {"say": "hi"}, END])
    first = await connect(agent, cwd=tmp_path)
    await first.prompt("hello")
    await first.dispose()

    (dormant,) = silo_nb.agents.get_state()
    assert dormant.state == "dormant"
    assert (dormant.id, dormant.session_id) == (first.id, first.session_id)
    assert (dormant.activity, dormant.title, dormant.agent_name) == ("idle", "Report", "acme")
    assert len(agent.pids) == 1

    session = await silo_nb.agents.resume(first.session_id)

    assert (session.id, session.resume_outcome) == (first.id, "resumed")
    assert session.cwd == tmp_path
    assert [i.state for i in silo_nb.agents.get_state()] == ["live"]


async def test_nothing_on_record_is_shown_without_the_permission(
    fake_agent: FakeAgentFactory, connect: Connect, silo_config: Path
) -> None:
    """R3."""
    await (await connect(fake_agent([]))).dispose()
    assert len(silo_nb.agents.get_state()) == 1
    file = silo_config / "profiles.toml"
    file.write_text(file.read_text() + '\n[agents]\npermission = "deny"\n')

    assert silo_nb.agents.get_state() == ()


async def test_resume_starts_the_agent_of_an_ended_session_again(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R54: the same handle."""
    agent = fake_agent([RESUMABLE, {"wait_for": "die"}, {"exit": 1}])
    session = await connect(agent)
    agent.release("die")
    await eventually(lambda: info(session).state == "ended")
    agent.scenario.write_text("")

    again = await silo_nb.agents.resume(session.id)

    assert again.id == session.id
    assert session.status == "idle"
    assert len(agent.pids) == 2


async def test_what_is_not_known_is_said(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    with pytest.raises(silo_nb.SiloError, match="on record of a session 'x'"):
        await silo_nb.agents.resume("x")
    with pytest.raises(silo_nb.SiloError, match="no session 'x' is open"):
        silo_nb.agents.reveal("x")


async def test_reveal_calls_what_connect_was_given(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R8."""
    revealed: list[int] = []
    session = await connect(fake_agent([]), reveal=lambda: revealed.append(1))

    silo_nb.agents.reveal(session.id)
    silo_nb.agents.reveal(session.id)

    assert revealed == [1, 1]


async def test_a_chat_profile_opens_and_answers_without_a_host_for_it(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R9: nothing shows the session and nothing can reveal it, and all of it works."""
    session = await connect(fake_agent([PROMPT, TITLE, END]))

    silo_nb.agents.reveal(session.id)
    result = await session.prompt("go")

    assert result.stop_reason == "end_turn"
    assert info(session).title == "Report"
    assert (info(session).kind, info(session).profile) == ("chat", "fake")


async def test_one_listener_answers_the_asks_of_every_session(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """ARCHITECTURE §10: those that are open already included."""
    first = await connect(fake_agent([PROMPT, ASK, END]))
    second = await connect(fake_agent([PROMPT, ASK, END]))
    held: list[PermissionRequest] = []
    first.on_permission(held.append)
    turn = asyncio.ensure_future(first.prompt("go"))
    await eventually(lambda: bool(held))

    with silo_nb.agents.on_ask(lambda ask: ask.respond(ask.options[0].option_id)):
        await turn
        await second.prompt("go")

    for session in (first, second):
        (row,) = session.transcript.tool_calls
        assert row.permissions[0].outcome == "selected"


async def test_a_session_belongs_to_the_notebook_it_is_told(
    fake_agent: FakeAgentFactory, connect: Connect, tmp_path: Path
) -> None:
    """R6, R60: its journal lies there, and it works there."""
    (tmp_path / "other").mkdir()
    notebook = tmp_path / "other" / "b.ipynb"
    notebook.touch()

    session = await connect(fake_agent([]), workspace_id=str(notebook))
    await session.prompt("hello")
    await session.dispose()

    assert session.cwd == tmp_path / "other"
    assert session.journal_path is not None
    assert session.journal_path.is_relative_to(tmp_path / "other")
    assert await silo_nb.read_journal(session.id) == ()
    assert len(await silo_nb.read_journal(session.id, workspace_id=str(notebook))) > 0
    with pytest.raises(silo_nb.WorkspaceError, match="workspace_id="):
        await connect(fake_agent([]), workspace_id=str(tmp_path / "none"))


# ------------------------------------------------------------------------------ the agent's list


def page(*ids: str, cursor: str | None = None) -> list[dict[str, Any]]:
    rows = [
        {"sessionId": i, "cwd": "/w", "title": i.upper(), "updatedAt": "2026-01-01"} for i in ids
    ]
    return [{"expect": "session/list"}, {"reply": {"sessions": rows, "nextCursor": cursor}}]


async def test_the_agents_own_list_is_read_to_its_end(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R55: pages, an empty one among them; the directory is asked for on the wire."""
    agent = fake_agent([RESUMABLE, *page("a", cursor="1"), *page(cursor="2"), *page("b", "a")])
    session = await connect(agent)

    rows = await session.list_sessions(cwd="/w")

    assert [(r.session_id, r.cwd, r.title) for r in rows] == [("a", "/w", "A"), ("b", "/w", "B")]
    assert rows[0].raw["updatedAt"] == "2026-01-01"
    asked = [m["params"] for m in agent.received("session/list")]
    assert asked == [{"cwd": "/w"}, {"cwd": "/w", "cursor": "1"}, {"cwd": "/w", "cursor": "2"}]


@pytest.mark.parametrize("cursors", [["x", "x", "x"], [str(n) for n in range(30)]])
async def test_a_list_without_an_end_is_left_at_a_bound(
    fake_agent: FakeAgentFactory, connect: Connect, cursors: list[str]
) -> None:
    """PROTOCOL §7: a cursor that leads in circles."""
    pages = [step for cursor in cursors for step in page(cursor, cursor=cursor)]
    session = await connect(fake_agent([RESUMABLE, *pages]))

    assert 1 <= len(await session.list_sessions()) <= 10


async def test_an_agent_that_lists_nothing_is_not_asked(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R55."""
    agent = fake_agent([])
    session = await connect(agent)

    assert session.can_list is False
    with pytest.raises(silo_nb.AgentRefused, match="can_list"):
        await session.list_sessions()
    assert agent.received("session/list") == []
