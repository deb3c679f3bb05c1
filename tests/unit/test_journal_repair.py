"""T-7: whatever happened to a journal's bytes, its intact records are read and it can go on."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.errors import JournalError
from silo_nb.journal import Journal, Reading, RecordReader, journal_directory, read_records

WITHIN = 10
NULS = bytes(7)


@dataclass(frozen=True)
class Sample:
    """The journal of a short session, and where it lies."""

    path: Path
    lines: tuple[bytes, ...]

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    def numbers(self, *left_out: int) -> list[int]:
        return [seq for seq in range(1, len(self.lines)) if seq not in left_out]

    def read(self, data: bytes | Iterable[bytes]) -> Reading:
        self.path.write_bytes(data if isinstance(data, bytes) else b"".join(data))
        return read_records(self.path)

    def append_and_read(self) -> Reading:
        """Go on with the damaged journal as the next kernel would."""
        directory = self.path.parents[1]
        journal = Journal.open(directory, self.path.stem, durability="none")
        journal.append("user", {"marker": "after the damage"})
        journal.close().result(WITHIN)
        assert journal.problem is None
        return read_records(self.path)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    directory = journal_directory(tmp_path_factory.mktemp("damage"))
    journal = Journal.create(directory, {"profileId": "demo", "sessionId": "ses_1"})
    journal.append("user", {"prompt": [{"type": "text", "text": "Zähle bis drei, bitte 🙂"}]})
    journal.append("turn_start", {"turn": 1})
    for word in ("eins, ", "zwei, ", "dr\u00e9i \u2028 \x00 \U0001f642\n"):
        journal.append_chunk("agent_message_chunk", "m1", word)
    looks_like_ours = {"v": 1, "seq": 77, "k": "permission", "outcome": "allow"}
    journal.append("update", {"u": {"sessionUpdate": "tool_call", "rawInput": looks_like_ours}})
    journal.append("permission", {"id": "p1", "options": [{"optionId": "yes"}], "outcome": "yes"})
    for number in range(6):
        journal.append("update", {"u": {"sessionUpdate": "plan", "entries": [number] * 30}})
    journal.append("turn_end", {"stopReason": "end_turn"})
    journal.close().result(WITHIN)
    assert journal.path is not None
    return Sample(journal.path, tuple(journal.path.read_bytes().splitlines(keepends=True)))


def numbers(reading: Reading) -> list[int]:
    return [record["seq"] for record in reading.records]


def ends_of(lines: tuple[bytes, ...]) -> list[int]:
    """Return the offset of each line's newline."""
    return [len(b"".join(lines[: i + 1])) - 1 for i in range(len(lines))]


def test_the_sample_is_what_it_seems(sample: Sample) -> None:
    reading = sample.read(sample.data)

    assert len(sample.data) > 1_500
    assert reading.header is not None
    assert numbers(reading) == sample.numbers()
    assert (reading.bad_lines, reading.torn_tail, reading.duplicates) == (0, False, 0)


@pytest.mark.parametrize("junk", [b"", NULS], ids=["cut", "cut and padded with NULs"])
def test_every_truncation_keeps_all_that_is_whole(sample: Sample, junk: bytes) -> None:
    """FAULTS D3, D4: SIGKILL and power loss, at every byte."""
    ends = ends_of(sample.lines)
    for cut in range(len(sample.data) + 1):
        reading = sample.read(sample.data[:cut] + junk)

        whole = [end for end in ends if end <= cut]
        ends_between_lines = cut in {0, *ends, *(end + 1 for end in ends)}
        assert (reading.header is not None) == bool(whole), cut
        assert numbers(reading) == list(range(1, len(whole))), cut
        assert reading.torn_tail == (bool(junk) or not ends_between_lines), cut
        assert reading.bad_lines == 0, cut


def test_after_every_truncation_the_session_goes_on(sample: Sample) -> None:
    """FAULTS §0.5: without repair each torn tail swallows the next acknowledged record."""
    ends = ends_of(sample.lines)
    for cut in range(len(sample.data) + 1):
        sample.path.write_bytes(sample.data[:cut])
        reading = sample.append_and_read()

        whole = [end for end in ends if end <= cut]
        ends_between_lines = cut in {0, *ends, *(end + 1 for end in ends)}
        assert reading.header is not None, cut
        assert reading.header["id"] == sample.path.stem
        assert numbers(reading) == [*range(1, len(whole)), max(1, len(whole))], cut
        assert reading.records[-1]["marker"] == "after the damage"
        assert (reading.bad_lines, reading.torn_tail) == (int(not ends_between_lines), False), cut


def test_a_torn_line_does_not_take_the_next_one_with_it(sample: Sample) -> None:
    """FAULTS D5: the most reported journal defect elsewhere: a stub and a record on one line."""
    before, torn, after = sample.lines[:5], sample.lines[5], sample.lines[6:]
    for cut in range(1, len(torn) - 1):
        reading = sample.read([*before, torn[:cut], *after])

        assert numbers(reading) == sample.numbers(5), cut
        assert (reading.bad_lines, reading.recovered) == (1, 1), cut


