"""Permissions: asked of whoever listens, answered once. (R38 to R40; FAULTS R27 to R31; T-14)"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import silo_nb
from silo_nb import PermissionRequest, Session
from silo_nb.model import DiffContent, Permission, PermissionOption
from silo_nb.testing import FakeAgent
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect, eventually

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
OPTIONS = [
    {"optionId": "no", "name": "No, never", "kind": "reject_once"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
]


def ask(tool_call_id: str = "t", **extra: Any) -> dict[str, Any]:
    params = {"toolCall": {"toolCallId": tool_call_id, "title": "Write x"}, "options": OPTIONS}
    return {
        "ask": "session/request_permission",
        "params": {**params, **extra},
        "answers": {"*": []},
    }


def open_ask(tool_call_id: str = "t") -> dict[str, Any]:
    """Return the step of an ask that the agent does not wait for."""
    step = ask(tool_call_id)
    del step["answers"]
    return {**step, "wait": False}


class Asked:
    """Collects the asks of a session, and lets a test wait for them."""

    def __init__(self, session: Session) -> None:
        self.asks: list[PermissionRequest] = []
        session.on_permission(self.asks.append)

    async def first(self, count: int = 1) -> PermissionRequest:
        await eventually(lambda: len(self.asks) >= count)
        return self.asks[count - 1]


def outcomes(agent: FakeAgent) -> list[dict[str, Any]]:
    """What the agent got for its permission requests, in order."""
    return [m["result"]["outcome"] for m in agent.received() if "result" in m]


def on_record(session: Session) -> list[Permission]:
    return [p for row in session.transcript.tool_calls for p in row.permissions]


@pytest.mark.parametrize("choice", ["yes", "no"])
async def test_the_chosen_option_is_what_the_agent_gets(
    fake_agent: FakeAgentFactory, connect: Connect, choice: str
) -> None:
    """R38; case 44: a reject is the reject option, not `cancelled`."""
    agent = fake_agent([PROMPT, ask(), {"say": "on with it"}, END])
    session = await connect(agent)
    session.on_permission(lambda request: request.respond(choice))

    result = await session.prompt("go")

    assert outcomes(agent) == [{"outcome": "selected", "optionId": choice}]
    assert result.text == "on with it"
    (permission,) = on_record(session)
    assert (permission.option_id, permission.answered_by) == (choice, "listener")
    assert permission.allowed is (choice == "yes")


async def test_what_it_is_about_is_there_before_the_answer(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R38, cases 41, 42: diff, command and raw input in full; also what earlier updates said."""
    call = {
        "toolCallId": "t",
        "rawInput": {"command": "rm -rf x", "note": "y" * 1_000_000},
        "content": [{"type": "diff", "path": "/w/a", "oldText": "1", "newText": "2"}],
    }
    opened = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "bash", "kind": "execute"}
    agent = fake_agent([PROMPT, {"update": opened}, ask(toolCall=call), END])
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))

    request = await asked.first()

    row = request.tool_call
    assert (row.title, row.kind, row.content) == (
        "bash",
        "execute",
        (DiffContent("/w/a", "2", "1"),),
    )
    assert row.raw_input["command"] == "rm -rf x"
    assert request.options[0] == PermissionOption("no", "No, never", "reject_once")
    assert (request.session_id, request.answered) == (session.session_id, False)
    assert session.status == "waiting"
    assert request.respond("yes")
    await turn
    assert session.status == "idle"


