"""The registry: every session this process has open.

It lives in a module that ``%reload_ext`` does not execute again, so that sessions outlive a reload
of the extension.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from silo_nb.runtime import agent_thread
from silo_nb.session.asks import PermissionRequest
from silo_nb.session.listeners import Listeners

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["add", "dispose_all", "live_sessions", "on_ask", "on_changed", "starting"]

on_changed: Listeners[()] = Listeners()
"""Told when a session opens, ends, or changes activity, title or attention."""

on_ask: Listeners[PermissionRequest] = Listeners()
"""Told every ask of every session, like a session's own listeners."""

_sessions: dict[str, LiveSession] = {}
_starting: set[LiveSession] = set()
_sees_to_exit = False

EXIT_PATIENCE = 2.0
"""Seconds the interpreter's end waits for agents; the guards see to those that take longer."""


@contextmanager
def starting(session: LiveSession) -> Iterator[None]:
    """Count `session` among those to dispose while it is being connected, or given up."""
    _starting.add(session)
    try:
        yield
    finally:
        _starting.discard(session)


def add(session: LiveSession) -> None:
    """Remember `session` until it is disposed."""
    global _sees_to_exit  # noqa: PLW0603 - once a process, and not before there is something to do
    if not _sees_to_exit:
        # Late, so that it runs before the journal's own: a session's last words are written then.
        atexit.register(_at_exit)
        _sees_to_exit = True
    _sessions[session.id] = session
    session.on_closed = _forget
    session.on_state = on_changed.tell
    on_changed.tell()


def _forget(session: LiveSession) -> None:
    if _sessions.pop(session.id, None) is not None:
        on_changed.tell()


def _at_exit() -> None:
    # Whatever fails now has nobody left to tell, and the guards kill what is left.
    with suppress(Exception):
        dispose_all(EXIT_PATIENCE)


def live_sessions() -> tuple[LiveSession, ...]:
    """Return the open sessions, oldest first."""
    return tuple(_sessions.values())


def dispose_all(timeout: float = 10.0) -> None:
    """Dispose every session and wait for it, at most `timeout` seconds; from any other thread."""
    sessions = (*live_sessions(), *_starting)
    if not sessions:
        return

    async def dispose() -> None:
        await asyncio.wait(
            [asyncio.ensure_future(session.dispose()) for session in sessions], timeout=timeout
        )

    agent_thread().run(dispose()).result(timeout + 1)