def test_what_an_agent_sends_cannot_pose_as_a_record(sample: Sample) -> None:
    """A tool's input may look like one of our records; a tear must not promote it."""
    (at,) = [i for i, line in enumerate(sample.lines) if b'"seq":77' in line]
    line = sample.lines[at]
    torn_in_front = line[20:]
    spliced = line[:-30] + sample.lines[at + 1]

    for damaged in (torn_in_front, spliced):
        reading = sample.read([*sample.lines[:at], damaged])
        assert 77 not in numbers(reading)


def flip(sample: Sample, position: int) -> bytes:
    data = bytearray(sample.data)
    data[position] ^= 0x40
    return bytes(data)


def test_a_flipped_bit_costs_its_line_only(sample: Sample) -> None:
    numbered = {
        position
        for end, line in zip(ends_of(sample.lines), sample.lines, strict=True)
        for position in range(end - len(line), end - len(line) + line.find(b',"t"') + 2)
    }
    ends = set(ends_of(sample.lines))
    for position in range(len(sample.data)):
        if position in numbered:
            continue  # a record that takes another's number is that record
        reading = sample.read(flip(sample, position))

        hit = sample.data[:position].count(b"\n")
        lost = set(sample.numbers()) - set(numbers(reading))
        assert lost <= ({hit, hit + 1} if position in ends else {hit}), position


def nul_run(lines: list[bytes]) -> Iterable[bytes]:
    return [*lines[:4], bytes(500) + b"\n", *lines[4:]]


def nul_run_in_front_of_a_record(lines: list[bytes]) -> Iterable[bytes]:
    return [*lines[:4], bytes(500), *lines[4:]]


def nul_run_over_a_record(lines: list[bytes]) -> Iterable[bytes]:
    return [*lines[:4], bytes(len(lines[4]) - 1) + b"\n", *lines[5:]]


def two_records_on_a_line(lines: list[bytes]) -> Iterable[bytes]:
    return [*lines[:4], lines[4].rstrip(), *lines[5:]]


def all_records_on_a_line(lines: list[bytes]) -> Iterable[bytes]:
    return [line.rstrip() for line in lines]


def byte_order_mark(lines: list[bytes]) -> Iterable[bytes]:
    return [b"\xef\xbb\xbf", *lines]


def crlf(lines: list[bytes]) -> Iterable[bytes]:
    return [line.replace(b"\n", b"\r\n") for line in lines]


def blank_lines(lines: list[bytes]) -> Iterable[bytes]:
    return [b"\n", *(line + b"\n \r\n" for line in lines)]


def every_line_twice(lines: list[bytes]) -> Iterable[bytes]:
    return [line for line in lines for _ in range(2)]


def everything_twice(lines: list[bytes]) -> Iterable[bytes]:
    return [*lines, *lines]


def out_of_order(lines: list[bytes]) -> Iterable[bytes]:
    return [lines[0], *reversed(lines[1:])]


def a_line_removed(lines: list[bytes]) -> Iterable[bytes]:
    return [*lines[:4], *lines[5:]]


def no_header(lines: list[bytes]) -> Iterable[bytes]:
    return lines[1:]


