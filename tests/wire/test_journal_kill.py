"""T-6, T-9 and FAULTS K: journals of processes that are killed, forked, ended or raced."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from silo_nb.journal import Journal, find_session, journal_directory, read_records
from tests.wire.journal_writers import (
    ROOT,
    Ack,
    Task,
    WriterServer,
    race,
    stream,
    write_big,
    write_small,
    writer_server,
)

WITHIN = 30
SESSION = "demo-1"


@pytest.fixture(scope="module")
def server() -> Iterator[WriterServer]:
    with writer_server() as server:
        yield server


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return journal_directory(tmp_path)


@dataclass
class Toll:
    """What a series of kills cost."""

    acknowledged: int = 0
    lost: int = 0
    torn: int = 0


def kill_at_random(
    server: WriterServer,
    role: Callable[[Task, int, int], None],
    directory: Path,
    *,
    sessions: int,
    kills: int,
    within: float,
) -> Toll:
    """Go on with a session after every kill; read what is left of it, and begin another."""
    chance = random.Random(7)
    toll = Toll()
    for session in range(sessions):
        path = directory / "sessions" / f"demo-{session}.jsonl"
        acknowledged: list[Ack] = []
        torn = 0
        for kill in range(1, kills + 1):
            durability = chance.choice(["turn", "none"])
            writer = server.start(
                role, directory, session_id=path.stem, seed=kill, durability=durability
            )
            first = writer.ack()
            assert first is not None
            acknowledged += [first, *writer.kill(after=chance.uniform(0, within))]
            torn += not ends_its_line(path)

        reading = read_records(path)
        kept = {record["seq"]: record.get("n") for record in reading.records}
        assert reading.header is not None
        assert reading.bad_lines <= torn
        assert reading.duplicates == 0
        toll.acknowledged += len(acknowledged)
        toll.lost += sum(kept.get(ack.seq) != ack.marker for ack in acknowledged)
        toll.torn += torn
        path.unlink()
    return toll


def ends_its_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def test_200_kills_lose_no_acknowledged_record(server: WriterServer, directory: Path) -> None:
    """T-6: SIGKILL at random points, small records."""
    toll = kill_at_random(server, write_small, directory, sessions=4, kills=50, within=0.02)

    print(f"\nT-6, small records: {toll}")  # noqa: T201 - the figure
    assert toll.acknowledged > 1_000
    assert toll.lost == 0


def test_60_kills_within_the_longest_records_lose_none(
    server: WriterServer, directory: Path
) -> None:
    """T-6: records up to a megabyte are torn much more often."""
    toll = kill_at_random(server, write_big, directory, sessions=10, kills=6, within=0.04)

    print(f"\nT-6, records up to 1 MiB: {toll}")  # noqa: T201 - the figure
    assert toll.acknowledged > 100
    assert toll.lost == 0


def test_a_kill_loses_no_more_than_the_last_moment_of_a_stream(
    server: WriterServer, directory: Path
) -> None:
    """T-6: at most 250 ms of streamed text; allowed here is twice that, for a busy machine."""
    chance = random.Random(7)
    worst = 0.0
    for seed in range(20):
        session_id = f"stream-{seed}"
        writer = server.start(stream, directory, session_id=session_id, seed=seed)
        acks = writer.kill(after=chance.uniform(0, 0.6))

        records = read_records(directory / "sessions" / f"{session_id}.jsonl").records
        text = "".join(record["u"]["content"]["text"] for record in records)
        words = [int(word) for word in text.split()]
        assert words == list(range(1, len(words) + 1))
        lost = acks[len(words) :]
        if lost:
            worst = max(worst, (acks[-1].at - lost[0].at) / 1e9)

    print(f"\nT-6: at most {worst * 1000:.0f} ms of stream text lost")  # noqa: T201 - the figure
    assert worst < 0.5


@pytest.mark.parametrize("without_flock", [False, True], ids=["flock", "lease"])
def test_of_two_that_open_a_session_at_once_one_gets_it(
    server: WriterServer, directory: Path, *, without_flock: bool
) -> None:
    """T-9: 50 races, each after the last owner was killed, so that its traces lie around."""
    Journal.create(directory, {"id": SESSION}).close().result(WITHIN)
    for turn in range(50):
        writers = [
            server.start(
                race,
                directory,
                session_id=SESSION,
                seed=2 * turn + side,
                durability="none",
                without_flock=without_flock,
            )
            for side in (0, 1)
        ]
        for writer in writers:
            writer.let_in()
        results = [writer.ack() for writer in writers]

        outcomes = sorted(ack.seq for ack in results if ack)
        assert outcomes == [-1, 1], turn
        assert all(ack.marker for ack in results if ack and ack.seq == -1)
        for writer, ack in zip(writers, results, strict=True):
            if ack and ack.seq == 1:
                writer.kill(after=0)
            else:
                writer.rest()

    reading = read_records(directory / "sessions" / f"{SESSION}.jsonl")
    owners = [record["n"] // 1_000 for record in reading.records]
    assert (reading.bad_lines, reading.duplicates, len(owners)) == (0, 0, 50 * 20)
    assert [len(list(turns)) for _, turns in itertools.groupby(owners)] == [20] * 50


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program that has a journal open, to its end."""
    prelude = "import os, sys\nfrom pathlib import Path\nfrom silo_nb.journal import *\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(script), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=True,
    )


