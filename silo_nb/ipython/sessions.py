"""The sessions that cells of this notebook talk to: which is meant, and opening it when needed.

It lives in a module that ``%reload_ext`` does not execute again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from IPython.core.error import UsageError

from silo_nb.ipython.options import did_you_mean
from silo_nb.profiles import DEMO, load_profiles
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session import Session, manager
from silo_nb.session.connecting import connect_live
from silo_nb.session.live import LiveSession

__all__ = ["CellSession", "SessionBook", "session_book"]


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
    def is_usable(self) -> bool:
        """Whether it can be prompted, now or after its running turn."""
        return self.live.status not in ("exited", "closed")


class SessionBook:
    """Which session a cell means. Used on the main thread only."""

    def __init__(self) -> None:
        self._current: dict[str, CellSession] = {}
        self._named: dict[str, CellSession] = {}
        self._others: dict[str, CellSession] = {}
        self.last: CellSession | None = None

    def choose_profile(self, profile: str | None) -> tuple[str, str]:
        """Return the id of the profile that is meant, and a remark when that is not obvious."""
        if profile is not None:
            return profile, ""
        if self.last is not None:
            return self.last.live.profile.id, ""
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

    def open(self, profile: str, name: str | None) -> CellSession:
        """Start an agent and keep the session for the cells to come. Blocks.

        Raises:
            SiloError: it could not be started; see :func:`silo_nb.connect`.
            KeyboardInterrupt: interrupted; what was started is ended.
        """
        live = wait_sync(agent_thread().run(connect_live(profile, cwd=None)))
        opened = CellSession(live, name)
        if name is None:
            self._current[profile] = opened
        else:
            self._named[name] = opened
        return opened

    def named(self, word: str) -> CellSession:
        """Return the session called `word`: by name, profile or id.

        Raises:
            UsageError: there is none.
        """
        found = self._named.get(word) or self._current.get(word) or self._by_id(word)
        if found is None:
            known = (*self._named, *self._current, *(live.id for live in manager.live_sessions()))
            raise UsageError(f"There is no session {word!r}.{did_you_mean(word, known)}")
        return found

    def name_of(self, live: LiveSession) -> str:
        """Return what cells call a session, else nothing."""
        for name, known in (*self._named.items(), *self._current.items()):
            if known.live is live:
                return name
        return ""

    def forget(self) -> None:
        """Forget every session; they are somebody else's to dispose."""
        self._current.clear()
        self._named.clear()
        self._others.clear()
        self.last = None

    def _by_id(self, session_id: str) -> CellSession | None:
        live = next((one for one in manager.live_sessions() if one.id == session_id), None)
        if live is None:
            return None
        for kept in (*self._named.values(), *self._current.values()):
            if kept.live is live:
                return kept
        # Opened by a script, or replaced by a newer one.
        return self._others.setdefault(
            session_id, CellSession(live, shown=len(live.transcript.entries))
        )


_book = SessionBook()


def session_book() -> SessionBook:
    """Return the book of this process."""
    return _book
