"""The options a user can set, in the shape the protocol has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silo_nb.demo_agent.wire import INVALID_PARAMS, Refused

MODES = {
    "ask": ("Ask first", "Ask before editing a file or running a command"),
    "plan": ("Plan only", "Show what would be done, and change nothing"),
    "auto": ("Go ahead", "Edit and run without asking"),
}
THINKING = {
    "off": ("Off", "No thoughts"),
    "short": ("Short", "A thought now and then"),
    "long": ("Long", "Think aloud"),
}

DEFAULTS: dict[str, Any] = {"mode": "ask", "thinking": "short", "brief": False}

_CHOICES = {"mode": MODES, "thinking": THINKING}


class Options:
    """The values of one session's options.

    Args:
        values: saved values; what is missing or unknown is the default.
        booleans: whether the client knows boolean options; for others ``brief`` is on or off.

    >>> options = Options({}, booleans=True)
    >>> options.set("mode", "auto")
    >>> options.mode
    'auto'
    """

    def __init__(self, values: Mapping[str, Any], *, booleans: bool) -> None:
        self.values = DEFAULTS | {key: values[key] for key in DEFAULTS if key in values}
        self._booleans = booleans

    @property
    def mode(self) -> str:
        """``ask``, ``plan`` or ``auto``."""
        return str(self.values["mode"])

    @property
    def thinking(self) -> str:
        """``off``, ``short`` or ``long``."""
        return str(self.values["thinking"])

    @property
    def brief(self) -> bool:
        """Whether answers leave out explanations."""
        return bool(self.values["brief"])

    def set(self, option_id: Any, value: Any) -> None:
        """Change one option.

        Raises:
            Refused: there is no such option, or it has no such value.
        """
        if option_id == "brief":
            self.values["brief"] = self._switch(value)
        elif option_id not in _CHOICES:
            raise Refused(INVALID_PARAMS, f"Unknown config option: {option_id!r}")
        elif not isinstance(value, str) or value not in _CHOICES[option_id]:
            known = ", ".join(map(repr, _CHOICES[option_id]))
            raise Refused(INVALID_PARAMS, f"{option_id!r} is one of {known}, not {value!r}")
        else:
            self.values[option_id] = value

    def _switch(self, value: Any) -> bool:
        if self._booleans and isinstance(value, bool):
            return value
        if not self._booleans and value in {"on", "off"}:
            return bool(value == "on")
        wanted = "true or false" if self._booleans else "'on' or 'off'"
        raise Refused(INVALID_PARAMS, f"'brief' is {wanted}, not {value!r}")

    def as_wire(self) -> list[dict[str, Any]]:
        """Return the complete list, as session/new and its like carry it."""
        return [
            _select("mode", "Mode", "mode", self.mode, MODES),
            _select("thinking", "Thinking", "thought_level", self.thinking, THINKING),
            self._brief(),
        ]

    def _brief(self) -> dict[str, Any]:
        if self._booleans:
            about = {"id": "brief", "name": "Brief", "description": "Leave out explanations"}
            return {**about, "type": "boolean", "currentValue": self.brief}
        switch = {"on": ("On", "Leave out explanations"), "off": ("Off", "Explain")}
        return _select("brief", "Brief", None, "on" if self.brief else "off", switch)


def _select(
    option_id: str,
    name: str,
    category: str | None,
    value: str,
    choices: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    option: dict[str, Any] = {
        "id": option_id,
        "name": name,
        "type": "select",
        "currentValue": value,
        "options": [
            {"value": key, "name": label, "description": about}
            for key, (label, about) in choices.items()
        ],
    }
    return option | ({"category": category} if category else {})
