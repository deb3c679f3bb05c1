"""One ACP connection: requests both ways, notifications in wire order.

Everything here is synchronous and runs on the agent thread. A message is dispatched to its end
before the next one is looked at, so that an update is reduced before the response that follows it
is resolved, and no chunk can overtake another. (PROTOCOL §3)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from silo_nb.acp.diagnostics import Diagnostics
from silo_nb.acp.framing import Decoder, LineSplitter, encode
from silo_nb.acp.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    IncomingRequest,
    InvalidParamsError,
    RpcError,
    parse_error,
)

__all__ = ["Connection", "ConnectionLostError", "Host"]

_log = logging.getLogger("silo_nb.acp")

Result = dict[str, Any]
OnResult = Callable[[Result], None]
OnError = Callable[[Exception], None]


class ConnectionLostError(Exception):
    """The agent is gone; whatever it was asked will not be answered."""


class Host(Protocol):
    """Who a connection works for. Neither method may wait."""

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification of the agent's."""

    def on_request(self, request: IncomingRequest) -> None:
        """Take a request of the agent's; answer it now or later.

        Raises:
            InvalidParamsError: the request cannot be read; the agent is told which field.
        """


class Connection:
    """The client's end of one connection.

    Args:
        write: takes the bytes of one message; must not block.
        host: gets what the agent sends.
    """

    def __init__(self, write: Callable[[bytes], None], host: Host) -> None:
        self.diagnostics = Diagnostics()
        self._write = write
        self._host = host
        self._lines = LineSplitter(self.diagnostics)
        self._decoder = Decoder(self.diagnostics)
        self._last_id = 0
        self._pending: dict[Any, _Pending] = {}
        self._incoming: dict[Any, IncomingRequest] = {}
        self._lost = False

    # ------------------------------------------------------------------------------- sending

    def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        on_result: OnResult | None = None,
        on_error: OnError | None = None,
    ) -> asyncio.Future[Result]:
        """Send a request; the future gets its result.

        Args:
            method: the method's name on the wire.
            params: its params.
            on_result: called with the result before the next message is dispatched.
            on_error: called with the error, likewise.

        Returns:
            A future of the result. Cancelling it sends ``$/cancel_request``. It fails with
            :class:`RpcError` when the agent refuses and with :class:`ConnectionLostError` when the
            agent is gone.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        pending = _Pending(future, on_result, on_error)
        if self._lost:
            pending.fail(ConnectionLostError())
            return future
        self._last_id += 1
        request_id = self._last_id
        self._pending[request_id] = pending
        future.add_done_callback(lambda done: self._abandon(request_id, done))
        self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return future

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        if not self._lost:
            self._write(encode(message))

    def _abandon(self, request_id: int, future: asyncio.Future[Result]) -> None:
        if not future.cancelled():
            future.exception()  # nobody has to wait for every answer
        elif self._pending.pop(request_id, None) is not None:
            self.notify("$/cancel_request", {"requestId": request_id})

    # ----------------------------------------------------------------------------- receiving

    def feed(self, data: bytes) -> None:
        """Dispatch the messages that `data`, read from the agent's stdout, completes."""
        for line in self._lines.feed(data):
            message = self._decoder.decode(line)
            if message is not None:
                self._dispatch(message)

    def close(self) -> None:
        """The agent is gone: dispatch what it said last, fail what it was asked."""
        rest = self._decoder.decode(self._lines.rest())
        if rest is not None:
            self._dispatch(rest)
        self._lost = True
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            waiting.fail(ConnectionLostError())
        incoming, self._incoming = self._incoming, {}
        for request in incoming.values():
            request.withdraw()

    def _dispatch(self, message: dict[str, Any]) -> None:
        try:
            method = message.get("method")
            if not isinstance(method, str):
                self._on_response(message)
            elif "id" in message:
                self._on_request(method, message)
            else:
                self._on_notification(method, message.get("params"))
        except Exception:  # noqa: BLE001 - the messages behind the one that trips us must not pay
            self.diagnostics.note("failed", str(message)[:500])
            _log.exception("a message from the agent could not be handled")

    def _on_notification(self, method: str, params: Any) -> None:
        if not isinstance(params, dict):
            self.diagnostics.note("notification without params", method)
        elif method == "$/cancel_request":
            self._on_withdrawal(params.get("requestId"))
        else:
            self._host.on_notification(method, params)

    def _on_withdrawal(self, request_id: Any) -> None:
        request = self._incoming.get(request_id) if _is_id(request_id) else None
        if request is None or not request.withdraw():
            self.diagnostics.note("withdrawal of no open request", repr(request_id))

    def _on_request(self, method: str, message: dict[str, Any]) -> None:
        request_id, params = message["id"], message.get("params", {})
        # The peer's ids start at 0 and may be strings; what cannot be an id is answered as null.
        key = request_id if _is_id(request_id) else None

        def send(answer: dict[str, Any]) -> None:
            if self._incoming.get(key) is request:
                del self._incoming[key]
            self._send(answer)

        request = IncomingRequest(key, method, params if isinstance(params, dict) else {}, send)
        if not isinstance(params, dict):
            request.refuse(INVALID_PARAMS, "params: expected an object")
            return
        self._incoming[key] = request
        try:
            self._host.on_request(request)
        except InvalidParamsError as error:
            request.refuse(INVALID_PARAMS, str(error))
        except Exception:
            request.refuse(INTERNAL_ERROR, f"silo_nb could not handle {method}")
            raise

    def _on_response(self, message: dict[str, Any]) -> None:
        request_id = message.get("id")
        pending = self._pending.pop(request_id, None) if _is_id(request_id) else None
        if pending is None:
            self.diagnostics.note("response to no open request", repr(request_id))
        elif message.get("error") is not None:
            pending.fail(parse_error(message["error"]))
        elif "result" not in message:
            pending.fail(RpcError(None, "the response has neither result nor error"))
        else:
            result = message["result"]
            pending.succeed(result if isinstance(result, dict) else {})


class _Pending(NamedTuple):
    """A request of ours that waits for its response."""

    future: asyncio.Future[Result]
    on_result: OnResult | None
    on_error: OnError | None

    def succeed(self, result: Result) -> None:
        if self.on_result is not None:
            self.on_result(result)
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if self.on_error is not None:
            self.on_error(error)
        if not self.future.done():
            self.future.set_exception(error)


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
