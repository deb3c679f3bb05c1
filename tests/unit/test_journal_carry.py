"""A new session's journal that begins with another's records, or takes its place. (FAULTS §3.3)"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from silo_nb.errors import JournalError
from silo_nb.journal import (
    Journal,
    Reading,
    carry,
    discard,
    find_session,
    finish_discards,
    journal_directory,
    read_records,
)

WITHIN = 10
OLD, NEW = "demo-old", "demo-new"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return journal_directory(tmp_path)


def finished(directory: Path, session_id: str = OLD, *, records: int = 3, **header: Any) -> Path:
    """Write the journal of a session that nobody writes any more; return its file."""
    journal = Journal.create(directory, {"id": session_id, "profileId": "demo", **header})
    for number in range(1, records + 1):
        journal.append("user", {"turn": number, "n": number})
    close(journal)
    assert journal.path is not None
    return journal.path


def close(*journals: Journal) -> None:
    for journal in journals:
        journal.close().result(WITHIN)


def carried(directory: Path, source_id: str = OLD, new_id: str = NEW, **options: Any) -> Reading:
    """Carry a journal into a new one, close that, and read it."""
    journal = carry(directory, source_id, {"id": new_id}, **options)
    close(journal)
    assert journal.problem is None
    return read_records(file_of(directory, new_id))


def file_of(directory: Path, session_id: str) -> Path:
    return directory / "sessions" / f"{session_id}.jsonl"


def numbers(reading: Reading) -> list[Any]:
    return [record["n"] for record in reading.records if "n" in record]


def names(directory: Path) -> set[str]:
    return {path.name for path in (directory / "sessions").iterdir()}


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# Carry.


def test_a_carried_journal_begins_with_everything_the_old_one_holds(directory: Path) -> None:
    """R61: new header first, the old records under their own numbers, then its own."""
    old = finished(directory, sessionId="agent-1")
    before = old.read_bytes()

    journal = carry(directory, OLD, {"id": NEW, "sessionId": "agent-2"})
    own = journal.append("user", {"n": 4})
    close(journal)

    first, *lines = file_of(directory, NEW).read_bytes().splitlines(keepends=True)
    header = json.loads(first)
    assert (header["id"], header["sessionId"], header["carriedFrom"]) == (NEW, "agent-2", OLD)
    assert "carriedBadLines" not in header
    assert lines[:3] == before.splitlines(keepends=True)[1:]
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4, own]
    assert old.read_bytes() == before


def test_a_missing_journal_has_nothing_to_carry(directory: Path) -> None:
    """FAULTS D21."""
    reading = carried(directory, "demo-never")

    assert reading.header is not None
    assert (reading.header["carriedFrom"], reading.records) == ("demo-never", ())


def test_damaged_lines_are_left_behind_and_counted(directory: Path) -> None:
    """FAULTS D21: a torn tail; D4, D5: what is intact in the middle comes along."""
    old = finished(directory)
    header, *lines = old.read_bytes().splitlines(keepends=True)
    spliced = lines[0][:30] + lines[1]
    old.write_bytes(header + b"\0" * 40 + b"\n" + lines[0] + spliced + lines[2] + lines[2][:25])
    before = old.read_bytes()

    reading = carried(directory)

    assert reading.header is not None
    assert reading.header["carriedBadLines"] == 3
    assert numbers(reading) == [1, 2, 3]
    assert (reading.bad_lines, reading.recovered, reading.torn_tail) == (0, 0, False)
    assert old.read_bytes() == before


def test_carrying_twice_makes_two_journals_and_doubles_nothing(directory: Path) -> None:
    """FAULTS D21."""
    finished(directory)

    first, second = carried(directory, new_id="demo-a"), carried(directory, new_id="demo-b")
    third = carried(directory, "demo-a", "demo-c")

    assert numbers(first) == numbers(second) == numbers(third) == [1, 2, 3]
    assert first.duplicates == second.duplicates == third.duplicates == 0
    assert third.header is not None
    assert third.header["carriedFrom"] == "demo-a"


def test_what_another_process_writes_can_be_carried(directory: Path) -> None:
    """FAULTS D11: only the owner writes, everybody may read or carry; as it is at that moment."""
    owner = Journal.create(directory, {"id": OLD})
    owner.append("user", {"n": 1})
    owner.sync().result(WITHIN)

    journal = carry(directory, OLD, {"id": NEW})
    owner.append("user", {"n": 2})
    close(owner, journal)

    assert numbers(read_records(file_of(directory, NEW))) == [1]
    assert numbers(read_records(file_of(directory, OLD))) == [1, 2]


def test_what_becomes_of_the_old_file_meanwhile_changes_nothing(directory: Path) -> None:
    old = finished(directory, records=2_000)

    journal = carry(directory, OLD, {"id": NEW})
    old.unlink()
    close(journal)

    assert numbers(read_records(file_of(directory, NEW))) == list(range(1, 2_001))


def test_the_new_sessions_secrets_are_taken_out_of_what_is_carried(directory: Path) -> None:
    """FAULTS T14: a key that went into the profile since."""
    journal = Journal.create(directory, {"id": OLD})
    journal.append("user", {"n": 1, "text": "it is hunter2-hunter2"})
    close(journal)

    reading = carried(directory, redact=["hunter2-hunter2"])

    assert reading.records[0]["text"] == "it is [redacted]"
    assert b"hunter2" not in file_of(directory, NEW).read_bytes()


def test_ids_that_came_along_are_the_old_sessions(directory: Path) -> None:
    """R53: a session is found by every id its agent gave it, and by no other's."""
    journal = Journal.create(directory, {"id": OLD, "sessionId": "agent-1"})
    journal.append("meta", {"sessionId": "agent-2"})
    close(journal)
    journal = carry(directory, OLD, {"id": NEW, "sessionId": "agent-3"})
    journal.append("meta", {"sessionId": "agent-4"})
    close(journal)

    found = {f"agent-{n}": find_session(directory, f"agent-{n}") for n in range(1, 5)}

    old, new = file_of(directory, OLD), file_of(directory, NEW)
    assert found == {"agent-1": old, "agent-2": old, "agent-3": new, "agent-4": new}


