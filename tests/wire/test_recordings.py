"""All recordings of real agents replay: what they said is in the transcript, and on disk.

Each recording goes through the product's whole path, without the agent: bytes, connection, session,
transcript, journal. What we said then is said again, by the product where it speaks for itself; the
agent's recorded answers follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import itertools
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from silo_nb import EMPTY_TRANSCRIPT, AgentError, Message, apply_update
from silo_nb.acp.connection import Connection
from silo_nb.acp.process import ExitReport
from silo_nb.journal import Journal, read_records
from silo_nb.profiles import DEMO
from silo_nb.runtime import agent_thread
from silo_nb.session.live import LiveSession
from silo_nb.session.records import read_updates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silo_nb import PermissionRequest, Update
    from silo_nb.acp.rpc import IncomingRequest
    from silo_nb.model import Transcript
    from silo_nb.model.update import Role

ARCHIVES = Path(__file__).parents[1] / "data" / "traces"
SECONDS_PER_RECORDING = 30

Json = dict[str, Any]

ROLES: dict[str, Role] = {
    "user_message_chunk": "user",
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
}


@functools.cache
def recordings() -> dict[str, str]:
    """Return the text of every recording by its name, ``<agent>@<version>-<scenario>``."""
    found = {}
    for archive in sorted(ARCHIVES.glob("*.tar.xz")):
        with tarfile.open(archive) as members:
            for member in members:
                file = members.extractfile(member) or io.BytesIO()
                found[member.name.removesuffix(".jsonl")] = file.read().decode()
    return found


class Spoken:
    """One session, as the wire carried it: straight from the recording."""

    def __init__(self, live: LiveSession) -> None:
        self.live = live
        self.texts: dict[Role, str] = {"user": "", "agent": "", "thought": ""}
        self.row_ids: dict[str, None] = {}
        self.updates: list[Json] = []
        self.last: dict[str, Json] = {}
        self.delivered: list[Update] = []
        live.on_update.add(self._deliver)

    def hear(self, message: Json) -> None:
        """Take in a message of the agent's about this session."""
        params = message["params"]
        if message["method"] == "session/request_permission":
            self.row_ids[params["toolCall"]["toolCallId"]] = None
            return
        update = params["update"]
        self.updates.append(update)
        self.last[update["sessionUpdate"]] = update
        if "toolCallId" in update:
            self.row_ids[update["toolCallId"]] = None
        role = ROLES.get(update["sessionUpdate"])
        if role is not None:
            self.texts[role] += update["content"].get("text", "")

    def _deliver(self, update: Update) -> None:
        # What we record ourselves has a time; permissions and notices of ours have none.
        if update.timestamp is None and update.kind not in {"permission", "notice"}:
            self.delivered.append(update)


