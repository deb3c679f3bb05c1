"""Reading journals, whatever happened to them.

A damaged line costs that line: it is skipped, counted, and reading goes on. What can be recovered
from it is: when a torn line and the record after it share a line, the record is found by the way
every record begins. Nothing is ever rewritten here, and no lock is needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from silo_nb.errors import JournalError
from silo_nb.journal.descriptors import close_private, open_private
from silo_nb.journal.encoding import VERSION

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

TAIL_BYTES = 256 * 1024

_FIRST_BLOCK_BYTES = 64 * 1024  # enough for those who want the header only
_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 16 << 20
_LONGEST_MENDED = 4 << 20
_BEGINNING = re.compile(rb'\{"v":1,"(?:seq":|k":"session")')
_BEGINNINGS_TRIED = 16
_BEFORE_A_VALUE = (b":", b",", b"[")
_HIGHEST_SEQ = 1 << 53
_PARSE = msgspec.json.Decoder().decode
_NOT_JSON = (ValueError, RecursionError)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a journal says, and how well it could be read.

    Attributes:
        header: its first record, or None.
        records: the others, in the order of the file, each number once.
        bad_lines: lines that were damaged.
        recovered: records that were found inside damaged lines.
        duplicates: records left out because their number had been read already.
        torn_tail: whether the file ends within a record: a writer was killed, or is at work.
        newer: whether a newer silo_nb wrote it, so that it must only be read.
        foreign: whether the file belongs to another user.
    """

    header: Mapping[str, Any] | None
    records: tuple[dict[str, Any], ...]
    bad_lines: int = 0
    recovered: int = 0
    duplicates: int = 0
    torn_tail: bool = False
    newer: bool = False
    foreign: bool = False


def read_records(path: Path) -> Reading:
    """Return all that a journal says; empty when there is none.

    Args:
        path: the ``.jsonl`` file.

    Raises:
        JournalError: it cannot be read, or is not a regular file.
    """
    return _reading(RecordReader(path))


def read_tail(path: Path, size: int = TAIL_BYTES) -> Reading:
    """Return what the end of a journal says, at once however long it is, and its header.

    Args:
        path: the ``.jsonl`` file.
        size: how much of the end to read, in bytes.

    Raises:
        JournalError: it cannot be read, or is not a regular file.
    """
    return _reading(RecordReader(path, tail=size), read_beginning(path).header)


def read_beginning(path: Path, *, fd: int | None = None) -> RecordReader:
    """Return a reader that has read as far as the header; to the end when there is none.

    Args:
        path: the ``.jsonl`` file.
        fd: a descriptor of it, if it is open already.

    Raises:
        JournalError: it cannot be read, or is not a regular file.
    """
    reader = RecordReader(path, fd=fd)
    with contextlib.closing(iter(reader)) as records:
        for _ in records:
            if reader.header is not None:
                break
    return reader


def refuse_newer(path: Path, reader: RecordReader) -> None:
    """Make sure that what a reader found may be continued by us.

    Raises:
        JournalError: a newer silo_nb wrote it.
    """
    if reader.newer:
        msg = f"{str(path)!r} was written by a newer silo_nb, and can only be read by this one"
        raise JournalError(msg)


def last_seq(path: Path, *, end: int | None = None, fd: int | None = None) -> int:
    """Return the highest record number near a journal's end; 0 when it has none.

    Args:
        path: the ``.jsonl`` file.
        end: what counts as its end, in bytes from its beginning; None for all of it.
        fd: a descriptor of it, if it is open already.

    Raises:
        JournalError: it cannot be read, or is not a regular file.
    """
    size = TAIL_BYTES
    while True:
        reader = RecordReader(path, tail=size, end=end, fd=fd)
        numbers = [record["seq"] for record in reader]
        if numbers or reader.is_whole:
            return max(numbers, default=0)
        size *= 16


def open_to_read(path: Path) -> int | None:
    """Return a descriptor of a journal, for `close_private`; None when there is none.

    Raises:
        JournalError: it cannot be opened.
    """
    try:
        return open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


