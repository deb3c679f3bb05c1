"""The recorder changes nothing of what it records, and a recording can be played again."""

from __future__ import annotations

import functools
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from silo_nb.testing import FakeAgent, RawClient, Recording
from silo_nb.testing.plugin import FakeAgentFactory
from silo_nb.testing.replayer import scenario_of

ROOT = Path(__file__).parents[2]
ARCHIVES = ROOT / "tests" / "data" / "traces"
RECORDER = [sys.executable, str(ROOT / "silo_nb" / "testing" / "recorder.py")]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def record(clients: ExitStack, tape: Path) -> Callable[[FakeAgent], RawClient]:
    """Start a scripted agent behind the recorder."""

    def record(agent: FakeAgent) -> RawClient:
        return clients.enter_context(RawClient([*RECORDER, str(tape), "--", *agent.command]))

    return record


@pytest.fixture
def replay(clients: ExitStack, tape: Path) -> Callable[..., RawClient]:
    """Play the tape again."""

    def replay(*options: str) -> RawClient:
        command = [sys.executable, "-m", "silo_nb.testing.replayer", str(tape), *options]
        return clients.enter_context(RawClient(command, env=ENVIRONMENT))

    return replay


def talk(client: RawClient, cwd: Path) -> list[dict[str, Any]]:
    """Have one turn with a permission in it; return what the agent said."""
    session = client.open_session(cwd)
    prompt = client.prompt(session, "hello")
    request = client.asked("session/request_permission")
    client.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": "allow"}})
    client.response(prompt)
    return list(client.messages)


TURN: list[dict[str, Any]] = [
    {"expect": "session/prompt"},
    {"garbage": "INFO starting ✓\n"},
    {"say": "costs ${session} $HOME é", "id": "m"},
    {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}},
    {"stderr": "a warning\n"},
    {"reply": "end_turn"},
]


def test_a_recording_has_everything_in_the_order_of_the_wire(
    fake_agent: FakeAgentFactory,
    record: Callable[[FakeAgent], RawClient],
    tape: Path,
    tmp_path: Path,
) -> None:
    agent = fake_agent(TURN)
    client = record(agent)
    said = talk(client, tmp_path)
    client.close_stdin()
    status = client.wait()

    recording = Recording.read(tape)
    assert status == 0
    assert list(recording.messages("in")) == said == agent.sent
    assert list(recording.messages("out")) == agent.received()
    assert client.noise == ["INFO starting ✓\n".encode()]
    kinds = [event.get("event", event["dir"]) for event in recording.events]
    # Standard output and standard error are two pipes: nobody knows which was first.
    kinds.remove("stderr")
    assert kinds == [
        "spawn",
        *("out", "in", "out", "in"),
        *("out", "raw", "in", "in", "out", "in"),
        *("stop", "stdout-eof", "exit"),
    ]
    assert recording.events[0]["cmd"] == list(agent.command)
    assert recording.events[-1]["rc"] == 0
    assert stat.S_IMODE(tape.stat().st_mode) == 0o600


def test_bytes_pass_the_recorder_unchanged(tape: Path) -> None:
    data = bytes(range(256)) * 1000 + b"\n" + b"no newline at the end"

    run = subprocess.run(
        [*RECORDER, tape, "--", "cat"], input=data, capture_output=True, check=True
    )

    assert run.stdout == data


@pytest.mark.parametrize(
    ("last", "status"), [({"exit": 3}, 3), ({"signal": "SIGKILL"}, -signal.SIGKILL)]
)
def test_the_recorder_ends_as_the_agent_ended(
    fake_agent: FakeAgentFactory,
    record: Callable[[FakeAgent], RawClient],
    tape: Path,
    last: dict[str, Any],
    status: int,
) -> None:
    client = record(fake_agent([{"expect": "initialize"}, last]))
    client.request("initialize")

    assert client.wait() == status
    assert Recording.read(tape).events[-1]["rc"] == status


def test_a_closed_stdout_is_closed_for_the_client_too(
    fake_agent: FakeAgentFactory, record: Callable[[FakeAgent], RawClient]
) -> None:
    """FAULTS P9."""
    agent = fake_agent([{"expect": "initialize"}, {"close": "stdout"}])
    client = record(agent)
    client.request("initialize")
    assert client.process.stdout is not None

    assert client.process.stdout.read() == b""
    assert client.process.poll() is None


def test_signals_are_handed_on(
    fake_agent: FakeAgentFactory, record: Callable[[FakeAgent], RawClient]
) -> None:
    agent = fake_agent([{"expect": "initialize"}, {"mark": "up"}])
    client = record(agent)
    client.request("initialize")
    agent.wait_reached("up")

    client.process.send_signal(signal.SIGTERM)

    assert client.wait() == -signal.SIGTERM


def test_a_command_that_cannot_be_started_is_named(tape: Path) -> None:
    run = subprocess.run(
        [*RECORDER, tape, "--", "no-such-agent"], capture_output=True, text=True, check=False
    )
    usage = subprocess.run([*RECORDER, tape], capture_output=True, text=True, check=False)

    assert run.returncode == 127
    assert "cannot record 'no-such-agent'" in run.stderr
    assert usage.returncode == 64
    assert "usage:" in usage.stderr


