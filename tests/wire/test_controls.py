"""Config options: the agent's own list, and setting what is on it. (R41 to R45; cases 54, 55)"""

from __future__ import annotations

from typing import Any

import pytest

import silo_nb
from silo_nb import Session
from silo_nb.model import NoticeRow
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
SET = {"expect": "session/set_config_option"}


def select(option_id: str, current: str, *values: str, **extra: Any) -> dict[str, Any]:
    options = [{"value": value, "name": value.title()} for value in values]
    base = {"id": option_id, "name": option_id.title(), "type": "select"}
    return {**base, "currentValue": current, "options": options, **extra}


MODEL = select("model", "big", "big", "small", category="model")
EFFORT = select("effort", "low", "low", "high", category="thought_level")
FAST = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False}
HEAT = {"id": "heat", "name": "Heat", "type": "slider", "currentValue": 3}


def opens(**result: Any) -> dict[str, Any]:
    return {"defaults": {"session/new": {"sessionId": "s", **result}}}


def values(session: Session) -> dict[str, Any]:
    return {option.id: option.current_value for option in session.config_options}


async def test_an_option_is_set_and_the_agents_list_replaces_ours(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R42, R45, FAULTS R36, case 54: the event fires before the call returns."""
    effort = select("effort", "low", "low", "max", category="thought_level")
    agent = fake_agent(
        [
            opens(configOptions=[MODEL, EFFORT, FAST]),
            SET,
            {"reply": {"configOptions": [{**MODEL, "currentValue": "small"}, effort]}},
        ]
    )
    session = await connect(agent)
    changed: list[dict[str, Any]] = []
    session.on_config_options_changed(lambda: changed.append(values(session)))

    await session.set_config_option("model", "small")

    assert changed == [{"model": "small", "effort": "low"}]
    assert [c.value for c in session.config_options[1].choices] == ["low", "max"]
    assert agent.received("session/set_config_option")[0]["params"] == {
        "sessionId": "s",
        "configId": "model",
        "value": "small",
    }


async def test_a_boolean_is_set_as_one(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """claude-agent-acp 0.101 refuses a bare true (REAL_AGENTS §0.4)."""
    agent = fake_agent(
        [
            opens(configOptions=[FAST]),
            SET,
            {"reply": {"configOptions": [{**FAST, "currentValue": True}]}},
        ]
    )
    session = await connect(agent)

    await session.set_config_option("fast", True)

    assert values(session) == {"fast": True}
    params = agent.received("session/set_config_option")[0]["params"]
    assert (params["type"], params["value"]) == ("boolean", True)


@pytest.mark.parametrize(
    ("option_id", "value", "message"),
    [
        ("modle", "big", "did you mean 'model'"),
        ("model", "huge", "choose one of 'big', 'small'"),
        ("model", True, "choose one of"),
        ("fast", "on", "takes True or False"),
        ("heat", "4", "type 'slider'"),
    ],
)
async def test_what_is_not_offered_is_refused_with_nothing_on_the_wire(
    fake_agent: FakeAgentFactory, connect: Connect, option_id: str, value: Any, message: str
) -> None:
    """R41, R43: an option of an unknown type is listed, but cannot be set."""
    agent = fake_agent([opens(configOptions=[MODEL, FAST, HEAT])])
    session = await connect(agent)
    assert list(values(session)) == ["model", "fast", "heat"]

    with pytest.raises(ValueError, match=message):
        await session.set_config_option(option_id, value)

    assert agent.received("session/set_config_option") == []


@pytest.mark.parametrize("code", [-32602, -32603])
async def test_a_refused_option_is_no_longer_offered_until_it_is_listed_again(
    fake_agent: FakeAgentFactory, connect: Connect, code: int
) -> None:
    """R44: claude lists `fast` and refuses it after a model change."""
    error = {"code": code, "message": "Unknown config option: fast"}
    listed = {"sessionUpdate": "config_option_update", "configOptions": [MODEL, FAST]}
    agent = fake_agent(
        [
            opens(configOptions=[MODEL, FAST]),
            SET,
            {"error": error},
            PROMPT,
            {"update": listed},
            END,
        ]
    )
    session = await connect(agent)

    with pytest.raises(silo_nb.AgentRefused, match="Unknown config option") as caught:
        await session.set_config_option("fast", True)

    assert caught.value.code == code
    assert list(values(session)) == ["model"]
    with pytest.raises(ValueError, match="no option 'fast'"):
        await session.set_config_option("fast", True)
    await session.prompt("go")
    assert list(values(session)) == ["model", "fast"]


@pytest.mark.parametrize(
    ("option_id", "method", "key"),
    [("mode", "session/set_mode", "modeId"), ("model", "session/set_model", "modelId")],
)
async def test_an_agent_without_the_generic_method_gets_the_typed_one(
    fake_agent: FakeAgentFactory, connect: Connect, option_id: str, method: str, key: str
) -> None:
    """R42: gemini-cli 0.61 has `modes` and `models` alone."""
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "go"}]}
    models = {"currentModelId": "ask", "availableModels": [{"modelId": "ask"}, {"modelId": "go"}]}
    agent = fake_agent(
        [
            opens(**({"modes": modes} if option_id == "mode" else {"models": models})),
            SET,
            {"error": {"code": -32601, "message": '"Method not found": session/set_config_option'}},
            {"expect": method},
            {"reply": {}},
        ]
    )
    session = await connect(agent)

    await session.set_config_option(option_id, "go")

    assert values(session) == {option_id: "go"}
    assert agent.received(method)[0]["params"] == {"sessionId": "s", key: "go"}


async def test_an_empty_answer_wipes_nothing(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """Case 55."""
    agent = fake_agent(
        [opens(configOptions=[MODEL, EFFORT]), SET, {"reply": {"configOptions": []}}]
    )
    session = await connect(agent)

    await session.set_config_option("model", "small")

    assert values(session) == {"model": "small", "effort": "low"}


async def test_a_mode_the_agent_moves_to_shows_in_the_option(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R45, PROTOCOL §3.10: each kind of update also moves what the other one shows."""
    mode = select("permission", "ask", "ask", "plan", category="mode")
    agent = fake_agent(
        [
            opens(configOptions=[mode]),
            PROMPT,
            {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}},
            END,
        ]
    )
    session = await connect(agent)

    await session.prompt("go")

    assert values(session) == {"permission": "plan"}


