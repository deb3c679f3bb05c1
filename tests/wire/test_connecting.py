"""connect: a session, or an error that says what happened and nothing left. (R1 to R16)"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import silo_nb
from silo_nb import Update
from silo_nb.model import PromptCapabilities
from silo_nb.session.manager import live_sessions
from silo_nb.testing import AgentProcesses, write_profile
from silo_nb.testing.plugin import FakeAgentFactory
from tests.acp_schema import Exchange
from tests.wire.conftest import Connect

SILENT = [{"expect": "initialize"}, {"sleep": "forever"}]


def initialize(**result: Any) -> dict[str, Any]:
    return {"defaults": {"initialize": {"protocolVersion": 1, **result}}}


async def test_a_session_knows_its_agent(
    fake_agent: FakeAgentFactory, connect: Connect, notebook_dir: Path
) -> None:
    """R10, R12, R13, R22."""
    agent = fake_agent(
        [
            initialize(
                agentInfo={"name": "acme", "title": "Acme Agent", "version": "2"},
                agentCapabilities={
                    "loadSession": True,
                    "promptCapabilities": {"image": True},
                    "sessionCapabilities": {"list": {}, "resume": None},
                },
            )
        ],
        agent_id="acme",
    )

    session = await connect(agent)

    assert (session.agent_name, session.agent_id, session.profile) == ("Acme Agent", "acme", "fake")
    assert (session.can_resume, session.can_list) == (True, True)
    assert session.prompt_capabilities == PromptCapabilities(image=True)
    assert session.status == "idle"
    assert session.cwd == notebook_dir
    assert session.resume_outcome == "new"
    assert [live.id for live in live_sessions()] == [session.id]
    assert agent.received("session/new")[0]["params"] == {
        "cwd": str(notebook_dir),
        "mcpServers": [],
    }

    await session.dispose()
    assert live_sessions() == ()


async def test_what_an_agent_omits_is_false_and_its_name_is_the_profiles_label(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R12, R22; FAULTS R37."""
    agent = fake_agent([initialize(agentInfo=None, newThing={"a": 1})], label="My agent")

    session = await connect(agent)

    assert session.agent_name == "My agent"
    assert session.prompt_capabilities == PromptCapabilities()
    assert (session.can_resume, session.can_list) == (False, False)


async def test_everything_we_send_is_what_the_schema_allows(
    fake_agent: FakeAgentFactory, connect: Connect, tmp_path: Path
) -> None:
    """Case 51 is in it: forms are announced."""
    agent = fake_agent(
        [
            initialize(agentCapabilities={"sessionCapabilities": {"close": {}}}),
            {"expect": "session/prompt"},
            {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}},
            {
                "ask": "elicitation/create",
                "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}},
            },
            {"ask": "fs/read_text_file", "params": {"path": "/etc/passwd"}},
            {"reply": "end_turn"},
            {"expect": "session/prompt"},
            {"mark": "second"},
            {"sleep": "forever"},
        ]
    )
    session = await connect(agent)
    session.on_permission(lambda ask: ask.respond(ask.options[0].option_id))
    await session.prompt(["text", tmp_path / "data set.csv"])
    turn = asyncio.create_task(session.prompt("again"))
    await agent.reached("second")
    session.cancel()
    await turn
    await session.dispose()

    exchange = Exchange()
    for record in agent.log.records:
        if "received" in record:
            exchange.from_client(record["received"])
        elif "sent" in record:
            exchange.from_agent(record["sent"])
    methods = [message.get("method") for message in agent.received()]
    assert {"initialize", "session/new", "session/prompt", "session/cancel", "session/close"} < {
        *methods
    }
    assert agent.received("initialize")[0]["params"]["clientCapabilities"]["elicitation"] == {
        "form": {},
        "url": {},
    }


