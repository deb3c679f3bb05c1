"""What agents offer besides the conversation: options, titles, lists of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import silo_nb
from silo_nb import AgentRefused
from tests.agents.driving import each_agent, has_title
from tests.agents.expected import EXPECTED
from tests.agents.stub_model import prompt_for, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from silo_nb import Session
    from silo_nb.model import ConfigOption
    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

SETTERS = {"session/set_config_option", "session/set_mode", "session/set_model"}


@each_agent("options", fixture="recorded_agent")
async def test_every_value_an_agent_offers_can_be_chosen(
    recorded_agent: Agent, cell: Callable[[str], None]
) -> None:
    """R41 to R43, R45; gemini lacks the generic method."""
    agent, expected = recorded_agent, EXPECTED[recorded_agent.name]
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        offered = session.config_options
        changes: list[None] = []
        session.on_config_options_changed(lambda: changes.append(None))

        assert {option.id for option in offered} == set(expected.options)
        for option in _models_last(offered):
            for value in _values(option):
                before = len(changes)
                await session.set_config_option(option.id, value)
                assert _state(session)[option.id] == value
                assert _state(session) == {**_state(session), **_last_list(agent)}
                assert len(changes) > before or value == option.current_value
        for option in offered:
            if option.id in _state(session):
                await session.set_config_option(option.id, option.current_value)

        assert session.config_options == offered
        assert (await session.prompt(prompt_for("text"))).text == script.TEXT
    sent = {m["method"] for m in agent.wire("out") if m.get("method") in SETTERS}
    refused = {"session/set_config_option"} - set(expected.sets_through)
    assert sent - refused == set(expected.sets_through)
    if refused:
        cell(", ".join(method.removeprefix("session/") for method in expected.sets_through))


@each_agent("stale-option", ("claude",))
async def test_an_option_that_its_agent_refuses_is_gone_until_it_is_listed_again(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R44: `fast` goes with the model, and claude refuses who still has the old list."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        old_list = session.config_options
        await session.set_config_option("fast", value=True)
        await session.set_config_option("model", "haiku")
        assert "fast" not in _state(session)
        with pytest.raises(ValueError, match="there is no option 'fast'"):
            await session.set_config_option("fast", value=False)

        session._live.controls.options = old_list
        with pytest.raises(AgentRefused):
            await session.set_config_option("fast", value=True)
        assert "fast" not in _state(session)

        await session.set_config_option("model", "default")
        await session.set_config_option("fast", value=False)
        assert _state(session)["fast"] is False
    cell("withdrawn")


@each_agent("titles")
async def test_a_session_gets_the_title_that_its_agent_gives_it(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R37: claude has a model make one, and tells it during the turn or after it."""
    expected = EXPECTED[agent.name].title
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        await session.prompt(prompt_for("text"))
        if expected is None:
            assert session.title is None
            cell("–")
            return
        await has_title(session)

        assert session.title == expected
        (info,) = (info for info in silo_nb.agents.get_state() if info.id == session.id)
        assert info.title == session.title


@each_agent("list")
async def test_an_agent_lists_the_session_it_just_had(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R55, and only those of a directory; gemini lists none."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        await session.prompt(prompt_for("text"))

        assert session.can_list is EXPECTED[agent.name].lists
        if not session.can_list:
            with pytest.raises(AgentRefused, match="does not list"):
                await session.list_sessions()
            cell("–")
            return
        (row,) = await session.list_sessions(cwd=agent.cwd)
        assert row.session_id == session.session_id
        assert row.cwd == str(agent.cwd)
        assert row.updated_at is not None
        assert await session.list_sessions(cwd=agent.home) == ()
        assert row.session_id in {every.session_id for every in await session.list_sessions()}


def _values(option: ConfigOption) -> list[Any]:
    if option.type == "boolean":
        return [True, False]
    return [choice.value for choice in option.choices]


def _models_last(options: Iterable[ConfigOption]) -> list[ConfigOption]:
    """Order the options so that no other is taken away before its turn."""
    return sorted(options, key=lambda option: option.id == "model")


def _state(session: Session) -> dict[str, Any]:
    return {option.id: option.current_value for option in session.config_options}


def _last_list(agent: Agent) -> dict[str, Any]:
    """Return the options as the agent itself listed them last, if it ever did."""
    for message in reversed(agent.wire("in")):
        found = message.get("result") or message.get("params", {}).get("update", {})
        if "configOptions" in found:
            return {option["id"]: option["currentValue"] for option in found["configOptions"]}
    return {}
