"""JSON-RPC over standard input and output: one message a line, in both directions."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

Message = dict[str, Any]
OnReply = Callable[[Message], None]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
NOT_FOUND = -32002


class Refused(Exception):
    """A request that is answered with an error.

    Attributes:
        code: the JSON-RPC error code.
        message: what is wrong, for people.
        data: more about it, or None.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)

    def as_error(self) -> Message:
        """Return the error object of a response."""
        error = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


class Wire:
    """The two streams. Writing is safe from every thread."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._ids = count()
        self._waiting: dict[int, OnReply] = {}

    def messages(self) -> Iterator[Message]:
        """Yield what the client sends until standard input ends; what is no message is refused."""
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                self.fail(None, Refused(PARSE_ERROR, f"not JSON: {error}"))
                continue
            if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                yield message
            else:
                self.fail(None, Refused(INVALID_REQUEST, "a message is a JSON-RPC 2.0 object"))

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def respond(self, request_id: Any, result: Mapping[str, Any]) -> None:
        """Answer a request of the client."""
        self._send({"id": request_id, "result": result})

    def fail(self, request_id: Any, refused: Refused) -> None:
        """Answer a request of the client with an error."""
        self._send({"id": request_id, "error": refused.as_error()})

    def ask(self, method: str, params: Mapping[str, Any], on_reply: OnReply) -> int:
        """Send a request; `on_reply` gets the response, on the reading thread. Return its id."""
        request_id = next(self._ids)
        self._waiting[request_id] = on_reply
        self._send({"id": request_id, "method": method, "params": params})
        return request_id

    def withdraw(self, request_id: int) -> None:
        """Tell the client that a request of ours needs no answer any more."""
        if self._waiting.pop(request_id, None) is not None:
            self.notify("$/cancel_request", {"requestId": request_id})

    def take_reply(self, message: Message) -> None:
        """Hand a response to who asked; one that is late or unknown is nobody's."""
        request_id = message.get("id")
        if isinstance(request_id, int) and (on_reply := self._waiting.pop(request_id, None)):
            on_reply(message)

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except BrokenPipeError:
                # The client is gone; the end of standard input will say so too.
                return
