"""The agent's side of the protocol: which method does what, and one thread for each turn."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from silo_nb.demo_agent.options import Options
from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.session import Session
from silo_nb.demo_agent.skills import choose, commands
from silo_nb.demo_agent.store import Store, new_session_id
from silo_nb.demo_agent.turn import Cancelled, Turn
from silo_nb.demo_agent.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    REQUEST_CANCELLED,
    Refused,
    Wire,
)

PROTOCOL_VERSION = 1
_PAGE = 50
# How long turns have to end when the client is gone, in seconds.
_GRACE = 1.0

Params = Mapping[str, Any]
Result = dict[str, Any]

_CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": False, "sse": False},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}


class _Running:
    """A turn and the request it answers."""

    def __init__(self, request_id: Any, turn: Turn, thread: threading.Thread) -> None:
        self.request_id = request_id
        self.turn = turn
        self.thread = thread


class Server:
    """Serves one client.

    Args:
        wire: the connection to it.
        store: where sessions are kept.
    """

    def __init__(self, wire: Wire, store: Store) -> None:
        self._wire = wire
        self._store = store
        self._sessions: dict[str, Session] = {}
        self._running: dict[str, _Running] = {}
        self._guard = threading.Lock()
        self._booleans = False
        self._terminal = "text"
        self._methods: dict[str, Callable[[Params], Result]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_config_option": self._set_option,
        }

    def run(self) -> None:
        """Serve until the client ends the conversation."""
        for message in self._wire.messages():
            if "method" not in message:
                self._wire.take_reply(message)
            elif "id" in message:
                self._serve(message["id"], message["method"], message.get("params"))
            else:
                self._hear(message["method"], message.get("params"))

    def close(self) -> None:
        """Call every turn off and wait a moment for them to end."""
        with self._guard:
            running = list(self._running.values())
        for one in running:
            one.turn.cancel()
        for one in running:
            one.thread.join(_GRACE)

    # ------------------------------------------------------------------------ requests

    def _serve(self, request_id: Any, method: Any, params: Any) -> None:
        params = params if isinstance(params, dict) else {}
        try:
            if method == "session/prompt":
                self._prompt(request_id, params)
                return
            result = self._method(method)(params)
        except Refused as refused:
            self._wire.fail(request_id, refused)
            return
        self._wire.respond(request_id, result)
        if method in {"session/new", "session/load", "session/resume"}:
            session = self._sessions[result.get("sessionId") or params["sessionId"]]
            offered = {"availableCommands": commands()}
            session.send({"sessionUpdate": "available_commands_update", **offered})

    def _method(self, name: Any) -> Callable[[Params], Result]:
        if name not in self._methods:
            raise Refused(METHOD_NOT_FOUND, f"Method not found: {name}")
        return self._methods[name]

    def _initialize(self, params: Params) -> Result:
        capabilities = params.get("clientCapabilities")
        capabilities = capabilities if isinstance(capabilities, dict) else {}
        self._booleans = _has(capabilities, "session", "configOptions", "boolean")
        if _has(capabilities, "_meta", "terminal_output_delta"):
            self._terminal = "delta"
        elif _has(capabilities, "_meta", "terminal_output"):
            self._terminal = "whole"
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": _CAPABILITIES,
            "agentInfo": {"name": "silo-demo-agent", "title": "Demo Agent", "version": "1"},
            "authMethods": [],
        }

    def _new(self, params: Params) -> Result:
        session = self._open(new_session_id(), _directory(params), {})
        return {"sessionId": session.id, "configOptions": session.options.as_wire()}

    def _load(self, params: Params) -> Result:
        session = self._reopen(params)
        session.replay()
        return {"configOptions": session.options.as_wire()}

    def _resume(self, params: Params) -> Result:
        return {"configOptions": self._reopen(params).options.as_wire()}

    def _reopen(self, params: Params) -> Session:
        session_id = str(params.get("sessionId"))
        self._refuse_while_busy(session_id)
        live = self._sessions.pop(session_id, None)
        if live is not None:
            live.save(self._store)
        saved = self._store.load(session_id)
        if saved is None:
            raise Refused(NOT_FOUND, "Session not found", {"sessionId": session_id})
        return self._open(session_id, _directory(params), saved)

    def _open(self, session_id: str, cwd: str, saved: Mapping[str, Any]) -> Session:
        values = saved.get("options")
        options = Options(values if isinstance(values, dict) else {}, booleans=self._booleans)
        session = Session(session_id, cwd, wire=self._wire, options=options, saved=saved)
        self._sessions[session_id] = session
        return session

    def _list(self, params: Params) -> Result:
        known = {str(saved.get("sessionId")): saved for saved in self._store.newest_first()}
        known |= {id_: live.summary() for id_, live in self._sessions.items() if live.title}
        keys = ("sessionId", "cwd", "title", "updatedAt")
        rows = [{key: session.get(key) for key in keys} for session in known.values()]
        rows = [row for row in rows if params.get("cwd") in {None, row["cwd"]}]
        rows.sort(key=lambda row: str(row["updatedAt"]), reverse=True)
        start = _page_start(params.get("cursor"))
        more = start + _PAGE < len(rows)
        return {
            "sessions": rows[start : start + _PAGE],
            "nextCursor": str(start + _PAGE) if more else None,
        }

    def _close(self, params: Params) -> Result:
        session = self._session(params)
        self._call_off(session.id)
        del self._sessions[session.id]
        return {}

    def _delete(self, params: Params) -> Result:
        session_id = str(params.get("sessionId"))
        self._call_off(session_id)
        self._sessions.pop(session_id, None)
        self._store.delete(session_id)
        return {}

    def _set_option(self, params: Params) -> Result:
        session = self._session(params)
        session.options.set(params.get("configId"), params.get("value"))
        return {"configOptions": session.options.as_wire()}

    def _session(self, params: Params) -> Session:
        session_id = params.get("sessionId")
        if not isinstance(session_id, str) or session_id not in self._sessions:
            raise Refused(NOT_FOUND, "Session not found", {"sessionId": session_id})
        return self._sessions[session_id]

    # -------------------------------------------------------------------------- notices

    def _hear(self, method: Any, params: Any) -> None:
        params = params if isinstance(params, dict) else {}
        if method == "session/cancel":
            with self._guard:
                running = self._running.get(str(params.get("sessionId")))
            if running is not None:
                running.turn.cancel()
        elif method == "$/cancel_request":
            with self._guard:
                found = [
                    one
                    for one in self._running.values()
                    if one.request_id == params.get("requestId")
                ]
            for running in found:
                running.turn.cancel(by_id=True)

    # ---------------------------------------------------------------------------- turns

    def _prompt(self, request_id: Any, params: Params) -> None:
        session = self._session(params)
        prompt = Prompt.of(params.get("prompt"))
        self._refuse_while_busy(session.id)
        turn = Turn(session, self._wire, terminal=self._terminal)
        work = (request_id, session, turn, prompt, params["prompt"])
        thread = threading.Thread(target=self._take_turn, args=work, daemon=True)
        with self._guard:
            self._running[session.id] = _Running(request_id, turn, thread)
        thread.start()

    def _refuse_while_busy(self, session_id: str) -> None:
        with self._guard:
            if session_id in self._running:
                raise Refused(
                    INVALID_REQUEST, "A turn is running in this session", {"code": "turn.busy"}
                )

    def _take_turn(
        self, request_id: Any, session: Session, turn: Turn, prompt: Prompt, blocks: Any
    ) -> None:
        for block in blocks:
            session.remember({"sessionUpdate": "user_message_chunk", "content": block})
        answer = self._answer_of(session, turn, prompt)
        session.save(self._store)
        # From here on the session is free: the client may send the next prompt at once.
        with self._guard:
            del self._running[session.id]
        if isinstance(answer, Refused):
            self._wire.fail(request_id, answer)
        else:
            self._wire.respond(request_id, answer)

    def _answer_of(self, session: Session, turn: Turn, prompt: Prompt) -> Result | Refused:
        reason = "end_turn"
        try:
            session.begin_turn(prompt.text)
            turn.count_input(prompt.text)
            skill, request = choose(prompt)
            skill.answer(turn, request)
        except Cancelled:
            if turn.called_off_by_id:
                return Refused(REQUEST_CANCELLED, "Request cancelled")
            reason = "cancelled"
        except Exception as error:  # noqa: BLE001 - a bug of ours must not leave a prompt unanswered
            traceback.print_exc(file=sys.stderr)
            return Refused(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        return {"stopReason": reason, "usage": turn.report_usage()}

    def _call_off(self, session_id: str) -> None:
        with self._guard:
            running = self._running.get(session_id)
        if running is not None:
            running.turn.cancel()
            running.thread.join(_GRACE)


def _directory(params: Params) -> str:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not Path(cwd).is_absolute():
        raise Refused(INVALID_PARAMS, "cwd: an absolute path is required")
    if not Path(cwd).is_dir():
        raise Refused(INVALID_PARAMS, f"cwd: {cwd!r} is not a directory")
    return cwd


def _has(capabilities: Mapping[str, Any], *path: str) -> bool:
    """Whether a nested capability is there: true, or an object."""
    value: Any = capabilities
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value is True or isinstance(value, dict)


def _page_start(cursor: Any) -> int:
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isdecimal():
        return int(cursor)
    raise Refused(INVALID_PARAMS, f"cursor: {cursor!r} is none of mine")