def test_a_recording_is_played_again(
    fake_agent: FakeAgentFactory,
    record: Callable[[FakeAgent], RawClient],
    replay: Callable[..., RawClient],
    tmp_path: Path,
) -> None:
    """Ids of the client are mapped: this one counts from elsewhere."""
    first = record(fake_agent(TURN))
    said = talk(first, tmp_path)
    first.close()

    again = replay()
    again.call("session/list")
    repeated = talk(again, tmp_path)

    def mapped(message: dict[str, Any]) -> dict[str, Any]:
        ours = "method" not in message
        return message | ({"id": message["id"] + 1} if ours else {})

    assert repeated[1:] == [mapped(message) for message in said]
    assert again.noise == first.noise


def test_an_agent_that_died_dies_again(
    fake_agent: FakeAgentFactory,
    record: Callable[[FakeAgent], RawClient],
    replay: Callable[..., RawClient],
) -> None:
    client = record(fake_agent([{"expect": "initialize"}, {"exit": 3}]))
    client.request("initialize")
    client.wait()

    again = replay()
    again.request("initialize")

    assert again.wait() == 3


def test_a_recording_feeds_a_parser_line_by_line() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"text": "é\u2028"}}
    recording = Recording(
        [
            {"t": 0, "dir": "out", "msg": {}},
            {"t": 0, "dir": "in", "msg": message},
            {"t": 0, "dir": "raw", "text": "not json"},
        ]
    )

    first, second = recording.lines()

    assert json.loads(first) == message
    assert second == b"not json\n"


def test_the_processes_of_a_restarted_agent_are_told_apart(tmp_path: Path) -> None:
    events = [
        {"t": 0, "dir": "out", "proc": process, "msg": {"id": 1, "method": method}}
        for process, method in enumerate(["initialize", "session/load"])
    ]
    tape = tmp_path / "tape.jsonl"
    tape.write_text("\n".join(map(json.dumps, events)) + '\n{"t": 0, "di')

    recording = Recording.read(tape)

    assert recording.processes == [0, 1]
    (step,) = scenario_of(recording, process=1).steps
    assert step["expect"] == "session/load"


def test_a_recorded_pace_can_be_kept() -> None:
    events = [{"t": t, "dir": "in", "msg": {"method": "m"}} for t in (1.0, 1.5)]

    steps = scenario_of(Recording(events), pace=2).steps

    assert [step["sleep"] for step in steps if "sleep" in step] == [2.0, 1.0]


def test_text_that_looks_like_a_name_is_replayed_as_it_was() -> None:
    messages = [
        {"method": "session/update", "params": {"text": "$session"}},
        {"id": 1, "result": "$session"},
    ]
    recording = Recording(
        [
            {"t": 0, "dir": "out", "msg": {"id": 1, "method": "a"}},
            *({"t": 0, "dir": "in", "msg": message} for message in messages),
        ]
    )

    assert all(step["verbatim"] for step in scenario_of(recording).steps[1:])


@functools.cache
def recordings_of(agent: str) -> dict[str, list[str]]:
    """The recordings of one real agent, by scenario."""
    (archive,) = ARCHIVES.glob(f"{agent}@*.tar.xz")
    found = {}
    with tarfile.open(archive) as members:
        for member in members:
            file = members.extractfile(member)
            assert file is not None
            found[member.name.split("-")[-1].removesuffix(".jsonl")] = (
                file.read().decode().split("\n")
            )
    return found


def follow(client: RawClient, recording: Recording) -> None:
    """Say what the recorded client said, when it did, but number requests in our own way."""
    ids: dict[Any, int] = {}
    for event in recording.events:
        match event:
            case {"dir": "out", "msg": {"method": method, "id": request_id} as message}:
                ids[request_id] = client.request(method, message.get("params"))
            case {"dir": "out", "msg": {"method": method} as message}:
                client.notify(method, message.get("params"))
            case {"dir": "out", "msg": {"id": request_id} as message}:
                client.until(partial(_is_request, request_id))
                client.send(message)
            case {"dir": "in", "msg": {"id": request_id} as message} if "method" not in message:
                client.response(ids[request_id])


@pytest.mark.parametrize(
    ("agent", "scenario"),
    [
        ("claude-agent-acp", "cancelperm"),
        ("claude-agent-acp", "config"),
        ("claude-agent-acp", "twosessions"),
        ("codex-acp", "ask"),
        ("codex-acp", "par"),
        ("gemini-cli", "writereject"),
        ("gemini-cli", "noauth"),
        ("pi-acp", "restart"),
    ],
)
def test_a_recording_of_a_real_agent_is_played_as_it_was(
    replay: Callable[..., RawClient], tape: Path, agent: str, scenario: str
) -> None:
    tape.write_text("\n".join(recordings_of(agent)[scenario]))
    whole = Recording.read(tape)

    for process in whole.processes:
        recording = whole.of_process(process)
        client = replay("--process", str(process))
        follow(client, recording)
        said = list(recording.messages("in"))
        expected = [_without_our_ids(message) for message in said]
        client.until(partial(_is_the_last, client, len(expected)))

        assert [_without_our_ids(message) for message in client.messages] == expected
        client.close()


def _is_request(request_id: Any, message: dict[str, Any]) -> bool:
    return "method" in message and message.get("id") == request_id


def _is_the_last(client: RawClient, count: int, _: dict[str, Any]) -> bool:
    return len(client.messages) == count


def _without_our_ids(message: dict[str, Any]) -> dict[str, Any]:
    return message if "method" in message else {k: v for k, v in message.items() if k != "id"}
