"""Sessions that outlive the agent's process: resumed, loaded, or honestly begun anew."""

from __future__ import annotations

import re
import uuid
from functools import reduce
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import silo_nb
from tests.agents.driving import answer_all, each_agent, has_exited, has_stored
from tests.agents.expected import EXPECTED
from tests.agents.stub_model import prompt_for, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from silo_nb import Session, Transcript
    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

# With the stub there is only one model, and it does not think more or less.
WITHOUT_CHOICE = {"qwen", "kimi", "pi"}
WORDS = {"session/resume": "resumed", "session/load": "loaded"}


@each_agent("restart", fixture="recorded_agent")
async def test_a_conversation_goes_on_with_a_new_process(
    recorded_agent: Agent, cell: Callable[[str], None]
) -> None:
    """R11, R14, R49, R50, cases 22, 56: the agent remembers, and nothing is there twice."""
    agent, expected = recorded_agent, EXPECTED[recorded_agent.name]
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        answer_all(session, "allow_once")
        await session.prompt(prompt_for("write", cwd=agent.cwd))
        chosen = await _choose_another(session)
        assert chosen or agent.name in WITHOUT_CHOICE
    before = session
    _let_a_minute_pass(agent)

    async with await silo_nb.connect(agent.name, cwd=agent.cwd, resume=before.id) as session:
        assert session.resume_outcome == "resumed"
        assert _way_back(agent) == [expected.way_back]
        assert (session.id, session.session_id) == (before.id, before.session_id)
        assert session.title == before.title
        assert session.transcript.entries == before.transcript.entries
        assert chosen.items() <= {o.id: o.current_value for o in session.config_options}.items()

        result = await session.prompt(prompt_for("text"))

        assert result.text == script.TEXT
        assert agent.model.remembers() == ("write", "text")
        assert _said(session.transcript) == [
            *_said(before.transcript),
            ("user", prompt_for("text")),
            ("agent", script.TEXT),
        ]
    journal = await silo_nb.read_journal(before.id)
    assert reduce(silo_nb.apply_update, journal, silo_nb.EMPTY_TRANSCRIPT) == session.transcript
    cell(WORDS[expected.way_back])


@each_agent("kill-idle")
async def test_a_session_whose_agent_was_killed_goes_on_with_the_next_prompt(agent: Agent) -> None:
    """R11, case 13: the same handle, the same conversation, on both sides."""
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        await session.prompt(prompt_for("think"))
        await has_stored(agent, script.AFTER_THOUGHT)
        names, said = (session.id, session.session_id), _said(session.transcript)

        psutil.Process(session.pid).kill()
        await has_exited(session)
        _let_a_minute_pass(agent)
        result = await session.prompt(prompt_for("text"))

        assert result.text == script.TEXT
        assert agent.model.remembers() == ("think", "text")
        assert (session.id, session.session_id) == names
        assert session.status == "idle"
        assert _said(session.transcript) == [
            *said,
            ("user", prompt_for("text")),
            ("agent", script.TEXT),
        ]


@each_agent("stale")
async def test_an_id_the_agent_does_not_know_begins_anew(
    agent: Agent, cell: Callable[[str], None]
) -> None:
    """R51; six agents have six errors for that."""
    stale = str(uuid.uuid4())
    async with await silo_nb.connect(agent.name, cwd=agent.cwd, resume=stale) as session:
        assert session.resume_outcome == "new"
        assert session.session_id not in {"", stale}
        assert session.journal == ()

        result = await session.prompt(prompt_for("text"))

        assert result.text == script.TEXT
        assert agent.model.remembers() == ("text",)
    cell("new")


async def _choose_another(session: Session) -> dict[str, Any]:
    """Change how the model thinks, or else which it is; return what was chosen.

    It has to be an option that permits nothing: what an agent may do is not chosen by a journal.
    """
    options = session.config_options
    for option in [o for c in ("thought_level", "model") for o in options if o.category == c]:
        for choice in option.choices:
            if choice.value != option.current_value:
                await session.set_config_option(option.id, choice.value)
                return {option.id: choice.value}
    return {}


def _let_a_minute_pass(agent: Agent) -> None:
    """Make a conversation that gemini has stored a little older.

    It names the file after the minute, and a session that is loaded in the minute in which it began
    overwrites itself before it is read.
    """
    for file in agent.home.glob(".gemini/tmp/*/chats/session-*.jsonl"):
        file.rename(file.with_name(re.sub(r"T\d\d-\d\d", "T00-00", file.name)))


def _way_back(agent: Agent) -> list[str]:
    """Return the methods that the last process was asked to open a session with."""
    methods = (message.get("method") for message in agent.wire("out"))
    return [m for m in methods if m in {"session/new", "session/load", "session/resume"}]


def _said(transcript: Transcript) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in transcript.messages]