def test_a_forked_child_writes_nothing_and_holds_nothing(directory: Path) -> None:
    """FAULTS K7: the child of a cell's os.fork() outlives the kernel, and stays out of the way."""
    done = run(
        """
        journal = Journal.create(Path(sys.argv[1]), {"id": "demo-1"})
        journal.append("user", {"by": "parent"})
        journal.append_chunk("agent_message_chunk", "m1", "the parent's words")
        blocked, release = os.pipe()
        pid = os.fork()
        if pid == 0:
            journal.append("user", {"by": "child"})
            for _ in range(10_000):
                journal.append_chunk("agent_message_chunk", "m1", "the child's words")
            journal.sync().result(5)
            journal.close().result(5)
            other = Journal.create(Path(sys.argv[1]), {"id": "demo-2"})
            other.append("user", {"by": "child"})
            other.close().result(5)
            sys.exit(0)  # through the exit handlers
        assert os.waitpid(pid, 0)[1] == 0
        journal.append("user", {"by": "parent"})
        journal.sync().result(5)
        pid = os.fork()
        if pid == 0:
            os.close(1), os.close(2)
            os.read(blocked, 1)  # nothing ever comes: it lives until it is killed
        sys.stdout.write(str(pid))
        sys.stdout.flush()
        os._exit(0)  # dies without closing anything, while a child lives
        """,
        directory,
    )

    try:
        assert done.stderr == ""
        journal = Journal.open(directory, "demo-1")  # the lock died with its owner
        journal.close().result(WITHIN)
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)
    path = find_session(directory, "demo-1")
    assert path is not None
    first, words, second = read_records(path).records
    assert first["by"] == second["by"] == "parent"
    assert words["u"]["content"]["text"] == "the parent's words"
    other = find_session(directory, "demo-2")
    assert other is not None
    assert [record["by"] for record in read_records(other).records] == ["child"]


def test_a_fork_while_the_writer_writes_never_blocks(directory: Path) -> None:
    """FAULTS K7: locks that another thread held at the fork must not be waited for."""
    done = run(
        """
        journal = Journal.create(Path(sys.argv[1]), {"id": "demo-1"}, durability="none")
        for number in range(150):
            for _ in range(200):
                journal.append_chunk("agent_message_chunk", "m1", "x" * 100)
            journal.append("user", {"n": number})
            pid = os.fork()
            if pid == 0:
                journal.append("user", {"n": -1})
                journal.append_chunk("agent_message_chunk", "m2", "x" * 10_000)
                journal.sync().result(5)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        journal.close().result(5)
        """,
        directory,
    )

    reading = read_records(directory / "sessions" / "demo-1.jsonl")
    assert done.stderr == ""
    assert [record["n"] for record in reading.records if record["k"] == "user"] == list(range(150))
    assert (reading.bad_lines, reading.duplicates) == (0, 0)


def test_the_interpreter_ends_and_nothing_is_lost(directory: Path) -> None:
    """FAULTS K16: nobody closed the journal; text still waited for more."""
    done = run(
        """
        import atexit
        journal = Journal.create(Path(sys.argv[1]), {"id": "demo-1"})
        atexit.register(lambda: journal.append("turn_end", {}))  # of one who ends sessions
        journal.append("user", {})
        journal.append_chunk("agent_message_chunk", "m1", "last words")
        """,
        directory,
    )

    records = read_records(directory / "sessions" / "demo-1.jsonl").records
    assert [record["k"] for record in records] == ["user", "update", "turn_end"]
    assert (done.stdout, done.stderr) == ("", "")
    assert list((directory / "locks").iterdir()) == []


def test_the_interpreter_ends_though_the_disk_hangs(directory: Path) -> None:
    """FAULTS K16: no more than a second is spent on a disk that does not answer."""
    started = time.monotonic()
    done = run(
        """
        import threading
        os.fdatasync = lambda fd: threading.Event().wait()
        journal = Journal.create(Path(sys.argv[1]), {"id": "demo-1"})
        journal.append("user", {})
        """,
        directory,
    )

    assert time.monotonic() - started < 10
    assert "the disk is too slow" in done.stderr


def test_importing_starts_nothing_and_touches_nothing() -> None:
    """ARCHITECTURE §5: an audit hook sees no thread, no file, no process."""
    done = run(
        """
        import importlib, threading
        events = []
        watched = ("os.mkdir", "os.fork", "subprocess.Popen", "socket.bind")
        sys.addaudithook(lambda event, args: event in watched and events.append(event))
        for name in [name for name in sys.modules if name.startswith("silo_nb")]:
            del sys.modules[name]
        importlib.import_module("silo_nb.journal")
        print(events, threading.active_count())
        """
    )

    assert done.stdout == "[] 1\n"
