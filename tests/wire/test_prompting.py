"""prompt: a turn, however the agent ends it. (R17 to R37; FAULTS P7 to P14, R1 to R37)"""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

import silo_nb
from silo_nb import Update
from silo_nb.model import EmbeddedResource, ImageBlock, Message, ResourceLink, TurnEnd, Usage
from silo_nb.runtime import agent_thread
from silo_nb.session import turns
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect, eventually

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
IMAGES = {
    "defaults": {
        "initialize": {
            "protocolVersion": 1,
            "agentCapabilities": {"promptCapabilities": {"image": True, "embeddedContext": True}},
        }
    }
}


def tool(**fields: Any) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", **fields}}


async def test_a_turn_returns_what_happened(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """R17, case 63."""
    plan = [{"content": "look", "priority": "high", "status": "completed"}]
    agent = fake_agent(
        [
            PROMPT,
            {"think": "hm"},
            {"say": "Hel"},
            {"say": "lo"},
            {"update": {"sessionUpdate": "plan", "entries": plan}},
            tool(kind="execute", status="completed"),
            {"say": "Done."},
            {"update": {"sessionUpdate": "usage_update", "used": 10, "size": 200}},
            {"reply": {"stopReason": "end_turn", "usage": {"totalTokens": 12}}},
        ]
    )

    result = await (await connect(agent)).prompt("go")

    assert (result.stop_reason, result.text) == ("end_turn", "Hello\n\nDone.")
    assert [row.kind for row in result.tool_calls] == ["execute"]
    assert [entry.content for entry in result.plan] == ["look"]
    assert (result.usage, result.tokens) == (Usage(10, 200), {"totalTokens": 12})
    assert result.cancel_requested is False
    assert result.elapsed > 0
    assert [u.kind for u in result.updates][:3] == [
        "user_message_chunk",
        "turn_start",
        "agent_thought_chunk",
    ]
    assert str(result) == result.text


async def test_a_row_in_the_middle_of_a_message_does_not_cut_its_text(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R17: claude-agent-acp 0.101, now and then."""
    chunks = [
        {"sessionUpdate": "agent_message_chunk", "messageId": name, "content": content}
        for name, text in [("m1", "Running a"), ("m1", " command."), ("m2", "Done.")]
        for content in [{"type": "text", "text": text}]
    ]
    first, second, third = ({"update": chunk} for chunk in chunks)
    agent = fake_agent([PROMPT, first, tool(), second, tool(status="completed"), third, END])

    result = await (await connect(agent)).prompt("go")

    assert result.text == "Running a command.\n\nDone."


LITERAL = "interface A {\n  b: $HOME;\n  `x` {y} %magic !ls \\n\n}"


async def test_text_is_sent_literally(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """R20, case 62."""
    agent = fake_agent([])

    await (await connect(agent)).prompt(LITERAL)

    assert agent.received("session/prompt")[0]["params"]["prompt"] == [
        {"type": "text", "text": LITERAL}
    ]


async def test_blocks_are_sent_as_the_wire_spells_them(
    fake_agent: FakeAgentFactory, connect: Connect, tmp_path: Path
) -> None:
    """R21, R23; R24: the seed left images for later, they are sent where the agent takes them."""
    agent = fake_agent([IMAGES])
    path = tmp_path / "my data #1.csv"

    await (await connect(agent)).prompt(
        [
            "see",
            path,
            ResourceLink("https://x.org/a%20b.md"),
            {"type": "resource", "uri": "file:///n", "text": "note", "mimeType": "text/plain"},
            EmbeddedResource("file:///m", "more"),
            ImageBlock("aGk=", "image/png"),
        ]
    )

    assert agent.received("session/prompt")[0]["params"]["prompt"] == [
        {"type": "text", "text": "see"},
        {"type": "resource_link", "uri": path.as_uri(), "name": "my data #1.csv"},
        {"type": "resource_link", "uri": "https://x.org/a%20b.md", "name": "a b.md"},
        {
            "type": "resource",
            "resource": {"uri": "file:///n", "text": "note", "mimeType": "text/plain"},
        },
        {"type": "resource", "resource": {"uri": "file:///m", "text": "more"}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        ("", ValueError, "empty"),
        (["  ", "\n"], ValueError, "empty"),
        ([], ValueError, "empty"),
        (ImageBlock("aGk=", "image/png"), ValueError, "takes no image"),
        ({"type": "audio", "data": "", "mimeType": "a/b"}, ValueError, "takes no audio"),
        (EmbeddedResource("file:///x", "t"), ValueError, "link to it with a Path"),
        ({"type": "hologram"}, ValueError, "hologram"),
        ({"type": "resource"}, ValueError, "incomplete"),
        ([1], TypeError, "int"),
    ],
)
async def test_what_the_agent_cannot_take_is_refused_before_anything_is_sent(
    fake_agent: FakeAgentFactory,
    connect: Connect,
    prompt: Any,
    error: type[Exception],
    message: str,
) -> None:
    """R21."""
    agent = fake_agent([])
    session = await connect(agent)

    with pytest.raises(error, match=message):
        await session.prompt(prompt)

    assert session.status == "idle"
    assert not session.transcript.entries
    assert (await session.prompt("hi")).text == "ok"


async def test_a_second_prompt_is_refused_while_a_turn_runs(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R17."""
    agent = fake_agent([PROMPT, {"mark": "busy"}, {"wait_for": "go"}, END])
    session = await connect(agent)
    first = asyncio.ensure_future(session.prompt("one"))
    await agent.reached("busy")

    assert session.status == "working"
    with pytest.raises(silo_nb.SessionBusy, match="middle of a turn"):
        await session.prompt("two")
    agent.release("go")

    assert (await first).stop_reason == "end_turn"
    assert len(agent.received("session/prompt")) == 1


# ------------------------------------------------------------------------------------ cancel


async def test_a_cancelled_turn_is_a_result(fake_agent: FakeAgentFactory, connect: Connect) -> None:
    """R19, case 8: what there is is kept, open rows end as cancelled, the next prompt works."""
    agent = fake_agent(
        [PROMPT, {"say": "partial"}, tool(status="in_progress"), {"mark": "busy"}, {"sleep": 99}]
    )
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("busy")

    session.cancel()
    result = await turn

    assert (result.stop_reason, result.text) == ("cancelled", "partial")
    assert result.cancel_requested
    assert [row.status for row in result.tool_calls] == ["cancelled"]
    assert session.status == "idle"
    assert (await session.prompt("again")).stop_reason == "end_turn"


async def test_cancel_without_a_turn_sends_nothing(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent([])
    session = await connect(agent)

    session.cancel()
    await session.prompt("hi")

    assert agent.received("session/cancel") == []


async def test_a_turn_cancelled_before_it_was_sent_never_reaches_the_agent(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent([])
    session = await connect(agent)
    session.on_update(lambda update: session.cancel() if update.kind == "turn_start" else None)

    result = await session.prompt("never mind")

    assert result.stop_reason == "cancelled"
    assert agent.received("session/prompt") == []


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [
        ({"reply": "end_turn"}, "end_turn"),
        ({"error": {"code": -32603, "message": "aborted"}}, "cancelled"),
        ({"error": {"code": -32800, "message": "cancelled"}}, "cancelled"),
        ({"exit": 1}, "cancelled"),
    ],
)
async def test_any_answer_to_a_cancel_ends_the_turn_in_order(
    fake_agent: FakeAgentFactory, connect: Connect, answer: dict[str, Any], stop_reason: str
) -> None:
    """Case 7: the agent's own word is kept, that we had asked is recorded."""
    agent = fake_agent([PROMPT, {"mark": "busy"}, {"expect": "session/cancel"}, answer])
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("busy")

    session.cancel()
    result = await turn

    assert (result.stop_reason, result.cancel_requested) == (stop_reason, True)


async def test_a_cancel_the_agent_ignores_ends_the_turn_after_the_grace(
    fake_agent: FakeAgentFactory, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS P14, cases 5, 6: the late answer is not taken for the next turn's."""
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.05)
    agent = fake_agent(
        [
            {"ignore": "cancel"},
            PROMPT,
            {"mark": "deaf"},
            {"wait_for": "late"},
            END,
            {"say": "late words"},
            {"mark": "answered"},
            PROMPT,
            {"say": "second"},
            END,
        ]
    )
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("deaf")
    session.cancel()

    result = await turn
    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)

    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    session.on_update(lambda update: loop.call_soon_threadsafe(heard.set) if update.text else None)
    agent.release("late")
    await asyncio.wait_for(heard.wait(), 5)
    second = await session.prompt("again")

    assert (second.text, second.stop_reason) == ("second", "end_turn")


async def test_a_turn_over_its_time_is_cancelled(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent([PROMPT, {"say": "some"}, {"sleep": 99}])

    result = await (await connect(agent)).prompt("go", timeout=0.2)

    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)


async def test_cancelling_the_awaiting_task_cancels_the_turn(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    agent = fake_agent([PROMPT, {"mark": "busy"}, {"sleep": 99}])
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("busy")

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    await agent.heard("session/cancel")
    assert session.status == "idle"


# ------------------------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("reply", "stop_reason"),
    [
        ("max_tokens", "max_tokens"),
        ("refusal", "refusal"),
        ({"stopReason": "paused"}, "paused"),
        ({}, "unknown"),
        (None, "unknown"),
        ({"stopReason": 7}, "unknown"),
    ],
)
async def test_every_stop_reason_ends_the_turn(
    fake_agent: FakeAgentFactory, connect: Connect, reply: Any, stop_reason: str
) -> None:
    """FAULTS R33, R34; none makes the official SDK's prompt() raise here."""
    agent = fake_agent([PROMPT, {"reply": reply}])

    assert (await (await connect(agent)).prompt("go")).stop_reason == stop_reason


async def test_an_error_ends_the_turn_with_the_agents_words(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R18, case 11: the next prompt is tried."""
    error = {"code": -32603, "message": "usage limit", "data": {"errorKind": "limit"}}
    agent = fake_agent([PROMPT, {"say": "I was"}, {"error": error}])
    session = await connect(agent)

    with pytest.raises(silo_nb.AgentRefused, match="usage limit") as caught:
        await session.prompt("go")

    assert (caught.value.code, caught.value.phase) == (-32603, "prompt")
    last = session.transcript.entries[-1]
    assert isinstance(last, TurnEnd)
    assert (last.turn.stop_reason, last.turn.error) == ("error", "usage limit")
    assert [m.text for m in session.transcript.messages] == ["go", "I was"]
    assert (await session.prompt("again")).text == "ok"


async def test_a_login_may_be_missed_only_at_the_prompt(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """claude-agent-acp 0.101 opens the session and fails then (PROTOCOL §8)."""
    agent = fake_agent([PROMPT, {"error": {"code": -32000, "message": "Invalid API key"}}])

    with pytest.raises(silo_nb.AuthRequired, match="Invalid API key"):
        await (await connect(agent)).prompt("go")


async def test_an_agent_that_dies_in_a_turn_is_reported_and_what_it_said_is_kept(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS P7."""
    agent = fake_agent(
        [PROMPT, {"say": "I was about"}, tool(), {"stderr": "segfault\n"}, {"signal": "SIGKILL"}]
    )
    session = await connect(agent)

    with pytest.raises(silo_nb.AgentExited, match="SIGKILL") as caught:
        await session.prompt("go")

    assert (caught.value.exit_code, caught.value.signal) == (None, 9)
    assert caught.value.stderr == ("segfault",)
    assert session.status == "exited"
    updates = await silo_nb.read_journal(session.id)
    assert [u.text for u in updates if u.text] == ["go", "I was about"]
    assert [row.is_open for row in session.transcript.tool_calls] == [False]
    last = updates[-1].turn
    assert last is not None
    assert last.stop_reason == "agent-exited"


async def test_an_agent_that_dies_between_turns_is_noticed_at_once(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS P8, case 13; that the next prompt starts another is in test_restoring."""
    agent = fake_agent([PROMPT, END, {"wait_for": "die"}, {"exit": 4}])
    session = await connect(agent)
    await session.prompt("go")

    agent.release("die")
    await eventually(lambda: session.status == "exited")

    assert session.pid is None


async def test_an_agent_that_closes_stdout_counts_as_gone(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS P9."""
    agent = fake_agent([PROMPT, {"close": "stdout"}, {"sleep": 99}])
    session = await connect(agent)

    with pytest.raises(silo_nb.AgentExited, match="closed its stdout"):
        await session.prompt("go")


async def test_an_agent_that_closes_stderr_goes_on(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS P11."""
    agent = fake_agent([{"close": "stderr"}, PROMPT, {"say": "fine"}, END])

    assert (await (await connect(agent)).prompt("go")).text == "fine"


async def test_an_agent_that_reads_nothing_blocks_nobody(
    fake_agent: FakeAgentFactory, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS P12, case 10: 10 MB into a pipe of 64 KiB."""
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.05)
    agent = fake_agent(
        [
            {"expect": "session/new"},
            {"reply": "$default"},
            {"ignore": "stdin"},
            {"mark": "deaf"},
            {"sleep": 99},
        ]
    )
    session = await connect(agent)
    await agent.reached("deaf")

    turn = asyncio.ensure_future(session.prompt("x" * 10_000_000, timeout=0.1))

    assert (await turn).stop_reason == "cancelled"
    await session.dispose()


# ----------------------------------------------------------------------------------- updates


async def test_updates_reach_listeners_in_order_and_a_listener_that_raises_stops_nobody(
    fake_agent: FakeAgentFactory, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """R25, K15."""
    agent = fake_agent([PROMPT, {"say": "a"}, {"think": "b"}, {"say": "c"}, END])
    session = await connect(agent)
    heard: list[str | None] = []
    session.on_update(lambda update: 1 / 0)
    session.on_update(lambda update: heard.append(update.text))

    with caplog.at_level("CRITICAL", "silo_nb.session"):
        await session.prompt("go")

    assert [text for text in heard if text is not None] == ["go", "a", "b", "c"]


async def test_a_disposed_subscription_hears_nothing_more(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R16."""
    session = await connect(fake_agent([]))
    heard: list[Update] = []
    with session.on_update(heard.append):
        await session.prompt("one")
    count = len(heard)

    await session.prompt("two")

    assert len(heard) == count > 0


async def test_words_after_the_response_still_belong_to_the_conversation(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS R17: opencode and claude send updates after their turn's response."""
    agent = fake_agent([PROMPT, {"say": "one"}, END, {"say": "late"}, PROMPT, {"say": "two"}, END])
    session = await connect(agent)

    first, second = await session.prompt("1"), await session.prompt("2")

    texts = [e.text for e in session.transcript.entries if isinstance(e, Message)]
    assert texts == ["1", "one", "late", "2", "two"]
    assert (first.text, second.text) == ("one", "two")
    updates = await silo_nb.read_journal(session.id)
    assert [u.text for u in updates if u.text] == texts


async def test_an_echo_of_the_prompt_is_one_row(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R30, case 21; mistral-vibe 2.25."""
    echo = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "$prompt"}}
    agent = fake_agent([PROMPT, {"update": echo}, {"say": "hi"}, END])
    session = await connect(agent)

    await session.prompt("hello")

    assert [(m.role, m.text) for m in session.transcript.messages] == [
        ("user", "hello"),
        ("agent", "hi"),
    ]


async def test_commands_controls_and_title_are_live(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R37, R41, R46, R47: they are state of the session, not rows; no input is None."""
    option = {"id": "mode", "name": "Mode", "type": "select", "category": "mode"}
    choices = [{"value": "ask", "name": "Ask"}, {"value": "plan", "name": "Plan"}]
    options = [{**option, "currentValue": "ask", "options": choices}]
    agent = fake_agent(
        [
            {"defaults": {"session/new": {"sessionId": "s", "configOptions": options}}},
            PROMPT,
            {
                "update": {
                    "sessionUpdate": "available_commands_update",
                    "availableCommands": [{"name": "go", "description": "", "input": None}],
                }
            },
            {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}},
            {"update": {"sessionUpdate": "session_info_update", "title": "Report"}},
            {"update": {"sessionUpdate": "session_info_update", "_meta": {"x": 1}}},
            END,
        ]
    )
    session = await connect(agent)
    changed: list[str] = []
    session.on_commands_changed(lambda: changed.append("commands"))
    session.on_config_options_changed(lambda: changed.append("config"))
    assert (session.commands, session.title) == ((), None)

    await session.prompt("go")

    assert [(c.name, c.hint) for c in session.commands] == [("go", None)]
    assert session.config_options[0].current_value == "plan"
    assert session.title == "Report"
    assert changed == ["commands", "config"]
    assert len(session.transcript.entries) == 2


async def test_other_sessions_updates_are_never_shown_here(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS R14, R15."""
    agent = fake_agent([PROMPT, {"say": "theirs", "session": "other"}, {"say": "ours"}, END])
    session = await connect(agent)

    assert (await session.prompt("go")).text == "ours"
    assert any("another session" in line for line in session.log)


async def test_what_an_agent_asks_for_that_we_do_not_offer_is_refused(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS R11, R12: qwen sends a vendor request after each round and waits for the answer."""
    agent = fake_agent(
        [
            PROMPT,
            {"ask": "craft/drainMidTurnQueue"},
            {"ask": "_vendor/x"},
            {"ask": "terminal/create", "params": {"command": "ls"}},
            {"send": {"jsonrpc": "2.0", "method": "_vendor/note", "params": {}}},
            END,
        ]
    )

    assert (await (await connect(agent)).prompt("go")).stop_reason == "end_turn"
    codes = [m["error"]["code"] for m in agent.received() if "error" in m]
    assert codes == [-32601, -32601, -32601]


# ----------------------------------------------------------------------------------- journal


async def test_what_the_user_said_is_on_disk_before_the_agent_hears_it(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R30, FAULTS §3.3."""
    agent = fake_agent([PROMPT, {"mark": "heard"}, {"wait_for": "go"}, END])
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("remember me"))
    await agent.reached("heard")

    assert session.journal_path is not None
    records = [json.loads(line) for line in session.journal_path.read_text().splitlines()]
    assert {"type": "text", "text": "remember me"} in records[1]["prompt"]
    agent.release("go")
    await turn


async def test_the_journal_folds_to_the_live_transcript(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R64: one reducer for both."""
    agent = fake_agent(
        [
            PROMPT,
            {"say": "a"},
            {"say": "b", "id": "m1"},
            {"say": "c", "id": "m1"},
            {"think": "d"},
            tool(status="in_progress"),
            {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "u"}}},
            {"update": {"sessionUpdate": "vendor_thing", "x": 1}},
            {"flood": 500, "text": "word${i} "},
            END,
        ]
    )
    session = await connect(agent)
    session.on_permission(lambda ask: ask.respond(ask.options[0].option_id))
    await session.prompt(["two", "blocks"])

    folded = silo_nb.EMPTY_TRANSCRIPT
    for update in await silo_nb.read_journal(session.session_id):
        folded = silo_nb.apply_update(folded, update)

    assert folded == session.transcript


async def test_a_missing_journal_is_empty(notebook_dir: Path) -> None:
    """R60."""
    assert await silo_nb.read_journal("no-such-session") == ()


async def test_no_secret_of_the_environment_is_written_or_shown(
    fake_agent: FakeAgentFactory, connect: Connect, notebook_dir: Path
) -> None:
    """FAULTS T14, T-17."""
    secret = "sk-canary-1234567890"
    agent = fake_agent(
        [
            PROMPT,
            {"say": f"your key is {secret[:9]}"},
            {"say": f"{secret[9:]}, is it not?"},
            tool(rawInput={"env": {"KEY": secret}}),
            {"stderr": f"using {secret}\n"},
            {"error": {"code": 1, "message": f"bad key {secret}"}},
            PROMPT,
            {"exit": 1},
        ],
        env={"ACME_API_KEY": secret},
    )
    session = await connect(agent)

    with pytest.raises(silo_nb.AgentRefused, match="withheld") as caught:
        await session.prompt("go")
    with pytest.raises(silo_nb.AgentExited) as exited:
        await session.prompt("again")
    await session.dispose()

    assert "using [withheld]" in str(exited.value)
    assert secret not in f"{caught.value} {exited.value} {session.log}"
    for path in (notebook_dir / ".silo_nb").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()


async def test_a_disposed_session_takes_calls_that_need_no_agent(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    session = await connect(fake_agent([]))
    await session.dispose()

    session.cancel()
    session.on_update(print).dispose()
    session.on_permission(print).dispose()

    assert session.status == "closed"


async def test_an_agent_that_closes_its_stdin_is_replaced_at_the_next_prompt(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS P10: it cannot hear, so that prompting it would be in vain."""
    agent = fake_agent([PROMPT, END, {"close": "stdin"}, {"mark": "deaf"}, {"sleep": 99}])
    session = await connect(agent)
    await session.prompt("go")
    await agent.reached("deaf")
    process = session._live.process
    assert process is not None
    await eventually(lambda: not process.accepts_input)

    assert (await session.prompt("again")).stop_reason == "end_turn"
    assert len(agent.pids) == 2


async def test_how_long_an_agent_was_not_heard_is_known(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """Case 4: what a view needs to say that nothing happens."""
    agent = fake_agent([PROMPT, {"say": "hm"}, {"mark": "quiet"}, {"wait_for": "go"}, END])
    session = await connect(agent)
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("quiet")

    await eventually(lambda: session.quiet_for > 1)
    agent.release("go")
    await turn

    assert session.quiet_for < 1


async def test_only_what_we_recorded_ourselves_has_a_time(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R29: ACP has no timestamps; the prompt's own is on record."""
    session = await connect(fake_agent([PROMPT, {"say": "hi"}, END]))

    result = await session.prompt("hello")

    live = {update.kind: update.timestamp is not None for update in result.updates}
    assert live == {
        "user_message_chunk": True,
        "turn_start": True,
        "agent_message_chunk": False,
        "turn_end": True,
    }
    read = {u.kind: u.timestamp for u in await silo_nb.read_journal(session.id)}
    assert read["user_message_chunk"] == result.updates[0].timestamp
    assert read["agent_message_chunk"] is None


async def test_a_command_goes_the_way_of_every_prompt(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """R48: there is one palette and no call of its own for what is in it; /clear included."""
    agent = fake_agent([])
    session = await connect(agent)

    await session.prompt("/clear all")

    (sent,) = agent.received("session/prompt")
    assert sent["params"]["prompt"] == [{"type": "text", "text": "/clear all"}]
    assert not hasattr(session, "run_command")


async def test_a_session_outlives_the_handle_that_is_forgotten(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS K8, K10: `del`, %reset and the collector end nothing."""
    session = await connect(fake_agent([]))
    session_id = session.id
    del session
    gc.collect()

    again = silo_nb.agents.get(session_id)

    assert (await again.prompt("still there?")).text == "ok"


def test_a_thread_that_is_busy_elsewhere_does_not_stall_the_agent(
    fake_agent: FakeAgentFactory, notebook_dir: Path
) -> None:
    """FAULTS K14: while a cell computes, the pipe is read, the journal grows, the turn ends."""
    agent = fake_agent([PROMPT, {"flood": 20_000, "text": "x" * 40}, END, {"mark": "written"}])
    with silo_nb.sync.connect(agent.profile) as session:
        turn = agent_thread().run(session._live.prompt([{"type": "text", "text": "go"}]))

        agent.wait_reached("written", within=30)  # this thread does nothing else meanwhile

        assert len(turn.result(10).text) == 800_000
    agent_thread().stop()
