"""T-18: whatever agent, user and chance do in whatever order, a session keeps its promises.

FAULTS §4.2. After each step: every request of the agent's is answered exactly once, nothing is left
open by a cancel, a dispose or an exit, the status is right, listeners heard all; a turn that ended
has returned; and the journal tells what the live transcript tells.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from silo_nb.errors import AgentExited, AgentRefused, AuthRequired, SessionBusy, SessionClosed
from silo_nb.runtime import agent_thread
from tests.wire.session_world import SESSION_ID, Ask, Turn, World, on_agent_thread

TEXTS = st.text(max_size=6)
IDS = st.sampled_from(["a", "b", "c"])
MAYBE_IDS = st.none() | IDS
CHUNKS = st.sampled_from(["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"])
STATUSES = st.sampled_from([None, "pending", "in_progress", "completed", "failed", "acme"])
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
LISTENS = st.sampled_from([True, True, True, False])
"""Whether somebody answers permissions; without, they never stay open, so mostly."""
PLACES = st.integers(0, 1_000)


def sent(message: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is None, as agents do."""
    return {key: value for key, value in message.items() if value is not None}


class SessionMachine(RuleBasedStateMachine):
    """One session after the other, each with an agent that does as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.worlds = 0
        self.requests = 0

    @initialize(listens=LISTENS)
    def begin(self, listens: bool) -> None:
        self.world = World(self.directory, self.worlds, listens)

    @precondition(lambda self: self.world.has_ended)
    @rule(listens=LISTENS)
    def connect_again(self, listens: bool) -> None:
        self.finish()
        self.worlds += 1
        self.world = World(self.directory, self.worlds, listens)

    # ------------------------------------------------------------------------------------- turns

    @rule(text=st.text(min_size=1, max_size=6))
    def prompt(self, text: str) -> None:
        """A prompt either begins the one turn there is, or is refused at once."""
        world = self.world
        refusal = self._refusal()
        blocks = [{"type": "text", "text": text}]
        if refusal is not None:
            with pytest.raises(refusal):
                on_agent_thread(lambda: world.session.prompt(blocks))
            return
        on_agent_thread(lambda: self._begin_turn(blocks))
        request = world.agent.sent[-1]
        assert request["method"] == "session/prompt"
        assert request["params"] == {"sessionId": SESSION_ID, "prompt": blocks}
        assert world.turn is not None
        world.owed = world.turn.request_id = request["id"]

    def _refusal(self) -> type[Exception] | None:
        world = self.world
        if world.disposed:
            return SessionClosed
        if world.turn is not None:
            return SessionBusy
        return AgentExited if world.agent.exited or world.overdue else None

    async def _begin_turn(self, blocks: list[dict[str, Any]]) -> None:
        world = self.world
        first = len(world.heard)
        world.agent.written.clear()
        world.turn = Turn(asyncio.ensure_future(world.session.prompt(blocks)), first)
        await world.agent.written.wait()

    @precondition(lambda self: self.world.turn is None and not self.world.has_ended)
    @rule(text=TEXTS)
    def prompt_and_cancel_at_once(self, text: str) -> None:
        """Cancelled before the agent has heard of it, a turn never reaches it."""
        world = self.world
        if world.overdue:
            return
        before = len(world.agent.sent)

        async def play() -> str:
            prompting = asyncio.ensure_future(
                world.session.prompt([{"type": "text", "text": text}])
            )
            await asyncio.sleep(0)
            world.session.cancel()
            return (await prompting).stop_reason

        # An ask that was open before the turn is settled with it.
        world.close_asks()
        assert on_agent_thread(play) == "cancelled"
        assert "session/prompt" not in [m.get("method") for m in world.agent.sent[before:]]

    @rule()
    def cancel(self) -> None:
        world = self.world
        on_agent_thread(world.session.cancel)
        if world.turn is not None and not world.turn.cancel_requested:
            self._expect_cancel(world.turn)

    def _expect_cancel(self, turn: Turn) -> None:
        turn.cancel_requested = True
        self.world.close_asks()
        cancels = [m for m in self.world.agent.sent if m.get("method") == "session/cancel"]
        assert cancels[-1]["params"] == {"sessionId": SESSION_ID}

    @precondition(lambda self: self.world.turn is not None)
    @rule()
    def the_caller_gives_up(self) -> None:
        """Whoever waits for a turn is cancelled: so is the turn, which the agent has yet to end."""
        turn = self.world.turn
        assert turn is not None
        on_agent_thread(lambda: turn.task.cancel() and None)
        if not turn.cancel_requested:
            self._expect_cancel(turn)
        turn.abandoned = True

    @precondition(lambda self: self.world.turn is not None)
    @rule()
    def a_cancel_is_ignored(self) -> None:
        """When our patience ends the turn is over all the same."""
        self.cancel()
        turns = self.world.session.turns
        running = turns.running
        assert running is not None
        on_agent_thread(lambda: turns._force_end(running))
        self.world.overdue = True
        self.world.end_turn("cancelled")
        self.world.check_turn_over()

    @precondition(lambda self: self.world.owed is not None and not self.world.has_ended)
    @rule(
        answer=st.sampled_from(
            [
                {"result": {"stopReason": "end_turn"}},
                {"result": {"stopReason": "cancelled", "usage": {"totalTokens": 3}}},
                {"result": {"stopReason": 5}},
                {"result": None},
                {"error": {"code": -32603, "message": "internal"}},
                {"error": {"code": -32000, "message": "log in"}},
            ]
        ),
        twice=st.booleans(),
    )
    def the_agent_answers_the_prompt(self, answer: dict[str, Any], twice: bool) -> None:
        """In time, or late; a second answer is ignored."""
        world = self.world
        response = {"jsonrpc": "2.0", "id": world.owed, **answer}
        world.owed = None
        world.overdue = False
        if world.turn is not None:
            world.end_turn(self._end_by(answer, cancelled=world.turn.cancel_requested))
        world.receive(*([response, response] if twice else [response]))
        if world.turn is not None:
            world.check_turn_over()

    def _end_by(self, answer: dict[str, Any], *, cancelled: bool) -> str | type[Exception]:
        if "error" in answer:
            refusal = AuthRequired if answer["error"]["code"] == -32000 else AgentRefused
            return "cancelled" if cancelled else refusal
        reason = (answer["result"] or {}).get("stopReason")
        return reason if isinstance(reason, str) else "unknown"

    # ----------------------------------------------------------------------------------- updates

    @precondition(lambda self: not self.world.has_ended)
    @rule(kind=CHUNKS, text=TEXTS, message_id=MAYBE_IDS, meta=st.none() | st.just({"x": 1}))
    def a_chunk(self, kind: str, text: str, message_id: str | None, meta: Any) -> None:
        content = {"type": "text", "text": text}
        chunk = {"sessionUpdate": kind, "content": content, "messageId": message_id, "_meta": meta}
        self.world.receive_update(sent(chunk))

    @precondition(lambda self: not self.world.has_ended)
    @rule(tool_call_id=IDS, opens=st.booleans(), status=STATUSES, title=st.none() | TEXTS)
    def a_tool_call(
        self, tool_call_id: str, opens: bool, status: str | None, title: str | None
    ) -> None:
        kind = "tool_call" if opens else "tool_call_update"
        row = {"toolCallId": tool_call_id, "status": status, "title": title}
        self.world.receive_update(sent({"sessionUpdate": kind, **row}))

    @precondition(lambda self: not self.world.has_ended)
    @rule(
        update=st.sampled_from(
            [
                {"sessionUpdate": "plan", "entries": [{"content": "look", "status": "pending"}]},
                {"sessionUpdate": "plan", "entries": []},
                {"sessionUpdate": "usage_update", "used": 3, "size": 100},
                {"sessionUpdate": "session_info_update", "title": "Report"},
                {"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}},
                {"sessionUpdate": "notice", "title": "Slow"},
                {"sessionUpdate": "compaction_update", "compactionId": "a"},
                {"sessionUpdate": "turn_end", "stopReason": "forged"},
                {"sessionUpdate": "acme_update", "x": [1, {"y": None}]},
            ]
        )
    )
    def another_update(self, update: dict[str, Any]) -> None:
        self.world.receive_update(update)

    # -------------------------------------------------------------------------------------- asks

    def _request(self, method: str, params: dict[str, Any]) -> Ask:
        """Let the agent ask something; its ids count from 0, and some are texts."""
        number = self.requests
        self.requests += 1
        ask = Ask(number if number % 2 == 0 else f"r{number}", is_open=False)
        params = {"sessionId": SESSION_ID, **params}
        self.world.asks.append(ask)
        self.world.receive({"jsonrpc": "2.0", "id": ask.id, "method": method, "params": params})
        return ask

    @precondition(lambda self: not self.world.has_ended)
    @rule(tool_call_id=IDS)
    def a_permission_request(self, tool_call_id: str) -> None:
        world = self.world
        known = len(world.asked)
        tool_call = {"toolCallId": tool_call_id, "title": "Write"}
        ask = self._request(
            "session/request_permission", {"toolCall": tool_call, "options": OPTIONS}
        )
        if len(world.asked) > known:
            ask.request = world.asked[-1]
            ask.is_open = True
        is_cancelling = world.turn is not None and world.turn.cancel_requested
        has_row = world.session.transcript.tool_call(tool_call_id) is not None
        assert ask.is_open == (world.listens and has_row and not is_cancelling)

    @precondition(lambda self: not self.world.has_ended)
    @rule(
        method=st.sampled_from(
            ["session/request_permission", "elicitation/create", "fs/read_text_file", "acme"]
        )
    )
    def a_request_that_nobody_can_answer(self, method: str) -> None:
        self._request(method, {})

    @precondition(lambda self: self.world.asked)
    @rule(
        place=PLACES,
        option=st.sampled_from(["yes", "no"]),
        elsewhere=st.booleans(),
        twice=st.booleans(),
    )
    def a_right_answer(self, place: int, option: str, elsewhere: bool, twice: bool) -> None:
        """From whatever thread; only the first one counts, and only while the ask is open."""
        ask = self._ask(place)
        assert ask.request is not None
        respond = ask.request.respond
        for _ in range(1 + twice):
            won = respond(option) if elsewhere else on_agent_thread(lambda: respond(option))
            assert won is ask.is_open
            ask.is_open = False
        on_agent_thread(lambda: None)

    @precondition(lambda self: self.world.asked)
    @rule(place=PLACES)
    def a_wrong_answer(self, place: int) -> None:
        """What was not offered is refused here, and the ask stays as it is."""
        ask = self._ask(place)
        assert ask.request is not None
        with pytest.raises(ValueError, match="not offered"):
            ask.request.respond("allow_always")

    @precondition(lambda self: self.world.asked and not self.world.has_ended)
    @rule(place=PLACES)
    def the_agent_withdraws(self, place: int) -> None:
        ask = self._ask(place)
        self.world.receive(self._withdrawal(ask))
        ask.is_open = False

    @precondition(lambda self: self.world.asked and not self.world.has_ended)
    @rule(place=PLACES)
    def an_answer_crosses_a_withdrawal(self, place: int) -> None:
        """Somebody answers on another thread while the agent thread reads the withdrawal."""
        ask = self._ask(place)

        encoded = json.dumps(self._withdrawal(ask)).encode() + b"\n"

        def cross() -> None:
            assert ask.request is not None
            answering = threading.Thread(target=ask.request.respond, args=["yes"])
            answering.start()
            answering.join()
            self.world.session.connection.feed(encoded)

        on_agent_thread(cross)
        ask.is_open = False

    def _ask(self, place: int) -> Ask:
        asks = [ask for ask in self.world.asks if ask.request is not None]
        return asks[place % len(asks)]

    def _withdrawal(self, ask: Ask) -> dict[str, Any]:
        params = {"requestId": ask.id}
        return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}

    # -------------------------------------------------------------------------------------- ends

    @precondition(lambda self: not self.world.disposed)
    @rule(exits=st.booleans(), code=st.integers(0, 3))
    def it_ends(self, exits: bool, code: int) -> None:
        """The agent exits, or is disposed of, before or after that."""
        if exits and not self.world.agent.exited:
            self.exit(code)
        else:
            self.dispose()

    def exit(self, code: int) -> None:
        world = self.world
        on_agent_thread(lambda: world.agent.exit(code))
        was_cancelled = world.turn is not None and world.turn.cancel_requested
        world.end_turn("cancelled" if was_cancelled else AgentExited)
        self._over()

    def dispose(self) -> None:
        world = self.world
        on_agent_thread(world.session.dispose)
        world.disposed = True
        if world.turn is not None:
            world.turn.cancel_requested = True
        world.end_turn("cancelled")
        self._over()

    def _over(self) -> None:
        self.world.owed = None
        self.world.overdue = False
        if self.world.turn is not None:
            self.world.check_turn_over()

    # --------------------------------------------------------------------------------- what holds

    @invariant()
    def promises_are_kept(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @rule()
    def the_journal_is_read(self) -> None:
        self.world.check_journal()

    def finish(self) -> None:
        """End the session at hand, whatever state it is in."""
        if not self.world.disposed:
            self.dispose()
        self.world.check()
        self.world.check_journal()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.finish()
        shutil.rmtree(self.directory)


@pytest.fixture(autouse=True)
def _agent_thread_ends() -> Iterator[None]:
    yield
    agent_thread().stop()


@pytest.mark.timeout(300)
def test_a_session_keeps_its_promises() -> None:
    """T-18: 200 examples of 40 steps."""
    run_state_machine_as_test(
        SessionMachine,
        settings=settings(
            max_examples=200,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
