"""silo_nb.agents: every session of this notebook, live or dormant, and what it is up to.

(Source: seed 001; R10, R59, R88)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from silo_nb.errors import SiloError
from silo_nb.journal import journal_directory, list_sessions
from silo_nb.profiles import Profile, load_profiles
from silo_nb.runtime import agent_thread, wait_async
from silo_nb.session import manager
from silo_nb.session.asks import PermissionRequest
from silo_nb.session.listeners import Listeners, Subscription
from silo_nb.session.live import LiveSession
from silo_nb.session.session import Session, connect
from silo_nb.session.workspace import notebook_home

__all__ = ["AgentInfo", "Agents", "agents"]


class AgentInfo(Struct, frozen=True, repr_omit_defaults=True):
    """One session, as a list of them shows it.

    Attributes:
        id: our id of the session; stable when its agent is started again.
        session_id: the agent's id of it.
        profile: id of the profile it was connected from.
        agent_name: what the agent calls itself.
        agent_id: the agent the profile says it starts.
        title: what the conversation is about.
        activity: ``idle``, ``working``, or ``waiting`` for somebody's answer.
        state: ``live``, ``ended`` (its process is gone; the next prompt starts one) or ``dormant``
            (on record, with nothing running).
        attention: something happened that nobody has looked at; see :meth:`Agents.acknowledge`.
        can_resume: whether the agent can bring the conversation back.
        owner: who else has it open, in words; None when nobody does.
        cwd: the directory the agent works in, or worked in.
        kind: always ``chat``.
    """

    id: str
    session_id: str
    profile: str
    agent_name: str
    agent_id: str | None = None
    title: str | None = None
    activity: Literal["idle", "working", "waiting"] = "idle"
    state: Literal["live", "ended", "dormant"] = "live"
    attention: bool = False
    can_resume: bool = False
    owner: str | None = None
    cwd: str = ""
    kind: str = "chat"


class Agents:
    """The registry of sessions. There is one, :data:`silo_nb.agents`.

    >>> import silo_nb
    >>> "demo" in silo_nb.agents.profiles
    True
    """

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The profiles that can be connected, by id, as the files say now."""
        return dict(load_profiles().items())

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions that are open, oldest first."""
        return tuple(Session(live) for live in manager.live_sessions())

    @property
    def asks(self) -> tuple[PermissionRequest, ...]:
        """What agents wait for an answer to, in every session."""
        return tuple(ask for live in manager.live_sessions() for ask in live.desk.open.values())

    def get_state(self) -> tuple[AgentInfo, ...]:
        """Return every session of this notebook: the open ones, then those on record.

        Without the "agents" permission nothing on record is read.
        """
        live = tuple(_info(session) for session in manager.live_sessions())
        return live + self._dormant({info.id for info in live})

    def _dormant(self, open_ids: set[str]) -> tuple[AgentInfo, ...]:
        if load_profiles().permission == "deny":
            return ()
        files = list_sessions(journal_directory(notebook_home()))
        return tuple(
            AgentInfo(
                id=file.id,
                session_id=file.session_id,
                profile=file.profile_id,
                agent_name=file.agent_name,
                agent_id=file.agent_id,
                title=file.title,
                state="dormant",
                can_resume=True,
                owner=None if file.owner is None else str(file.owner),
                cwd=file.cwd,
            )
            for file in files
            if file.id not in open_ids
        )

    def get(self, session_id: str) -> Session:
        """Return the open session of an id, ours or its agent's.

        Raises:
            SiloError: there is none; the message says what to do.
        """
        for live in manager.live_sessions():
            if session_id in (live.id, live.session_id):
                return Session(live)
        raise SiloError(
            f"no session {session_id!r} is open; agents.resume({session_id!r}) opens it"
        )

    async def resume(self, session_id: str) -> Session:
        """Make sure that a session has an agent: of an open one, or of one on record.

        Raises:
            SiloError: nothing is known of such a session, or connecting fails as for `connect`.
        """
        for live in manager.live_sessions():
            if session_id in (live.id, live.session_id):
                if live.exit is not None:
                    await wait_async(agent_thread().run(live.turns.make_ready()))
                return Session(live)
        for info in self._dormant(set()):
            if session_id in (info.id, info.session_id):
                # Agents file their sessions by directory; one that is gone cannot be worked in.
                cwd = info.cwd if Path(info.cwd).is_dir() else None  # noqa: ASYNC240 - one stat
                return await connect(info.profile, resume=info.id, title=info.title, cwd=cwd)
        raise SiloError(f"nothing is on record of a session {session_id!r} beside this notebook")

    def reveal(self, session_id: str) -> None:
        """Bring a session into view, by the `reveal` its connect() was given; else do nothing."""
        _open_session(session_id).reveal()

    def acknowledge(self, session_id: str) -> None:
        """Say that a session was looked at: its attention is over until something happens again."""
        _open_session(session_id).acknowledge()

    def on_changed(self, listener: Callable[[], object]) -> Subscription:
        """Call `listener` when a session opens, ends, or changes activity, title or attention."""
        return manager.on_changed.add(listener)

    def on_ask(self, listener: Callable[[PermissionRequest], object]) -> Subscription:
        """Call `listener` with every ask of every session, those open now included.

        As for :meth:`Session.on_permission`, answering is then its duty.
        """
        subscription = manager.on_ask.add(listener)
        newcomer: Listeners[PermissionRequest] = Listeners()
        newcomer.add(listener)
        for ask in self.asks:
            agent_thread().call(newcomer.tell, ask)
        return subscription

    def __repr__(self) -> str:
        return f"<agents: {len(manager.live_sessions())} open>"


agents = Agents()


def _open_session(session_id: str) -> LiveSession:
    for live in manager.live_sessions():
        if session_id in (live.id, live.session_id):
            return live
    raise SiloError(
        f"no session {session_id!r} is open; "
        f"silo_nb.agents.resume({session_id!r}) opens one that is on record"
    )


def _info(session: LiveSession) -> AgentInfo:
    status = session.status
    return AgentInfo(
        id=session.id,
        session_id=session.session_id,
        profile=session.profile.id,
        agent_name=session.card.title or session.card.name or session.profile.label,
        agent_id=session.profile.agent_id,
        title=session.title,
        activity=status if status in ("working", "waiting") else "idle",  # type: ignore[arg-type]
        state="ended" if status in ("exited", "closed") else "live",
        attention=session.attention,
        can_resume=session.card.can_resume or session.card.can_load,
        cwd=session.cwd,
    )
