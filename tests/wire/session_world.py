"""A real session whose agent is in the test's hands, and what ought to be true of the two.

The connection, the session and the journal are the real ones, on the real agent thread. Only the
process is not: starting one for each of thousands of examples would be all that they do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from inspect import isawaitable
from pathlib import Path
from typing import Any, cast

from silo_nb import (
    EMPTY_TRANSCRIPT,
    PermissionRequest,
    PromptResult,
    Transcript,
    Update,
    apply_update,
)
from silo_nb.acp.process import AgentProcess, ExitReport
from silo_nb.acp.rpc import REQUEST_CANCELLED
from silo_nb.journal import Journal, read_records
from silo_nb.profiles import Profile
from silo_nb.runtime import agent_thread
from silo_nb.session.errors import exit_error
from silo_nb.session.live import LiveSession
from silo_nb.session.records import read_updates

SESSION_ID = "session-1"
PATIENCE = 10.0
"""Seconds until something that never comes is a failure."""


def on_agent_thread(action: Callable[[], Any]) -> Any:
    """Run `action`, a function or coroutine function, there; return once what it began is done."""

    async def run() -> Any:
        result = action()
        if isawaitable(result):
            result = await result
        # What other threads asked for in the meantime, and the tasks that this made ready.
        for _ in range(4):
            await asyncio.sleep(0)
        return result

    return agent_thread().run(run()).result(PATIENCE)


class FarEnd:
    """The agent: what it was sent, and how it ends. Stands where its process would."""

    pid = 0

    def __init__(self, session: LiveSession) -> None:
        self.sent: list[dict[str, Any]] = []
        self.answers: dict[Any, list[dict[str, Any]]] = {}
        self.exited = False
        self.written = asyncio.Event()
        self._session = session

    @property
    def accepts_input(self) -> bool:
        return not self.exited

    def write(self, data: bytes) -> None:
        if self.exited:
            return
        message = json.loads(data)
        self.sent.append(message)
        if "method" not in message:
            self.answers.setdefault(message["id"], []).append(message)
        self.written.set()

    def stderr_tail(self, _lines: int = 20) -> tuple[str, ...]:
        return ()

    def exit(self, code: int) -> None:
        if not self.exited:
            self.exited = True
            self._session.on_exit(ExitReport(code, None, ()))

    async def stop(self) -> None:
        self.exit(0)


@dataclass
class Turn:
    """A turn that was begun, as the test sees it."""

    task: asyncio.Task[PromptResult]
    first_update: int
    request_id: int | None = None
    cancel_requested: bool = False
    abandoned: bool = False
    expected: str | type[Exception] = ""


@dataclass
class Ask:
    """A request of the agent's; `request` is what a listener was given, if it is a permission."""

    id: Any
    is_open: bool
    request: PermissionRequest | None = None


