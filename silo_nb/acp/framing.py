"""Bytes to messages: one JSON object per line, whatever else arrives.

Agents print banners on stdout, split characters between writes and send lines of half a megabyte;
a hostile one sends a line without an end. None of that may stop the next message from being read.
(PROTOCOL §1; FAULTS R1 to R6)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from silo_nb.acp.diagnostics import Diagnostics

__all__ = ["MAX_DEPTH", "MAX_LINE", "Decoder", "LineSplitter", "encode", "mend"]

MAX_LINE = 64 * 1024 * 1024
"""Longest line we keep, in bytes. qwen-code 0.24 sends 563 kB in ordinary use."""

MAX_DEPTH = 200
"""Deepest nesting we take in. A thousand levels make json.loads raise RecursionError."""

_PARSE = msgspec.json.Decoder().decode
_SURROGATES = re.compile("[\ud800-\udfff]")


class LineSplitter:
    r"""Cut a stream of bytes into lines, skipping over-long ones in constant memory.

    >>> lines = LineSplitter()
    >>> list(lines.feed(b'{"a"')), list(lines.feed(b':1}\r\n{}\n{"b":2}')), lines.rest()
    ([], [b'{"a":1}\r', b'{}'], b'{"b":2}')
    """

    def __init__(self, diagnostics: Diagnostics | None = None, limit: int = MAX_LINE) -> None:
        self._diagnostics = diagnostics or Diagnostics()
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without their newline."""
        start = 0
        if self._parts or self._skipping:
            end = data.find(b"\n")
            if end < 0:
                self._keep(data)
                return
            self._keep(data[:end])
            start = end + 1
            whole = self.rest()
            if whole:
                yield whole
        *lines, last = data[start:].split(b"\n") if start else data.split(b"\n")
        yield from lines
        if last:
            self._keep(last)

    def rest(self) -> bytes:
        """Return what came after the last newline, and forget it."""
        line = b"" if self._skipping else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._skipping = False
        return line

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._size += len(data)
        if self._size > self._limit:
            self._diagnostics.note("line too long", f"skipped: over {self._limit:,} bytes")
            self._skipping = True
            self._parts.clear()
        else:
            self._parts.append(data)


class Decoder:
    """Turn lines into JSON objects; anything else is noise for the diagnostics log."""

    def __init__(self, diagnostics: Diagnostics | None = None) -> None:
        self._diagnostics = diagnostics or Diagnostics()

    def decode(self, line: bytes) -> dict[str, Any] | None:
        """Return the object on `line`, or None when there is none."""
        try:
            message = _PARSE(line)
        except (msgspec.DecodeError, RecursionError):
            message = self._decode_leniently(line)
        if isinstance(message, dict) and not self._too_deep(line, message):
            return message
        if line.strip():
            self._diagnostics.note("not a message", line[:500].decode("utf-8", "replace"))
        return None

    def _decode_leniently(self, line: bytes) -> Any:
        """Parse what the strict parser refuses, if it only needs mending.

        Bad UTF-8 and lone surrogates become U+FFFD: later, an encoder would raise on them in the
        journal or on the way to the browser. NaN and Infinity are refused, since no JSON reader
        behind us knows them.
        """
        try:
            message = json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
        self._diagnostics.note("mended", line[:200].decode("utf-8", "replace"))
        try:
            return mend(message)
        except RecursionError:
            return None

    def _too_deep(self, line: bytes, message: dict[str, Any]) -> bool:
        # Each level takes two brackets: what has too few of them need not be measured.
        if len(line) < 2 * MAX_DEPTH or line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
            return False
        return _deeper_than(message, MAX_DEPTH)


def encode(message: dict[str, Any]) -> bytes:
    """Return `message` as one line.

    Raises:
        TypeError: it holds something JSON has no form for.
    """
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate in what the caller wants to send.
        return json.dumps(mend(message), ensure_ascii=False).encode() + b"\n"


def mend(value: Any) -> Any:
    r"""Return the JSON value with U+FFFD where a string has half a character (a lone surrogate).

    No encoder takes those, so what has them could neither be sent nor recorded nor shown.

    >>> mend({"name": "caf\udce9"})
    {'name': 'caf�'}
    """
    if isinstance(value, str):
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list | tuple):
        return [mend(item) for item in value]
    if isinstance(value, dict):
        return {mend(key): mend(item) for key, item in value.items()}
    return value


def _refuse(constant: str) -> Any:
    message = f"{constant} is not JSON"
    raise ValueError(message)


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
