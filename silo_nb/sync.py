"""The names of :mod:`silo_nb`, blocking: for cells without ``await``, scripts and threads.

>>> import silo_nb.sync
>>> session = silo_nb.sync.connect("demo")              # doctest: +SKIP
>>> session.prompt("What files are here?").text         # doctest: +SKIP

In a notebook's main thread, a call that waits keeps the kernel's messages moving and gives the
cell back on an interrupt: the first cancels the turn, the second raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session import session as _asynchronous
from silo_nb.session.connecting import DEFAULT_TIMEOUT, connect_live
from silo_nb.session.controls import OptionValue
from silo_nb.session.listing import SessionSummary, list_sessions
from silo_nb.session.prompts import Prompt, wire_prompt
from silo_nb.session.reading import read_journal_now as read_journal
from silo_nb.session.restore import Restore
from silo_nb.session.turn import PromptResult

__all__ = ["Session", "connect", "read_journal"]


class Session(_asynchronous.Session):
    """A :class:`silo_nb.Session` whose `prompt` and `dispose` block."""

    def prompt(  # type: ignore[override]
        self, prompt: Prompt, *, timeout: float | None = None
    ) -> PromptResult:
        """Run one turn and return how it went; see :meth:`silo_nb.Session.prompt`."""
        blocks = wire_prompt(prompt, self.prompt_capabilities)
        turn = agent_thread().run(self._live.prompt(blocks, timeout=timeout))
        return wait_sync(turn, on_interrupt=self.cancel, grace=_asynchronous.WAIT_GRACE)

    def set_config_option(self, id: str, value: OptionValue) -> None:  # type: ignore[override]
        """Change one control; see :meth:`silo_nb.Session.set_config_option`."""
        wait_sync(agent_thread().run(self._live.controls.choose(id, value)))

    def list_sessions(  # type: ignore[override]
        self, cwd: Path | str | None = None
    ) -> tuple[SessionSummary, ...]:
        """List the sessions the agent knows; see :meth:`silo_nb.Session.list_sessions`."""
        listing = list_sessions(self._live, cwd)
        return wait_sync(agent_thread().run(listing))

    def dispose(self) -> None:  # type: ignore[override]
        """End the session; see :meth:`silo_nb.Session.dispose`."""
        wait_sync(agent_thread().run(self._live.dispose()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.dispose()


def connect(
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
    """Start the agent of a profile and open a session with it; see :func:`silo_nb.connect`."""
    connecting = connect_live(
        profile,
        cwd=Path(cwd) if cwd is not None else None,
        mcp_servers=mcp_servers,
        workspace_id=workspace_id,
        restore=_asynchronous.as_restore(resume),
        title=title,
        reveal=reveal,
        timeout=timeout,
    )
    return Session(wait_sync(agent_thread().run(connecting)))
