"""The sessions that cells of this notebook talk to: which is meant, and opening it when needed.

It lives in a module that ``%reload_ext`` does not execute again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from silo_nb.errors import PermissionDenied, SessionClosed
from silo_nb.ipython.options import did_you_mean
from silo_nb.profiles import DEMO, load_profiles
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session import Restore, Session, manager
from silo_nb.session.connecting import connect_live
from silo_nb.session.live import LiveSession

__all__ = [
    "CellSession",
    "SessionBook",
    "connect",
    "open_session",
    "require_permission",
    "session_book",
]


@dataclass(eq=False)
class CellSession:
    """A session with what cells have shown of it.

    Attributes:
        live: the session itself, on the agent thread.
        name: what the user calls it, None for a profile's current one.
        shown: how many entries of its transcript are in outputs.
        remarks: what the next output has to say before anything else.
    """

    live: LiveSession
    name: str | None = None
    shown: int = 0
    is_introduced: bool = False
    remarks: list[str] = field(default_factory=list)

    @property
    def handle(self) -> Session:
        """The session as scripts see it."""
        return Session(self.live)

    @property
    def is_disposed(self) -> bool:
        """Whether it is over. One whose agent has merely exited is not: see LiveSession.prompt."""
        return self.live.closed

    def require_agent(self) -> None:
        """Make sure that there is an agent behind it, or can be.

        Raises:
            SessionClosed: it can only be read (R52); the message says how to go on.
        """
        live = self.live
        if live.outcome == "journal-only":
            raise SessionClosed(
                f"session {live.id!r} can only be read: its agent cannot bring conversations back. "
                f"'%agent resume {live.id} --fresh' begins a new one with this transcript in "
                f"front, '%%agent {live.profile.id} --new' one without it"
            )

    def begin_with(self, live: LiveSession) -> None:
        """Go on with another session in the place of this one."""
        self.live = live
        self.shown = len(live.transcript.entries)
        self.is_introduced = False
        self.remarks.clear()


class SessionBook:
    """Which session a cell means. Used on the main thread only."""

    def __init__(self) -> None:
        self._current: dict[str, CellSession] = {}
        self._named: dict[str, CellSession] = {}
        self._others: list[CellSession] = []
        self._profile: str | None = None
        self.last: CellSession | None = None
        """The one that a cell prompted last, unless another was chosen since."""

    def choose_profile(self, profile: str | None) -> tuple[str, str]:
        """Return the id of the profile that is meant, and a remark when that is not obvious."""
        if profile is not None:
            return profile, ""
        if self._profile is not None:
            return self._profile, ""
        configured = [name for name in load_profiles() if name != DEMO.id]
        if len(configured) == 1:
            return configured[0], ""
        others = ", ".join(f"%%agent {name}" for name in configured)
        hint = f"Others: {others}." if others else "Agents are configured in profiles.toml."
        return DEMO.id, f"No agent was named, so this is the built-in demo, offline. {hint}"

    def find(self, profile: str | None, name: str | None) -> CellSession | None:
        """Return the session that is meant, if there is one.

        Raises:
            UsageError: there is one of that name, but with another profile.
        """
        if name is None:
            return self._current.get(self.choose_profile(profile)[0])
        found = self._named.get(name) or self._by_id(name)
        if found is not None and profile not in (None, found.live.profile.id):
            raise UsageError(
                f"%%agent -s {name}: that session is with {found.live.profile.id!r}, not with "
                f"{profile!r}. Leave the profile out, or add --new"
            )
        return found

    def current(self) -> CellSession | None:
        """Return the session that ``%%agent`` without a word goes on with, if it is open."""
        found = self.find(None, None)
        return None if found is None or found.is_disposed else found

    def open(self, profile: str, name: str | None) -> CellSession:
        """Start an agent and keep the session for the cells to come. Blocks.

        Raises:
            SiloError: it could not be started; see :func:`silo_nb.connect`.
            KeyboardInterrupt: interrupted; what was started is ended.
        """
        opened = CellSession(connect(profile))
        self.keep(opened, name)
        return opened

    def keep(self, session: CellSession, name: str | None) -> None:
        """Keep a session under a name, or as the current one of its profile and of the book."""
        if name is not None:
            session.name = name
            self._named[name] = session
        else:
            self._current[session.live.profile.id] = session
            self.prompted(session)

    def prompted(self, session: CellSession) -> None:
        """Note that a cell prompts `session`, so that the next one may leave out the profile."""
        self.last = session
        self._profile = session.live.profile.id

    def use_profile(self, profile: str) -> None:
        """Let cells that name no profile mean this one."""
        self._profile, self.last = profile, None

    def named(self, word: str) -> CellSession:
        """Return the session called `word`: by name, profile or id.

        Raises:
            UsageError: there is none.
        """
        found = self.look_up(word)
        if found is None:
            raise UsageError(
                f"There is no open session {word!r}.{did_you_mean(word, self.names())} "
                "'%agent sessions' shows those there are"
            )
        return found

    def meant(self, word: str | None) -> CellSession:
        """Return the session called `word`, or the current one.

        Raises:
            UsageError: there is none.
        """
        if word is not None:
            return self.named(word)
        current = self.current()
        if current is None:
            hint = "; name one with -s: " + ", ".join(self.names()) if self.names() else ""
            raise UsageError(f"No session is in use; %%agent opens one{hint}")
        return current

    def names(self) -> tuple[str, ...]:
        """Return the words by which open sessions can be called."""
        names = (*self._named, *self._current, *(live.id for live in manager.live_sessions()))
        return tuple(dict.fromkeys(name for name in names if self.look_up(name) is not None))

    def look_up(self, word: str) -> CellSession | None:
        """Return the session called `word`, by name, profile or id, unless it was disposed."""
        found = self._named.get(word) or self._current.get(word) or self._by_id(word)
        return None if found is None or found.is_disposed else found

    def name_of(self, live: LiveSession) -> str:
        """Return what cells call a session, else nothing."""
        for name, known in (*self._named.items(), *self._current.items()):
            if known.live is live:
                return name
        return ""

    def is_current(self, live: LiveSession) -> bool:
        """Whether ``%%agent`` without a word goes on with `live`."""
        current = self.current()
        return current is not None and current.live is live

    def forget(self) -> None:
        """Forget every session; they are somebody else's to dispose."""
        self._current.clear()
        self._named.clear()
        self._others.clear()
        self._profile = self.last = None

    def _by_id(self, session_id: str) -> CellSession | None:
        live = open_session(session_id)
        if live is None:
            return None
        for kept in self._kept():
            if kept.live is live:
                return kept
        # Opened by a script, or replaced by a newer one.
        other = CellSession(live, shown=len(live.transcript.entries))
        self._others.append(other)
        return other

    def _kept(self) -> Iterator[CellSession]:
        yield from self._named.values()
        yield from self._current.values()
        yield from self._others


def open_session(session_id: str) -> LiveSession | None:
    """Return the open session of an id, ours or its agent's."""
    sessions = manager.live_sessions()
    return next((one for one in sessions if session_id in (one.id, one.session_id)), None)


def connect(
    profile: str,
    *,
    restore: Restore | None = None,
    title: str | None = None,
    cwd: Path | None = None,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
) -> LiveSession:
    """Connect and wait for it; see :func:`silo_nb.connect`.

    Raises:
        KeyboardInterrupt: interrupted; what was started is ended.
    """
    connecting = connect_live(
        profile, cwd=cwd, restore=restore, title=title, mcp_servers=mcp_servers
    )
    return wait_sync(agent_thread().run(connecting))


def require_permission() -> None:
    """Make sure that what is on record of sessions may be shown here.

    Raises:
        PermissionDenied: the "agents" permission is set to deny.
    """
    if load_profiles().permission == "deny":
        raise PermissionDenied('profiles.toml says [agents] permission = "deny"')


_book = SessionBook()


def session_book() -> SessionBook:
    """Return the book of this process."""
    return _book
