"""LiveSession: one conversation with one agent process. Everything in it runs on the agent thread.

The path of one update: the connection hands over a notification, the normalizer makes an Update of
it, :meth:`LiveSession.take` reduces, journals and tells the listeners. No step waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from silo_nb.acp.connection import Connection, ConnectionLostError
from silo_nb.acp.handshake import AgentCard
from silo_nb.acp.normalize import Normalizer
from silo_nb.acp.process import AgentProcess, ExitReport
from silo_nb.acp.quirks import EchoFilter
from silo_nb.acp.rpc import METHOD_NOT_FOUND, IncomingRequest, RpcError
from silo_nb.errors import AgentExited, AgentRefused, SessionBusy, SessionClosed
from silo_nb.journal import Journal
from silo_nb.model import (
    EMPTY_TRANSCRIPT,
    Command,
    ConfigOption,
    Transcript,
    Turn,
    Update,
    apply_update,
)
from silo_nb.profiles import Profile
from silo_nb.session.desk import Desk
from silo_nb.session.errors import refusal
from silo_nb.session.listeners import Listeners
from silo_nb.session.records import user_updates, write_prompt, write_update
from silo_nb.session.turn import PromptResult, RunningTurn

__all__ = ["CANCEL_GRACE", "LiveSession"]

CANCEL_GRACE = 10.0
"""Seconds an agent gets to end a cancelled turn itself before we end it for it."""

EARLY_LIMIT = 10_000
"""How many updates are kept for a first listener, or for a session id not known yet."""

JOURNAL_PATIENCE = 2.0
"""Seconds a turn waits for a slow disk; the journal goes on trying by itself."""


class LiveSession:
    """The state of one session, and the only writer of it."""

    def __init__(self, profile: Profile, secrets: Sequence[str] = ()) -> None:
        self.profile = profile
        self.secrets = tuple(secrets)
        self.id = ""
        self.session_id = ""
        self.cwd = ""
        self.card = AgentCard()
        self.transcript: Transcript = EMPTY_TRANSCRIPT
        self.commands: tuple[Command, ...] = ()
        self.config_options: tuple[ConfigOption, ...] = ()
        self.journal: Journal | None = None
        self.connection = Connection(self._write, self)
        self.process: AgentProcess | None = None
        self.exit: ExitReport | None = None
        self.closed = False
        self.on_closed: Callable[[LiveSession], None] | None = None
        self.on_update: Listeners[Update] = Listeners()
        self.on_commands_changed: Listeners[()] = Listeners()
        self.on_config_options_changed: Listeners[()] = Listeners()
        self.desk = Desk(self)
        self._normalizer = Normalizer()
        self._echo = EchoFilter()
        self._turn: RunningTurn | None = None
        self._overdue = False
        self._unclaimed: list[Mapping[str, Any]] = []
        self._early: list[Update] = []
        self._disposal: asyncio.Future[None] | None = None

    # ---------------------------------------------------------------------------------- state

    @property
    def status(self) -> str:
        """``idle``, ``working``, ``waiting`` (for an answer), ``exited`` or ``closed``."""
        if self.closed:
            return "closed"
        if self.exit is not None:
            return "exited"
        if self.desk.open:
            return "waiting"
        return "idle" if self._turn is None else "working"

    @property
    def cancelling(self) -> bool:
        """Whether the running turn was asked to stop."""
        return self._turn is not None and self._turn.cancel_requested

    def opened(self, session_id: str, journal: Journal) -> None:
        """Begin: the agent gave the session an id. Updates that came before it are taken now."""
        self.session_id = session_id
        self.journal = journal
        self.id = journal.id
        waiting, self._unclaimed = self._unclaimed, []
        for params in waiting:
            self.on_notification("session/update", params)

    # ----------------------------------------------------------------- what the agent sends

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification. Those that are not session/update are nobody's business yet."""
        if method != "session/update":
            return
        if params.get("sessionId") != self.session_id:
            self._on_foreign_update(params)
            return
        raw = params.get("update")
        if not isinstance(raw, dict):
            self._note("session/update without an update")
            return
        update = self._normalizer.normalize(raw)
        if not self._echo.is_echo(update):
            self.take(update)

    def _on_foreign_update(self, params: Mapping[str, Any]) -> None:
        """Keep what may turn out to be ours; an update can precede the reply that names its id."""
        if not self.session_id and len(self._unclaimed) < EARLY_LIMIT:
            self._unclaimed.append(params)
        else:
            self._note("update of another session", repr(params.get("sessionId")))

    def on_request(self, request: IncomingRequest) -> None:
        """Take a request; permissions and questions go to the desk, the rest is not offered."""
        match request.method:
            case "session/request_permission":
                self.desk.ask_permission(request)
            case "elicitation/create":
                self.desk.turn_down_question(request)
            case method:
                request.refuse(METHOD_NOT_FOUND, f'"Method not found": {method}')

    def on_exit(self, report: ExitReport) -> None:
        """The process is gone: settle everything that waits for it."""
        self.exit = report
        self.desk.cancel_all(by="agent-exited")
        self.connection.close()
        if self._turn is not None:
            self._end_turn("agent-exited", error=self._exit_error("prompt"))

    def take(self, update: Update) -> None:
        """Reduce, journal, tell. The one place where a session's state moves."""
        self.transcript = apply_update(self.transcript, update)
        if self._turn is not None:
            self._turn.updates.append(update)
        if self.journal is not None:
            write_update(self.journal, update)
        if update.commands is not None or update.config_options is not None or update.mode_id:
            self._take_controls(update)
        if self.on_update:
            self.on_update.tell(update)
        elif len(self._early) < EARLY_LIMIT and self._turn is None:
            self._early.append(update)

    def _take_controls(self, update: Update) -> None:
        if update.commands is not None:
            self.commands = update.commands
            self.on_commands_changed.tell()
        if update.config_options is not None:
            self.config_options = update.config_options
            self.on_config_options_changed.tell()
        if update.mode_id is not None:
            self.config_options = tuple(
                replace(option, current_value=update.mode_id)
                if "mode" in (option.category, option.id)
                else option
                for option in self.config_options
            )
            self.on_config_options_changed.tell()

    def claim_early(self) -> list[Update]:
        """Return, once, the updates that came while nobody listened; see FAULTS R16."""
        early, self._early = self._early, []
        return early

    def end_run(self) -> None:
        """Let the agent's next chunk without an id begin a message of its own."""
        self._normalizer.end_run()

    # ---------------------------------------------------------------------------------- turns

    async def prompt(
        self, blocks: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> PromptResult:
        """Run one turn; see :meth:`silo_nb.session.Session.prompt`."""
        self._require_ready()
        turn = RunningTurn(self.transcript.head.turns + 1, len(self.transcript.entries))
        self._turn = turn
        self._early.clear()
        timer = None
        if timeout is not None:
            timer = asyncio.get_running_loop().call_later(timeout, self.cancel)
        try:
            self._begin_turn(turn, blocks)
            # What the user said is on disk before the agent hears it.
            await self._synced()
            if not turn.ended.done():
                self._send_prompt(turn, blocks)
            result = await turn.ended
        finally:
            if timer is not None:
                timer.cancel()
        await self._synced()
        return result

    def _require_ready(self) -> None:
        if self.closed:
            raise SessionClosed(f"session {self.id!r} was disposed; connect() a new one")
        if self.exit is not None:
            raise self._exit_error("between turns")
        if self.process is not None and not self.process.accepts_input:
            raise AgentRefused(
                "it has closed its stdin and cannot be prompted any more; dispose() the session",
                profile=self.profile.id,
                phase="prompt",
                stderr=self.process.stderr_tail(),
            )
        if self._turn is not None:
            raise SessionBusy(
                f"session {self.id!r} is in the middle of a turn; wait for it, or cancel() it"
            )
        if self._overdue:
            raise SessionBusy(
                f"the agent of session {self.id!r} has not let go of the turn that was cancelled; "
                "wait, or dispose() the session and connect() again"
            )

    def _begin_turn(self, turn: RunningTurn, blocks: Sequence[Mapping[str, Any]]) -> None:
        at = _now()
        if self.journal is not None:
            write_prompt(self.journal, blocks, turn.number, at)
        self.end_run()
        for update in user_updates(blocks, turn.number, at):
            self.take(update)
        self.take(Update("turn_start", timestamp=at, turn=Turn()))
        self._echo.expect("".join(b["text"] for b in blocks if b.get("type") == "text"))

    def _send_prompt(self, turn: RunningTurn, blocks: Sequence[Mapping[str, Any]]) -> None:
        turn.sent = True
        params = {"sessionId": self.session_id, "prompt": list(blocks)}
        response = self.connection.request(
            "session/prompt", params, on_result=lambda result: self._on_response(turn, result)
        )
        response.add_done_callback(lambda done: self._on_prompt_failed(turn, done))

    def _on_response(self, turn: RunningTurn, result: Mapping[str, Any]) -> None:
        """The turn's response, before any message behind it is looked at."""
        if self._turn is not turn:
            self._overdue = False
            return
        reason = result.get("stopReason")
        usage = result.get("usage")
        self._end_turn(
            reason if isinstance(reason, str) and reason else "unknown",
            usage=MappingProxyType(usage) if isinstance(usage, dict) and usage else None,
        )

    def _on_prompt_failed(self, turn: RunningTurn, done: asyncio.Future[dict[str, Any]]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None:
            return
        if self._turn is not turn:
            self._overdue = False
        elif isinstance(error, ConnectionLostError):
            self._end_turn("agent-exited", error=self._exit_error("prompt"))
        elif isinstance(error, RpcError):
            # Agents must answer a cancelled turn with `cancelled`; some answer with an error.
            if turn.cancel_requested:
                self._end_turn("cancelled")
            else:
                self._end_turn("error", error=refusal(error, self, "prompt"))

    def _end_turn(
        self,
        stop_reason: str,
        *,
        error: Exception | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        turn = self._turn
        if turn is None:
            return
        if error is not None and turn.cancel_requested:
            stop_reason, error = "cancelled", None
        if turn.grace is not None:
            turn.grace.cancel()
        self.desk.cancel_all(by="turn-end")
        self.end_run()
        facts = Turn(
            stop_reason=stop_reason,
            error=getattr(error, "message", None),
            cancel_requested=turn.cancel_requested,
            usage=usage,
        )
        self.take(Update("turn_end", timestamp=_now(), turn=facts))
        self._turn = None
        if turn.ended.done():
            return
        if error is None:
            turn.ended.set_result(turn.result(stop_reason, self.transcript, usage))
        else:
            turn.ended.set_exception(error)

    def cancel(self) -> None:
        """Ask the agent to stop the running turn; without one, do nothing."""
        turn = self._turn
        if turn is None or turn.cancel_requested or turn.ended.done():
            return
        turn.cancel_requested = True
        self.desk.cancel_all(by="cancel")
        if not turn.sent:
            self._end_turn("cancelled")
            return
        self.connection.notify("session/cancel", {"sessionId": self.session_id})
        loop = asyncio.get_running_loop()
        turn.grace = loop.call_later(CANCEL_GRACE, self._force_end, turn)

    def _force_end(self, turn: RunningTurn) -> None:
        """The agent ignores the cancel: the turn is over for us, the session is not to be used."""
        if self._turn is turn:
            self._overdue = True
            self._note("cancel ignored")
            self._end_turn("cancelled")

    # ------------------------------------------------------------------------------------ end

    async def dispose(self) -> None:
        """End the session: settle all that waits, stop the process, close the journal."""
        if self._disposal is None:
            self._disposal = asyncio.ensure_future(self._dispose())
        await asyncio.shield(self._disposal)

    async def _dispose(self) -> None:
        self.cancel()
        self.closed = True
        self.desk.cancel_all(by="dispose")
        if self._turn is not None:
            self._turn.cancel_requested = True
            self._end_turn("cancelled")
        if self.process is not None:
            await self._close_politely()
            await self.process.stop()
        if self.journal is not None:
            await asyncio.wait([asyncio.wrap_future(self.journal.close())], timeout=5)
        if self.on_closed is not None:
            self.on_closed(self)

    async def _close_politely(self) -> None:
        """session/close frees what the agent holds; one that does not answer is stopped anyway."""
        if self.exit is None and self.card.can_close:
            closing = self.connection.request("session/close", {"sessionId": self.session_id})
            await asyncio.wait([closing], timeout=0.5)

    # -------------------------------------------------------------------------------- helpers

    async def _synced(self) -> None:
        if self.journal is not None:
            await asyncio.wait([asyncio.wrap_future(self.journal.sync())], timeout=JOURNAL_PATIENCE)

    def _exit_error(self, phase: str) -> AgentExited:
        report = self.exit
        if report is None:
            return AgentExited("the connection is gone", profile=self.profile.id, phase=phase)
        return AgentExited(
            f"the process {report.describe()}; connect() starts a new one",
            exit_code=report.code,
            signal=report.signal,
            profile=self.profile.id,
            phase=phase,
            stderr=report.stderr,
        )

    def _write(self, data: bytes) -> None:
        if self.process is not None:
            self.process.write(data)

    def _note(self, kind: str, detail: str = "") -> None:
        self.connection.diagnostics.note(kind, detail)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