@dataclass
class World:
    """A session, its agent, and what is expected of both."""

    directory: Path
    number: int
    listens: bool
    heard: list[Update] = field(default_factory=list)
    heard_transcript: Transcript = EMPTY_TRANSCRIPT
    asked: list[PermissionRequest] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    turn: Turn | None = None
    owed: int | None = None
    """Id of the prompt that the agent has not answered."""
    overdue: bool = False
    disposed: bool = False

    def __post_init__(self) -> None:
        on_agent_thread(self._open)

    def _open(self) -> None:
        self.session = LiveSession(Profile(id="fake", label="Fake", command=("fake",)))
        self.agent = FarEnd(self.session)
        self.session.process = cast("AgentProcess", self.agent)
        self.session.reconnect = self._cannot_reconnect
        self.session.on_update.add(self._hear)
        if self.listens:
            self.session.desk.on_permission.add(self.asked.append)
        header = {"profileId": "fake", "sessionId": SESSION_ID}
        journal = Journal.create(self.directory, header, durability="none")
        self.session.opened(SESSION_ID, journal)

    async def _cannot_reconnect(self) -> None:
        """There is no other process to be had here: what that means is tested in test_restoring."""
        raise exit_error(self.session, "between turns")

    def _hear(self, update: Update) -> None:
        self.heard.append(update)
        self.heard_transcript = apply_update(self.heard_transcript, update)

    # --------------------------------------------------------------------------- the agent speaks

    def receive(self, *messages: dict[str, Any]) -> None:
        """Let the session read these messages, in one piece."""
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        on_agent_thread(lambda: self.session.connection.feed(data))

    def receive_update(self, update: dict[str, Any]) -> None:
        params = {"sessionId": SESSION_ID, "update": update}
        self.receive({"jsonrpc": "2.0", "method": "session/update", "params": params})

    # ------------------------------------------------------------------------------- what is true

    def end_turn(self, expected: str | type[Exception]) -> None:
        """Expect the running turn to be over."""
        self.close_asks()
        if self.turn is not None:
            self.turn.expected = expected

    def close_asks(self) -> None:
        """Expect every open ask to be settled."""
        for ask in self.asks:
            ask.is_open = False

    @property
    def has_ended(self) -> bool:
        return self.agent.exited or self.disposed

    @property
    def expected_status(self) -> str:
        if self.disposed:
            return "closed"
        if self.agent.exited:
            return "exited"
        if any(ask.is_open for ask in self.asks):
            return "waiting"
        return "idle" if self.turn is None else "working"

    def check(self) -> None:
        """Compare what is with what ought to be."""
        session = self.session
        assert session.status == self.expected_status
        assert len(session.desk.open) == sum(ask.is_open for ask in self.asks)
        assert (session.turns.running is not None) == (self.turn is not None)
        assert session.turns._overdue is self.overdue
        assert self.heard_transcript == session.transcript
        assert session.connection.diagnostics.counts["failed"] == 0
        for ask in self.asks:
            answers = self.agent.answers.get(ask.id, [])
            assert len(answers) <= 1
            assert answers or ask.is_open or self.agent.exited
            if ask.request is not None:
                assert ask.request.answered is not ask.is_open
                if answers:
                    assert ask.request.permission.outcome == outcome_of(answers[0])

    def check_turn_over(self) -> None:
        """The running turn has ended: its prompt has returned, with all that was heard of it."""
        turn, self.turn = self.turn, None
        assert turn is not None
        on_agent_thread(lambda: asyncio.wait([turn.task], timeout=PATIENCE))
        assert turn.task.done(), "the prompt never returned"
        if turn.abandoned:
            assert turn.task.cancelled()
        elif isinstance(turn.expected, str):
            result = turn.task.result()
            assert result.stop_reason == turn.expected
            assert result.cancel_requested is turn.cancel_requested
            assert list(result.updates) == self._updates_of(turn)
        else:
            assert type(turn.task.exception()) is turn.expected

    def _updates_of(self, turn: Turn) -> list[Update]:
        since = self.heard[turn.first_update :]
        ends = (n for n, update in enumerate(since) if update.kind == "turn_end" and update.turn)
        last = next(ends)
        return since[: last + 1]

    def check_journal(self) -> None:
        """What is on disk tells the same story."""
        journal = self.session.journal
        assert journal is not None
        on_agent_thread(lambda: asyncio.wait_for(asyncio.wrap_future(journal.sync()), PATIENCE))
        assert journal.problem is None
        assert journal.path is not None
        assert fold(read_updates(read_records(journal.path).records)) == self.session.transcript


def outcome_of(answer: dict[str, Any]) -> str:
    """Return what an answer to a permission request says, in the words of the record."""
    if answer.get("error", {}).get("code") == REQUEST_CANCELLED:
        return "withdrawn"
    return str(answer["result"]["outcome"]["outcome"])


def fold(updates: Sequence[Update] | Any) -> Transcript:
    """Return the transcript that updates make."""
    return reduce(apply_update, updates, EMPTY_TRANSCRIPT)
