"""The desk of a session: where an agent's requests to a person lie until somebody answers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

from silo_nb.acp.permission import parse_permission
from silo_nb.acp.rpc import IncomingRequest
from silo_nb.model import Permission, Update
from silo_nb.model.text import one_line
from silo_nb.runtime import agent_thread
from silo_nb.session import manager
from silo_nb.session.asks import PermissionRequest
from silo_nb.session.listeners import Listeners
from silo_nb.session.records import notice

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["Desk"]


class Desk:
    """Keeps a session's open asks; lives on the agent thread."""

    def __init__(self, session: LiveSession) -> None:
        self.on_permission: Listeners[PermissionRequest] = Listeners()
        self.open: dict[str, PermissionRequest] = {}
        self._session = session
        self._numbers = count(1)

    def go_on_after(self, prior: Iterable[Update]) -> None:
        """Number on from what was asked before, so that ids stay unique in the journal."""
        asked = {update.permission.id for update in prior if update.permission is not None}
        self._numbers = count(len(asked) + 1)

    def ask_permission(self, request: IncomingRequest) -> None:
        """Record a permission request and bring it to whoever answers.

        Nobody listening, or every listener failing, means ``cancelled``: an agent is never left
        waiting for an answer that cannot come. (R39)
        """
        session = self._session
        patch, options = parse_permission(request.params)
        permission = Permission(f"permission-{next(self._numbers)}", patch.tool_call_id, options)
        session.end_run()
        raw = MappingProxyType(dict(request.params))
        session.take(Update("permission", tool_call=patch, permission=permission, raw=raw))
        row = session.transcript.tool_call(patch.tool_call_id)
        if row is None:
            # A compaction goes by the same id: there is nothing to show for this request.
            request.reply({"outcome": {"outcome": "cancelled"}})
            return
        ask = PermissionRequest(request, permission, row, self._settle)
        self.open[ask.id] = ask
        session.changed(wants_attention=True)
        if session.turns.cancelling or session.closed:
            ask.cancel(by="cancel")
        elif not (self.on_permission or manager.on_ask):
            ask.cancel(by="no-listener")
        elif not self.on_permission.tell(ask) + manager.on_ask.tell(ask):
            ask.cancel(by="listener-failed")

    def turn_down_question(self, request: IncomingRequest) -> None:
        """Answer an elicitation with ``cancel`` and say so: nothing can show it yet; see R74."""
        message = request.params.get("message")
        asked = one_line(message) if isinstance(message, str) else "a question"
        request.reply({"action": "cancel"})
        title = "The agent asked a question that this version cannot show; it was cancelled."
        self._session.take(notice(title, asked))

    def cancel_all(self, *, by: str) -> None:
        """Answer every open ask with ``cancelled``."""
        for ask in list(self.open.values()):
            ask.cancel(by=by)

    def _settle(self, ask: PermissionRequest) -> None:
        """Put an ask's outcome on the wire and on record; called from any thread, once."""
        if agent_thread().is_current():
            self._close(ask)
        else:
            agent_thread().call(self._close, ask)

    def _close(self, ask: PermissionRequest) -> None:
        if self.open.pop(ask.id, None) is None:
            return
        ask.answer()
        self._session.take(Update("permission", permission=ask.permission))
        self._session.changed()
