"""The registry: every session this process has open.

It lives in a module that ``%reload_ext`` does not execute again, so that sessions outlive a reload
of the extension.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from silo_nb.runtime import agent_thread

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["add", "dispose_all", "live_sessions", "starting"]

_sessions: dict[str, LiveSession] = {}
_starting: set[LiveSession] = set()


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
    _sessions[session.id] = session
    session.on_closed = _forget


def _forget(session: LiveSession) -> None:
    _sessions.pop(session.id, None)


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
