"""Recordings of wire traffic: JSON Lines, one event a line.

::

    {"t": 0.0,  "dir": "event", "event": "spawn", "cmd": ["some-agent"]}
    {"t": 0.01, "dir": "out",   "msg": {…}}      client -> agent
    {"t": 0.2,  "dir": "in",    "msg": {…}}      agent -> client
    {"t": 0.3,  "dir": "raw",   "text": "…"}     a line of the agent's stdout that is no JSON
    {"t": 0.9,  "dir": "event", "event": "exit", "rc": 0}

``t`` is in seconds. A recording of an agent that was restarted numbers its processes with ``proc``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

Event = dict[str, Any]
Direction = Literal["in", "out"]


class Recording:
    """What one agent and its client said to each other, in order.

    Args:
        events: the lines of the recording.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = tuple(events)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a recording. A last line that was cut off is left out.

        Raises:
            ValueError: another line is not JSON.
            OSError: the file cannot be read.
        """
        *lines, last = path.read_bytes().split(b"\n")
        events = [json.loads(line) for line in lines if line.strip()]
        try:
            events += [json.loads(last)] if last.strip() else []
        except ValueError:
            # The recorder was killed while it wrote.
            return cls(events)
        return cls(events)

    @property
    def processes(self) -> list[int]:
        """Numbers of the agent processes in it, in the order they were started."""
        return list(dict.fromkeys(event.get("proc", 0) for event in self.events))

    def of_process(self, process: int) -> Recording:
        """Return the part of it that one process took part in."""
        return Recording([event for event in self.events if event.get("proc", 0) == process])

    def messages(self, direction: Direction = "in") -> Iterator[dict[str, Any]]:
        """Yield the messages of one direction; ``in`` is what the agent said.

        >>> recording = Recording([{"t": 0, "dir": "in", "msg": {"method": "session/update"}}])
        >>> [message["method"] for message in recording.messages()]
        ['session/update']
        """
        return (event["msg"] for event in self.events if event["dir"] == direction)

    def lines(self) -> Iterator[bytes]:
        """Yield the agent's stdout line by line, newlines included, to feed a parser with."""
        for event in self.events:
            if event["dir"] == "in":
                yield json.dumps(event["msg"]).encode() + b"\n"
            elif event["dir"] == "raw":
                yield event["text"].encode() + b"\n"