class Replay:
    """Plays the agent's part of a recording to the product, and ours through the product."""

    def __init__(self, directory: Path) -> None:
        self.sessions: list[Spoken] = []
        self.still_open: list[str] = []
        self.oddities: list[str] = []
        self.asked: list[Any] = []
        self.answered: list[Any] = []
        self._directory = directory
        self._begin_process()

    def _begin_process(self) -> None:
        self._by_id: dict[str, Spoken] = {}
        self._turns: dict[int, asyncio.Task[None]] = {}
        self._ids: dict[int, int] = {}
        self._asks: dict[Any, PermissionRequest] = {}
        self._last_sent: Json = {}
        self._sent = asyncio.Event()
        self._connection = Connection(self._on_sent, self)

    async def run(self, text: str) -> None:
        """Replay a recording to its end and close the journals."""
        process = 1
        for line in text.splitlines():
            record = json.loads(line)
            if record.get("proc", 1) != process:
                process = record["proc"]
                await self._end_process()
                self._begin_process()
            if record["dir"] == "in":
                await self._receive(record["msg"])
            elif record["dir"] == "out":
                await self._send(record["msg"])
        await self._end_process()

    async def _end_process(self) -> None:
        for session in self._by_id.values():
            session.live.on_exit(ExitReport(0, None, ()))
        await asyncio.gather(*self._turns.values())
        for session in self._by_id.values():
            await session.live.dispose()
        self.oddities += self._connection.diagnostics.recent

    # ------------------------------------------------------------------------------ the agent

    async def _receive(self, message: Json) -> None:
        if message.get("method") in {"session/update", "session/request_permission"}:
            self._by_id[message["params"]["sessionId"]].hear(message)
        if "method" in message:
            self._feed(message)
            return
        recorded_id = message["id"]
        self._feed({**message, "id": self._ids.get(recorded_id, "skipped")})
        if recorded_id in self._turns:
            await self._turns[recorded_id]

    def _feed(self, message: Json) -> None:
        self._connection.feed(json.dumps(message).encode() + b"\n")

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Hand a notification to the session it is about, or to none: that is not told apart."""
        if params.get("sessionId") in self._by_id:
            self._by_id[params["sessionId"]].live.on_notification(method, params)

    def on_request(self, request: IncomingRequest) -> None:
        """Hand a request to the session it is about."""
        self.asked.append(request.id)
        live = self._by_id[request.params["sessionId"]].live
        known = set(live.desk.open)
        live.on_request(request)
        for ask_id in set(live.desk.open) - known:
            self._asks[request.id] = live.desk.open[ask_id]

    # ------------------------------------------------------------------------------------- us

    async def _send(self, message: Json) -> None:
        params = message.get("params", {})
        session = self._by_id.get(params.get("sessionId"))
        match message.get("method"):
            case None:
                self._answer(message)
            case "session/cancel":
                assert session is not None
                session.live.turns.cancel()
            case "session/prompt" if session is not None:
                await self._prompt(session, message)
            case "session/new":
                self._request(message, self._open)
            case "session/load" | "session/resume":
                self._open(params)
                self._request(message)
            case _:
                self._request(message)

    def _answer(self, message: Json) -> None:
        """Answer a permission as it was answered then; the other requests the product answers."""
        ask = self._asks.get(message["id"])
        outcome = message.get("result", {}).get("outcome", {})
        if ask is not None and outcome.get("outcome") == "selected":
            ask.respond(outcome["optionId"])
        elif ask is not None:
            ask.cancel()

    async def _prompt(self, session: Spoken, message: Json) -> None:
        if session.live.status != "idle":
            # Two prompts at a time are more than the product sends; the agent's answer is here.
            return
        prompt = message["params"]["prompt"]
        session.texts["user"] += "".join(block.get("text", "") for block in prompt)
        self._sent.clear()
        self._turns[message["id"]] = asyncio.ensure_future(self._turn(session.live, prompt))
        while self._last_sent.get("method") != "session/prompt" or not self._sent.is_set():
            await self._sent.wait()
        self._ids[message["id"]] = self._last_sent["id"]

    async def _turn(self, live: LiveSession, prompt: list[Json]) -> None:
        # How a turn ends badly is not what this is about.
        with contextlib.suppress(AgentError):
            await live.turns.prompt(prompt)
        rows = live.transcript.tool_calls
        self.still_open += [row.tool_call_id for row in rows if row.is_open]

    def _request(self, message: Json, on_result: Any = None) -> None:
        self._connection.request(message["method"], message["params"], on_result=on_result)
        self._ids[message["id"]] = self._last_sent["id"]

    def _open(self, result: Mapping[str, Any]) -> None:
        session_id = result["sessionId"]
        if session_id in self._by_id:
            # Loaded again by the process that has it: its updates go on in the same session.
            return
        live = LiveSession(DEMO)
        live.connection = self._connection
        live.desk.on_permission.add(lambda ask: None)
        session = self._by_id[session_id] = Spoken(live)
        self.sessions.append(session)
        live.opened(session_id, Journal.create(self._directory, {"sessionId": session_id}))

    def _on_sent(self, data: bytes) -> None:
        self._last_sent = json.loads(data)
        self._sent.set()
        if "method" not in self._last_sent:
            self.answered.append(self._last_sent["id"])


def replay(name: str, directory: Path) -> Replay:
    """Replay a recording on the agent thread, where sessions live."""

    async def run() -> Replay:
        replayed = Replay(directory)
        await replayed.run(recordings()[name])
        return replayed

    return agent_thread().run(run()).result(SECONDS_PER_RECORDING)


def test_there_are_156_recordings_of_four_agents() -> None:
    agents = {name.partition("@")[0] for name in recordings()}
    assert agents == {"claude-agent-acp", "codex-acp", "gemini-cli", "pi-acp"}
    assert len(recordings()) == 156


@pytest.mark.parametrize("name", recordings())
def test_a_recording_replays(name: str, tmp_path: Path) -> None:
    """Every line is understood, nothing is lost or left open, and the journal says the same."""
    replayed = replay(name, tmp_path)

    assert [o for o in replayed.oddities if not _is_expected(o)] == []
    assert replayed.still_open == []
    assert sorted(replayed.answered) == sorted(replayed.asked)
    for session in replayed.sessions:
        transcript = session.live.transcript
        assert [update.raw for update in session.delivered] == session.updates
        assert _texts(transcript) == session.texts
        assert [row.tool_call_id for row in transcript.tool_calls] == list(session.row_ids)
        _require_last_word_counts(session)
        _require_runs_are_messages(session)
        assert _folded(session.live) == transcript


def _require_last_word_counts(session: Spoken) -> None:
    """Check what the agent replaces whole: its plan, its commands, its usage."""
    transcript, last = session.live.transcript, session.last
    entries = last.get("plan", {}).get("entries", [])
    assert [(e.content, e.status) for e in transcript.plan] == [
        (entry["content"], entry["status"]) for entry in entries
    ]
    commands = last.get("available_commands_update", {}).get("availableCommands", [])
    offered = session.live.controls.commands
    assert [command.name for command in offered] == [c["name"] for c in commands]
    used = last.get("usage_update", {}).get("used")
    assert (transcript.usage.used if transcript.usage else None) == used


def _require_runs_are_messages(session: Spoken) -> None:
    """Check that the agent's message ids are kept, and that a made-up one stands for one run."""
    for update in session.delivered:
        if "messageId" in update.raw:
            assert update.message_id == update.raw["messageId"]
    entries = session.live.transcript.entries
    runs = [entry for entry in entries if isinstance(entry, Message) and _is_made_up(entry)]
    assert len({run.message_id for run in runs}) == len(runs)
    for before, after in itertools.pairwise(entries):
        if before in runs and after in runs:
            assert before.role != after.role


def _is_made_up(message: Message) -> bool:
    return (message.message_id or "").startswith("syn-")


def _is_expected(oddity: str) -> bool:
    """Whether an oddity is none of the agent's.

    It answers a prompt that was not sent again, or takes back a question that our cancel had
    settled a moment before.
    """
    return oddity in {
        "response to no open request: 'skipped'",
        "withdrawal of no open request: 0",
    }


def _texts(transcript: Transcript) -> dict[Role, str]:
    texts: dict[Role, str] = {"user": "", "agent": "", "thought": ""}
    for message in transcript.messages:
        texts[message.role] += message.text
    return texts


def _folded(live: LiveSession) -> Transcript:
    assert live.journal is not None
    assert live.journal.path is not None
    reading = read_records(live.journal.path)
    assert (reading.bad_lines, reading.torn_tail) == (0, False)
    return functools.reduce(apply_update, read_updates(reading.records), EMPTY_TRANSCRIPT)
