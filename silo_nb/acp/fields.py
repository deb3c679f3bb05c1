"""Reading fields an agent sent, whatever it put there: a wrong type counts as absent.

The schema asks for this lenience where it says ``x-deserialize-default-on-error`` and
``x-deserialize-skip-invalid-items``; real agents need it elsewhere too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["count", "items", "mapping", "number", "string"]

_NOTHING: Mapping[str, Any] = {}


def string(source: Mapping[str, Any], key: str) -> str | None:
    """Return the string at `key`, or None.

    >>> string({"title": "x"}, "title"), string({"title": 3}, "title")
    ('x', None)
    """
    value = source.get(key)
    return value if isinstance(value, str) else None


def count(source: Mapping[str, Any], key: str) -> int | None:
    """Return the whole number of at least zero at `key`, or None."""
    value = source.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value) if value == int(value) else None


def number(source: Mapping[str, Any], key: str) -> float | None:
    """Return the number at `key`, or None."""
    value = source.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def mapping(source: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object reached by `path`, or an empty one.

    >>> mapping({"_meta": {"claudeCode": {"toolName": "Bash"}}}, "_meta", "claudeCode")
    {'toolName': 'Bash'}
    """
    found: Any = source
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else _NOTHING


def items(source: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in the list at `key`, skipping what is no object."""
    value = source.get(key)
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))
