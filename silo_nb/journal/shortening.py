"""Records that are too long for a line, cut where it hurts least.

A tool that prints ten megabytes must not make the journal unreadable: long strings keep their
beginning and end, with the length and hash of the whole between them, and the record lists, as
JSON pointers, which of its strings were cut.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

CUT = "cut"
"""The field of a shortened record that lists what was cut."""

_LONGEST_STRING = 256 * 1024
_SHORTEST_STRING = 512
_POINTERS_LISTED = 100

# Where a value is: (where its parent is, its key). Made into a pointer only for what is cut.
_Place = tuple[Any, str] | None


def shorten(record: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the record with strings cut until its JSON has at most `limit` bytes.

    A record that is long without long strings (a million plan entries, say) keeps its short fields
    only, and names the others.

    Args:
        record: a record of plain JSON values.
        limit: what its JSON may take at most, in bytes, the newline included.
    """
    shortest = _with_strings_of(_SHORTEST_STRING, record)
    if not _fits(shortest, limit):
        return _skeleton(record, limit)
    longest = _LONGEST_STRING
    while longest > _SHORTEST_STRING:
        shorter = _with_strings_of(longest, record)
        if _fits(shorter, limit):
            return shorter
        longest //= 2
    return shortest


def _fits(record: dict[str, Any], limit: int) -> bool:
    return len(msgspec.json.encode(record)) < limit


def _with_strings_of(longest: int, record: dict[str, Any]) -> dict[str, Any]:
    cut: list[str] = []
    shorter: dict[str, Any] = _cut(record, longest, None, cut)
    return {**shorter, CUT: cut[:_POINTERS_LISTED]}


def _cut(value: Any, longest: int, place: _Place, cut: list[str]) -> Any:
    match value:
        case str() if len(value) > longest:
            cut.append(_pointer(place))
            return _head_and_tail(value, longest)
        case dict():
            return {
                (key if len(key) <= longest else _head_and_tail(key, longest)): _cut(
                    item, longest, (place, key), cut
                )
                for key, item in value.items()
            }
        case list():
            return [_cut(item, longest, (place, str(i)), cut) for i, item in enumerate(value)]
        case _:
            return value


def _head_and_tail(text: str, longest: int) -> str:
    half = longest // 2
    digest = hashlib.sha256(text.encode()).hexdigest()
    note = f"\n[… cut by silo_nb: {len(text)} characters, sha256 {digest} …]\n"
    return text[:half] + note + text[-half:]


def _skeleton(record: dict[str, Any], limit: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    room = limit // 2
    for key, value in record.items():
        size = len(msgspec.json.encode({key: value}))
        if size <= min(_SHORTEST_STRING, room):
            room -= size
            kept[key] = value
        else:
            left_out.append(_pointer((None, key)))
    return {**kept, CUT: left_out[:_POINTERS_LISTED]}


def _pointer(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, key = place
        steps.append("/" + key.replace("~", "~0").replace("/", "~1"))
    return "".join(reversed(steps))[:_SHORTEST_STRING]
