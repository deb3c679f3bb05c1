"""What the client sends: kept for the script when it waits for it, else answered at once."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from silo_nb.testing.scripted.answers import REQUEST_CANCELLED, Answers
from silo_nb.testing.scripted.log import Log
from silo_nb.testing.scripted.names import Names
from silo_nb.testing.scripted.scenario import Step, fits
from silo_nb.testing.scripted.wire import Writer

Message = Mapping[str, Any]
T = TypeVar("T")

_CANCELLED_TURN = {"result": {"stopReason": "cancelled"}}
_OPENING = {"session/new", "session/load", "session/resume"}


class TurnEnded(Exception):
    """The client called off the request the script is busy with.

    Attributes:
        request_id: that request.
        answer: what to answer it.
    """

    def __init__(self, request_id: Any, answer: Mapping[str, Any]) -> None:
        self.request_id = request_id
        self.answer = answer
        super().__init__(request_id)


class Inbox:
    """Takes each message on the reading thread and hands some to the script's thread.

    Args:
        names: where session, directory and prompt are noted.
        answers: the default answers.
        writer: where answers go.
        log: where every message is written down first.
    """

    def __init__(self, names: Names, answers: Answers, writer: Writer, log: Log) -> None:
        self._names = names
        self._answers = answers
        self._writer = writer
        self._log = log
        self._changed = threading.Condition()
        self._open: dict[Any, Message] = {}
        self._kept: list[Message] = []
        self._ahead: Callable[[], Iterable[Step]] = tuple
        self._bound: Any = None
        self._ending: TurnEnded | None = None
        self._replies: dict[Any, Message] = {}
        self.ignored: set[str] = set()

    def expect_ahead(self, ahead: Callable[[], Iterable[Step]]) -> None:
        """Tell which `expect` steps the script still has, as a function asked at every message."""
        self._ahead = ahead

    # -------------------------------------------------------------- on the reading thread

    def receive(self, line: bytes) -> None:
        """Take one line from the client."""
        try:
            message = json.loads(line)
        except ValueError:
            self._log.received_raw(line)
            return
        self._log.received(message)
        if isinstance(message, dict):
            with self._changed:
                self._sort(message)
                self._changed.notify_all()

    def end(self) -> None:
        """Standard input ended: so does the process, unless the scenario ignores it."""
        self._log.event("eof")
        if "eof" not in self.ignored:
            os._exit(0)

    def _sort(self, message: Message) -> None:
        if "method" not in message:
            self._replies[_key(message.get("id"))] = message
            return
        if "id" in message:
            self._open[_key(message["id"])] = message
        if self._is_awaited(message):
            self._kept.append(message)
        else:
            self._answer_by_default(message)

    def _is_awaited(self, message: Message) -> bool:
        wanted = sum(_expects(step, message) for step in self._ahead())
        kept = [kept for kept in self._kept if kept["method"] == message["method"]]
        return wanted > len(kept)

    def _answer_by_default(self, message: Message) -> None:
        method = message["method"]
        if "id" not in message:
            if "cancel" not in self.ignored:
                self._call_off(method, message.get("params") or {})
            return
        if "requests" in self.ignored:
            return
        if method in _OPENING:
            self._names.learn(message)
        if method == "session/new":
            self._names.new_session(self._answers.fixed_session)
        if method == "session/prompt":
            self._writer.message(_ok((message.get("params") or {}).get("sessionId")))
        self.respond(message["id"], self._answers.to(message))

    def _call_off(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "session/cancel":
            for request in list(self._open.values()):
                session = (request.get("params") or {}).get("sessionId")
                if request["method"] == "session/prompt" and session == params.get("sessionId"):
                    self._end(request["id"], _CANCELLED_TURN)
        elif method == "$/cancel_request" and _key(params.get("requestId")) in self._open:
            self._end(params.get("requestId"), {"error": REQUEST_CANCELLED})

    def _end(self, request_id: Any, answer: Mapping[str, Any]) -> None:
        """End an open request: the script's own when it is busy with it, else at once."""
        if _key(request_id) == self._bound:
            self._ending = TurnEnded(request_id, answer)
            return
        self._kept = [kept for kept in self._kept if kept.get("id") != request_id]
        self.respond(request_id, answer)

    # --------------------------------------------------------------- on the script's thread

    def take(self, step: Step, on_taken: Callable[[], None]) -> Message:
        """Wait for the message that an `expect` step describes; a request becomes the bound one.

        `on_taken` is called before the next message is looked at: the step lies behind us then.
        """
        with self._changed:
            message = self._wait(lambda: self._kept_for(step))
            self._kept.remove(message)
            on_taken()
            if "id" in message:
                self._bind(message)
            return message

    def reply_to(self, request_id: Any) -> Message:
        """Wait for the client's answer to one of our requests."""
        with self._changed:
            return self._wait(lambda: self._replies.get(_key(request_id)))

    def rest(self, seconds: float) -> None:
        """Let so many seconds pass (infinity: never come back by oneself).

        Raises:
            TurnEnded: the client called off what the script is busy with.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self._wait(lambda: time.monotonic() >= deadline or None, deadline)

    def check(self) -> None:
        """Raise TurnEnded when the client called off what the script is busy with."""
        with self._changed:
            ending, self._ending = self._ending, None
            if ending is not None and _key(ending.request_id) in self._open:
                raise ending

    def respond(self, request_id: Any, answer: Mapping[str, Any], *, end: str = "\n") -> None:
        """Answer a request of the client (again, when a scenario wants that)."""
        request = self._open.pop(_key(request_id), None)
        result = answer.get("result")
        opened = request is not None and request["method"] == "session/new"
        if opened and isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self._names["session"] = result["sessionId"]
        self._writer.message({"jsonrpc": "2.0", "id": request_id, **answer}, end)

    def count_as_answered(self, request_id: Any) -> None:
        """Note that the scenario answered a request with a message of its own making."""
        self._open.pop(_key(request_id), None)

    def is_open(self, request_id: Any, method: str) -> bool:
        """Whether a request of that method still waits for its answer."""
        return self._open.get(_key(request_id), {}).get("method") == method

    def settle(self) -> None:
        """Answer by default what was kept for a script that will not come to it any more."""
        with self._changed:
            kept, self._kept = self._kept, []
            for message in kept:
                if self._is_awaited(message):
                    self._kept.append(message)
                else:
                    self._answer_by_default(message)

    def _wait(self, ready: Callable[[], T | None], deadline: float = math.inf) -> T:
        while (found := ready()) is None:
            self.check()
            self._changed.wait(min(deadline - time.monotonic(), threading.TIMEOUT_MAX))
        return found

    def _kept_for(self, step: Step) -> Message | None:
        return next((kept for kept in self._kept if _expects(step, kept)), None)

    def _bind(self, request: Message) -> None:
        self._bound = _key(request["id"])
        self._names.learn(request)
        if request["method"] == "session/new":
            self._names.new_session(self._answers.fixed_session)
        self._names["request"] = request["id"]
        self._names["params"] = request.get("params")
        self._names.compute("default", lambda: self._answers.to(request).get("result"))


def _expects(step: Step, message: Message) -> bool:
    return bool(
        step["expect"] == message["method"]
        and fits(step.get("params", {}), message.get("params") or {})
    )


def _key(request_id: Any) -> Any:
    """Make any JSON value usable as a dictionary key; clients under test may send any."""
    return request_id if isinstance(request_id, str | int) else json.dumps(request_id)


def _ok(session: Any) -> Message:
    content = {"type": "text", "text": "ok"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}