async def test_without_a_listener_the_answer_is_cancelled(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R39, FAULTS R29."""
    agent = fake_agent([PROMPT, ask(), END])
    session = await connect(agent)

    await session.prompt("go")

    assert outcomes(agent) == [{"outcome": "cancelled"}]
    assert on_record(session)[0].answered_by == "no-listener"


async def test_a_listener_that_raises_answers_cancelled_and_the_others_are_asked(
    fake_agent: FakeAgentFactory, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """FAULTS R31, case 39."""
    agent = fake_agent([PROMPT, ask(), ask(), END])
    session = await connect(agent)
    with session.on_permission(lambda request: 1 / 0), caplog.at_level(logging.CRITICAL):
        second = session.on_permission(
            lambda request: second.dispose() if request.respond("yes") else None
        )
        await session.prompt("go")

    assert outcomes(agent) == [{"outcome": "selected", "optionId": "yes"}, {"outcome": "cancelled"}]
    assert [p.answered_by for p in on_record(session)] == ["listener", "listener-failed"]


async def test_an_option_that_was_not_offered_is_refused_and_the_ask_stays_open(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS T11; PROTOCOL §3.6: a bad answer must not orphan the agent."""
    agent = fake_agent([PROMPT, ask(), END])
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    request = await asked.first()

    with pytest.raises(ValueError, match="'allow' was not offered; choose one of 'no', 'yes'"):
        request.respond("allow")

    assert not request.answered
    assert request.respond("yes")
    await turn


async def test_the_first_answer_wins_and_later_ones_are_nothing(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R72, case 38."""
    agent = fake_agent([PROMPT, ask(), END])
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    request = await asked.first()

    assert request.respond("no") is True
    assert (request.respond("yes"), request.cancel(), request.respond("no")) == (False,) * 3
    await turn

    assert outcomes(agent) == [{"outcome": "selected", "optionId": "no"}]


async def test_of_many_threads_one_answers(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """T-14: races, one answer on the wire."""
    rounds = 50
    agent = fake_agent([PROMPT, *[ask(f"t{n}") for n in range(rounds)], END])
    session = await connect(agent)
    won: list[tuple[str, str]] = []

    def race(request: PermissionRequest) -> None:
        begin = threading.Barrier(4)

        def answer(choice: str) -> None:
            begin.wait()
            if request.respond(choice):
                won.append((request.id, choice))

        for choice in ("yes", "no", "yes", "no"):
            threading.Thread(target=answer, args=(choice,)).start()

    session.on_permission(race)
    await session.prompt("go")

    assert len(won) == len({request_id for request_id, _ in won}) == rounds
    assert [o["optionId"] for o in outcomes(agent)] == [choice for _, choice in won]


async def test_two_asks_at_once_are_independent(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS R27."""
    agent = fake_agent(
        [
            PROMPT,
            {**open_ask("t1"), "as": "one"},
            {**open_ask("t2"), "as": "two"},
            {"answered": "two", "answers": {"*": []}},
            {"answered": "one", "answers": {"*": []}},
            END,
        ]
    )
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    second, first = await asked.first(2), asked.asks[0]

    second.respond("yes")
    first.respond("no")
    await turn

    assert {p.id: p.option_id for p in on_record(session)} == {first.id: "no", second.id: "yes"}
    assert len({first.id, second.id}) == 2


async def test_cancelling_a_turn_answers_every_open_ask_before_the_cancel(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS R28, case 9; and one that comes while the turn is being cancelled."""
    agent = fake_agent(
        [
            PROMPT,
            {**open_ask("t1"), "as": "one"},
            {**open_ask("t2"), "as": "two"},
            {"expect": "session/cancel"},
            ask("late"),
            {"reply": "cancelled"},
        ]
    )
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    await asked.first(2)

    session.cancel()
    result = await turn

    assert result.stop_reason == "cancelled"
    assert outcomes(agent) == [{"outcome": "cancelled"}] * 3
    kinds = [m.get("method", "answer") for m in agent.received()]
    assert kinds[-4:] == ["answer", "answer", "session/cancel", "answer"]
    assert len(asked.asks) == 2
    assert asked.asks[0].respond("yes") is False


async def test_an_ask_the_agent_takes_back_is_closed(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """PROTOCOL §3.5: claude and codex withdraw; a late click does nothing."""
    agent = fake_agent(
        [
            PROMPT,
            {**open_ask(), "as": "it"},
            {"wait_for": "withdraw"},
            {
                "send": {
                    "jsonrpc": "2.0",
                    "method": "$/cancel_request",
                    "params": {"requestId": "$it"},
                }
            },
            END,
        ]
    )
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    request = await asked.first()

    agent.release("withdraw")
    await turn

    assert request.respond("yes") is False
    assert (request.permission.outcome, request.permission.answered_by) == ("withdrawn", "agent")
    answers = [m for m in agent.received() if "error" in m]
    assert [m["error"]["code"] for m in answers] == [-32800]


@pytest.mark.parametrize("end", ["dispose", "death"])
async def test_nothing_stays_open_when_the_session_or_the_agent_ends(
    fake_agent: FakeAgentFactory, connect: Connect, end: str
) -> None:
    """Cancel and death settle all (PROTOCOL §3.11)."""
    agent = fake_agent([PROMPT, open_ask(), {"wait_for": "die"}, {"exit": 1}])
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    request = await asked.first()

    if end == "dispose":
        await session.dispose()
        assert (await turn).stop_reason == "cancelled"
    else:
        agent.release("die")
        with pytest.raises(silo_nb.AgentExited):
            await turn

    assert request.answered
    assert request.respond("yes") is False
    updates = await silo_nb.read_journal(session.id)
    outcomes_on_record = [u.permission.outcome for u in updates if u.permission is not None]
    assert outcomes_on_record == [None, "cancelled"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"toolCall": None}, "toolCall"),
        ({"toolCall": {"title": "no id"}}, "toolCall.toolCallId"),
        ({"options": []}, "options"),
        ({"options": [{"name": "no id"}]}, "options"),
        ({"options": "yes"}, "options"),
    ],
)
async def test_a_request_that_cannot_be_read_is_refused_with_the_field(
    fake_agent: FakeAgentFactory, connect: Connect, params: dict[str, Any], field: str
) -> None:
    """FAULTS R13."""
    agent = fake_agent([PROMPT, ask(**params), END])
    session = await connect(agent)
    Asked(session)

    await session.prompt("go")

    (error,) = [m["error"] for m in agent.received() if "error" in m]
    assert error["code"] == -32602
    assert error["message"].startswith(f"{field}:")


async def test_kinds_outside_the_protocol_are_shown_and_never_chosen_by_a_machine(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """Case 46."""
    options = [{"optionId": "p", "name": "Persist", "kind": "allow_persistent"}]
    agent = fake_agent([PROMPT, ask(options=options), END])
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    request = await asked.first()

    assert request.options == (PermissionOption("p", "Persist", "allow_persistent"),)
    assert request.option("allow_once", "allow_always") is None
    request.respond("p")
    await turn


async def test_choices_in_disguise_are_no_machines_to_make(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """kimi-code 2.1 asks questions as permissions: several options of one kind."""
    options = [
        {"optionId": "q0_opt_0", "name": "SQLite", "kind": "allow_once"},
        {"optionId": "q0_opt_1", "name": "Postgres", "kind": "allow_once"},
        {"optionId": "q0_skip", "name": "Skip", "kind": "reject_once"},
    ]
    agent = fake_agent([PROMPT, ask(options=options), END])
    session = await connect(agent)
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    request = await asked.first()

    assert request.option("allow_once") is None
    assert request.option("reject_once") == PermissionOption("q0_skip", "Skip", "reject_once")
    request.cancel()
    await turn


async def test_a_question_is_cancelled_and_said_to_be(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R74, FAULTS R30: nothing can show a question in this version."""
    question = {
        "mode": "form",
        "message": "Which database?",
        "requestedSchema": {"type": "object", "properties": {"db": {"type": "string"}}},
    }
    agent = fake_agent([PROMPT, {"ask": "elicitation/create", "params": question}, END])
    session = await connect(agent)

    await session.prompt("go")

    assert [m["result"] for m in agent.received() if "result" in m] == [{"action": "cancel"}]
    notices = [u.notice for u in await silo_nb.read_journal(session.id) if u.notice is not None]
    assert [notice.description for notice in notices] == ["Which database?"]
