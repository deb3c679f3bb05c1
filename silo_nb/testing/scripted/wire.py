"""The agent's three streams: writing as badly as a scenario wants, reading line by line."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from silo_nb.testing.scripted.log import Log, encode

STDIN, STDOUT, STDERR = 0, 1, 2
STREAMS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR}

_CHUNK = 64 * 1024
# How long a split write waits for the reader to take the first part.
_DRAIN_SECONDS = 1.0


class Writer:
    """Standard output. Each call is one whole message, whichever thread makes it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._split: Sequence[int] | str = ()

    def split_next(self, where: int | Sequence[int] | str) -> None:
        """Write the next message in parts: at these byte places, or ``"bytes"``: one by one."""
        self._split = [where] if isinstance(where, int) else where

    def message(self, message: Any, end: str = "\n") -> None:
        """Send one JSON value."""
        data = encode(message)
        with self._lock:
            self._log.sent(message, len(data))
            self._write_in_parts(data + end.encode())

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        with self._lock:
            write_all(STDOUT, data)

    def _write_in_parts(self, data: bytes) -> None:
        where, self._split = self._split, ()
        places = range(1, len(data)) if where == "bytes" else sorted(int(at) for at in where)
        start = 0
        for place in places:
            write_all(STDOUT, data[start:place])
            _wait_until_taken(STDOUT)
            start = place
        write_all(STDOUT, data[start:])


def write_all(fd: int, data: bytes) -> None:
    """Write everything; a reader that is gone makes the rest vanish, as on a closed terminal."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view[: 1024 * 1024]) :]
    except BrokenPipeError:
        return


def write_repeated(fd: int, data: bytes, times: int) -> None:
    """Write `data` so many times over, in memory that does not grow with `times`."""
    at_once = max(1, _CHUNK // max(1, len(data)))
    block = data * at_once
    for _ in range(times // at_once):
        write_all(fd, block)
    write_all(fd, data * (times % at_once))


def close(fd: int) -> None:
    """Close a stream for the other side; the number itself stays taken, by the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)


def _wait_until_taken(fd: int) -> None:
    """Wait until the reader of a pipe has emptied it, so that two writes are two reads."""
    import fcntl
    import termios

    deadline = time.monotonic() + _DRAIN_SECONDS
    pending = bytearray(4)
    while time.monotonic() < deadline:
        try:
            fcntl.ioctl(fd, termios.FIONREAD, pending)
        except OSError:
            # Not a pipe that tells: two writes are all that can be done.
            return
        if not any(pending):
            return
        time.sleep(0.0002)


class Reader:
    """Standard input, line by line, until it ends or reading is stopped."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._stop_read, self._stop_write = os.pipe()
        self.stopped = False

    def run(self) -> None:
        """Read until the end; returns early when stopped."""
        for line in self._lines():
            self._on_line(line)

    def stop(self) -> None:
        """Read nothing more: what the client writes stays in the pipe."""
        self.stopped = True
        os.write(self._stop_write, b".")

    def _lines(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        while chunk := self._chunk():
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                parts.append(line)
                yield b"".join(parts)
                parts = []
                if self.stopped:
                    return
            parts.append(rest)

    def _chunk(self) -> bytes:
        # A plain read could not be called off, and would take one more chunk after a stop.
        ready, _, _ = select.select([STDIN, self._stop_read], [], [])
        if self.stopped or STDIN not in ready:
            return b""
        return os.read(STDIN, _CHUNK)
