"""The turns of a session: one at a time, each with one end, whatever the agent makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from silo_nb.acp.connection import ConnectionLostError
from silo_nb.acp.rpc import RpcError
from silo_nb.errors import AgentError, AgentRefused, SessionBusy, SessionClosed
from silo_nb.model import Turn, Update
from silo_nb.session.errors import exit_error, refusal
from silo_nb.session.records import user_updates, write_prompt
from silo_nb.session.turn import PromptResult, RunningTurn

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["CANCEL_GRACE", "Turns"]

CANCEL_GRACE = 10.0
"""Seconds an agent gets to end a cancelled turn itself before we end it for it."""


class Turns:
    """Runs a session's turns; lives on the agent thread."""

    def __init__(self, session: LiveSession) -> None:
        self.running: RunningTurn | None = None
        self._session = session
        self._overdue = False
        self._starting: asyncio.Future[None] | None = None

    @property
    def cancelling(self) -> bool:
        """Whether the running turn was asked to stop."""
        return self.running is not None and self.running.cancel_requested

    async def prompt(
        self, blocks: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> PromptResult:
        """Run one turn; see :meth:`silo_nb.Session.prompt`."""
        await self.make_ready()
        transcript = self._session.transcript
        turn = RunningTurn(transcript.head.turns + 1, len(transcript.entries))
        self.running = turn
        timer = None
        if timeout is not None:
            timer = asyncio.get_running_loop().call_later(timeout, self.cancel)
        try:
            self._begin(turn, blocks)
            # What the user said is on disk before the agent hears it.
            await self._session.synced()
            if not turn.ended.done():
                self._send(turn, blocks)
            result = await turn.ended
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        await self._session.synced()
        return result

    async def make_ready(self) -> None:
        """Make sure that there is an agent to prompt: one that is gone or deaf is replaced.

        The conversation goes on where the agent can bring it back. (case 5, case 13)
        """
        session = self._session
        if session.closed:
            raise SessionClosed(f"session {session.id!r} was disposed; connect() a new one")
        if session.outcome == "journal-only":
            raise SessionClosed(
                f"session {session.id!r} can only be read: its agent can neither resume nor load "
                "it. connect(…, resume=Restore(id, start_fresh=True)) goes on in a new session"
            )
        if self.running is not None or self._starting is not None:
            raise SessionBusy(
                f"session {session.id!r} is in the middle of a turn; wait for it, or cancel() it"
            )
        if session.exit is None and not self._overdue and self._can_hear:
            return
        self._starting = asyncio.ensure_future(session.reconnect())
        try:
            await self._starting
        except asyncio.CancelledError:
            raise SessionClosed(
                f"starting the agent of session {session.id!r} again was called off; the next "
                "prompt tries once more"
            ) from None
        finally:
            self._starting = None
        if not self._can_hear:
            raise AgentRefused(
                "it has closed its stdin, so that it cannot be prompted",
                profile=session.profile.id,
                phase="prompt",
                stderr=session.last_words(),
            )

    @property
    def _can_hear(self) -> bool:
        process = self._session.process
        return process is None or process.accepts_input

    def renew(self) -> None:
        """There is a new process: what the last one owed us is forgotten."""
        self._overdue = False

    def _begin(self, turn: RunningTurn, blocks: Sequence[Mapping[str, Any]]) -> None:
        session, at = self._session, _now()
        if session.journal is not None:
            write_prompt(session.journal, blocks, turn.number, at)
        session.begin_turn("".join(b["text"] for b in blocks if b.get("type") == "text"))
        for update in user_updates(blocks, turn.number, at):
            session.take(update)
        session.take(Update("turn_start", timestamp=at, turn=Turn()))

    def _send(self, turn: RunningTurn, blocks: Sequence[Mapping[str, Any]]) -> None:
        turn.sent = True
        session = self._session
        session.connection.request(
            "session/prompt",
            {"sessionId": session.session_id, "prompt": list(blocks)},
            on_result=lambda result: self._on_response(turn, result),
            on_error=lambda error: self._on_error(turn, error),
        )

    def _on_response(self, turn: RunningTurn, result: Mapping[str, Any]) -> None:
        if self.running is not turn:
            self._overdue = False
            return
        reason = result.get("stopReason")
        usage = result.get("usage")
        self.end(
            reason if isinstance(reason, str) and reason else "unknown",
            usage=MappingProxyType(usage) if isinstance(usage, dict) and usage else None,
        )

    def _on_error(self, turn: RunningTurn, error: Exception) -> None:
        if self.running is not turn:
            self._overdue = False
        elif isinstance(error, ConnectionLostError):
            self.end("agent-exited", error=exit_error(self._session, "prompt"))
        elif isinstance(error, RpcError):
            self.end("error", error=refusal(error, self._session, "prompt"))

    def end(
        self,
        stop_reason: str,
        *,
        error: AgentError | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        """End the running turn, if there is one: settle its asks and rows, tell who waits.

        An agent must answer a turn that we cancelled with ``cancelled``. Some answer with an error
        and some die of it; for us the turn is cancelled all the same.
        """
        turn, session = self.running, self._session
        if turn is None:
            return
        if error is not None and turn.cancel_requested:
            stop_reason, error = "cancelled", None
        if turn.grace is not None:
            turn.grace.cancel()
        session.desk.cancel_all(by="turn-end")
        session.end_run()
        facts = Turn(
            stop_reason=stop_reason,
            error=None if error is None else error.message,
            cancel_requested=turn.cancel_requested,
            usage=usage,
        )
        session.take(Update("turn_end", timestamp=_now(), turn=facts))
        self.running = None
        session.changed(wants_attention=True)
        if turn.ended.done():
            return
        if error is None:
            turn.ended.set_result(turn.result(stop_reason, session.transcript, usage))
        else:
            turn.ended.set_exception(error)

    def cancel(self) -> None:
        """Ask the agent to stop the running turn; without one, do nothing."""
        turn, session = self.running, self._session
        if self._starting is not None:
            self._starting.cancel()
        if turn is None or turn.cancel_requested:
            return
        turn.cancel_requested = True
        session.desk.cancel_all(by="cancel")
        if not turn.sent:
            self.end("cancelled")
            return
        session.connection.notify("session/cancel", {"sessionId": session.session_id})
        loop = asyncio.get_running_loop()
        turn.grace = loop.call_later(CANCEL_GRACE, self._force_end, turn)

    def _force_end(self, turn: RunningTurn) -> None:
        """The agent ignores the cancel: the turn is over for us, the session is not to be used."""
        if self.running is turn:
            self._overdue = True
            self._session.note("cancel ignored")
            self.end("cancelled")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