async def test_login_methods_alone_do_not_mean_a_login_is_needed(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R5, case 18."""
    methods = [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]

    assert (await connect(fake_agent([initialize(authMethods=methods)]))).status == "idle"


async def test_an_agent_that_wants_a_login_says_so_at_connect(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R4, R5, FAULTS R35."""
    agent = fake_agent(
        [
            initialize(authMethods=[{"id": "key", "name": "API key"}]),
            {"defaults": {"session/new": {"error": {"code": -32000, "message": "Please log in"}}}},
        ]
    )

    with pytest.raises(silo_nb.AuthRequired, match=r"Please log in.*'API key'") as failure:
        await connect(agent)

    assert failure.value.methods == ({"id": "key", "name": "API key"},)
    assert failure.value.phase == "session/new"


async def test_an_agents_refusal_is_shown_in_its_own_words(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R4."""
    error = {"code": -32603, "message": "bypass refused", "data": {"startup": "root"}}
    agent = fake_agent(
        [
            {"stderr": "warming up\nno such luck\n"},
            {"expect": "session/new"},
            {"error": error},
        ]
    )

    with pytest.raises(silo_nb.AgentRefused, match="bypass refused") as failure:
        await connect(agent)

    assert (failure.value.code, failure.value.data) == (-32603, {"startup": "root"})
    assert (failure.value.profile, failure.value.phase) == ("fake", "session/new")
    assert "no such luck" in str(failure.value)


async def test_another_version_of_the_protocol_is_refused(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    with pytest.raises(silo_nb.AgentRefused, match="version 2"):
        await connect(fake_agent([{"defaults": {"initialize": {"protocolVersion": 2}}}]))


async def test_a_session_without_an_id_is_refused(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    with pytest.raises(silo_nb.AgentRefused, match="no sessionId"):
        await connect(fake_agent([{"defaults": {"session/new": {"sessionId": 7}}}]))


@pytest.mark.parametrize(
    ("steps", "phase"),
    [
        (SILENT, "initialize"),
        ([{"expect": "session/new"}, {"sleep": "forever"}], "session/new"),
    ],
)
async def test_an_agent_that_does_not_answer_is_stopped_at_the_deadline(
    fake_agent: FakeAgentFactory, connect: Connect, steps: list[dict[str, Any]], phase: str
) -> None:
    """FAULTS P5, P6; case 20. That no process is left is checked by the fixture."""
    agent = fake_agent([{"stderr": "still thinking\n"}, *steps])

    with pytest.raises(
        silo_nb.HandshakeTimeout, match=rf"no answer to {phase} within 1 s"
    ) as caught:
        await connect(agent, timeout=1)

    assert caught.value.phase == phase
    assert caught.value.stderr == ("still thinking",)


async def test_calling_off_a_connect_leaves_nothing_behind(
    fake_agent: FakeAgentFactory, connect: Connect, agent_processes: AgentProcesses
) -> None:
    """R7, FAULTS P5."""
    agent = fake_agent([{"mark": "up"}, *SILENT])
    connecting = asyncio.ensure_future(connect(agent))
    await agent.reached("up")

    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting

    assert agent_processes.wait_gone() == []
    assert live_sessions() == ()


@pytest.mark.parametrize(
    ("steps", "code", "phase"),
    [
        ([{"expect": "initialize"}, {"exit": 0}], 0, "initialize"),
        ([{"expect": "initialize"}, {"stderr": "boom\n"}, {"exit": 3}], 3, "initialize"),
        ([{"expect": "session/new"}, {"stderr": "boom\n"}, {"exit": 3}], 3, "session/new"),
    ],
)
async def test_an_agent_that_exits_is_reported_with_its_code_and_last_words(
    fake_agent: FakeAgentFactory,
    connect: Connect,
    steps: list[dict[str, Any]],
    code: int,
    phase: str,
) -> None:
    """FAULTS P3, P4."""
    with pytest.raises(
        silo_nb.AgentExited, match=f"code {code} before answering {phase}"
    ) as caught:
        await connect(fake_agent(steps))

    assert (caught.value.exit_code, caught.value.phase) == (code, phase)
    assert caught.value.stderr == (("boom",) if code else ())


async def test_a_missing_program_is_named_with_the_way_to_get_it(
    silo_config: Path, connect: Connect
) -> None:
    """FAULTS P1."""
    write_profile(silo_config, "ghost", command=["no-such-agent"], install_hint="npm i ghost")

    with pytest.raises(silo_nb.AgentNotFound, match="no-such-agent") as caught:
        await connect("ghost")

    assert "npm i ghost" in str(caught.value)
    assert (caught.value.profile, caught.value.phase) == ("ghost", "spawn")


async def test_a_missing_interpreter_is_named_with_the_path_searched(
    silo_config: Path, connect: Connect, tmp_path: Path
) -> None:
    """Case 16."""
    script = tmp_path / "agent"
    script.write_text("#!/usr/bin/env no-such-interpreter\n")
    script.chmod(0o755)
    write_profile(silo_config, "script", command=[str(script)], env={"PATH": "/nowhere"})

    with pytest.raises(silo_nb.AgentNotFound, match="no-such-interpreter") as caught:
        await connect("script")

    assert "/nowhere" in str(caught.value)


async def test_no_shell_is_involved(
    fake_agent: FakeAgentFactory, connect: Connect, tmp_path: Path
) -> None:
    """Case 17: an environment without any shell."""
    agent = fake_agent([], env={"PATH": str(tmp_path), "SHELL": "/nowhere"})

    assert (await connect(agent)).status == "idle"


@pytest.mark.parametrize("cwd", ["missing", "file.txt"])
async def test_a_working_directory_that_is_none_is_named(
    fake_agent: FakeAgentFactory, connect: Connect, notebook_dir: Path, cwd: str
) -> None:
    """FAULTS P2."""
    (notebook_dir / "file.txt").touch()
    agent = fake_agent([])

    with pytest.raises(silo_nb.WorkspaceError, match=cwd):
        await connect(agent, cwd=cwd)

    assert agent.pids == []


async def test_the_working_directory_is_the_notebooks_and_can_be_overridden(
    fake_agent: FakeAgentFactory,
    connect: Connect,
    notebook_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case 72: the notebook is in a/b.ipynb, the kernel elsewhere."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.ipynb").touch()
    (tmp_path / "a" / "data").mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a" / "b.ipynb"))
    agent = fake_agent([])

    here, there = await connect(agent), await connect(agent, cwd="data")

    assert (here.cwd, there.cwd) == (tmp_path / "a", tmp_path / "a" / "data")
    assert here.journal_path is not None
    assert here.journal_path.parent == tmp_path / "a" / ".silo_nb" / "sessions"
    assert there.journal_path is not None
    assert there.journal_path.parent == here.journal_path.parent


async def test_an_unknown_profile_is_refused_with_what_there_is(
    silo_config: Path, connect: Connect
) -> None:
    """R1, R4."""
    with pytest.raises(silo_nb.ProfileError, match=r"'dmo'.*'demo'"):
        await connect("dmo")


async def test_a_terminal_profile_cannot_be_connected(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R4."""
    with pytest.raises(silo_nb.ProfileError, match="terminal"):
        await connect(fake_agent([], interface="terminal"))


async def test_nothing_is_started_or_read_without_the_permission(
    fake_agent: FakeAgentFactory, connect: Connect, silo_config: Path
) -> None:
    """R3, FAULTS T3."""
    agent = fake_agent([])
    file = silo_config / "profiles.toml"
    file.write_text(file.read_text() + '\n[agents]\npermission = "deny"\n')

    with pytest.raises(silo_nb.PermissionDenied):
        await connect(agent)
    with pytest.raises(silo_nb.PermissionDenied):
        await silo_nb.read_journal("x")
    assert agent.pids == []


async def test_updates_that_precede_the_session_id_are_delivered(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS R16, case 59: commands, and a banner, before the reply to session/new."""
    commands = {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "help", "description": "Help"}],
    }
    agent = fake_agent(
        [
            {"defaults": {"session/new": {"sessionId": "early"}}},
            {"expect": "session/new"},
            {"update": commands, "session": "early"},
            {"say": "Welcome!", "session": "early"},
            {"say": "not yours", "session": "another"},
            {"reply": {"sessionId": "early"}},
        ]
    )
    session = await connect(agent)
    heard: list[Update] = []
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen(update: Update) -> None:
        heard.append(update)
        if update.text is not None:
            loop.call_soon_threadsafe(told.set)

    session.on_update(listen)
    await asyncio.wait_for(told.wait(), 5)

    assert [command.name for command in session.commands] == ["help"]
    assert [m.text for m in session.transcript.messages] == ["Welcome!"]
    assert [update.kind for update in heard] == ["available_commands_update", "agent_message_chunk"]


async def test_noise_before_the_first_message_is_logged(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS P22, case 3."""
    noise = {"garbage": {"text": "INFO migrating…\n", "repeat": 50}}
    agent = fake_agent([{"expect": "initialize"}, noise, {"reply": "$default"}])

    session = await connect(agent)

    assert session.status == "idle"
    assert "not a message: INFO migrating…" in session.log


async def test_a_profiles_meta_and_servers_go_with_session_new(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """claude-agent-acp 0.101 needs a `_meta` when it runs as root (PROTOCOL §2)."""
    meta = {"claudeCode": {"options": {"allowDangerouslySkipPermissions": False}}}
    server = {"name": "files", "command": "files-mcp", "args": [], "env": []}
    agent = fake_agent([], session_meta=meta)

    await connect(agent, mcp_servers=[server])

    params = agent.received("session/new")[0]["params"]
    assert (params["_meta"], params["mcpServers"]) == (meta, [server])


async def test_two_sessions_have_two_processes_and_never_meet(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """Case 15, FAULTS P21: one crashes, the other does not notice."""
    crashing = fake_agent([{"expect": "session/prompt"}, {"exit": 1}])
    steady = fake_agent([{"expect": "session/prompt"}, {"say": "fine"}, {"reply": "end_turn"}])
    first, second, third = await connect(crashing), await connect(steady), await connect(steady)

    with pytest.raises(silo_nb.AgentExited):
        await first.prompt("go")
    result = await second.prompt("go")

    assert result.text == "fine"
    assert len({first.id, second.id, third.id}) == 3
    assert len(set(steady.pids)) == 2
    assert not third.transcript.entries


async def test_an_agent_sees_the_environment_without_the_servers_secrets(
    fake_agent: FakeAgentFactory, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS T15."""
    monkeypatch.setenv("JUPYTER_TOKEN", "server-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "users-own")
    agent = fake_agent(
        [{"mark": "environ", "value": "$environ"}], env={"EXTRA": "from the profile"}
    )

    await connect(agent)
    environ = await agent.reached("environ")

    assert "JUPYTER_TOKEN" not in environ
    assert (environ["OPENAI_API_KEY"], environ["EXTRA"]) == ("users-own", "from the profile")


async def test_dispose_is_idempotent_and_ends_everything(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R15, case 12: grandchildren included; that none is left is checked by the fixture."""
    agent = fake_agent(
        [{"fork": "child"}, {"fork": "setsid"}, {"fork": "daemon"}, {"fork": "term_immune"}]
    )
    session = await connect(agent)

    await asyncio.gather(session.dispose(), session.dispose())
    await session.dispose()

    assert session.status == "closed"
    assert session.pid is None
    with pytest.raises(silo_nb.SessionClosed):
        await session.prompt("hello")


async def test_a_session_is_a_context_manager(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    async with await connect(fake_agent([])) as session:
        assert (await session.prompt("hi")).text == "ok"

    assert session.status == "closed"


async def test_the_process_belongs_to_nobody_elses_group(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """An interrupt of the kernel goes to its whole group; agents are not in it (FAULTS §0.4)."""
    session = await connect(fake_agent([]))

    assert session.pid is not None
    assert os.getpgid(session.pid) != os.getpgid(0)


def test_the_same_from_a_script_without_a_loop(
    fake_agent: FakeAgentFactory, notebook_dir: Path
) -> None:
    """R87."""
    agent = fake_agent([])

    with silo_nb.sync.connect(agent.profile) as session:
        result = session.prompt("hi")

    assert result.text == "ok"
    assert silo_nb.sync.read_journal(session.id)
