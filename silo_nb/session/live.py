"""LiveSession: one conversation with one agent process. Everything in it runs on the agent thread.

The path of one update: the connection hands over a notification, the normalizer makes an Update of
it, :meth:`LiveSession.take` reduces, journals and tells the listeners. No step waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Literal

from silo_nb.acp.connection import Connection
from silo_nb.acp.handshake import AgentCard
from silo_nb.acp.normalize import Normalizer
from silo_nb.acp.process import AgentProcess, ExitReport
from silo_nb.acp.quirks import EchoFilter
from silo_nb.acp.rpc import METHOD_NOT_FOUND, IncomingRequest, InvalidParamsError
from silo_nb.errors import SessionClosed
from silo_nb.journal import Journal, JournalOptions
from silo_nb.model import (
    EMPTY_TRANSCRIPT,
    Transcript,
    Turn,
    Update,
    apply_update,
)
from silo_nb.profiles import Profile
from silo_nb.session.checkpoint import tell_again
from silo_nb.session.controls import Controls
from silo_nb.session.desk import Desk
from silo_nb.session.errors import exit_error
from silo_nb.session.handshake import NOWHERE, Surroundings
from silo_nb.session.listeners import Listeners
from silo_nb.session.records import count_made_up_ids, write_update
from silo_nb.session.secret_values import redact, secret_values
from silo_nb.session.turn import PromptResult
from silo_nb.session.turns import Turns

__all__ = ["LiveSession", "Outcome"]

Outcome = Literal["new", "resumed", "journal-only"]
"""How a session came about."""

EARLY_LIMIT = 10_000
"""How many updates are kept for a first listener, or for a session id not known yet."""

JOURNAL_PATIENCE = 2.0
"""Seconds a turn waits for a slow disk; the journal goes on trying by itself."""


class LiveSession:
    """The state of one session, and the only writer of it."""

    def __init__(self, profile: Profile, surroundings: Surroundings = NOWHERE) -> None:
        self.profile = profile
        self.surroundings = surroundings
        self.secrets = secret_values({**surroundings.environment, **profile.env})
        self.id = ""
        self.session_id = ""
        self.outcome: Outcome = "new"
        self.prior: tuple[Update, ...] = ()
        self.given_title: str | None = None
        self.card = AgentCard()
        self.transcript: Transcript = EMPTY_TRANSCRIPT
        self.journal: Journal | None = None
        self.connection = Connection(self._write, self)
        self.process: AgentProcess | None = None
        self.exit: ExitReport | None = None
        self.closed = False
        self.on_closed: Callable[[LiveSession], None] | None = None
        self.on_state: Callable[[], object] = _nobody
        self.on_reveal: Callable[[], object] = _nobody
        self.attention = False
        self.watchers = 0
        self._heard_at = time.monotonic()
        self.reconnect: Callable[[], Awaitable[None]] = _never
        self.on_update: Listeners[Update] = Listeners()
        self.controls = Controls(self)
        self.desk = Desk(self)
        self.turns = Turns(self)
        self._normalizer = Normalizer()
        self._echo = EchoFilter()
        self._unclaimed: list[Mapping[str, Any]] = []
        self._replay: list[Update] | None = None
        self._unwritten: list[Update] = []
        self._early: list[Update] = []
        self._untold: deque[Update] = deque()
        self._telling = False
        self._disposal: asyncio.Future[None] | None = None

    # ---------------------------------------------------------------------------------- state

    @property
    def cwd(self) -> str:
        """The directory the agent works in."""
        return str(self.surroundings.cwd)

    @property
    def title(self) -> str | None:
        """The title the agent gave the session, or the one it had before."""
        return self.transcript.title or self.given_title

    @property
    def status(self) -> str:
        """``idle``, ``working``, ``waiting`` (for an answer), ``exited`` or ``closed``."""
        if self.closed or self.outcome == "journal-only":
            return "closed"
        if self.exit is not None:
            return "exited"
        if self.desk.open:
            return "waiting"
        return "idle" if self.turns.running is None else "working"

    def remember(self, prior: tuple[Update, ...]) -> None:
        """Begin with what happened before this connection."""
        self.prior = prior
        self.transcript = reduce(apply_update, prior, self.transcript)
        self._normalizer = Normalizer(runs=count_made_up_ids(prior))
        self.desk.go_on_after(prior)

    def forget(self) -> None:
        """Begin anew: what was remembered is another session's."""
        self.id, self.prior, self.transcript = "", (), EMPTY_TRANSCRIPT

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

    @contextmanager
    def replay(self) -> Iterator[list[Update]]:
        """Collect what the agent sends instead of taking it: a session/load says it all again."""
        replayed: list[Update] = []
        self._replay = replayed
        try:
            yield replayed
        finally:
            self._replay = None

    def renew(self) -> None:
        """Get ready for another process; the last one is gone."""
        self.connection = Connection(self._write, self)
        self.process = self.exit = None
        self.session_id = ""
        self.end_run()
        self.turns.renew()

    @property
    def journal_options(self) -> JournalOptions:
        """How the session's journal is kept; if its file is lost, the transcript is told again."""
        return {"redact": self.secrets, "checkpoint": lambda: tell_again(self.transcript)}

    # ----------------------------------------------------------------- what the agent sends

    def hear(self, data: bytes) -> None:
        """Take what the agent wrote to its stdout."""
        self._heard_at = time.monotonic()
        self.connection.feed(data)

    @property
    def quiet_for(self) -> float:
        """Seconds since the agent was last heard, or was given something to do. Case 4."""
        return time.monotonic() - self._heard_at

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
        if self._replay is not None:
            self._replay.append(update)
        elif not self._echo.is_echo(update):
            self.take(update)

    def _on_foreign_update(self, params: Mapping[str, Any]) -> None:
        """Keep what may turn out to be ours; an update can precede the reply that names its id."""
        raw = params.get("update")
        if self._replay is not None and isinstance(raw, dict):
            self._replay.append(self._normalizer.normalize(raw))
        elif not self.session_id and len(self._unclaimed) < EARLY_LIMIT:
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
        self.turns.end("agent-exited", error=exit_error(self, "prompt"))
        self.settle("agent-exited")
        self.changed(wants_attention=True)

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
        if update.info is not None:
            self.changed()

    def settle(self, reason: str) -> None:
        """Close the rows that were opened outside a turn: nothing will be heard of them again."""
        if any(row.is_open for row in self.transcript.tool_calls):
            self.take(Update("turn_end", turn=Turn(stop_reason=reason)))

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
            self.controls.take(update)
        if self.on_update:
            self.on_update.tell(update)
        elif self.turns.running is None and len(self._early) < EARLY_LIMIT:
            self._early.append(update)

    def end_run(self) -> None:
        """Let the agent's next chunk without an id begin a message of its own."""
        self._normalizer.end_run()

    def begin_turn(self, prompt: str) -> None:
        """A turn starts: what came before it is nobody's news, and `prompt` may be echoed."""
        self._heard_at = time.monotonic()
        self._early.clear()
        self.end_run()
        self._echo.expect(prompt)
        self.acknowledge()

    # ------------------------------------------------------------------------------ attention

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Somebody looks at the session: nothing that happens now needs attention. R88."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1

    def acknowledge(self) -> None:
        """Somebody has looked; attention is over until something happens again."""
        self.attention = False
        self.on_state()

    def changed(self, *, wants_attention: bool = False) -> None:
        """Activity or title is another one now; say so, and that somebody should look."""
        self.attention = self.attention or (wants_attention and self.watchers == 0)
        self.on_state()

    def reveal(self) -> None:
        """Bring the session into view, as far as whoever connected it can."""
        self.on_reveal()

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
        self.settle("closed")
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


def _nobody() -> None:
    """Nobody wants to know."""


async def _never() -> None:
    raise SessionClosed("the session is not connected yet")