@pytest.mark.parametrize(
    ("damage", "lost", "bad_lines", "recovered"),
    [
        (nul_run, (), 1, 0),
        (nul_run_in_front_of_a_record, (), 1, 1),
        (nul_run_over_a_record, (4,), 1, 0),
        (two_records_on_a_line, (), 1, 2),
        (byte_order_mark, (), 0, 0),
        (crlf, (), 0, 0),
        (blank_lines, (), 0, 0),
        (every_line_twice, (), 0, 0),
        (everything_twice, (), 0, 0),
        (out_of_order, (), 0, 0),
        (a_line_removed, (4,), 0, 0),
        (no_header, (), 0, 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_damage_is_counted_and_survived(
    sample: Sample,
    damage: Callable[[list[bytes]], Iterable[bytes]],
    lost: tuple[int, ...],
    bad_lines: int,
    recovered: int,
) -> None:
    """FAULTS D4, D5, D6, D7, and duplicates and gaps; afterwards the session goes on."""
    reading = sample.read(damage(list(sample.lines)))

    assert sorted(numbers(reading)) == sample.numbers(*lost)
    assert (reading.bad_lines, reading.recovered, reading.torn_tail) == (
        bad_lines,
        recovered,
        False,
    )
    copies = len(sample.numbers()) if "twice" in damage.__name__ else 0
    assert reading.duplicates == copies

    later = sample.append_and_read()
    assert later.header is not None
    assert sorted(numbers(later)) == [*sample.numbers(*lost), len(sample.lines)]
    assert later.bad_lines == bad_lines


def test_records_that_lost_all_their_newlines_are_found_again(sample: Sample) -> None:
    reading = sample.read(all_records_on_a_line(list(sample.lines)))

    assert reading.torn_tail
    assert numbers(reading) == sample.numbers()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"17",
        b'"text"',
        b"[]",
        b"{}",
        b'{"v":1}',
        b'{"v":1,"seq":5}',
        b'{"v":1,"seq":"5","k":"user"}',
        b'{"v":1,"seq":true,"k":"user"}',
        b'{"v":1,"seq":5.0,"k":"user"}',
        b'{"v":1,"seq":1e400,"k":"user"}',
        b'{"v":1,"seq":99999999999999999999,"k":"user"}',
        b'{"v":"1","seq":5,"k":"user"}',
        b'{"v":0,"seq":5,"k":"user"}',
        b'{"v":1,"seq":5,"k":["user"]}',
        b'{"v":1,"seq":5,"k":"user","x":NaN}',
        b'{"v":1,"seq":5,"k":"user","x":"\xff"}',
        b'{"v":1,"seq":5,"k":"user","x":"\\ud800"}',
        b"[" * 100_000,
        b'{"v":1,"seq":' * 50_000,
        b"<<<<<<< HEAD",
        b"\x1f\x8b\x08\x00\x00",
    ],
    ids=lambda line: repr(line[:40]),
)
def test_a_line_that_is_no_record_costs_nothing_else(sample: Sample, line: bytes) -> None:
    reading = sample.read([*sample.lines[:4], line + b"\n", *sample.lines[4:]])

    assert numbers(reading) == sample.numbers()
    assert reading.bad_lines == (1 if line else 0)


@given(junk=st.binary(max_size=200), at=st.integers(0, 8))
def test_no_bytes_make_reading_fail(sample: Sample, junk: bytes, at: int) -> None:
    """FAULTS §4.8."""
    reading = sample.read([*sample.lines[:at], junk, b"\n", *sample.lines[at:]])

    assert set(sample.numbers()) <= set(numbers(reading))


def test_a_line_without_end_is_skipped_in_constant_memory(sample: Sample) -> None:
    reading = sample.read([*sample.lines[:4], b"x" * (40 << 20), b"\n", *sample.lines[4:]])

    assert numbers(reading) == sample.numbers()
    assert reading.bad_lines == 1


def test_a_long_journal_is_read_in_constant_memory(sample: Sample) -> None:
    """FAULTS D15, D16: 30 MB here; what is not kept costs nothing."""
    lines = (
        b'{"v":1,"seq":%d,"t":0,"k":"update","u":"%s"}\n' % (number, b"x" * 1_000)
        for number in range(30_000)
    )
    sample.path.write_bytes(b"".join(lines))
    tracemalloc.start()
    count = sum(1 for _ in RecordReader(sample.path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 30_000
    assert peak < 5 << 20


def test_unknown_kinds_and_fields_are_kept(sample: Sample) -> None:
    """FAULTS D7."""
    record = {"v": 1, "seq": 500, "t": 0, "k": "hologram", "voxels": [1]}
    reading = sample.read([*sample.lines, json.dumps(record).encode(), b"\n"])

    assert reading.records[-1] == record


def test_a_newer_format_is_read_but_not_written(sample: Sample) -> None:
    """FAULTS D7: a greater major opens read-only."""
    newer: list[dict[str, Any]] = [
        {**json.loads(line), "v": 2, "new": True} for line in sample.lines
    ]
    reading = sample.read([json.dumps(record).encode() + b"\n" for record in newer])
    written = sample.path.read_bytes()

    assert reading.newer
    assert numbers(reading) == sample.numbers()
    with pytest.raises(JournalError, match="written by a newer silo_nb"):
        Journal.open(sample.path.parents[1], sample.path.stem)
    assert sample.path.read_bytes() == written


def test_reading_never_writes(sample: Sample) -> None:
    """Elsewhere whole transcripts were rewritten on open, and lost."""
    damaged = sample.data[:-20]
    sample.read(damaged)
    before = sample.path.stat()

    read_records(sample.path)

    assert sample.path.read_bytes() == damaged
    assert sample.path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_reader_beside_the_writer_sees_no_bad_line(tmp_path: Path) -> None:
    """FAULTS D17: a tail without newline is a writer at work, no error."""
    journal = Journal.create(journal_directory(tmp_path), {}, durability="none")
    path = journal.path
    assert path is not None
    is_over = threading.Event()
    seen: list[tuple[int, int]] = []

    def read_on() -> None:
        while not is_over.is_set():
            reader = RecordReader(path)
            seen.append((sum(1 for _ in reader), reader.bad_lines))

    reading = threading.Thread(target=read_on)
    reading.start()
    for number in range(3_000):
        journal.append("update", {"u": {"number": number, "filler": "x" * (number % 700)}})
    journal.close().result(WITHIN)
    is_over.set()
    reading.join(WITHIN)

    assert [bad for _, bad in seen if bad] == []
    assert [count for count, _ in seen] == sorted(count for count, _ in seen)
    assert len(read_records(path).records) == 3_000
