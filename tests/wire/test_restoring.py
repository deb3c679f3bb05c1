"""Restoring a session: resumed, loaded, read, begun afresh. (R49 to R62; cases 13, 22 to 24, 56)"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import silo_nb
from silo_nb import Restore, Session
from silo_nb.model import Message, NoticeRow, TurnEnd
from silo_nb.session import manager, turns
from silo_nb.testing import FakeAgent
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect, eventually

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
STALE = {"error": {"code": -32002, "message": "Resource not found"}}


def offers(*ways: str, **defaults: Any) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"sessionCapabilities": {}}
    if "load" in ways:
        capabilities["loadSession"] = True
    if "resume" in ways:
        capabilities["sessionCapabilities"]["resume"] = {}
    initialize = {"protocolVersion": 1, "agentCapabilities": capabilities}
    return {"defaults": {"initialize": initialize, **defaults}}


def talk(*answers: str) -> list[dict[str, Any]]:
    return [step for answer in answers for step in (PROMPT, {"say": answer}, END)]


def said(session: Session) -> list[str]:
    return [e.text for e in session.transcript.entries if isinstance(e, Message)]


async def a_past(
    fake_agent: FakeAgentFactory, connect: Connect, *ways: str, turns: int = 2
) -> Session:
    """Return a session that was, with so many turns, disposed."""
    agent = fake_agent([offers(*ways), *talk(*(f"answer {n}" for n in range(turns)))])
    session = await connect(agent)
    for n in range(turns):
        await session.prompt(f"question {n}")
    await session.dispose()
    return session


def replayed(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the steps of a session/load that replays these turns, without any message ids."""
    steps: list[dict[str, Any]] = [{"expect": "session/load"}]
    for question, answer in pairs:
        content = {"type": "text", "text": question}
        update = {"sessionUpdate": "user_message_chunk", "content": content}
        steps += [{"update": update, "session": "$old"}, {"say": answer, "session": "$old"}]
    return [*steps, {"reply": None}]


