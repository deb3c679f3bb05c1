"""Checks of single values: each returns the value as a profile holds it, or says what is wrong.

Messages name the kind of what was found, not the value: it may be a secret in the wrong place.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

__all__ = [
    "Check",
    "WrongValue",
    "check_command",
    "check_defaults",
    "check_directory",
    "check_filled",
    "check_flag",
    "check_json",
    "check_list",
    "check_table",
    "check_text",
    "check_texts",
    "check_variables",
    "checked_at",
    "closest",
    "kind_of",
    "one_of",
]

T = TypeVar("T")
Check = Callable[[object], object]

VARIABLE_NAME = re.compile(r"[^=\0]+")


class WrongValue(Exception):
    """A value that cannot be used: what is wrong, and the path of keys below the one checked."""

    def __init__(self, message: str, *path: str) -> None:
        self.message = message
        self.path = path
        super().__init__(message)


def closest(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` when one of `known` is close to `name`, else nothing.

    >>> closest("comand", ["command", "cwd"])
    " Did you mean 'command'?"
    >>> closest("xyz", ["command", "cwd"])
    ''
    """
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def kind_of(value: object) -> str:
    """Return what TOML calls a value of this kind.

    >>> kind_of(True), kind_of({})
    ('true or false', 'a table')
    """
    match value:
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def checked_at(name: str, check: Callable[[object], T], value: object) -> T:
    """Return what `check` makes of `value`; a complaint says where in its table it stood."""
    try:
        return check(value)
    except WrongValue as wrong:
        raise WrongValue(wrong.message, name, *wrong.path) from None


def check_text(value: object) -> str:
    """Return a string that can be handed to a program."""
    if not isinstance(value, str):
        raise WrongValue(f"must be a string, not {kind_of(value)}.")
    if "\0" in value:
        raise WrongValue("must not contain a NUL character.")
    return value


def check_filled(value: object) -> str:
    """Return a string that says something."""
    text = check_text(value)
    if not text.strip():
        raise WrongValue("must not be empty.")
    return text


def check_flag(value: object) -> bool:
    """Return true or false; 1 and "true" are neither."""
    if not isinstance(value, bool):
        raise WrongValue(f"must be true or false, not {kind_of(value)}.")
    return value


def one_of(*allowed: str) -> Callable[[object], str]:
    """Return the check for one of these words."""

    def check(value: object) -> str:
        text = check_text(value)
        if text not in allowed:
            expected = " or ".join(f'"{word}"' for word in allowed)
            raise WrongValue(f"must be {expected}.{closest(text, allowed)}")
        return text

    return check


def check_list(value: object) -> list[object]:
    """Return an array of anything."""
    if not isinstance(value, list):
        raise WrongValue(f"must be an array, not {kind_of(value)}.")
    return value


def check_table(value: object) -> dict[str, Any]:
    """Return a copy of a table of anything."""
    if not isinstance(value, dict):
        raise WrongValue(f"must be a table, not {kind_of(value)}.")
    return dict(value)


def check_texts(value: object) -> tuple[str, ...]:
    """Return an array of strings."""
    items = enumerate(check_list(value))
    return tuple(checked_at(str(index), check_text, item) for index, item in items)


def check_command(value: object) -> tuple[str, ...]:
    """Return program and arguments; a line for a shell is refused with the array to write."""
    if isinstance(value, str):
        raise WrongValue(
            "must be an array of strings, because no shell reads it; "
            f"write command = {_as_array(value)}."
        )
    words = check_texts(value)
    if not words or not words[0].strip():
        raise WrongValue(
            'must begin with a program; write command = ["<program>", "<argument>", …].'
        )
    return words


def _as_array(line: str) -> str:
    import json

    try:
        words = shlex.split(line)
    except ValueError:  # an unclosed quote: there is no telling what was meant
        words = line.split()
    return json.dumps(words, ensure_ascii=False)


def check_directory(value: object) -> Path:
    """Return an absolute path; it need not exist before a session is opened there."""
    path = Path(check_filled(value))
    if path.is_absolute():
        return path
    raise WrongValue("must be an absolute path; '~' and variables are not expanded.")


def check_variables(value: object) -> Mapping[str, str]:
    """Return environment variables, all of them strings."""
    table = check_table(value)
    for name, text in table.items():
        if not VARIABLE_NAME.fullmatch(name):
            raise WrongValue("is no name of an environment variable.", name)
        checked_at(name, check_text, text)
    return MappingProxyType(table)


def check_defaults(value: object) -> Mapping[str, str | bool]:
    """Return configuration options by id; the protocol knows choices and switches."""
    table = check_table(value)
    for option, chosen in table.items():
        if not isinstance(chosen, str | bool):
            raise WrongValue(f"must be a string or true or false, not {kind_of(chosen)}.", option)
    return MappingProxyType(table)


def check_json(value: object) -> Mapping[str, Any]:
    """Return a table that JSON can express."""
    table = check_table(value)
    _require_json(table)
    return MappingProxyType(table)


def _require_json(value: object) -> None:
    match value:
        case dict():
            for key, item in value.items():
                checked_at(key, _require_json, item)
        case list():
            for index, item in enumerate(value):
                checked_at(str(index), _require_json, item)
        case float() if not math.isfinite(value):
            raise WrongValue("must be a finite number, because JSON has no other.")
        case dt.date() | dt.time():
            raise WrongValue("must not be a date or time, because JSON has none; write a string.")
