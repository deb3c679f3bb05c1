"""JSON-RPC 2.0 as ACP uses it: error codes, refusals, and requests that wait for our answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from silo_nb.model.text import inert

__all__ = [
    "AUTH_REQUIRED",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "METHOD_NOT_FOUND",
    "REQUEST_CANCELLED",
    "IncomingRequest",
    "InvalidParamsError",
    "RpcError",
    "parse_error",
]

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000

_MESSAGE_LIMIT = 2_000
_DATA_LIMIT = 20_000


class RpcError(Exception):
    """The other side answered a request with an error."""

    def __init__(self, code: int | None, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)


class InvalidParamsError(Exception):
    """A request of the agent's that cannot be read; names the field."""


def parse_error(raw: Any) -> RpcError:
    """Return the error object `raw`, readable whatever it is. See FAULTS R10.

    >>> parse_error({"code": "oops"}).message
    'the agent gave no reason'
    """
    error = raw if isinstance(raw, Mapping) else {"message": raw}
    code = error.get("code")
    message = error.get("message")
    if not isinstance(message, str) or not message.strip():
        message = "the agent gave no reason"
    data = error.get("data")
    if len(repr(data)) > _DATA_LIMIT:
        data = repr(data)[:_DATA_LIMIT] + "…"
    is_code = isinstance(code, int) and not isinstance(code, bool)
    return RpcError(code if is_code else None, inert(message[:_MESSAGE_LIMIT]), data)


class IncomingRequest:
    """A request of the agent's, answered exactly once.

    The first of :meth:`reply`, :meth:`refuse` and :meth:`withdraw` wins and says so by returning
    True; every later one returns False and sends nothing.
    """

    def __init__(
        self,
        request_id: Any,
        method: str,
        params: Mapping[str, Any],
        send: Callable[[dict[str, Any]], None],
    ) -> None:
        self.id = request_id
        self.method = method
        self.params = params
        self.answered = False
        self.on_withdrawn: Callable[[], None] | None = None
        """Called when the agent takes the request back (``$/cancel_request``)."""
        self._send = send

    def reply(self, result: dict[str, Any]) -> bool:
        """Answer with `result`."""
        return self._answer({"result": result})

    def refuse(self, code: int, message: str) -> bool:
        """Answer with an error."""
        return self._answer({"error": {"code": code, "message": message}})

    def withdraw(self) -> bool:
        """The agent no longer wants an answer; it gets the error the protocol asks for."""
        if self.answered:
            return False
        if self.on_withdrawn is not None:
            self.on_withdrawn()
        return self.refuse(REQUEST_CANCELLED, "cancelled")

    def _answer(self, outcome: dict[str, Any]) -> bool:
        if self.answered:
            return False
        self.answered = True
        self._send({"jsonrpc": "2.0", "id": self.id, **outcome})
        return True
