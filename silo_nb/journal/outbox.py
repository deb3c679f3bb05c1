"""What is on its way to the disk: lines in order, and between them the points to sync at."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    Records: TypeAlias = Iterable[tuple[str, Mapping[str, Any]]]

BATCH_BYTES = 1 << 20
PATIENT_BYTES = 64 << 20
"""What may wait for a disk that works, only slowly."""
FAILING_BYTES = 16 << 20
"""What is kept for a disk that does not work."""


class Line(NamedTuple):
    """One encoded record, or a gap that stands for those from `first` to `last`."""

    first: int
    last: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point up to which everything shall be on the disk.

    Attributes:
        done: resolved when it is, or when the disk failed.
        seq: number of the last record before it.
        records: what the session consists of at this point, if the file has to be made anew; read
            only then.
        closing: whether it is the journal's end.
    """

    done: Future[None]
    seq: int
    records: Records | None = None
    closing: bool = False


class Batch(NamedTuple):
    """Lines to write at once, and the marks right behind them."""

    lines: list[Line]
    marks: list[Mark]


class Outbox:
    """Lines and marks between the agent thread, which puts, and the journal thread, which takes.

    Args:
        gap: makes the line that stands in for dropped ones, from their first and last number.
    """

    def __init__(self, gap: Callable[[int, int], bytes]) -> None:
        self.limit = PATIENT_BYTES
        self.size = 0
        self.marks = 0
        self._gap = gap
        self._lock = threading.Lock()
        self._entries: deque[Line | Mark] = deque()

    def put(self, line: Line) -> None:
        """Add a line at the end; the oldest go when there are more than `limit` bytes."""
        with self._lock:
            self._entries.append(line)
            self.size += len(line.data)
            if self.size > self.limit:
                self._drop_oldest()

    def put_mark(self, mark: Mark) -> None:
        """Add a mark at the end."""
        with self._lock:
            self._entries.append(mark)
            self.marks += 1

    def take(self) -> Batch:
        """Remove and return the oldest lines, about a megabyte at most, and the marks after them.

        Both lists are empty when nothing waits.
        """
        lines: list[Line] = []
        marks: list[Mark] = []
        size = 0
        with self._lock:
            while self._entries:
                entry = self._entries[0]
                if isinstance(entry, Mark):
                    marks.append(entry)
                elif marks or size >= BATCH_BYTES:
                    break
                else:
                    lines.append(entry)
                    size += len(entry.data)
                self._entries.popleft()
            self.size -= size
            self.marks -= len(marks)
        return Batch(lines, marks)

    def restore(self, lines: Sequence[Line], marks: Sequence[Mark] = ()) -> None:
        """Put back, in front of everything, what could not be written."""
        with self._lock:
            self._entries.extendleft(reversed(marks))
            self._entries.extendleft(reversed(lines))
            self.marks += len(marks)
            self.size += sum(len(line.data) for line in lines)
            if self.size > self.limit:
                self._drop_oldest()

    def take_marks(self) -> list[Mark]:
        """Remove and return every mark, leaving the lines."""
        with self._lock:
            marks = [entry for entry in self._entries if isinstance(entry, Mark)]
            self._entries = deque(entry for entry in self._entries if isinstance(entry, Line))
            self.marks = 0
        return marks

    def _drop_oldest(self) -> None:
        passed: list[Mark] = []
        dropped: list[Line] = []
        while self._entries and (self.size > self.limit or not dropped):
            entry = self._entries.popleft()
            if isinstance(entry, Mark):
                passed.append(entry)
                continue
            dropped.append(entry)
            self.size -= len(entry.data)
        if dropped:
            first, last = dropped[0].first, dropped[-1].last
            line = Line(first, last, self._gap(first, last))
            self._entries.appendleft(line)
            self.size += len(line.data)
        self._entries.extendleft(reversed(passed))
