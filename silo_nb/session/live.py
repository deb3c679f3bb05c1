"""LiveSession: one conversation with one agent process. Everything in it runs on the agent thread.

The path of one update: the connection hands over a notification, the normalizer makes an Update of
it, :meth:`LiveSession.take` reduces, journals and tells the listeners. No step waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from silo_nb.acp.connection import Connection
from silo_nb.acp.handshake import AgentCard
from silo_nb.acp.normalize import Normalizer
from silo_nb.acp.process import AgentProcess, ExitReport
from silo_nb.acp.quirks import EchoFilter
from silo_nb.acp.rpc import METHOD_NOT_FOUND, IncomingRequest, InvalidParamsError
from silo_nb.errors import AgentExited
from silo_nb.journal import Journal
from silo_nb.model import (
    EMPTY_TRANSCRIPT,
    Command,
    ConfigOption,
    Transcript,
    Update,
    apply_update,
)
from silo_nb.profiles import Profile
from silo_nb.session.desk import Desk
from silo_nb.session.listeners import Listeners
from silo_nb.session.records import write_update
from silo_nb.session.secret_values import redact
from silo_nb.session.turn import PromptResult
from silo_nb.session.turns import Turns

__all__ = ["LiveSession"]

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
        self.turns = Turns(self)
        self._normalizer = Normalizer()
        self._echo = EchoFilter()
        self._unclaimed: list[Mapping[str, Any]] = []
        self._unwritten: list[Update] = []
        self._early: list[Update] = []
        self._untold: deque[Update] = deque()
        self._telling = False
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
        return "idle" if self.turns.running is None else "working"

    def opened(self, session_id: str, journal: Journal) -> None:
        """Begin: the agent gave the session an id. Updates that came before it are taken now."""
        self.session_id = session_id
        self.journal = journal
        self.id = journal.id
        unwritten, self._unwritten = self._unwritten, []
        for update in unwritten:
            write_update(journal, update)
        waiting, self._unclaimed = self._unclaimed, []
        for params in waiting:
            self.on_notification("session/update", params)

    # ----------------------------------------------------------------- what the agent sends

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification. Those that are not session/update are nobody's business yet."""
        if method != "session/update":
            return
        if not self.session_id or params.get("sessionId") != self.session_id:
            self._on_foreign_update(params)
            return
        raw = params.get("update")
        if not isinstance(raw, dict):
            self.note("session/update without an update")
            return
        update = self._normalizer.normalize(raw)
        if not self._echo.is_echo(update):
            self.take(update)

    def _on_foreign_update(self, params: Mapping[str, Any]) -> None:
        """Keep what may turn out to be ours; an update can precede the reply that names its id."""
        if not self.session_id and len(self._unclaimed) < EARLY_LIMIT:
            self._unclaimed.append(params)
        else:
            self.note("update of another session", repr(params.get("sessionId")))

    def on_request(self, request: IncomingRequest) -> None:
        """Take a request; permissions and questions go to the desk, the rest is not offered.

        Raises:
            InvalidParamsError: it cannot be read, or is about another session.
        """
        match request.method:
            case "session/request_permission" | "elicitation/create" if self._is_foreign(request):
                self.note("request of another session", repr(request.params["sessionId"]))
                raise InvalidParamsError("sessionId: this client has no such session")
            case "session/request_permission":
                self.desk.ask_permission(request)
            case "elicitation/create":
                self.desk.turn_down_question(request)
            case method:
                request.refuse(METHOD_NOT_FOUND, f'"Method not found": {method}')

    def _is_foreign(self, request: IncomingRequest) -> bool:
        """Whether it names another session: a question may name none, and ours has no id at first.

        See FAULTS R14.
        """
        named = request.params.get("sessionId")
        return bool(self.session_id) and named is not None and named != self.session_id

    def on_exit(self, report: ExitReport) -> None:
        """The process is gone: settle everything that waits for it."""
        self.exit = report
        self.desk.cancel_all(by="agent-exited")
        self.connection.close()
        self.turns.end("agent-exited", error=self.exit_error("prompt"))

    def take(self, update: Update) -> None:
        """Reduce, journal, tell. The one place where a session's state moves."""
        self.transcript = apply_update(self.transcript, update)
        turn = self.turns.running
        if turn is not None:
            turn.updates.append(update)
        if self.journal is not None:
            write_update(self.journal, update)
        else:
            # An agent may ask something before it has opened the session.
            self._unwritten.append(update)
        self._untold.append(update)
        self.tell()

    def tell(self) -> None:
        """Tell the listeners, in order, what they have not heard yet.

        What one of them causes meanwhile, by answering an ask for example, is told when all have
        heard what came before it. The first listener ever also hears what came while there was
        none; see FAULTS R16.
        """
        if self._telling:
            return
        self._telling = True
        try:
            if self._early and self.on_update:
                early, self._early = self._early, []
                for update in early:
                    self.on_update.tell_first(update)
            while self._untold:
                self._tell(self._untold.popleft())
        finally:
            self._telling = False

    def _tell(self, update: Update) -> None:
        if update.commands is not None or update.config_options is not None or update.mode_id:
            self._take_controls(update)
        if self.on_update:
            self.on_update.tell(update)
        elif self.turns.running is None and len(self._early) < EARLY_LIMIT:
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

    def end_run(self) -> None:
        """Let the agent's next chunk without an id begin a message of its own."""
        self._normalizer.end_run()

    def begin_turn(self, prompt: str) -> None:
        """A turn starts: what came before it is nobody's news, and `prompt` may be echoed."""
        self._early.clear()
        self.end_run()
        self._echo.expect(prompt)

    # ---------------------------------------------------------------------------------- turns

    async def prompt(
        self, blocks: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> PromptResult:
        """Run one turn; see :meth:`silo_nb.Session.prompt`."""
        return await self.turns.prompt(blocks, timeout=timeout)

    def cancel(self) -> None:
        """Ask the agent to stop the running turn; without one, do nothing."""
        self.turns.cancel()

    # ------------------------------------------------------------------------------------ end

    async def dispose(self) -> None:
        """End the session: settle all that waits, stop the process, close the journal."""
        if self._disposal is None:
            self._disposal = asyncio.ensure_future(self._dispose())
        await asyncio.shield(self._disposal)

    async def _dispose(self) -> None:
        self.turns.cancel()
        self.closed = True
        self.desk.cancel_all(by="dispose")
        self.turns.end("cancelled")
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

    async def synced(self) -> None:
        """Wait until what is on record is on disk, within reason."""
        if self.journal is not None:
            await asyncio.wait([asyncio.wrap_future(self.journal.sync())], timeout=JOURNAL_PATIENCE)

    def exit_error(self, phase: str) -> AgentExited:
        """Return the error for whoever wanted something of an agent that is gone."""
        report = self.exit
        if report is None:
            return AgentExited("the connection is gone", profile=self.profile.id, phase=phase)
        return AgentExited(
            f"the process {report.describe()}; connect() starts a new one",
            exit_code=report.code,
            signal=report.signal,
            profile=self.profile.id,
            phase=phase,
            stderr=self.last_words(),
        )

    def last_words(self) -> tuple[str, ...]:
        """Return the last lines of the agent's stderr, secrets withheld."""
        if self.exit is not None:
            lines = self.exit.stderr
        else:
            lines = () if self.process is None else self.process.stderr_tail()
        return tuple(redact(line, self.secrets) for line in lines)

    def _write(self, data: bytes) -> None:
        if self.process is not None:
            self.process.write(data)

    def note(self, kind: str, detail: str = "") -> None:
        """Write an oddity into the connection's log."""
        self.connection.diagnostics.note(kind, detail)
