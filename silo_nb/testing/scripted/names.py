"""What a scenario may refer to: ``$session``, ``$request`` … and names given with ``as``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

_EMBEDDED = re.compile(r"\$\{(\w+)\}")


class Names:
    """The values behind the ``$`` names.

    >>> names = Names()
    >>> names["session"] = "s1"
    >>> names.substitute({"sessionId": "$session", "text": "in ${session}", "price": "$5"})
    {'sessionId': 's1', 'text': 'in s1', 'price': '$5'}
    >>> names.substitute({"$repeat": "ab", "times": 3})
    'ababab'
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {
            "pid": os.getpid(),
            "cwd": str(Path.cwd()),
            "session": "",
            "request": None,
            "prompt": "",
        }
        self._computed: dict[str, Callable[[], Any]] = {"environ": lambda: dict(os.environ)}
        self._sessions = count(1)

    def __getitem__(self, name: str) -> Any:
        if name in self._computed:
            return self._computed[name]()
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._values or name in self._computed

    def compute(self, name: str, value: Callable[[], Any]) -> None:
        """Let `name` stand for what `value` returns at the time it is used."""
        self._computed[name] = value

    def new_session(self, fixed: Any) -> None:
        """Name the session about to be opened: as a scenario fixed it, else one of its own."""
        own = f"fake-{self['pid']}-{next(self._sessions)}"
        self["session"] = fixed if isinstance(fixed, str) and not fixed.startswith("$") else own

    def learn(self, request: Mapping[str, Any]) -> None:
        """Take what a request from the client tells: its session, directory and prompt."""
        params = request.get("params")
        if not isinstance(params, dict):
            return
        for name, key in (("session", "sessionId"), ("cwd", "cwd")):
            if isinstance(params.get(key), str):
                self[name] = params[key]
        if isinstance(params.get("prompt"), list):
            self["prompt"] = "".join(
                block.get("text", "") for block in params["prompt"] if block.get("type") == "text"
            )

    def substitute(self, value: Any) -> Any:
        """Return `value` with every known name replaced, at any depth."""
        if isinstance(value, str):
            return self._in_text(value)
        if isinstance(value, list):
            return [self.substitute(item) for item in value]
        if isinstance(value, dict):
            if value.keys() == {"$repeat", "times"}:
                return str(self.substitute(value["$repeat"])) * value["times"]
            return {key: self.substitute(item) for key, item in value.items()}
        return value

    def _in_text(self, text: str) -> Any:
        if text.startswith("$") and text[1:] in self:
            return self[text[1:]]
        if "${" not in text:
            return text
        return _EMBEDDED.sub(lambda m: str(self[m[1]]) if m[1] in self else m[0], text)
