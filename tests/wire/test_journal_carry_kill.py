"""T-6, T-9, FAULTS D22: processes that are killed while they carry or discard a journal."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from silo_nb.journal import (
    Journal,
    Reading,
    finish_discards,
    journal_directory,
    list_sessions,
    read_records,
)
from tests.wire.journal_writers import (
    Task,
    WriterServer,
    carry_on,
    finish_for_others,
    take_the_place,
    write_small,
    writer_server,
)

WITHIN = 30
KILLS = 50
OLD, NEW = "demo-old", "demo-new"


@pytest.fixture(scope="module")
def server() -> Iterator[WriterServer]:
    with writer_server() as server:
        yield server


def old_journal(folder: Path, *, records: int, filler: int) -> Path:
    """Write a session with two damaged lines; return its ``.silo_nb``."""
    directory = journal_directory(folder)
    journal = Journal.create(directory, {"id": OLD}, durability="none")
    for number in range(records):
        journal.append("update", {"n": number, "filler": "x" * filler})
    journal.close().result(WITHIN)
    with file_of(directory, OLD).open("ab") as file:
        file.write(b"\0\0\0\0\n" + b'{"v":1,"seq":')
    backup(directory).write_bytes(b"of an earlier time")
    return directory


def file_of(directory: Path, session_id: str) -> Path:
    return directory / "sessions" / f"{session_id}.jsonl"


def backup(directory: Path) -> Path:
    return file_of(directory, OLD).with_suffix(".jsonl.bak1")


def another_like(directory: Path, folder: Path) -> Path:
    """Copy a ``.silo_nb`` into a folder of its own."""
    return Path(shutil.copytree(directory, folder / ".silo_nb"))


def numbers(reading: Reading) -> list[int]:
    return [record["n"] for record in reading.records if "n" in record]


def expect_nothing_lost_by_carrying(
    directory: Path, before: bytes, *, records: int, is_acknowledged: bool
) -> bool:
    """Look as somebody does who opens a session next; return whether there is a new one."""
    finish_discards(directory)

    assert file_of(directory, OLD).read_bytes() == before
    is_there = file_of(directory, NEW).exists()
    assert is_there or not is_acknowledged
    files = [file_of(directory, OLD), backup(directory), *[file_of(directory, NEW)] * is_there]
    assert sorted((directory / "sessions").iterdir()) == sorted(files)
    assert list_sessions(directory).problems == ()
    if is_there:
        reading = read_records(file_of(directory, NEW))
        assert reading.header is not None
        assert (reading.header["carriedFrom"], reading.header["carriedBadLines"]) == (OLD, 2)
        assert numbers(reading)[:records] == list(range(records))
        assert numbers(reading)[records:] in ([[-1]] if is_acknowledged else [[], [-1]])
        assert (reading.bad_lines, reading.duplicates) == (0, 0)
        Journal.open(directory, NEW).close().result(WITHIN)
    return is_there


def expect_one_session_left(directory: Path, before: bytes, *, is_acknowledged: bool) -> bool:
    """The same for a discard."""
    old, new = file_of(directory, OLD), file_of(directory, NEW)
    assert old.exists() or read_records(new).header is not None

    finish_discards(directory)

    header = read_records(new).header
    assert header is not None or not is_acknowledged
    assert old.exists() is (header is None)
    if header is None:
        assert old.read_bytes() == before
    else:
        assert header["discards"] == OLD
        assert list((directory / "sessions").iterdir()) == [new]
        kinds = [record["k"] for record in read_records(new).records]
        assert kinds.count("discarded") <= 1
        Journal.open(directory, NEW).close().result(WITHIN)
    return header is not None


def kill_at_random(
    server: WriterServer, role: Callable[[Task, int, int], None], template: Path, folder: Path
) -> Iterator[tuple[Path, bool]]:
    """Yield what each of the killed left, and whether it had reported that it was done.

    The first is not killed until it is done, and shows how long that takes here.
    """
    chance = random.Random(7)
    for kill in range(KILLS + 1):
        directory = another_like(template, folder / str(kill))
        started = time.monotonic()
        writer = server.start(role, directory, session_id=NEW, source_id=OLD)
        if kill == 0:
            ack = writer.ack()
            assert ack is not None
            takes = ack.at / 1e9 - started
            acks = [ack, *writer.kill(after=0)]
        else:
            acks = writer.kill(after=chance.uniform(0, 1.2 * takes))
        yield directory, bool(acks)
        shutil.rmtree(directory.parent)


def kill_at_every_step(
    server: WriterServer, role: Callable[[Task, int, int], None], template: Path, folder: Path
) -> Iterator[tuple[Path, bool]]:
    """Kill before the first system call, before the second, and so on until all are done."""
    for step in itertools.count(1):
        directory = another_like(template, folder / str(step))
        writer = server.start(role, directory, session_id=NEW, source_id=OLD, dies_at=step)
        ack = writer.ack()
        if ack is not None:
            writer.let_in()
        writer.rest()
        yield directory, ack is not None
        shutil.rmtree(directory.parent)
        if ack is not None:
            return


def test_50_kills_while_carrying_lose_nothing(server: WriterServer, tmp_path: Path) -> None:
    """T-6: the old journal is untouched, the new one complete or not there."""
    records = 2_000
    template = old_journal(tmp_path, records=records, filler=1_000)
    before = file_of(template, OLD).read_bytes()
    survivors = reports = 0
    for directory, is_done in kill_at_random(server, carry_on, template, tmp_path):
        reports += is_done
        survivors += expect_nothing_lost_by_carrying(
            directory, before, records=records, is_acknowledged=is_done
        )

    print(f"\nT-6, carry: {reports} of {KILLS + 1} reported, {survivors} are there")  # noqa: T201 - the figure
    assert reports <= KILLS


def test_50_kills_while_discarding_lose_no_session(server: WriterServer, tmp_path: Path) -> None:
    """T-6, FAULTS D22: finished or undone, never both gone."""
    template = old_journal(tmp_path, records=100, filler=100)
    before = file_of(template, OLD).read_bytes()
    gone = reports = 0
    for directory, is_done in kill_at_random(server, take_the_place, template, tmp_path):
        reports += is_done
        gone += expect_one_session_left(directory, before, is_acknowledged=is_done)

    print(f"\nT-6, discard: {reports} of {KILLS + 1} reported, {gone} are gone")  # noqa: T201 - the figure
    assert reports <= KILLS


def test_carrying_may_be_killed_between_any_two_system_calls(
    server: WriterServer, tmp_path: Path
) -> None:
    """FAULTS D21, D22: each of them once, so that no gap depends on luck."""
    template = old_journal(tmp_path, records=5, filler=10)
    before = file_of(template, OLD).read_bytes()
    outcomes = [
        expect_nothing_lost_by_carrying(directory, before, records=5, is_acknowledged=is_done)
        for directory, is_done in kill_at_every_step(server, carry_on, template, tmp_path)
    ]

    assert len(outcomes) > 30
    assert outcomes == sorted(outcomes)


def test_discarding_may_be_killed_between_any_two_system_calls(
    server: WriterServer, tmp_path: Path
) -> None:
    """FAULTS D22."""
    template = old_journal(tmp_path, records=5, filler=10)
    before = file_of(template, OLD).read_bytes()
    outcomes = [
        expect_one_session_left(directory, before, is_acknowledged=is_done)
        for directory, is_done in kill_at_every_step(server, take_the_place, template, tmp_path)
    ]

    assert len(outcomes) > 30
    assert outcomes == sorted(outcomes)


def test_finishing_a_discard_may_be_killed_between_any_two_system_calls(
    server: WriterServer, tmp_path: Path
) -> None:
    """FAULTS D22: and is finished the time after."""
    template = old_journal(tmp_path, records=5, filler=10)
    Journal.create(template, {"id": NEW}, discards=OLD).close().result(WITHIN)
    outcomes = [
        expect_one_session_left(directory, b"", is_acknowledged=True)
        for directory, _ in kill_at_every_step(server, finish_for_others, template, tmp_path)
    ]

    assert len(outcomes) > 30
    assert all(outcomes)


def test_while_one_process_writes_a_session_others_carry_it(
    server: WriterServer, tmp_path: Path
) -> None:
    """T-9, FAULTS D11: 50 copies, each of them the session as it was at one moment."""
    directory = journal_directory(tmp_path)
    owner = server.start(write_small, directory, session_id=OLD, seed=1, durability="none")
    assert owner.ack() is not None

    for number in range(50):
        name = f"demo-{number}"
        writer = server.start(carry_on, directory, session_id=name, source_id=OLD)
        assert writer.ack() is not None
        writer.let_in()
        writer.rest()

    owner.kill(after=0)
    told = list(read_records(file_of(directory, OLD)).records)
    for number in range(50):
        reading = read_records(file_of(directory, f"demo-{number}"))
        *carried, own = reading.records
        assert carried == told[: len(carried)]
        assert (own["n"], reading.bad_lines, reading.duplicates) == (-1, 0, 0)