def test_the_last_id_on_record_is_the_sessions_own(directory: Path) -> None:
    journal = Journal.create(directory, {"id": OLD, "sessionId": "agent-1"})
    journal.append("meta", {"sessionId": "agent-2"})
    close(journal)

    close(carry(directory, OLD, {"id": NEW, "sessionId": "agent-3"}))

    last = read_records(file_of(directory, NEW)).records[-1]
    assert (last["k"], last["sessionId"]) == ("meta", "agent-3")


def test_it_takes_its_name_when_it_is_safe_on_the_disk(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS §3.3: whole file, then its name, then the directory; whatever durability is set."""
    finished(directory)
    done: list[tuple[str, str]] = []

    def watch(call: str) -> None:
        original = getattr(os, call)

        def watched(first: Any, *others: Any, **at: Any) -> Any:
            name = Path(f"/proc/self/fd/{first}").readlink() if isinstance(first, int) else first
            done.append((call, Path(name).name))
            return original(first, *others, **at)

        monkeypatch.setattr(os, call, watched)

    for call in ("fdatasync", "fsync", "rename"):
        watch(call)
    carried(directory, durability="none")

    draft = f"{NEW}.jsonl.tmp"
    steps = [done.index(step) for step in [("fdatasync", draft), ("rename", draft)]]
    assert steps == sorted(steps)
    assert ("fsync", "sessions") in done[steps[-1] :]


def test_a_carried_journal_is_private(directory: Path) -> None:
    """FAULTS D20."""
    finished(directory)
    umask = os.umask(0)
    try:
        carried(directory)
    finally:
        os.umask(umask)

    assert stat.S_IMODE(file_of(directory, NEW).stat().st_mode) == 0o600


def newer(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'{"v":1,"k":"session"', b'{"v":2,"k":"session"'))


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(newer, "newer silo_nb"), (linked, "cannot be read")],
    ids=["newer version", "symbolic link"],
)
def test_what_must_not_be_carried_is_refused(
    directory: Path, spoil: Callable[[Path], None], why: str
) -> None:
    """FAULTS D7, D19."""
    spoil(finished(directory))
    before = names(directory)

    with pytest.raises(JournalError, match=why):
        carry(directory, OLD, {"id": NEW})

    assert names(directory) == before


def test_a_session_that_exists_is_not_carried_into(directory: Path) -> None:
    finished(directory)
    other = finished(directory, NEW, records=1)
    before = other.read_bytes()
    descriptors = open_descriptors()

    with pytest.raises(JournalError, match="has a journal already"):
        carry(directory, OLD, {"id": NEW})

    assert other.read_bytes() == before
    assert open_descriptors() == descriptors


@pytest.mark.parametrize("source_id", ["../../etc/passwd", "", "A", "x" * 200])
def test_only_our_own_ids_name_what_is_carried(directory: Path, source_id: str) -> None:
    """FAULTS D18."""
    with pytest.raises(JournalError, match="is not a session id of silo_nb"):
        carry(directory, source_id, {"id": NEW})


class Drafts:
    """Watches what is written, and fails or holds up the writing of drafts."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.written: list[str] = []
        self.allowed = 1 << 30
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self._write = os.write
        patch.setattr(os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
        if name.endswith(".tmp"):
            self.begun.set()
            assert self.gate.wait(WITHIN)
            if len(data) > self.allowed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.allowed -= len(data)
        if ".jsonl" in name:
            self.written.append(name)
        return self._write(fd, data)


@pytest.fixture
def drafts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drafts]:
    drafts = Drafts(monkeypatch)
    yield drafts
    drafts.gate.set()


def test_carrying_waits_for_no_disk(directory: Path, drafts: Drafts) -> None:
    """The agent's thread goes on at once; the file has its name only when it is complete."""
    finished(directory)
    drafts.gate.clear()

    journal = carry(directory, OLD, {"id": NEW})
    journal.append("user", {"n": 4})
    synced = journal.sync()

    paths = [journal.path]
    assert not file_of(directory, NEW).exists()
    drafts.gate.set()
    synced.result(WITHIN)
    assert [*paths, journal.path] == [None, file_of(directory, NEW)]
    assert numbers(read_records(file_of(directory, NEW))) == [1, 2, 3, 4]
    close(journal)


def test_other_journals_are_written_while_a_long_one_is_carried(
    directory: Path, drafts: Drafts
) -> None:
    """T-6: their 250 ms count, too."""
    journal = Journal.create(directory, {"id": OLD}, durability="none")
    for _ in range(40):
        journal.append("update", {"filler": "x" * 100_000})
    close(journal)
    other = Journal.create(directory, {"id": "demo-other"})
    other.sync().result(WITHIN)
    drafts.written.clear()
    drafts.gate.clear()

    journal = carry(directory, OLD, {"id": NEW})
    assert drafts.begun.wait(WITHIN)
    other.append("user", {"n": 1})
    drafts.gate.set()
    close(journal, other)

    draft = f"{NEW}.jsonl.tmp"
    last = len(drafts.written) - drafts.written[::-1].index(draft)
    assert drafts.written.count(draft) > 3
    assert drafts.written.index("demo-other.jsonl") < last


def test_a_full_disk_leaves_no_half_journal(directory: Path, drafts: Drafts) -> None:
    """FAULTS D1: the turn goes on, and what was carried is there when there is room again."""
    old = finished(directory, records=200)
    before = old.read_bytes()
    drafts.allowed = 1_000

    journal = carry(directory, OLD, {"id": NEW})
    journal.append("user", {"n": 201})
    journal.sync().result(WITHIN)

    assert "No space left" in (journal.problem or "")
    assert journal.path is None
    assert names(directory) == {old.name}
    drafts.allowed = 1 << 30
    journal.sync().result(WITHIN)
    assert journal.problem is None
    assert numbers(read_records(file_of(directory, NEW))) == list(range(1, 202))
    assert old.read_bytes() == before
    close(journal)


def test_a_carried_journal_is_closed_though_the_disk_stays_full(
    directory: Path, drafts: Drafts
) -> None:
    old = finished(directory)
    descriptors = open_descriptors()
    drafts.allowed = 0

    close(carry(directory, OLD, {"id": NEW}))

    assert names(directory) == {old.name}
    assert list((directory / "locks").iterdir()) == []
    assert open_descriptors() == descriptors


# Discard.


def begun_in_its_place(directory: Path, **options: Any) -> Journal:
    return Journal.create(directory, {"id": NEW}, discards=OLD, **options)


def kinds(directory: Path, session_id: str = NEW) -> list[str]:
    return [record["k"] for record in read_records(file_of(directory, session_id)).records]


def test_the_old_journal_goes_when_the_new_one_is_there(directory: Path) -> None:
    """R62, FAULTS D22: with its backups, and on record."""
    old = finished(directory)
    old.with_name(f"{old.name}.bak1").write_bytes(old.read_bytes())

    journal = begun_in_its_place(directory)
    assert old.exists()
    discard(journal, OLD).result(WITHIN)

    assert names(directory) == {f"{NEW}.jsonl"}
    close(journal)
    reading = read_records(file_of(directory, NEW))
    assert reading.header is not None
    assert reading.header["discards"] == OLD
    assert [(record["k"], record["id"]) for record in reading.records] == [("discarded", OLD)]
    assert list((directory / "locks").iterdir()) == []


@pytest.mark.parametrize("durability", ["turn", "record", "none"])
def test_nothing_is_deleted_before_the_new_file_is_safe(
    directory: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    """FAULTS D22: a power loss right after the deletion must find the new file and its name."""
    old = finished(directory)
    journal = begun_in_its_place(directory, durability=durability)
    journal.sync().result(WITHIN)
    done: list[str] = []
    fsync, unlink = os.fsync, os.unlink

    def watched_fsync(fd: int) -> None:
        done.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    def watched_unlink(path: Any, **at: Any) -> None:
        done.append(f"unlink {path}")
        unlink(path, **at)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "unlink", watched_unlink)
    discard(journal, OLD).result(WITHIN)

    deleted = done.index(f"unlink {old.name}")
    assert f"{NEW}.jsonl" in done[:deleted]
    assert "sessions" in done[:deleted]
    assert "sessions" in done[deleted:]
    close(journal)


def test_only_the_session_it_was_begun_for_is_discarded(directory: Path) -> None:
    """R62: an ordinary session never deletes a journal."""
    old = finished(directory)
    ordinary = Journal.create(directory, {"id": NEW})

    with pytest.raises(JournalError, match="was not begun in the place of 'demo-old'"):
        discard(ordinary, OLD).result(WITHIN)

    close(ordinary)
    assert finish_discards(directory) == ()
    assert old.exists()


def test_a_session_that_is_open_elsewhere_is_kept(directory: Path) -> None:
    """FAULTS D11, D22: the owner is named, nothing is deleted, and nothing later either."""
    owner = Journal.create(directory, {"id": OLD})
    owner.append("user", {"n": 1})
    owner.sync().result(WITHIN)
    journal = begun_in_its_place(directory)

    with pytest.raises(JournalError, match=rf"is open in process {os.getpid()} on .+ since 20"):
        discard(journal, OLD).result(WITHIN)

    close(journal, owner)
    assert kinds(directory) == ["kept"]
    assert finish_discards(directory) == ()
    assert kinds(directory, OLD) == ["user"]


def test_without_locks_a_lease_does_the_same(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS D13: NFS without locks; carry, refused discard, discard."""

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    owner = Journal.create(directory, {"id": OLD})
    owner.append("user", {"n": 1})
    owner.sync().result(WITHIN)

    assert numbers(carried(directory, new_id="demo-a")) == [1]
    journal = begun_in_its_place(directory)
    with pytest.raises(JournalError, match=f"is open in process {os.getpid()} "):
        discard(journal, OLD).result(WITHIN)
    close(journal, owner)
    journal = Journal.create(directory, {"id": "demo-b"}, discards=OLD)
    discard(journal, OLD).result(WITHIN)

    close(journal)
    assert names(directory) == {"demo-a.jsonl", "demo-b.jsonl", f"{NEW}.jsonl"}
    assert list((directory / "locks").iterdir()) == []


def test_a_discard_that_was_cut_short_is_finished(directory: Path) -> None:
    """FAULTS D22: killed after the new header, before the deletion."""
    finished(directory)
    close(begun_in_its_place(directory))
    assert names(directory) == {f"{OLD}.jsonl", f"{NEW}.jsonl"}

    assert finish_discards(directory) == (OLD,)

    assert names(directory) == {f"{NEW}.jsonl"}
    assert kinds(directory) == ["discarded"]
    assert finish_discards(directory) == ()


def test_what_was_continued_since_is_not_what_was_to_be_discarded(directory: Path) -> None:
    """FAULTS D22: the old session was opened again before anybody finished the discard."""
    finished(directory)
    close(begun_in_its_place(directory))
    again = Journal.open(directory, OLD)
    again.append("user", {"n": 4})
    close(again)

    assert finish_discards(directory) == ()

    assert numbers(read_records(file_of(directory, OLD))) == [1, 2, 3, 4]
    assert kinds(directory) == ["kept"]


def test_the_discard_of_a_living_session_is_its_own_affair(directory: Path) -> None:
    old = finished(directory)
    journal = begun_in_its_place(directory)

    assert finish_discards(directory) == ()

    assert old.exists()
    close(journal)


def test_a_session_without_a_journal_needs_no_discard(directory: Path) -> None:
    """FAULTS D22."""
    journal = begun_in_its_place(directory)
    close(journal)

    assert "discards" not in journal.header
    assert finish_discards(directory) == ()


def test_the_old_journal_stays_while_the_disk_refuses_the_new_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS D1, D22: never both gone; tried again when a session is opened next."""
    old = finished(directory)
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{fd}").readlink().name == f"{NEW}.jsonl":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    journal = begun_in_its_place(directory)
    with pytest.raises(JournalError, match=r"No space left.+tried again"):
        discard(journal, OLD).result(WITHIN)
    assert old.exists()

    monkeypatch.setattr(os, "write", write)
    close(journal)
    assert finish_discards(directory) == (OLD,)


@pytest.mark.parametrize(
    "forged", [{"discards": NEW}, {"discards": "../../x"}, {"discards": ["demo-old"]}, {}]
)
def test_a_forged_header_deletes_nothing(directory: Path, forged: dict[str, Any]) -> None:
    """FAULTS T22: whoever plants a journal knows neither ids nor sizes."""
    old = finished(directory)
    close(Journal.create(directory, {"id": NEW, **forged}))
    close(Journal.create(directory, {"id": "demo-3", "discards": OLD, "discardsBytes": 1}))
    close(Journal.create(directory, {"id": "demo-4", "discards": OLD, "discardsBytes": "x"}))

    assert finish_discards(directory) == ()

    assert old.exists()
    assert file_of(directory, NEW).exists()


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_kept(
    directory: Path, drafts: Drafts
) -> None:
    old = finished(directory)
    dead = old.with_name("demo-dead.jsonl.tmp")
    dead.write_bytes(b"half of it")
    drafts.gate.clear()
    journal = carry(directory, OLD, {"id": NEW})

    finish_discards(directory)

    assert not dead.exists()
    drafts.gate.set()
    close(journal)
    assert numbers(read_records(file_of(directory, NEW))) == [1, 2, 3]


def test_finishing_where_nothing_is_makes_nothing(directory: Path) -> None:
    assert finish_discards(directory) == ()
    assert not directory.exists()


def test_a_session_deleted_while_it_is_being_opened_is_missing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking for the file and getting its lock, the lock's last holder deleted it."""
    old = finished(directory)
    exists = Path.exists

    def exists_for_the_last_time(path: Path, **options: Any) -> bool:
        found = exists(path, **options)
        old.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "exists", exists_for_the_last_time)

    with pytest.raises(JournalError, match="there is no journal of session 'demo-old'"):
        Journal.open(directory, OLD)

    assert list((directory / "locks").iterdir()) == []
