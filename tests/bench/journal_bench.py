"""What the journal costs: a chunk, a record, opening a long one, and its end at once.

::

    hatch run bench                       # every bench, with its table
    python -m tests.bench.journal_bench   # this one alone, figures as JSON, from the root

Opening is compared with a loop of ``json.loads`` over the same file that keeps its objects, both
for a journal as it is written (text coalesced) and for one record a chunk, as a naive one would be.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from silo_nb.journal import (
    Journal,
    RecordReader,
    carry,
    journal_directory,
    list_sessions,
    read_records,
    read_tail,
)
from silo_nb.model import EMPTY_TRANSCRIPT, Transcript, apply_update
from silo_nb.session.records import read_updates

CHUNKS = 200_000
RECORDS = 20_000
TEXT = "Forty characters of an answer, no more. "
COALESCED_BYTES = 100 << 20
ONE_BY_ONE_BYTES = 32 << 20
SESSIONS = 200
ROUNDS = 2
PATIENCE = 60


def chunk(text: str) -> dict[str, Any]:
    """A text chunk as the wire has it."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "msg_1"}


def seconds(work: Callable[[], object]) -> float:
    """Return what some work takes of this thread's CPU, the least of several rounds."""
    costs = []
    for _ in range(ROUNDS):
        gc.collect()
        started = time.thread_time()
        work()
        costs.append(time.thread_time() - started)
    return min(costs)


def appending(directory: Path) -> dict[str, float]:
    """Return microseconds of the agent thread's CPU by what is appended, and bytes by text."""
    journal = Journal.create(journal_directory(directory), {"profileId": "bench"})
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": chunk(TEXT)})
    fields = {"u": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "pending"}}

    def chunks() -> None:
        for _ in range(CHUNKS):
            journal.append_chunk("agent_message_chunk", "msg_1", TEXT)

    def records() -> None:
        for _ in range(RECORDS):
            journal.append("update", fields)

    def bare() -> None:
        for _ in range(RECORDS):
            json.loads(line)

    took = seconds(chunks)
    journal.sync().result(PATIENCE)
    assert journal.path is not None
    size = journal.path.stat().st_size / (ROUNDS * CHUNKS * len(TEXT))
    figures = {
        "chunk": took / CHUNKS * 1e6,
        "record": seconds(records) / RECORDS * 1e6,
        "json.loads": seconds(bare) / RECORDS * 1e6,
        "bytes": size,
    }
    journal.close().result(PATIENCE)
    return figures


def long_journal(directory: Path, text: str, size: int) -> Iterator[Path]:
    """Yield a journal of so many bytes whose records hold this text each, and remove it."""
    journal = Journal.create(journal_directory(directory), {"profileId": "bench"})
    path = journal.path
    journal.close().result(PATIENCE)
    assert path is not None
    with path.open("ab") as file:
        seq = 0
        while file.tell() < size:
            seq += 1
            record = {"v": 1, "seq": seq, "t": 1_764_547_200_000, "k": "update", "u": chunk(text)}
            file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    yield path
    path.unlink()


def keep_objects(path: Path) -> int:
    """Read the file as anybody would."""
    with path.open("rb") as file:
        return len([json.loads(line) for line in file])


def opening(path: Path) -> dict[str, float]:
    """Return seconds of CPU by way to read."""
    return {
        "json.loads, objects kept": seconds(lambda: keep_objects(path)),
        "read_records": seconds(lambda: read_records(path)),
        "RecordReader, nothing kept": seconds(lambda: sum(1 for _ in RecordReader(path))),
        "read_tail": seconds(lambda: read_tail(path)),
    }


def fold(records: Iterable[dict[str, Any]]) -> Transcript:
    """Return the conversation that some records tell."""
    return reduce(apply_update, read_updates(records), EMPTY_TRANSCRIPT)


def whole(path: Path) -> dict[str, float]:
    """Return seconds by the clock of showing a journal's end and all of it, and what that takes.

    Memory is counted in bytes of the process by byte of the file, above what it has without.
    """
    started = time.perf_counter()
    fold(read_tail(path).records)
    last_screen = time.perf_counter() - started
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    transcript = fold(RecordReader(path))
    took = time.perf_counter() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert transcript.entries
    size = path.stat().st_size
    return {"last screen": last_screen, "all of it": took, "memory": grown * 1024 / size}


def keeping(directory: Path, path: Path) -> dict[str, float]:
    """Return seconds by the clock of carrying a journal and of listing many, by session."""
    journals = path.parents[1]
    started = time.perf_counter()
    journal = carry(journals, path.stem, {"id": "carried"})
    returned = time.perf_counter() - started
    journal.sync().result(PATIENCE)
    carried = time.perf_counter() - started
    journal.close().result(PATIENCE)
    for number in range(SESSIONS):
        copy = journal_directory(directory / "many") / "sessions" / f"demo-{number}.jsonl"
        copy.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as file, copy.open("wb") as written:
            written.write(file.read(1 << 20))
    many = journal_directory(directory / "many")
    started = time.perf_counter()
    list_sessions(many)
    listed = time.perf_counter()
    list_sessions(many)
    return {
        "carry returns": returned,
        "carried": carried,
        "list, per session": (listed - started) / SESSIONS,
        "list, again": (time.perf_counter() - listed) / SESSIONS,
    }


def measure() -> dict[str, dict[str, float]]:
    """Return all figures."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in long_journal(Path(folder), TEXT * 100, COALESCED_BYTES):
            figures["whole"] = whole(path)
            figures["100 MB, coalesced"] = opening(path)
            figures["keeping"] = keeping(Path(folder), path)
        for path in long_journal(Path(folder), TEXT, ONE_BY_ONE_BYTES):
            figures["32 MB, one chunk a record"] = opening(path)
        figures["appending"] = appending(Path(folder))
    return figures


def measure_a_gigabyte() -> dict[str, float]:
    """Return the figures of one very long journal."""
    with tempfile.TemporaryDirectory() as folder:
        return next(map(whole, long_journal(Path(folder), TEXT * 100, 1 << 30)))


if __name__ == "__main__":
    json.dump(measure_a_gigabyte() if "gigabyte" in sys.argv else measure(), sys.stdout)
