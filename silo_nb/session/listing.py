"""list_sessions: the conversations an agent still knows about. Source: seed 001."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from silo_nb.acp.connection import ConnectionLostError
from silo_nb.acp.fields import items, string
from silo_nb.acp.rpc import METHOD_NOT_FOUND, RpcError
from silo_nb.errors import AgentRefused, SessionClosed
from silo_nb.session.errors import exit_error, refusal

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["SessionSummary", "list_sessions"]

PAGES = 10
ROWS = 500


class SessionSummary(Struct, frozen=True, repr_omit_defaults=True):
    """What an agent says of one of its sessions; pass `session_id` as ``connect(resume=…)``.

    Attributes:
        session_id: the agent's id of it.
        cwd: the directory it worked in.
        title: what the agent calls it.
        updated_at: when it last changed, ISO 8601.
        raw: all the agent said, read-only.
    """

    session_id: str
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None
    raw: Mapping[str, Any] = {}


async def list_sessions(
    session: LiveSession, cwd: Path | str | None = None
) -> tuple[SessionSummary, ...]:
    """Return the sessions the agent knows; see :meth:`silo_nb.Session.list_sessions`.

    Pages are followed up to a bound, and until one repeats: a cursor may lead in circles.
    """
    if session.closed or session.outcome == "journal-only":
        raise SessionClosed(f"session {session.id!r} has no agent that could be asked")
    if not session.card.can_list:
        raise AgentRefused(
            "it does not list its sessions; see Session.can_list",
            code=METHOD_NOT_FOUND,
            profile=session.profile.id,
            phase="session/list",
        )
    rows: dict[str, SessionSummary] = {}
    params: dict[str, Any] = {} if cwd is None else {"cwd": _absolute(cwd)}
    cursors: set[str] = set()
    for _ in range(PAGES):
        page = await _page(session, params)
        for row in items(page, "sessions"):
            session_id = string(row, "sessionId")
            if session_id and len(rows) < ROWS:
                rows.setdefault(session_id, _summary(session_id, row))
        cursor = string(page, "nextCursor")
        if not cursor or cursor in cursors or len(rows) >= ROWS:
            break
        cursors.add(cursor)
        params = {**params, "cursor": cursor}
    return tuple(rows.values())


def _absolute(cwd: Path | str) -> str:
    """Return the directory as agents write it: absolute, links not followed."""
    return os.path.abspath(cwd)  # noqa: PTH100 - pathlib only does it with the links


async def _page(session: LiveSession, params: dict[str, Any]) -> Mapping[str, Any]:
    try:
        return await session.connection.request("session/list", params)
    except RpcError as error:
        raise refusal(error, session, "session/list") from None
    except ConnectionLostError:
        raise exit_error(session, "session/list") from None


def _summary(session_id: str, row: Mapping[str, Any]) -> SessionSummary:
    return SessionSummary(
        session_id, string(row, "cwd"), string(row, "title"), string(row, "updatedAt"), row
    )
