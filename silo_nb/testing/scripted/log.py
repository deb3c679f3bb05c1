"""What happened, as JSON Lines that a test can follow while the agent runs."""

from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path
from typing import Any

# A sent message longer than this is logged by its size alone: its text is in the scenario.
LONGEST_SENT = 256 * 1024


def encode(value: Any) -> bytes:
    """Encode one JSON value as UTF-8; what UTF-8 cannot carry (lone surrogates) is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class Log:
    """Appends one object a line; several processes may share a file, each line is one write.

    Args:
        path: the file, made when missing (0600); None logs nothing.
    """

    def __init__(self, path: Path | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._fd = None if path is None else os.open(path, flags, 0o600)
        self._count = count()
        self._start = time.monotonic()

    def received(self, message: Any) -> None:
        """Log a message from the client, before anything is done about it."""
        self._write("received", message)

    def received_raw(self, line: bytes) -> None:
        """Log a line from the client that is no JSON."""
        self._write("received_raw", line.decode(errors="backslashreplace"))

    def sent(self, message: Any, size: int) -> None:
        """Log a message to the client, `size` bytes long."""
        self._write("sent", message if size <= LONGEST_SENT else {"bytes": size})

    def event(self, name: str, /, **about: Any) -> None:
        """Log anything else."""
        self._write("event", name, **about)

    def _write(self, key: str, value: Any, /, **about: Any) -> None:
        if self._fd is None:
            return
        head = {"n": next(self._count), "t": round(time.monotonic() - self._start, 4)}
        record = encode({**head, "pid": os.getpid(), key: value, **about}) + b"\n"
        while record:
            record = record[os.write(self._fd, record) :]