class RecordReader:
    """Iterates over the records of a journal in constant memory.

    The attributes are those of `Reading`; they grow while one iterates.

    Args:
        path: the ``.jsonl`` file; a missing one has no records.
        tail: read only so many bytes at the end; None for all.
        end: what counts as the end, in bytes from the beginning; None for all of it.
        fd: a descriptor of the file, which stays open; None to open it by its path.

    Raises:
        JournalError: when iterated over: the file cannot be read, or is not a regular file.
    """

    def __init__(
        self,
        path: Path,
        *,
        tail: int | None = None,
        end: int | None = None,
        fd: int | None = None,
    ) -> None:
        self.header: dict[str, Any] | None = None
        self.bad_lines = 0
        self.recovered = 0
        self.duplicates = 0
        self.torn_tail = False
        self.newer = False
        self.foreign = False
        self.is_whole = True  # whether the file's beginning was read
        self._path = path
        self._tail = tail
        self._end = end
        self._fd = fd
        self._seen = _Seen()

    def __iter__(self) -> Generator[dict[str, Any]]:
        """Read the file from its beginning."""
        fd = open_to_read(self._path) if self._fd is None else self._fd
        if fd is None:
            return
        try:
            yield from self._records(fd)
        except OSError as error:
            raise _unreadable(self._path, error.strerror or str(error)) from error
        finally:
            if fd != self._fd:
                close_private(fd)

    def _records(self, fd: int) -> Iterator[dict[str, Any]]:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(self._path, "it is not a regular file")
        self.foreign = status.st_uid != os.geteuid()
        end = status.st_size if self._end is None else self._end
        start = 0 if self._tail is None else max(0, end - self._tail)
        self.is_whole = start == 0
        loads = _PARSE
        seen = self._seen
        for line, is_whole in _lines(fd, start, self._end):
            try:
                record = loads(line)
                seq = record["seq"]
                if record["v"] == VERSION and type(record["k"]) is str and seen.add_next(seq):
                    yield record
                    continue
            except (*_NOT_JSON, TypeError, KeyError):
                pass
            yield from self._other(line, is_whole=is_whole)

    def _other(self, line: bytes, *, is_whole: bool) -> Iterator[dict[str, Any]]:
        """Yield what a line that is not simply the next record contains."""
        line = line.removeprefix(_BOM).strip()
        if not line:
            return
        record = _parsed(line)
        if record is not None:
            yield from self._accepted(record)
            return
        if is_whole:
            self.bad_lines += 1
        else:
            self.torn_tail = True
        for found in _recovered(line, self._seen.next_numbers()):
            self.recovered += 1
            yield from self._accepted(found)

    def _accepted(self, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.newer = self.newer or record["v"] > VERSION
        if record["k"] == "session":
            # A second header comes from two files that were joined; the first one counts.
            self.header = self.header or record
        elif self._seen.add(record["seq"]):
            yield record
        else:
            self.duplicates += 1


class _Seen:
    """The numbers that were read, as ranges: one range for a file in order."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._end: list[int] = []
        self._next: int | None = None

    def add_next(self, seq: object) -> bool:
        """Note the number if it follows the last one; return whether it did."""
        if type(seq) is not int or seq != self._next:
            return False
        self._end[-1] = self._next = seq + 1
        return True

    def next_numbers(self) -> range:
        """Return the numbers of the two records that come next: one may have been torn."""
        next_one = 1 if self._next is None else self._next
        return range(next_one, next_one + 2)

    def add(self, seq: int) -> bool:
        """Note the number; return whether it is new."""
        at = bisect_right(self._first, seq)
        if at and seq < self._end[at - 1]:
            return False
        if at and seq == self._end[at - 1]:
            self._end[at - 1] += 1
        else:
            self._first.insert(at, seq)
            self._end.insert(at, seq + 1)
        self._next = self._end[-1]
        return True


def _reading(reader: RecordReader, header: Mapping[str, Any] | None = None) -> Reading:
    records = tuple(reader)
    return Reading(
        header=header or reader.header,
        records=records,
        bad_lines=reader.bad_lines,
        recovered=reader.recovered,
        duplicates=reader.duplicates,
        torn_tail=reader.torn_tail,
        newer=reader.newer,
        foreign=reader.foreign,
    )


def _lines(fd: int, start: int, end: int | None) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines between two offsets, and whether each was ended; none that began before."""
    blocks = _blocks(fd, max(0, start - 1), sys.maxsize if end is None else end)
    rest = b""
    for block in chain([_after_newline(blocks)], blocks) if start else blocks:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line, True
        if len(rest) > _LONGEST_LINE:
            rest = b"\0"  # none of ours: forget it, but count it as bad when it ends
    if rest:
        yield rest, False


def _blocks(fd: int, start: int, end: int) -> Iterator[bytes]:
    size = _FIRST_BLOCK_BYTES
    # Not by the descriptor's own position: it may be read for more than one purpose.
    while block := os.pread(fd, min(size, end - start), start):
        yield block
        start += len(block)
        size = _BLOCK_BYTES


def _after_newline(blocks: Iterator[bytes]) -> bytes:
    for block in blocks:
        _, newline, rest = block.partition(b"\n")
        if newline:
            return rest
    return b""


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the record a line holds, or None."""
    try:
        record = _PARSE(line)
    except _NOT_JSON:
        return None
    if not isinstance(record, dict):
        return None
    version, kind, seq = record.get("v"), record.get("k"), record.get("seq")
    if type(version) is not int or version < VERSION or type(kind) is not str:
        return None
    if kind != "session" and (type(seq) is not int or abs(seq) > _HIGHEST_SEQ):
        return None
    return record


def _recovered(line: bytes, numbers: range) -> Iterator[dict[str, Any]]:
    """Yield the complete records inside a damaged line.

    What an agent sends may look like one of our records, and the line may have been torn right
    behind it. So where a value may stand, a record must have one of the numbers that come next.
    """
    if len(line) > _LONGEST_MENDED:
        return
    starts = [match.start() for match in _BEGINNING.finditer(line)][-_BEGINNINGS_TRIED:]
    done = 0
    for index, start in enumerate(starts):
        if start < done:
            continue  # a value inside a record that was found
        for end in (*starts[index + 1 :], len(line)):
            record = _parsed(line[start:end].strip(b"\0 \r"))
            if record is None:
                continue
            if line[start - 1 : start] not in _BEFORE_A_VALUE or record.get("seq") in numbers:
                done = end
                yield record
            break


def _unreadable(path: Path, why: str) -> JournalError:
    return JournalError(f"the journal {str(path)!r} cannot be read: {why}")
