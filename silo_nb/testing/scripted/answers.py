"""What the agent answers when the scenario says nothing about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Message = Mapping[str, Any]

METHOD_NOT_FOUND = {"code": -32601, "message": "Method not found"}
REQUEST_CANCELLED = {"code": -32800, "message": "Request cancelled"}

_INITIALIZE = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": False,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
        "sessionCapabilities": {"close": {}},
    },
    "agentInfo": {"name": "fake-agent", "title": "Fake Agent", "version": "1"},
    "authMethods": [],
}

_BUILT_IN: dict[str, Any] = {
    "initialize": _INITIALIZE,
    "authenticate": {},
    "logout": {},
    "session/new": {"sessionId": "$session"},
    "session/load": {},
    "session/resume": {},
    "session/list": {"sessions": []},
    "session/close": {},
    "session/delete": {},
    "session/set_mode": {},
    "session/prompt": {"stopReason": "end_turn"},
}


class Answers:
    """The default answers of one agent process.

    Args:
        overrides: method -> result, or ``{"error": …}``, in place of the built-in answer.
        substitute: replaces ``$session`` and the like in a result.
    """

    def __init__(self, overrides: Mapping[str, Any], substitute: Callable[[Any], Any]) -> None:
        self._table = {**_BUILT_IN, **overrides}
        self._substitute = substitute
        new = self._table["session/new"] or {}
        self.fixed_session: str | None = new.get("sessionId")
        self._options = [dict(option) for option in new.get("configOptions") or []]

    def to(self, request: Message) -> dict[str, Any]:
        """Return the answer to `request`: an object with either ``result`` or ``error``."""
        method = request["method"]
        if method == "session/set_config_option" and method not in self._table:
            return self._set_option(request.get("params") or {})
        if method not in self._table:
            return {"error": METHOD_NOT_FOUND | {"data": {"method": method}}}
        answer = self._table[method]
        if isinstance(answer, dict) and answer.keys() == {"error"}:
            return dict(answer)
        return {"result": self._substitute(answer)}

    def _set_option(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Change one of the options that session/new listed, as agents do: the whole list back."""
        for option in self._options:
            if option["id"] == params.get("configId"):
                option["currentValue"] = params.get("value")
                return {"result": {"configOptions": self._options}}
        return {"error": {"code": -32602, "message": "Unknown config option"}}