async def test_there_must_be_an_agent_to_tell(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent([opens(configOptions=[MODEL]), SET, {"exit": 1}])
    session = await connect(agent)

    with pytest.raises(silo_nb.AgentExited):
        await session.set_config_option("model", "small")
    with pytest.raises(silo_nb.AgentExited):
        await session.set_config_option("model", "small")
    await session.dispose()
    with pytest.raises(silo_nb.SessionClosed):
        await session.set_config_option("model", "small")


async def test_a_profiles_defaults_are_set_before_the_session_is_handed_out(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """Case 57: what is not taken is said once, and the session opens all the same."""
    agent = fake_agent(
        [
            opens(configOptions=[MODEL, EFFORT]),
            SET,
            {"reply": {"configOptions": [{**MODEL, "currentValue": "small"}, EFFORT]}},
            SET,
            {"error": {"code": -32603, "message": "not on your plan"}},
        ],
        defaults={"model": "small", "effort": "high", "mode": "plan"},
    )

    session = await connect(agent)

    assert values(session) == {"model": "small"}
    rows = [e.notice for e in session.transcript.entries if isinstance(e, NoticeRow)]
    assert [row.title for row in rows] == [
        "Option 'effort' was not set",
        "Option 'mode' was not set",
    ]
    assert rows[0].description == "not on your plan"
    assert session.status == "idle"
    assert (await session.prompt("go")).text == "ok"
