"""Asks: what the agent waits for a person to say. They belong to the session, not to a view.

Any listener, view, stdin prompt or policy may answer; exactly one answer goes out, of the offered
options only. A cancel, a withdrawal by the agent, dispose and the agent's death settle every open
one. Permissions are a courtesy of the agent, no safety boundary: it can act without asking.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from silo_nb.acp.permission import CANCELLED, selected
from silo_nb.model import Permission, PermissionOption, ToolCall

if TYPE_CHECKING:
    from silo_nb.acp.rpc import IncomingRequest

__all__ = ["PermissionRequest"]


class PermissionRequest:
    """An agent asking whether it may go on. Every method may be called from any thread.

    Attributes:
        id: unique in the session's journal.
        session_id: the agent's id of the session.
        tool_call: the row it is about, in full: title, kind, diff, raw input.
        options: the answers the agent offers, in its order; the first need not be an allow.
        raw: the request's params, read-only.
    """

    def __init__(
        self,
        request: IncomingRequest,
        permission: Permission,
        tool_call: ToolCall,
        settle: Callable[[PermissionRequest], None],
    ) -> None:
        self.id = permission.id
        self.session_id: str = request.params.get("sessionId", "")
        self.tool_call = tool_call
        self.options: tuple[PermissionOption, ...] = permission.options
        self.raw: Mapping[str, Any] = request.params
        self._request = request
        self._permission = permission
        self._settle = settle
        self._claim = threading.Lock()
        request.on_withdrawn = self._withdraw

    @property
    def permission(self) -> Permission:
        """The ask as the transcript shows it, with its outcome once there is one."""
        return self._permission

    @property
    def answered(self) -> bool:
        """Whether it was answered, withdrawn or cancelled."""
        return self._permission.outcome is not None

    def respond(self, option_id: str, *, by: str = "listener") -> bool:
        """Answer with one of the offered options.

        Args:
            option_id: the `option_id` of one of :attr:`options`.
            by: who answers, for the record.

        Returns:
            True when this was the answer; False when something else came first.

        Raises:
            ValueError: `option_id` was not offered; the request stays open.
        """
        if all(option.option_id != option_id for option in self.options):
            offered = ", ".join(repr(option.option_id) for option in self.options)
            raise ValueError(f"option {option_id!r} was not offered; choose one of {offered}")
        return self._finish("selected", option_id, by)

    def cancel(self, *, by: str = "listener") -> bool:
        """Answer that nothing was chosen; returns as :meth:`respond`."""
        return self._finish("cancelled", None, by)

    def option(self, *kinds: str) -> PermissionOption | None:
        """Return the first option of the first of `kinds` that is offered exactly once.

        Several options of one kind are choices in disguise (kimi-code 2.1, qwen-code 0.24): no
        machine may pick one of them.
        """
        for kind in kinds:
            found = [option for option in self.options if option.kind == kind]
            if len(found) == 1:
                return found[0]
        return None

    def answer(self) -> None:
        """Put the outcome on the wire. Called once, on the agent thread.

        The agent may have withdrawn the request while somebody answered it on another thread. What
        it never heard must not be on record as its permission.
        """
        asked = self._permission
        if asked.outcome == "withdrawn":
            return
        reply = CANCELLED if asked.option_id is None else selected(asked.option_id)
        if not self._request.reply(reply):
            self._permission = replace(
                asked, outcome="withdrawn", option_id=None, answered_by="agent"
            )

    def _withdraw(self) -> None:
        self._finish("withdrawn", None, "agent")

    def _finish(self, outcome: str, option_id: str | None, by: str) -> bool:
        with self._claim:
            if self.answered:
                return False
            self._permission = replace(
                self._permission, outcome=outcome, option_id=option_id, answered_by=by
            )
        self._settle(self)
        return True
