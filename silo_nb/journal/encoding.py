"""Records to lines of JSON: always one line, always valid, never too long, never with a secret.

Nothing here raises: a record that cannot be written as it is, is written as well as it can be.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from silo_nb.journal.shortening import shorten

VERSION = 1
"""Major version of the format; a reader opens greater ones read-only."""

MAX_LINE_BYTES = 1 << 20
"""No record is longer; what would be is cut."""

TEXT_PIECE_CHARS = 128 * 1024
"""Longer text is written as several chunks: even escaped six to one, each fits a record."""

REDACTED = "[redacted]"

_SHORTEST_SECRET = 8
_MAX_DEPTH = 200
_TOO_DEEP = "[nested too deep]"
_INTEGER_BITS = 8_192  # Python writes and reads integers of at most 4,300 digits
_UNUSUAL = (TypeError, ValueError, RecursionError)


class Encoder:
    r"""Encodes the records of one session.

    Args:
        secrets: values that must not reach the disk; those under eight characters are ignored,
            since they would be found in ordinary words.

    >>> Encoder(["hunter2-hunter2"]).line({"k": "meta", "title": "it is hunter2-hunter2!"})
    b'{"k":"meta","title":"it is [redacted]!"}\n'
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        usable = {scalar_text(secret) for secret in secrets if len(secret) >= _SHORTEST_SECRET}
        # Longest first: of two secrets that share a beginning, the longer is replaced whole.
        self._secrets = sorted(usable, key=len, reverse=True)
        self._needles = [msgspec.json.encode(secret)[1:-1] for secret in self._secrets]

    def line(self, record: dict[str, Any]) -> bytes:
        """Return the record as one line of UTF-8 that ends with a newline."""
        try:
            data = _dumps(record)
        except _UNUSUAL:  # a lone surrogate, an odd key, too deep, too big a number
            record = _plain(record)
            data = _dumps(record)
        if any(needle in data for needle in self._needles):
            record = self._redacted(_plain(record))
            data = _dumps(record)
        if len(data) > MAX_LINE_BYTES:
            data = _dumps(shorten(_plain(record), MAX_LINE_BYTES))
        return data

    def text(self, text: str) -> str:
        """Return the text as it may be written: valid Unicode, without secrets."""
        return self._without_secrets(scalar_text(text))

    def may_begin_secret(self, text: str) -> int:
        """Return how many characters at the text's end may be the beginning of a secret.

        >>> Encoder(["hunter2-hunter2"]).may_begin_secret("the password is hunt")
        4
        """
        longest = 0
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(text)), longest, -1):
                if text.endswith(secret[:length]):
                    longest = length
                    break
        return longest

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def _redacted(self, value: Any) -> Any:
        match value:
            case str():
                return self._without_secrets(value)
            case dict():
                return {self._without_secrets(k): self._redacted(v) for k, v in value.items()}
            case list():
                return [self._redacted(item) for item in value]
            case int() | float() if str(value) in self._secrets:
                return REDACTED
            case _:
                return value


def envelope(seq: int, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record: version, number and time around the caller's fields.

    The version and number come first in the line: that is how a reader finds a record's beginning
    inside a damaged line.
    """
    ours = {"v": VERSION, "seq": seq, "t": time.time_ns() // 1_000_000, "k": kind}
    return {**ours, **fields, **ours}


def scalar_text(text: str) -> str:
    r"""Return the text with surrogates joined where they pair, and U+FFFD where they do not.

    >>> scalar_text("ok \ud83d\ude00 \ud800")
    'ok 😀 �'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _dumps(record: dict[str, Any]) -> bytes:
    return _ENCODER.encode(record) + b"\n"


def _default(value: object) -> Any:
    match value:
        case Mapping():
            return dict(value)
        case bytes() | bytearray():
            return f"[{type(value).__name__}]"
        case AbstractSet() | Sequence():
            return list(value)
        case _:
            return f"[{type(value).__name__}]"


def _plain(value: Any, depth: int = 0) -> Any:
    """Return the value made of nothing but what JSON has."""
    match value:
        case str():
            return scalar_text(value)
        case None | int() | float():
            return _representable(value)
        case Mapping() | Sequence() | AbstractSet() if depth >= _MAX_DEPTH:
            return _TOO_DEEP
        case Mapping():
            return {scalar_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
        case _:
            replaced = _default(value)
            if isinstance(replaced, list):
                return [_plain(item, depth + 1) for item in replaced]
            return replaced


def _representable(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        return "[number too big]"
    return value


_ENCODER = msgspec.json.Encoder(enc_hook=_default)