def of(session: Session, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the agent's id of `session` where the steps say ``$old``."""
    return [
        {**step, "session": session.session_id} if step.get("session") == "$old" else step
        for step in steps
    ]


PAST = ["question 0", "answer 0", "question 1", "answer 1"]


@pytest.mark.parametrize("by", ["id", "session_id"])
async def test_a_session_is_resumed_with_its_journal_as_the_record(
    fake_agent: FakeAgentFactory, connect: Connect, by: str
) -> None:
    """R11, R14, R49, R50: by our id or the agent's; resume is preferred and replays nothing."""
    past = await a_past(fake_agent, connect, "resume", "load")
    agent = fake_agent([offers("resume", "load"), *talk("answer 2")])

    session = await connect(agent, resume=getattr(past, by), title="Shown early")

    assert session.resume_outcome == "resumed"
    assert (session.id, session.session_id) == (past.id, past.session_id)
    assert session.title == "Shown early"
    assert said(session) == PAST
    assert session.transcript == past.transcript
    assert [u.text for u in session.journal if u.text] == PAST
    await session.prompt("question 2")
    await session.dispose()

    methods = [m.get("method") for m in agent.received()]
    assert "session/resume" in methods
    assert not {"session/load", "session/new"} & set(methods)
    updates = await silo_nb.read_journal(past.id)
    assert [u.text for u in updates if u.text] == [*PAST, "question 2", "answer 2"]


async def test_a_replay_of_what_is_on_record_doubles_nothing(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R50, case 22: no ids, joined chunks."""
    past = await a_past(fake_agent, connect, "load")
    replay = replayed(("question 0", "answer 0"), ("question 1", "answer 1"))
    agent = fake_agent([offers("load"), *of(past, replay), *talk("answer 2")])

    session = await connect(agent, resume=past.id)
    assert (session.resume_outcome, said(session)) == ("resumed", PAST)
    await session.prompt("question 2")

    assert said(session) == [*PAST, "question 2", "answer 2"]


async def test_a_replay_that_comes_after_the_answer_doubles_nothing_either(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R50: gemini-cli 0.61 replays when it has answered, with asides that nobody said."""
    past = await a_past(fake_agent, connect, "load")
    expect, *replay, answer = replayed(
        ("<session_context>\nToday is Monday.\n</session_context>", ""),
        ("question 0", "answer"),
        ("[Function Response: a_tool]", "0"),
        ("question 1", "answer"),
        ("[Function Response: a_tool][Function Response: a_tool]", "1"),
    )
    steps = [expect, replay[0], answer, *replay[1:]]
    agent = fake_agent([offers("load"), *of(past, steps), *talk("answer 2")])

    session = await connect(agent, resume=past.id)
    assert (session.resume_outcome, said(session)) == ("resumed", PAST)
    result = await session.prompt("question 2")

    assert result.text == "answer 2"
    assert said(session) == [*PAST, "question 2", "answer 2"]


async def test_what_a_replay_adds_is_put_on_record(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """A turn that happened elsewhere, behind what the journal has."""
    past = await a_past(fake_agent, connect, "load")
    replay = replayed(
        ("question 0", "answer 0"), ("question 1", "answer 1"), ("elsewhere", "indeed")
    )

    session = await connect(fake_agent([offers("load"), *of(past, replay)]), resume=past.id)
    await session.dispose()

    assert said(session) == [*PAST, "elsewhere", "indeed"]
    updates = await silo_nb.read_journal(past.id)
    assert [u.text for u in updates if u.text] == [*PAST, "elsewhere", "indeed"]


async def test_the_title_it_had_is_shown_until_the_agent_gives_one(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R58: from the start of the connect on; without `resume` there is none to show."""
    past = await a_past(fake_agent, connect, "resume")
    title = {"update": {"sessionUpdate": "session_info_update", "title": "The agent's own"}}
    agent = fake_agent(
        [
            offers("resume"),
            {"expect": "initialize"},
            {"mark": "asked"},
            {"wait_for": "go"},
            {"reply": "$default"},
            PROMPT,
            title,
            END,
        ]
    )
    connecting = asyncio.ensure_future(connect(agent, resume=past.id, title="What it was"))
    await agent.reached("asked")
    (early,) = [live for live in manager._starting if live.title is not None]
    assert early.title == "What it was"
    agent.release("go")
    session = await connecting
    assert session.title == "What it was"
    await session.prompt("go")
    assert session.title == "The agent's own"

    assert (await connect(fake_agent([]), title="Ignored")).title is None


@pytest.mark.parametrize(
    "replay",
    [
        replayed(),
        replayed(("question 1", "answer 1")),
        [
            {"expect": "session/load"},
            {
                "update": {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "only tools"},
                "session": "$old",
            },
            {"reply": {}},
        ],
    ],
    ids=["nothing", "a part", "only tool calls"],
)
async def test_where_the_replay_has_less_the_journal_stands(
    fake_agent: FakeAgentFactory, connect: Connect, replay: list[dict[str, Any]]
) -> None:
    """Cases 23, 24."""
    past = await a_past(fake_agent, connect, "load")

    session = await connect(fake_agent([offers("load"), *of(past, replay)]), resume=past.id)

    assert (session.resume_outcome, said(session)) == ("resumed", PAST)


async def test_a_session_without_a_journal_is_painted_from_the_replay(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R57 with session/load: picked from a list, never seen by us."""
    steps = replayed(("hello", "hi"))
    agent = fake_agent(
        [offers("load"), *({**s, "session": "theirs"} if "session" in s else s for s in steps)]
    )

    session = await connect(agent, resume="theirs")
    await session.dispose()

    assert (session.resume_outcome, said(session)) == ("resumed", ["hello", "hi"])
    assert [u.text for u in await silo_nb.read_journal("theirs") if u.text] == ["hello", "hi"]


async def test_a_session_without_a_journal_or_a_replay_opens_live_and_empty(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R57."""
    session = await connect(fake_agent([offers("resume")]), resume="theirs")

    assert (session.resume_outcome, session.session_id) == ("resumed", "theirs")
    assert (session.journal, said(session)) == ((), [])
    assert (await session.prompt("go")).text == "ok"


@pytest.mark.parametrize("code", [-32002, -32601, -32602, -32603])
async def test_a_stale_session_falls_through_to_load_and_then_to_a_new_one(
    fake_agent: FakeAgentFactory, connect: Connect, code: int
) -> None:
    """R51: agents use all of these codes for it (PROTOCOL §8)."""
    past = await a_past(fake_agent, connect, "resume", "load")
    error = {"error": {"code": code, "message": "no such session"}}
    agent = fake_agent(
        [
            offers("resume", "load"),
            {"expect": "session/resume"},
            error,
            {"expect": "session/load"},
            {"say": "half a replay", "session": past.session_id},
            error,
        ]
    )

    session = await connect(agent, resume=past.id)

    assert session.resume_outcome == "new"
    assert session.id != past.id
    assert (session.journal, said(session)) == ((), [])
    assert len(await silo_nb.read_journal(past.id)) > 0
    assert any("session/resume refused" in line for line in session.log)


async def test_a_stale_resume_may_still_load(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R50."""
    past = await a_past(fake_agent, connect, "resume", "load")
    replay = replayed(("question 0", "answer 0"), ("question 1", "answer 1"))
    agent = fake_agent(
        [offers("resume", "load"), {"expect": "session/resume"}, STALE, *of(past, replay)]
    )

    session = await connect(agent, resume=past.id)

    assert (session.resume_outcome, said(session)) == ("resumed", PAST)


async def test_a_missing_login_is_an_error_and_the_journal_is_as_it_was(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """PROTOCOL §8: -32000 is never taken for a stale session."""
    past = await a_past(fake_agent, connect, "resume")
    error = {"error": {"code": -32000, "message": "log in"}}
    agent = fake_agent([offers("resume"), {"expect": "session/resume"}, error])
    assert past.journal_path is not None
    before = past.journal_path.read_bytes()

    with pytest.raises(silo_nb.AuthRequired):
        await connect(agent, resume=past.id)

    assert past.journal_path.read_bytes() == before
    session = await connect(fake_agent([offers("resume")]), resume=past.id)
    assert session.resume_outcome == "resumed"


async def test_an_agent_that_can_do_neither_leaves_the_journal_to_read(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R52: nothing runs, and prompt() says how to go on."""
    past = await a_past(fake_agent, connect)
    agent = fake_agent([offers()])

    session = await connect(agent, resume=past.id)

    assert (session.resume_outcome, session.status, session.pid) == ("journal-only", "closed", None)
    assert said(session) == PAST
    with pytest.raises(silo_nb.SessionClosed, match="start_fresh=True"):
        await session.prompt("go")


async def test_a_session_may_come_back_under_another_id(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R53: any id it ever had finds it; its own stays."""
    past = await a_past(fake_agent, connect, "resume")
    agent = fake_agent([offers("resume", **{"session/resume": {"sessionId": "adopted"}})])

    session = await connect(agent, resume=past.session_id)
    await session.dispose()

    assert (session.session_id, session.id) == ("adopted", past.id)
    again = fake_agent([offers("resume")])
    for known in ("adopted", past.session_id, past.id):
        third = await connect(again, resume=known)
        assert third.id == past.id
        await third.dispose()
    asked = [m["params"]["sessionId"] for m in again.received("session/resume")]
    assert asked == ["adopted"] * 3


async def test_a_fresh_start_carries_the_journal_along(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R61: the new id is the one to keep; the old file stays."""
    past = await a_past(fake_agent, connect)
    agent = fake_agent([offers(), *talk("answer 2")])

    session = await connect(agent, resume=Restore(past.id, start_fresh=True))
    assert session.resume_outcome == "new"
    assert session.id != past.id
    assert said(session) == PAST
    await session.prompt("question 2")
    await session.dispose()

    updates = await silo_nb.read_journal(session.session_id)
    assert [u.text for u in updates if u.text] == [*PAST, "question 2", "answer 2"]
    assert [u.text for u in await silo_nb.read_journal(past.id) if u.text] == PAST


async def test_a_clear_discards_the_journal(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """R62."""
    past = await a_past(fake_agent, connect)

    restore = Restore(past.id, start_fresh=True, transcript="discard")
    session = await connect(fake_agent([offers()]), resume=restore)

    assert (session.journal, said(session)) == ((), [])
    assert await silo_nb.read_journal(past.id) == ()


async def test_an_ordinary_restore_never_deletes(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R62: `transcript` counts only with a fresh start."""
    past = await a_past(fake_agent, connect)

    session = await connect(fake_agent([offers()]), resume=Restore(past.id, transcript="discard"))

    assert said(session) == PAST
    assert len(await silo_nb.read_journal(past.id)) > 0


async def test_what_a_dead_kernel_left_open_is_closed(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS K5: a turn, a row and an ask that never ended."""
    ask = {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}}
    agent = fake_agent([offers("resume"), PROMPT, {**ask, "wait": False}, {"sleep": 99}])
    session = await connect(agent)
    asked: list[object] = []
    session.on_permission(asked.append)
    turn = asyncio.ensure_future(session.prompt("go"))
    await eventually(lambda: bool(asked))
    await session._live.synced()
    assert session.journal_path is not None
    cut = session.journal_path.read_bytes()
    session.cancel()
    await turn
    await session.dispose()
    session.journal_path.write_bytes(cut)  # as a SIGKILL would have left it

    back = await connect(fake_agent([offers("resume")]), resume=session.id)

    (row,) = back.transcript.tool_calls
    assert (row.is_open, row.permissions[0].outcome) == (False, "lost")
    assert not back.transcript.turn_running
    assert isinstance(back.transcript.entries[-1], TurnEnd)


async def test_options_that_were_chosen_are_chosen_again(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """Case 56: what is no longer offered is said."""
    options = [
        {"id": o, "name": o, "type": "boolean", "currentValue": False} for o in ("fast", "loud")
    ]
    opened = {"sessionId": "s", "configOptions": options}
    set_it: list[dict[str, Any]] = [
        {"expect": "session/set_config_option"},
        {"reply": {"configOptions": options}},
    ]
    agent = fake_agent([offers("resume", **{"session/new": opened}), *set_it, *set_it])
    past = await connect(agent)
    await past.set_config_option("fast", True)
    await past.set_config_option("loud", True)
    await past.dispose()

    resumed = {"session/resume": {"configOptions": options[:1]}}
    reply = {"reply": {"configOptions": options[:1]}}
    later = fake_agent([offers("resume", **resumed), set_it[0], reply])
    session = await connect(later, resume=past.id)

    sent = [m["params"]["configId"] for m in later.received("session/set_config_option")]
    assert sent == ["fast"]
    notices = [e.notice for e in session.transcript.entries if isinstance(e, NoticeRow)]
    assert [notice.title for notice in notices] == ["Option 'loud' was not set"]


async def test_a_journal_does_not_decide_what_an_agent_may_do(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS T22: it may have come with a folder from somebody else."""
    choices = [{"value": value, "name": value} for value in ("ask", "yolo")]
    mode = {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "options": choices}
    asks, yolo = {**mode, "currentValue": "ask"}, {**mode, "currentValue": "yolo"}
    opened = {"sessionId": "s", "configOptions": [asks]}
    set_it: list[dict[str, Any]] = [
        {"expect": "session/set_config_option"},
        {"reply": {"configOptions": [yolo]}},
    ]
    past = await connect(fake_agent([offers("resume", **{"session/new": opened}), *set_it]))
    await past.set_config_option("mode", "yolo")
    await past.dispose()

    later = fake_agent([offers("resume", **{"session/resume": {"configOptions": [asks]}})])
    session = await connect(later, resume=past.id)

    assert later.received("session/set_config_option") == []
    assert session.config_options[0].current_value == "ask"
    (notice,) = [e.notice for e in session.transcript.entries if isinstance(e, NoticeRow)]
    assert (notice.title, str(notice.description)[:13]) == (
        "Option 'mode' is 'ask'",
        "It was 'yolo'",
    )


# --------------------------------------------------------------------- another process, same handle


async def killed(agent: FakeAgent, session: Session) -> None:
    agent.release("die")
    await eventually(lambda: session.status == "exited")


async def test_the_next_prompt_brings_a_dead_agent_back(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R54, case 13, FAULTS P8: the same handle and journal, another process."""
    agent = fake_agent([offers("resume"), *talk("one"), {"wait_for": "die"}, {"exit": 1}])
    session = await connect(agent)
    await session.prompt("1")
    await killed(agent, session)

    result = await session.prompt("2")

    assert result.text == "one"
    assert said(session) == ["1", "one", "2", "one"]
    assert len(agent.pids) == 2
    resumed = agent.received("session/resume")[0]["params"]["sessionId"]
    assert resumed == session.session_id
    await session.dispose()
    updates = await silo_nb.read_journal(session.id)
    assert [u.text for u in updates if u.text] == said(session)


async def test_an_agent_that_cannot_remember_says_so(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent([offers(), *talk("one"), {"wait_for": "die"}, {"exit": 1}])
    session = await connect(agent)
    await session.prompt("1")
    first = session.session_id
    await killed(agent, session)

    await session.prompt("2")

    assert session.session_id != first
    notices = [e.notice.title for e in session.transcript.entries if isinstance(e, NoticeRow)]
    assert len(notices) == 1
    assert "could not bring the conversation back" in notices[0]
    assert len(await silo_nb.read_journal(first)) > 0


async def test_a_deaf_agent_is_replaced_at_the_next_prompt(
    fake_agent: FakeAgentFactory, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 5: cancel ignored, turn forced to its end, history kept."""
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.05)
    agent = fake_agent(
        [offers("resume"), {"ignore": "cancel"}, PROMPT, {"mark": "deaf"}, {"sleep": 99}]
    )
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("1"))
    await agent.reached("deaf")
    session.cancel()
    assert (await turn).stop_reason == "cancelled"

    second = asyncio.ensure_future(session.prompt("2"))
    await agent.reached("deaf", times=2)
    session.cancel()

    assert (await second).stop_reason == "cancelled"
    assert len(agent.pids) == 2
    assert said(session) == ["1", "2"]


async def test_bringing_an_agent_back_can_be_called_off(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent(
        [
            offers("resume"),
            PROMPT,
            {"exit": 1},
        ]
    )
    session = await connect(agent)
    with pytest.raises(silo_nb.AgentExited):
        await session.prompt("1")
    agent.scenario.write_text('{"expect": "initialize"}\n{"mark": "stuck"}\n{"sleep": "forever"}\n')
    turn = asyncio.ensure_future(session.prompt("2"))
    await agent.reached("stuck")

    session.cancel()

    with pytest.raises(silo_nb.SessionClosed, match="called off"):
        await turn
    assert session.status == "exited"
