"""The scripted agent does what its scenario says, step by step, over real pipes."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from silo_nb.testing import (
    AgentProcesses,
    BadScenario,
    FakeAgent,
    NotReached,
    RawClient,
    Scenario,
    write_profile,
)
from silo_nb.testing.agent import FAKE_AGENT
from silo_nb.testing.plugin import FakeAgentFactory
from tests.acp_schema import Exchange

Steps = Sequence[dict[str, Any]]
Play = Callable[..., RawClient]

PROMPT = {"expect": "session/prompt"}


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def start(clients: ExitStack, tmp_path: Path) -> Callable[[FakeAgent], RawClient]:
    """Start the process of an agent."""

    def start(agent: FakeAgent) -> RawClient:
        return clients.enter_context(RawClient(agent.command, cwd=tmp_path))

    return start


class Turn:
    """A scripted agent with a session open and a prompt sent."""

    def __init__(self, agent: FakeAgent, client: RawClient, cwd: Path) -> None:
        self.agent = agent
        self.client = client
        self.session = client.open_session(cwd)
        self.prompt_id = client.prompt(self.session, "hello")

    def outcome(self) -> dict[str, Any]:
        """The response to the prompt."""
        return self.client.response(self.prompt_id)

    def cancel(self) -> None:
        self.client.notify("session/cancel", {"sessionId": self.session})


@pytest.fixture
def turn(
    fake_agent: FakeAgentFactory, start: Callable[[FakeAgent], RawClient], tmp_path: Path
) -> Callable[[Steps], Turn]:
    """Play steps, up to the prompt that was sent."""

    def turn(steps: Steps) -> Turn:
        agent = fake_agent(steps)
        return Turn(agent, start(agent), tmp_path)

    return turn


# ------------------------------------------------------------------------------- without steps


def test_without_any_step_it_is_an_agent_that_says_ok(
    turn: Callable[[Steps], Turn],
) -> None:
    played = turn([{"about": "nothing"}])

    assert played.outcome()["result"] == {"stopReason": "end_turn"}
    assert played.client.text() == "ok"


def test_everything_it_does_by_default_is_in_the_schema(
    fake_agent: FakeAgentFactory, start: Callable[[FakeAgent], RawClient], tmp_path: Path
) -> None:
    agent = fake_agent([{"about": "nothing"}])
    client = start(agent)
    session = client.open_session(tmp_path)
    client.response(client.prompt(session, "hello"))
    where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    client.call("session/load", where)
    client.call("session/resume", where)
    client.call("session/list")
    client.call("session/set_mode", {"sessionId": session, "modeId": "m"})
    client.call("session/close", {"sessionId": session})

    exchange = Exchange()
    for record in agent.log.records:
        if "received" in record:
            exchange.from_client(record["received"])
        elif "sent" in record:
            exchange.from_agent(record["sent"])
    assert exchange.unanswered == {"client": [], "agent": []}


def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored(
    turn: Callable[[Steps], Turn],
) -> None:
    played = turn([])

    played.client.notify("_vendor/hello")

    assert played.client.call("session/nonsense")["error"]["code"] == -32601


def test_defaults_can_be_replaced_one_by_one(
    fake_agent: FakeAgentFactory, start: Callable[[FakeAgent], RawClient]
) -> None:
    option = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False}
    client = start(
        fake_agent(
            [
                {"defaults": {"initialize": {"protocolVersion": 2}}},
                {"defaults": {"session/new": {"sessionId": "mine", "configOptions": [option]}}},
                {"defaults": {"session/load": {"error": {"code": -32002, "message": "gone"}}}},
            ]
        )
    )

    assert client.call("initialize")["result"] == {"protocolVersion": 2}
    assert client.call("session/new", {"cwd": "/"})["result"]["sessionId"] == "mine"
    assert client.call("session/load")["error"]["code"] == -32002
    changed = {"sessionId": "mine", "configId": "fast", "type": "boolean", "value": True}
    answer = client.call("session/set_config_option", changed)
    assert answer["result"]["configOptions"] == [option | {"currentValue": True}]
    assert client.call("session/set_config_option", {"configId": "no"})["error"]["code"] == -32602


def test_it_exits_when_its_stdin_ends(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"sleep": "forever"}])

    played.client.close_stdin()

    assert played.client.wait() == 0


def test_it_starts_in_a_fraction_of_a_second(tmp_path: Path) -> None:
    """Tests start hundreds of these: what it loads is counted, for times drift."""
    scenario = tmp_path / "empty.jsonl"
    scenario.touch()
    code = (
        "import sys; before = set(sys.modules); "
        f"sys.path.insert(0, {str(FAKE_AGENT.parents[2])!r}); "
        "import silo_nb.testing.fake_agent; print(*sorted(set(sys.modules) - before))"
    )

    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    heavy = {"argparse", "asyncio", "dataclasses", "inspect", "logging", "pytest", "subprocess"}
    assert heavy.isdisjoint(loaded)
    assert {name for name in loaded if name.startswith("silo_nb")} <= {
        "silo_nb",
        "silo_nb.testing",
        "silo_nb.testing.fake_agent",
        *(name for name in loaded if name.startswith("silo_nb.testing.scripted")),
    }


# ------------------------------------------------------------------------------------- talking


def test_expect_binds_the_request_that_reply_answers(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"say": "you said ${prompt}"}, {"reply": {"stopReason": "refusal"}}])

    assert played.outcome()["result"] == {"stopReason": "refusal"}
    assert played.client.text() == "you said hello"


def test_expect_takes_only_what_has_the_params_it_names(turn: Callable[[Steps], Turn]) -> None:
    other = {"expect": "session/prompt", "params": {"prompt": [{"type": "text", "text": "two"}]}}
    played = turn([other, {"reply": "refusal"}])

    assert played.outcome()["result"] == {"stopReason": "end_turn"}
    second = played.client.prompt(played.session, "two")
    assert played.client.response(second)["result"] == {"stopReason": "refusal"}


def test_named_requests_are_answered_in_any_order(turn: Callable[[Steps], Turn]) -> None:
    first, second = {**PROMPT, "as": "first"}, {**PROMPT, "as": "second"}
    played = turn(
        [first, second, {"reply": "end_turn", "to": "second"}, {"reply": "refusal", "to": "first"}]
    )
    other = played.client.prompt(played.session, "again")

    assert played.outcome()["result"] == {"stopReason": "refusal"}
    answers = [m["id"] for m in played.client.messages if "stopReason" in m.get("result", {})]
    assert answers == [other, played.prompt_id]


def test_error_answers_with_an_error(turn: Callable[[Steps], Turn]) -> None:
    error = {"code": -32603, "message": "no luck", "data": {"why": "$prompt"}}
    played = turn([PROMPT, {"error": error}])

    assert played.outcome()["error"] == error | {"data": {"why": "hello"}}


def test_a_reply_can_be_given_twice(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"reply": "end_turn"}, {"reply": "refusal"}, {"mark": "done"}])
    played.outcome()
    played.agent.wait_reached("done")
    played.client.close()

    assert [m["result"] for m in played.client.messages if m.get("id") == played.prompt_id] == [
        {"stopReason": "end_turn"},
        {"stopReason": "refusal"},
    ]


def test_update_say_and_think_go_to_the_current_session(turn: Callable[[Steps], Turn]) -> None:
    plan = {"sessionUpdate": "plan", "entries": []}
    played = turn(
        [
            PROMPT,
            {"think": "hm", "id": "m1"},
            {"say": "hi", "id": "m2"},
            {"update": plan},
            {"say": "elsewhere", "session": "other"},
            {"reply": "end_turn"},
        ]
    )
    played.outcome()

    thought, message, other = (
        {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        for kind, text in [
            ("agent_thought_chunk", "hm"),
            ("agent_message_chunk", "hi"),
            ("agent_message_chunk", "elsewhere"),
        ]
    )
    assert played.client.updates(session_id=played.session) == [
        thought | {"messageId": "m1"},
        message | {"messageId": "m2"},
        plan,
    ]
    assert played.client.updates(session_id="other") == [other]


def test_send_writes_any_value_with_names_replaced(turn: Callable[[Steps], Turn]) -> None:
    long = {"$repeat": "ab", "times": 1000}
    message = {"id": "$request", "note": "${session}!", "long": long, "home": "$HOME", "n": 1.5}
    played = turn(
        [PROMPT, {"send": message}, {"send": [1]}, {"send": {"a": "$request"}, "verbatim": True}]
    )

    sent = played.client.until(lambda m: "note" in m)
    assert sent == {
        "id": played.prompt_id,
        "note": f"{played.session}!",
        "long": "ab" * 1000,
        "home": "$HOME",
        "n": 1.5,
    }
    assert played.client.until(lambda m: "a" in m) == {"a": "$request"}
    assert played.client.noise == [b"[1]\n"]


def test_a_message_can_end_in_something_else_than_a_newline(
    turn: Callable[[Steps], Turn],
) -> None:
    played = turn([PROMPT, {"say": "a", "end": "\r\n"}, {"say": "b", "end": ""}, {"exit": 0}])
    played.client.wait()

    assert played.client.text() == "ab"


def test_what_utf8_cannot_carry_is_sent_escaped(
    fake_agent: FakeAgentFactory, start: Callable[[FakeAgent], RawClient], tmp_path: Path
) -> None:
    client = start(fake_agent([PROMPT, {"say": "\ud800 ✓"}, {"reply": "end_turn"}]))
    client.response(client.prompt(client.open_session(tmp_path), "hello"))

    assert client.text() == "\ud800 ✓"


def test_ask_waits_for_the_answer_and_goes_by_it(turn: Callable[[Steps], Turn]) -> None:
    answers = {"allow": [{"say": "did it"}], "reject": [{"say": "let it be"}]}
    ask = {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}}
    again = {"loop": 2, "steps": [{**ask, "answers": answers}]}
    played = turn([PROMPT, again, {"reply": "end_turn"}])

    for times, choice in enumerate(["reject", "allow"], start=1):
        request = played.client.asked("session/request_permission", times=times)
        assert request["params"]["sessionId"] == played.session
        selected = {"outcome": "selected", "optionId": choice}
        played.client.answer(request["id"], {"outcome": selected})
    played.outcome()

    assert played.client.text() == "let it bedid it"
    assert played.agent.answers == ["reject", "allow"]


def test_its_own_request_ids_begin_at_zero_or_are_what_the_scenario_says(
    turn: Callable[[Steps], Turn],
) -> None:
    one = {"ask": "session/request_permission", "wait": False}
    played = turn([PROMPT, one, {**one, "id": "x"}, one, {"mark": "asked"}])
    played.agent.wait_reached("asked")

    asked = [m for m in played.agent.sent if m.get("method") == "session/request_permission"]
    assert [m["id"] for m in asked] == [0, "x", 1]


def test_two_requests_can_be_open_at_once(turn: Callable[[Steps], Turn]) -> None:
    ask = {"ask": "session/request_permission", "wait": False}
    played = turn(
        [
            PROMPT,
            {**ask, "as": "a"},
            {**ask, "as": "b"},
            {"answered": "b", "answers": {"allow": [{"say": "b"}]}},
            {"answered": "a", "result": {"outcome": {"optionId": "reject"}}},
            {"reply": "end_turn"},
        ]
    )
    ids = [played.client.asked("session/request_permission", times=times)["id"] for times in (1, 2)]
    for request_id, choice in zip(ids, ["reject", "allow"], strict=True):
        selected = {"outcome": "selected", "optionId": choice}
        played.client.answer(request_id, {"outcome": selected})
    played.outcome()

    assert played.client.text() == "b"


def test_an_error_is_an_answer_too(turn: Callable[[Steps], Turn]) -> None:
    ask = {"ask": "_vendor/question", "as": "q", "wait": False}
    refused = {"error": [{"say": "refused"}]}
    played = turn([PROMPT, ask, {"answered": "q", "answers": refused}, {"reply": "end_turn"}])
    request = played.client.asked("_vendor/question")

    error = {"code": -32601, "message": "?"}
    played.client.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    played.outcome()
    assert played.client.text() == "refused"


def test_an_answer_that_is_not_as_expected_ends_the_agent(turn: Callable[[Steps], Turn]) -> None:
    ask = {"ask": "_vendor/question", "as": "q", "wait": False}
    played = turn([PROMPT, ask, {"answered": "q", "result": {"n": 1}}])

    played.client.answer(played.client.asked("_vendor/question")["id"], {"n": 2})

    assert played.client.wait() == 1
    assert "not as expected" in played.client.stderr


def test_a_permission_answered_cancelled_ends_the_turn_unless_it_is_a_case(
    turn: Callable[[Steps], Turn],
) -> None:
    ask = {"ask": "session/request_permission"}
    go_on = {**ask, "answers": {"cancelled": [{"say": "all the same"}]}}
    played = turn([PROMPT, go_on, ask, {"say": "not this"}, {"reply": "end_turn"}])

    for times in (1, 2):
        request = played.client.asked("session/request_permission", times=times)
        played.client.answer(request["id"], {"outcome": {"outcome": "cancelled"}})

    assert played.outcome()["result"] == {"stopReason": "cancelled"}
    assert played.client.text() == "all the same"


def test_an_elicitation_is_known_by_its_action(turn: Callable[[Steps], Turn]) -> None:
    cases = {"decline": [{"say": "no answer"}], "error": [{"say": "refused"}]}
    ask = {"ask": "elicitation/create", "params": {"mode": "form"}, "answers": cases}
    played = turn([PROMPT, ask, ask, {"reply": "end_turn"}])

    first = played.client.asked("elicitation/create")["id"]
    played.client.answer(first, {"action": "decline"})
    second = played.client.asked("elicitation/create", times=2)["id"]
    error = {"code": -32601, "message": "?"}
    played.client.send({"jsonrpc": "2.0", "id": second, "error": error})
    played.outcome()

    assert played.client.text() == "no answerrefused"
    assert played.agent.answers == ["decline", "error"]


# ---------------------------------------------------------------------------------- cancelling


def test_a_cancel_ends_the_open_prompt_and_skips_the_rest_of_its_turn(
    turn: Callable[[Steps], Turn],
) -> None:
    played = turn(
        [
            PROMPT,
            {"say": "begun"},
            {"sleep": "forever"},
            {"say": "never"},
            {"reply": "end_turn"},
            PROMPT,
            {"say": " again"},
            {"reply": "refusal"},
        ]
    )
    played.client.update("agent_message_chunk")

    played.cancel()

    assert played.outcome()["result"] == {"stopReason": "cancelled"}
    following = played.client.prompt(played.session, "next")
    assert played.client.response(following)["result"] == {"stopReason": "refusal"}
    assert played.client.text() == "begun again"


@pytest.mark.parametrize(
    "busy",
    [
        {"sleep": "forever"},
        {"wait_for": "the test, which never comes"},
        {"ask": "session/request_permission"},
        {"flood": 10**9},
        {"loop": "forever", "steps": [{"say": "x"}]},
    ],
    ids=lambda step: next(iter(step)),
)
def test_a_cancel_is_heeded_whatever_the_agent_is_busy_with(
    turn: Callable[[Steps], Turn], busy: dict[str, Any]
) -> None:
    played = turn([PROMPT, {"mark": "busy"}, busy, {"reply": "end_turn"}])
    played.agent.wait_reached("busy")

    played.cancel()

    assert played.outcome()["result"] == {"stopReason": "cancelled"}


def test_a_loop_of_turns_goes_on_after_a_cancelled_one(turn: Callable[[Steps], Turn]) -> None:
    body = [PROMPT, {"say": "x"}, {"wait_for": "more"}, {"reply": "end_turn"}]
    played = turn([{"loop": "forever", "steps": body}])
    played.client.update("agent_message_chunk")
    played.cancel()
    assert played.outcome()["result"] == {"stopReason": "cancelled"}

    played.agent.release("more")
    following = played.client.prompt(played.session, "next")

    assert played.client.response(following)["result"] == {"stopReason": "end_turn"}
    assert played.client.text() == "xx"


def test_a_cancel_can_be_ignored_or_left_to_the_script(turn: Callable[[Steps], Turn]) -> None:
    played = turn(
        [
            {"ignore": "cancel"},
            PROMPT,
            {"expect": "session/cancel"},
            {"say": "so what"},
            {"reply": "end_turn"},
        ]
    )

    played.cancel()

    assert played.outcome()["result"] == {"stopReason": "end_turn"}
    assert played.client.text() == "so what"


def test_a_request_can_be_called_off_by_its_id(
    fake_agent: FakeAgentFactory, start: Callable[[FakeAgent], RawClient]
) -> None:
    client = start(fake_agent([{"expect": "initialize"}, {"sleep": "forever"}]))
    request_id = client.request("initialize")

    client.notify("$/cancel_request", {"requestId": request_id})

    assert client.response(request_id)["error"]["code"] == -32800


def test_a_prompt_kept_for_later_can_be_called_off_too(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"wait_for": "go"}, {"reply": "end_turn"}, PROMPT, {"reply": "refusal"}])
    kept = played.client.prompt(played.session, "second")

    played.client.notify("$/cancel_request", {"requestId": kept})

    assert played.client.response(kept)["error"]["code"] == -32800
    played.agent.release("go")
    assert played.outcome()["result"] == {"stopReason": "end_turn"}
    third = played.client.prompt(played.session, "third")
    assert played.client.response(third)["result"] == {"stopReason": "refusal"}


# ------------------------------------------------------------------------------ order and time


def test_marks_and_markers_hand_the_turn_to_the_test_and_back(
    turn: Callable[[Steps], Turn],
) -> None:
    mark = {"mark": "ready", "value": {"cwd": "$cwd", "pid": "$pid"}}
    played = turn([PROMPT, mark, {"wait_for": "go"}, {"reply": "end_turn"}])

    value = played.agent.wait_reached("ready")
    assert value["pid"] == played.client.process.pid
    assert not [m for m in played.client.messages if m.get("id") == played.prompt_id]

    played.agent.release("go")
    assert played.outcome()["result"] == {"stopReason": "end_turn"}


async def test_marks_and_messages_can_be_awaited(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"loop": 3, "steps": [{"mark": "round", "value": "$i"}]}])

    assert await played.agent.reached("round", times=3) == 2
    heard = await played.agent.heard("session/prompt")
    assert heard["params"]["sessionId"] == played.session


async def test_waiting_in_vain_says_what_the_agent_did_instead(
    turn: Callable[[Steps], Turn],
) -> None:
    played = turn([{"mark": "here"}])
    await played.agent.reached("here")

    with pytest.raises(NotReached, match=r"(?s)did not get to mark 'there'.*\"here\""):
        await played.agent.reached("there", within=0)
    with pytest.raises(NotReached):
        played.agent.wait_heard("session/cancel", within=0)


def test_the_environment_of_the_process_can_be_asked_for(
    fake_agent: FakeAgentFactory, clients: ExitStack
) -> None:
    agent = fake_agent([{"mark": "environment", "value": "$environ"}])
    clients.enter_context(RawClient(agent.command, env={"ONLY": "this"}))

    environment = agent.wait_reached("environment")

    # The C locale makes Python add one of its own.
    assert environment.items() - {("LC_CTYPE", "C.UTF-8")} == {("ONLY", "this")}


# --------------------------------------------------------------------------------------- bytes


def test_garbage_is_written_as_it_is(turn: Callable[[Steps], Turn]) -> None:
    parts = [
        "INFO ${session}\n",
        {"text": "[", "repeat": 3},
        {"base64": "/wA="},
        "\n",
    ]
    played = turn([PROMPT, {"garbage": parts, "repeat": 2}, {"reply": "end_turn"}])
    played.outcome()

    assert played.client.noise == [f"INFO {played.session}\n".encode(), b"[[[\xff\x00\n"] * 2


def test_a_large_line_needs_no_large_scenario(turn: Callable[[Steps], Turn]) -> None:
    played = turn(
        [
            PROMPT,
            {"garbage": [{"text": "x", "repeat": 1_000_000}, "\n"]},
            {"say": {"$repeat": "é", "times": 1_000_000}},
            {"reply": "end_turn"},
        ]
    )
    played.outcome()

    assert played.client.noise == [b"x" * 1_000_000 + b"\n"]
    assert played.client.text() == "é" * 1_000_000


@pytest.mark.parametrize(
    ("where", "chunks"),
    [
        (3, [b'["\xc3', b'\xa9"]\n']),
        ([1, 5], [b"[", '"é"'.encode(), b"]\n"]),
        ("bytes", [b"[", b'"', b"\xc3", b"\xa9", b'"', b"]", b"\n"]),
    ],
)
def test_split_makes_the_reader_read_more_than_once(
    fake_agent: FakeAgentFactory, where: Any, chunks: list[bytes]
) -> None:
    """A multi-byte character is cut as well as any other place, and only the next message is."""
    agent = fake_agent([{"split": where}, {"send": ["é"]}, {"wait_for": "rest"}, {"send": [1]}])
    with subprocess.Popen(agent.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        output = process.stdout.fileno()

        assert [os.read(output, 65536) for _ in chunks] == chunks
        agent.release("rest")
        assert os.read(output, 65536) == b"[1]\n"
        process.stdin.close()


def test_flood_sends_numbered_chunks_of_one_message(turn: Callable[[Steps], Turn]) -> None:
    flood = {"flood": 5000, "text": "${i},", "id": "m", "kind": "agent_thought_chunk"}
    played = turn([PROMPT, flood, {"reply": "end_turn"}])
    played.outcome()

    assert played.client.text("agent_thought_chunk") == "".join(f"{n}," for n in range(5000))
    assert {u["messageId"] for u in played.client.updates()} == {"m"}


def test_a_flood_can_be_paced(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"flood": 100, "rate": 1000}, {"reply": "end_turn"}])
    begun = time.monotonic()
    played.outcome()

    assert time.monotonic() - begun >= 0.09
    assert len(played.client.updates()) == 100


def test_stderr_is_free(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"stderr": "warning\n", "repeat": 30_000}, {"reply": "end_turn"}])
    played.outcome()
    played.client.close()

    assert played.client.stderr == "warning\n" * 30_000


# ------------------------------------------------------------------------------------- process


def test_exit_ends_it_with_a_status(turn: Callable[[Steps], Turn]) -> None:
    assert turn([PROMPT, {"exit": 3}]).client.wait() == 3


def test_signal_ends_it_with_a_signal(turn: Callable[[Steps], Turn]) -> None:
    assert turn([PROMPT, {"signal": "SIGKILL"}]).client.wait() == -signal.SIGKILL


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_close_ends_a_stream_and_not_the_process(
    turn: Callable[[Steps], Turn], stream: str
) -> None:
    played = turn([PROMPT, {"close": stream}, {"mark": "closed"}])
    played.agent.wait_reached("closed")
    process = played.client.process
    pipe = process.stdout if stream == "stdout" else process.stderr
    assert pipe is not None

    assert pipe.read() == b""
    assert process.poll() is None


def test_close_stdin_breaks_the_clients_pipe(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"close": "stdin"}, {"mark": "closed"}, {"ignore": "sigterm"}])
    played.agent.wait_reached("closed")

    with pytest.raises(BrokenPipeError):
        played.client.send({})
    assert played.client.process.poll() is None
    played.client.process.kill()


def test_it_can_stop_reading(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"ignore": "stdin"}, {"mark": "deaf"}, {"wait_for": "end"}, {"exit": 0}])
    played.agent.wait_reached("deaf")

    played.client.send({"method": "hello"})
    played.agent.release("end")

    played.client.wait()
    assert played.agent.received("hello") == []


def test_it_can_outlive_the_end_of_its_stdin(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"ignore": "eof"}, {"mark": "deaf"}, {"wait_for": "end"}, {"exit": 4}])
    played.agent.wait_reached("deaf")

    played.client.close_stdin()
    played.agent.wait_logged("eof")
    played.agent.release("end")

    assert played.client.wait() == 4


def test_it_can_ignore_signals_and_requests(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"ignore": ["sigterm", "sigint", "requests"]}, {"mark": "deaf"}])
    played.agent.wait_reached("deaf")
    for number in (signal.SIGTERM, signal.SIGINT):
        played.client.process.send_signal(number)

    unanswered = played.client.request("session/list")
    played.client.notify("after")
    played.agent.wait_heard("after")

    assert unanswered not in [message.get("id") for message in played.agent.sent]
    assert played.client.process.poll() is None


@pytest.mark.parametrize("kind", ["child", "setsid", "daemon", "term_immune"])
def test_fork_leaves_a_process_behind(
    turn: Callable[[Steps], Turn], agent_processes: AgentProcesses, kind: str
) -> None:
    played = turn([PROMPT, {"fork": kind}, {"mark": "forked"}])
    played.agent.wait_reached("forked")
    (event,) = played.agent.log.events("forked")
    child = psutil.Process(event["child"])
    agent = played.agent.pid

    assert (os.getpgid(child.pid) == os.getpgid(agent)) == (kind in {"child", "term_immune"})
    assert (child.ppid() == agent) == (kind != "daemon")
    if kind == "term_immune":
        child.terminate()
    played.client.close()
    assert [found.pid for found in agent_processes.alive()] == [child.pid]
    agent_processes.kill()


def test_a_forked_process_can_hold_the_agents_stdout_open(
    fake_agent: FakeAgentFactory, agent_processes: AgentProcesses
) -> None:
    agent = fake_agent([{"fork": "child", "keeps": ["stdout"]}, {"exit": 0}])
    pipe = subprocess.PIPE
    with subprocess.Popen(agent.command, stdin=pipe, stdout=pipe) as process:
        process.wait(10)
        assert process.stdout is not None
        output = process.stdout.fileno()
        os.set_blocking(output, False)

        # Nothing to read, and no end either.
        with pytest.raises(BlockingIOError):
            os.read(output, 1)
        os.set_blocking(output, True)
        agent_processes.kill()
        assert os.read(output, 1) == b""


def test_fork_can_leave_a_zombie(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"fork": "zombie"}, {"mark": "forked"}])
    played.agent.wait_reached("forked")
    (event,) = played.agent.log.events("forked")

    assert psutil.Process(event["child"]).status() == psutil.STATUS_ZOMBIE


# ---------------------------------------------------------------------------- scenarios, the log


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"sey": "hello"}, "line 1: no verb in .* did you mean 'say'?"),
        ({"say": "a", "think": "b"}, "one verb a step, not 'say' and 'think'"),
        ({"say": "a", "to": "b"}, "'say' takes no 'to'"),
        ({"close": "stdot"}, "'close' knows .* not 'stdot'"),
        ({"loop": 2}, "'loop' needs 'steps'"),
        ({"loop": 2, "steps": [{"say": "a"}, {}]}, "line 1, step 2: no verb"),
        ([], "a step is a JSON object"),
    ],
)
def test_a_wrong_step_is_refused_before_anything_runs(line: Any, complaint: str) -> None:
    with pytest.raises(BadScenario, match=complaint):
        Scenario.of([line])


def test_a_scenario_that_cannot_be_read_is_named_on_stderr(tmp_path: Path) -> None:
    scenario = tmp_path / "broken.jsonl"
    scenario.write_text('{"say": "a"}\n\n{"say"\n')

    run = subprocess.run(
        [sys.executable, FAKE_AGENT, scenario], capture_output=True, text=True, check=False
    )

    assert run.returncode == 65
    assert "broken.jsonl, line 3: not JSON" in run.stderr


@pytest.mark.parametrize("how", [["-m", "silo_nb.testing.fake_agent"], [str(FAKE_AGENT)]])
def test_it_runs_as_a_module_and_by_its_path(tmp_path: Path, how: list[str]) -> None:
    scenario = tmp_path / "scenario.jsonl"
    scenario.write_text('{"send": {"a": 1}}\n')

    run = subprocess.run(
        [sys.executable, *how, scenario],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        cwd=FAKE_AGENT.parents[2],
    )
    usage = subprocess.run([sys.executable, FAKE_AGENT], capture_output=True, check=False)

    assert run.returncode == 0
    assert usage.returncode == 64
    assert b"usage:" in usage.stderr


def test_the_log_has_both_directions_in_their_order(turn: Callable[[Steps], Turn]) -> None:
    played = turn([PROMPT, {"say": "hi"}, {"reply": "end_turn"}])
    played.outcome()
    played.client.send_raw(b"not json\n")
    played.client.close()

    records = played.agent.log.records
    assert [record["n"] for record in records] == list(range(len(records)))
    assert records[0]["event"] == "start"
    assert records[0]["pid"] == played.agent.pid == played.client.process.pid
    methods = [message.get("method") for message in played.agent.received()]
    assert methods == ["initialize", "session/new", "session/prompt"]
    assert [r["received_raw"] for r in records if "received_raw" in r] == ["not json"]
    assert records[-1]["event"] == "eof"


# ------------------------------------------------------------------------------------- fixtures


def test_a_fake_agent_has_a_profile_that_starts_it(
    fake_agent: FakeAgentFactory, silo_config: Path
) -> None:
    first = fake_agent([], env={"A": "b"})
    second = fake_agent([], profile="other")
    third = fake_agent([])

    file = silo_config / "profiles.toml"
    profiles = tomllib.loads(file.read_text())["profiles"]
    assert [first.profile, second.profile, third.profile] == ["fake", "other", "fake-3"]
    assert tuple(profiles["fake"]["command"]) == first.command
    assert profiles["fake"]["env"] == {"A": "b"}
    assert os.environ["SILO_NB_CONFIG_DIR"] == str(silo_config)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(silo_config.stat().st_mode) == 0o700


def test_a_profile_is_written_as_toml_whatever_is_in_it(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "label": 'a "quoted" ü\x7f\n',
        "inherit_env": False,
        "mcp_servers": [{"name": "s", "args": ["a b"], "env": []}],
        "session_meta": {"claudeCode": {"options": {"x.y": 1}}},
    }

    file = write_profile(tmp_path / "config", "odd id.", command=["a"], **keys)

    assert tomllib.loads(file.read_text("utf-8"))["profiles"] == {
        "odd id.": {"command": ["a"], **keys}
    }


SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.jsonl"))

# What an agent cannot cause: a missing binary or directory, our own connecting 150 times over.
NOT_BY_AN_AGENT = {"P1", "P2", "P20"}


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_every_scenario_can_be_played_and_says_what_it_is_about(file: Path) -> None:
    scenario = Scenario.read(file)

    assert re.match(r"(FAULTS|PROTOCOL|case) ", scenario.about)


def test_every_fault_an_agent_can_cause_has_a_scenario() -> None:
    """FAULTS P1-P22 and R1-R37, cases 1-11, 18, 20, 21, 30 and 59."""
    heads = [Scenario.read(file).about.split(":")[0] for file in SCENARIOS]
    named = {name for head in heads for name in re.findall(r"\b[PR]\d+|case \d+", head)}

    faults = {f"P{n}" for n in range(1, 23)} | {f"R{n}" for n in range(1, 38)}
    cases = {f"case {n}" for n in [*range(1, 12), 18, 20, 21, 30, 59]}
    assert (faults | cases) - named == NOT_BY_AN_AGENT


def test_scenarios_are_found_by_name(fake_agent: FakeAgentFactory, request: Any) -> None:
    agent = fake_agent("a_response_twice_for_one_id")

    with pytest.raises(FileNotFoundError, match="there is 'a_response_twice_for_one_id'"):
        fake_agent("a_response_twice")
    folder = request.config.rootpath / "tests" / "scenarios"
    assert agent.scenario == folder / "a_response_twice_for_one_id.jsonl"


def test_the_notebook_directory_is_the_working_directory(notebook_dir: Path) -> None:
    assert Path.cwd() == notebook_dir
    assert list(notebook_dir.iterdir()) == []


def test_a_process_that_outlives_its_test_fails_it(tmp_path: Path) -> None:
    code = """
        import subprocess

        kept = []

        def test_leaves_something(fake_agent):
            agent = fake_agent([{"mark": "up"}])
            kept.append(subprocess.Popen(agent.command, stdin=subprocess.PIPE))
            agent.wait_reached("up")
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert "1 process(es) outlived the test:" in run.stdout
    assert "1 passed, 1 error" in run.stdout
