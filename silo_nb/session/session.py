"""Session: what scripts and cells hold. A thin, thread-safe front of :class:`LiveSession`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from silo_nb.model import (
    Command,
    ConfigOption,
    PromptCapabilities,
    Transcript,
    Update,
    Usage,
)
from silo_nb.runtime import agent_thread, wait_async
from silo_nb.session.asks import PermissionRequest
from silo_nb.session.connecting import DEFAULT_TIMEOUT, connect_live
from silo_nb.session.controls import OptionValue
from silo_nb.session.listeners import Subscription
from silo_nb.session.listing import SessionSummary, list_sessions
from silo_nb.session.live import LiveSession
from silo_nb.session.prompts import Prompt, wire_prompt
from silo_nb.session.restore import Restore
from silo_nb.session.turn import PromptResult
from silo_nb.session.turns import CANCEL_GRACE

__all__ = ["WAIT_GRACE", "Session", "as_restore", "connect"]


WAIT_GRACE = CANCEL_GRACE + 2.0
"""Seconds an interrupted wait goes on: a little longer than the session itself has patience."""


class Session:
    """A conversation with one agent process.

    Source: seed 003, AgentSessionHandle.

    Every method may be called from any thread and any event loop. Properties are snapshots.
    Listeners run on the agent thread, in the order things happened, and must not wait; what they
    print appears in the cell that registered them.

    A session is also an async context manager that disposes itself.
    """

    def __init__(self, live: LiveSession) -> None:
        self._live = live

    # ------------------------------------------------------------------------------ identity

    @property
    def id(self) -> str:
        """Our own id: names the journal, stable for the session's whole life."""
        return self._live.id

    @property
    def session_id(self) -> str:
        """The agent's id of the session."""
        return self._live.session_id

    @property
    def profile(self) -> str:
        """Id of the profile it was connected from."""
        return self._live.profile.id

    @property
    def agent_id(self) -> str | None:
        """The agent the profile says it starts, if it says so."""
        return self._live.profile.agent_id

    @property
    def agent_name(self) -> str:
        """What the agent calls itself, else the profile's label."""
        card = self._live.card
        return card.title or card.name or self._live.profile.label

    @property
    def cwd(self) -> Path:
        """The directory the agent works in."""
        return Path(self._live.cwd)

    @property
    def pid(self) -> int | None:
        """Process id of the agent, None once it has exited."""
        process = self._live.process
        return None if process is None or self._live.exit is not None else process.pid

    # --------------------------------------------------------------------------------- state

    @property
    def status(self) -> str:
        """``idle``, ``working``, ``waiting`` (for an answer), ``exited`` or ``closed``."""
        return self._live.status

    @property
    def quiet_for(self) -> float:
        """Seconds since anything was heard of the agent; long during a turn, it may be stuck."""
        return self._live.quiet_for

    @property
    def title(self) -> str | None:
        """The title the agent gave the session; until then, the one a restored session had."""
        return self._live.title

    @property
    def transcript(self) -> Transcript:
        """The conversation so far."""
        return self._live.transcript

    @property
    def usage(self) -> Usage | None:
        """Context and cost as last reported; None when the agent never did."""
        return self._live.transcript.usage

    @property
    def commands(self) -> tuple[Command, ...]:
        """The slash commands the agent offers now; empty until it says so."""
        return self._live.controls.commands

    @property
    def config_options(self) -> tuple[ConfigOption, ...]:
        """The controls the agent offers now."""
        return self._live.controls.options

    @property
    def prompt_capabilities(self) -> PromptCapabilities:
        """What a prompt may contain; fixed for the session's life."""
        return self._live.card.prompt

    @property
    def can_resume(self) -> bool:
        """Whether the agent can bring this conversation back after its process died."""
        return self._live.card.can_resume or self._live.card.can_load

    @property
    def can_list(self) -> bool:
        """Whether the agent can list its sessions."""
        return self._live.card.can_list

    @property
    def resume_outcome(self) -> Literal["new", "resumed", "journal-only"]:
        """How the session came about; see :class:`silo_nb.Restore`."""
        return self._live.outcome

    @property
    def journal(self) -> tuple[Update, ...]:
        """What happened before this connection, as on record; empty for a new session."""
        return self._live.prior

    @property
    def journal_path(self) -> Path | None:
        """The journal's file, None while it cannot be written."""
        journal = self._live.journal
        return None if journal is None else journal.path

    @property
    def journal_problem(self) -> str | None:
        """Why the journal is not being written, None when it is."""
        journal = self._live.journal
        return None if journal is None else journal.problem

    @property
    def log(self) -> tuple[str, ...]:
        """Oddities of the connection, the latest last, and the last lines of the agent's stderr."""
        live = self._live
        return (*live.connection.diagnostics.recent, *live.last_words())

    # --------------------------------------------------------------------------------- turns

    async def prompt(self, prompt: Prompt, *, timeout: float | None = None) -> PromptResult:
        """Run one turn and return how it went.

        Args:
            prompt: text, a :class:`~pathlib.Path` to link to, a content block, or several. Text is
                sent as it is: nothing in it is expanded.
            timeout: seconds after which the turn is cancelled.

        Returns:
            The result. A turn that was cancelled, by whomever, is a result too:
            ``stop_reason == "cancelled"``.

        Raises:
            SessionBusy: a turn is running.
            SessionClosed: the session was disposed.
            AgentExited: the agent's process is gone.
            AgentRefused: the agent answered with an error.
            AuthRequired: the agent wants a login first.
            ValueError: the prompt is empty or has content this agent does not take.

        Example:
            >>> import silo_nb
            >>> session = await silo_nb.connect("demo")         # doctest: +SKIP
            >>> (await session.prompt("What is in data.csv?")).text   # doctest: +SKIP
        """
        blocks = wire_prompt(prompt, self.prompt_capabilities)
        turn = agent_thread().run(self._live.prompt(blocks, timeout=timeout))
        return await wait_async(turn, on_interrupt=self.cancel, grace=WAIT_GRACE)

    def cancel(self) -> None:
        """Ask the agent to stop the running turn; its prompt then returns. Without one, nothing."""
        if not self._live.closed:
            agent_thread().call(self._live.cancel)

    async def dispose(self) -> None:
        """End the session: settle what waits, stop the agent and all it started. Idempotent."""
        await wait_async(agent_thread().run(self._live.dispose()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.dispose()

    async def set_config_option(self, id: str, value: OptionValue) -> None:
        """Change one control and take over the list the agent answers with.

        Args:
            id: an entry of :attr:`config_options`.
            value: one of its choices, or a bool for a boolean option.

        Raises:
            ValueError: no such option or value; nothing was sent.
            AgentRefused: the agent did not take it; the option is no longer offered until the
                agent lists it again.
            AgentExited, SessionClosed: there is no agent to tell.
        """
        setting = agent_thread().run(self._live.controls.choose(id, value))
        await wait_async(setting)

    async def list_sessions(self, cwd: Path | str | None = None) -> tuple[SessionSummary, ...]:
        """List the sessions the agent knows, at most 500.

        Args:
            cwd: only those that worked in this directory.

        Raises:
            AgentRefused: the agent does not list them (see :attr:`can_list`), or refuses to.
            SessionClosed: there is no agent to ask.
        """
        listing = list_sessions(self._live, cwd)
        return await wait_async(agent_thread().run(listing))

    # ----------------------------------------------------------------------------- listening

    def on_update(self, listener: Callable[[Update], object]) -> Subscription:
        """Call `listener` with everything that happens from now on.

        What came before the first prompt while nobody listened, such as an agent's banner, is
        given to the first listener.
        """
        subscription = self._live.on_update.add(listener)
        if not self._live.closed:
            agent_thread().call(self._live.tell)
        return subscription

    def on_permission(self, listener: Callable[[PermissionRequest], object]) -> Subscription:
        """Call `listener` with every permission request.

        With at least one listener, answering is its duty; the agent waits until
        :meth:`PermissionRequest.respond`. With none, requests are answered ``cancelled``.
        """
        return self._live.desk.on_permission.add(listener)

    def on_commands_changed(self, listener: Callable[[], object]) -> Subscription:
        """Call `listener` whenever :attr:`commands` was replaced."""
        return self._live.controls.on_commands_changed.add(listener)

    def on_config_options_changed(self, listener: Callable[[], object]) -> Subscription:
        """Call `listener` whenever :attr:`config_options` changed."""
        return self._live.controls.on_options_changed.add(listener)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} with {self.agent_name!r}: {self.status}>"


async def connect(
    profile: str,
    *,
    cwd: Path | str | None = None,
    workspace_id: str | None = None,
    resume: str | Restore | None = None,
    title: str | None = None,
    reveal: Callable[[], object] | None = None,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> Session:
    """Start the agent of a profile and open a session with it.

    This is the only call that starts a process. Cancelling it stops what was started.

    Args:
        profile: id of a profile in ``profiles.toml``, or ``"demo"``. Nothing else: a notebook
            cannot name a command.
        cwd: the directory the agent works in; the notebook's by default.
        workspace_id: path of the notebook the session belongs to, or of its directory; this
            kernel's by default. Its journal lies there.
        resume: a session to go on with: its id, ours or the agent's, or a :class:`Restore`. One
            that the agent no longer knows is no error: see :attr:`Session.resume_outcome`.
        title: shown until the agent gives one, for resumed sessions; ignored without `resume`.
        reveal: brings the session into view; called by :meth:`Agents.reveal`, maybe repeatedly.
        mcp_servers: MCP servers to offer the agent, as the protocol spells them.
        timeout: seconds for the whole handshake.

    Raises:
        PermissionDenied: the "agents" permission is set to deny.
        ProfileError: no such profile, or one that cannot be used.
        WorkspaceError: the directory does not exist.
        AgentNotFound: the profile's command, or what it needs, is not installed.
        AgentExited: the process ended during the handshake.
        HandshakeTimeout: no answer in time.
        AuthRequired: the agent wants a login first.
        AgentRefused: the agent answered with an error.
        JournalError: another process has the session to be restored; the message says which.

    Example:
        >>> import silo_nb
        >>> async with await silo_nb.connect("demo") as session:    # doctest: +SKIP
        ...     result = await session.prompt("What files are here?")
    """
    connecting = connect_live(
        profile,
        cwd=Path(cwd) if cwd is not None else None,
        mcp_servers=mcp_servers,
        workspace_id=workspace_id,
        restore=as_restore(resume),
        title=title,
        reveal=reveal,
        timeout=timeout,
    )
    return Session(await wait_async(agent_thread().run(connecting)))


def as_restore(resume: str | Restore | None) -> Restore | None:
    """Return what `resume` is short for."""
    return Restore(resume) if isinstance(resume, str) else resume
