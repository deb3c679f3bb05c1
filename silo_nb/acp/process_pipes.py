"""The kernel's ends of an agent's pipes, and of the lifeline to its guard.

All of it is asyncio's callback API and not its streams: what the agent writes is handed on in the
moment it is read, and a ring of stderr costs the same however much is written to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from silo_nb.model.text import inert

__all__ = ["Lifeline", "Output", "StderrRing"]

RING_SIZE = 256 * 1024
_TAIL_SIZE = 32 * 1024
_LINE_LIMIT = 500


class Output(asyncio.Protocol):
    """One of the agent's output pipes: bytes go to `on_data`, the end to `on_end`."""

    def __init__(
        self,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        *,
        paused: bool = False,
    ) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._starts_paused = paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing yet if that was asked for."""
        if self._starts_paused and isinstance(transport, asyncio.ReadTransport):
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Hand on what was read."""
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Say that nothing more will come."""
        self._on_end()


class Lifeline(asyncio.Protocol):
    """The socket to the guard: each line it writes goes to `on_line`, its end to `on_end`."""

    def __init__(self, on_line: Callable[[str], None], on_end: Callable[[], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._partial = ""

    def data_received(self, data: bytes) -> None:
        """Hand on the lines that `data` completes."""
        *lines, self._partial = (self._partial + data.decode("ascii")).split("\n")
        for line in lines:
            self._on_line(line)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Say that the guard is gone."""
        self._on_end()


class StderrRing:
    r"""The last 256 KiB that an agent wrote to stderr.

    >>> ring = StderrRing()
    >>> ring.add(b"starting\n\x1b[31mno API key\x1b[0m\n")
    >>> ring.tail(1)
    ('no API key',)
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._is_whole = True

    def add(self, data: bytes) -> None:
        """Keep `data`, and forget what is too old."""
        self._bytes += data
        # Let it grow to twice its size, so that small writes do not move the whole ring each time.
        if len(self._bytes) > 2 * RING_SIZE:
            del self._bytes[:-RING_SIZE]
            self._is_whole = False

    def tail(self, lines: int) -> tuple[str, ...]:
        """Return the last lines that say something, made inert, each of at most 500 characters."""
        is_cut = not self._is_whole or len(self._bytes) > _TAIL_SIZE
        text = inert(bytes(self._bytes[-_TAIL_SIZE:]).decode("utf-8", errors="replace"))
        found = text.split("\n")
        if is_cut and len(found) > 1:
            del found[0]  # the cut went through it
        spoken = [line.rstrip() for line in found if line.strip()]
        return tuple(_shortened(line) for line in spoken[-lines:]) if lines > 0 else ()


def _shortened(line: str) -> str:
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"
