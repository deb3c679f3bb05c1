"""One writer per session, on file systems with locks and on those without."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from silo_nb.errors import JournalError
from silo_nb.journal import Journal, journal_directory, read_records
from silo_nb.journal.lease import BEAT_EVERY, STALE_AFTER
from silo_nb.journal.owner import Owner

WITHIN = 10
NO_LOCKS = [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return journal_directory(tmp_path)


@pytest.fixture
def without_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every file system one without locks (D13)."""
    refuse_flock(monkeypatch, errno.ENOLCK)


def refuse_flock(patch: pytest.MonkeyPatch, error: int) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(error, os.strerror(error))

    patch.setattr(fcntl, "flock", flock)


def close(*journals: Journal) -> None:
    for journal in journals:
        journal.close().result(WITHIN)


def finished(directory: Path) -> str:
    """Return the id of a session that nobody writes."""
    journal = Journal.create(directory, {"profileId": "demo"})
    close(journal)
    return journal.id


@pytest.fixture(params=["with flock", "without flock"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without flock":
        refuse_flock(monkeypatch, errno.ENOLCK)


def test_the_second_writer_is_told_who_is_first(directory: Path, either_way: None) -> None:
    """FAULTS D11: pid, host, since when, and what to do."""
    journal = Journal.create(directory, {})

    with pytest.raises(JournalError) as refused:
        Journal.open(directory, journal.id)

    assert re.search(
        rf"'{journal.id}' is open in process {os.getpid()} on {socket.gethostname()} since 20",
        str(refused.value),
    )
    assert "read_journal()" in str(refused.value)
    close(journal)


def test_a_closed_journal_is_free(directory: Path, either_way: None) -> None:
    session_id = finished(directory)

    for _ in range(3):
        close(Journal.open(directory, session_id))

    assert list((directory / "locks").iterdir()) == []


def test_reading_needs_no_lock(directory: Path, either_way: None) -> None:
    journal = Journal.create(directory, {})
    journal.append("user", {})
    journal.sync().result(WITHIN)

    assert journal.path is not None
    assert len(read_records(journal.path).records) == 1
    close(journal)


@pytest.mark.parametrize("error", NO_LOCKS, ids=errno.errorcode.get)
def test_without_locks_a_lease_keeps_others_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """FAULTS D13: NFS without locks; nothing hangs, the journal works."""
    refuse_flock(monkeypatch, error)
    journal = Journal.create(directory, {})
    journal.append("user", {})
    journal.sync().result(WITHIN)

    lease = directory / "locks" / f"{journal.id}.lease"
    owner = Owner.parse(lease.read_bytes())
    assert owner is not None
    assert (owner.pid, owner.host) == (os.getpid(), socket.gethostname())
    assert journal.problem is None
    with pytest.raises(JournalError, match=f"process {os.getpid()} "):
        Journal.open(directory, journal.id)
    close(journal)
    assert not lease.exists()


# Stale ones (D12).


@pytest.fixture
def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-S", "-c", ""])
    done.wait(WITHIN)
    return done.pid


@pytest.fixture
def sleeper() -> Iterator[int]:
    """Return the pid of somebody else's process that lives."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.communicate(b"\n", timeout=WITHIN)


def write_owner(path: Path, **changed: Any) -> None:
    fields = json.loads(Owner.current().to_bytes())
    path.write_text(json.dumps({**fields, "token": "theirs", **changed}))


def write_lease(directory: Path, session_id: str, *, age: float = 0.0, **changed: Any) -> Path:
    lease = directory / "locks" / f"{session_id}.lease"
    write_owner(lease, **changed)
    touched = time.time() - age
    os.utime(lease, (touched, touched))
    return lease


def test_a_lock_file_left_by_a_dead_process_is_no_lock(directory: Path, dead_pid: int) -> None:
    """FAULTS D12: the system drops a flock with its process."""
    session_id = finished(directory)
    write_owner(directory / "locks" / f"{session_id}.lock", pid=dead_pid)

    close(Journal.open(directory, session_id))


def test_the_lease_of_a_dead_process_is_taken_over(
    directory: Path, without_flock: None, dead_pid: int
) -> None:
    session_id = finished(directory)
    lease = write_lease(directory, session_id, pid=dead_pid)

    journal = Journal.open(directory, session_id)

    owner = Owner.parse(lease.read_bytes())
    assert owner is not None
    assert owner.pid == os.getpid()
    close(journal)


def test_the_lease_of_a_pid_that_was_given_to_another_is_taken_over(
    directory: Path, without_flock: None, sleeper: int
) -> None:
    session_id = finished(directory)
    write_lease(directory, session_id, pid=sleeper, started=1)

    close(Journal.open(directory, session_id))


def test_the_lease_from_before_a_restart_is_taken_over(
    directory: Path, without_flock: None, sleeper: int
) -> None:
    session_id = finished(directory)
    write_lease(directory, session_id, pid=sleeper, boot="another-boot")

    close(Journal.open(directory, session_id))


def test_the_lease_of_a_living_process_is_kept_however_old(
    directory: Path, without_flock: None, sleeper: int
) -> None:
    """A kernel that was stopped (SIGSTOP, a debugger) is no corpse."""
    session_id = finished(directory)
    started = Path(f"/proc/{sleeper}/stat").read_bytes().rpartition(b")")[2].split()[19]
    write_lease(directory, session_id, age=10 * STALE_AFTER, pid=sleeper, started=int(started))

    with pytest.raises(JournalError, match=f"process {sleeper} on"):
        Journal.open(directory, session_id)


def test_the_lease_of_another_host_counts_while_it_is_touched(
    directory: Path, without_flock: None
) -> None:
    session_id = finished(directory)

    write_lease(directory, session_id, host="node-7", age=STALE_AFTER / 2)
    with pytest.raises(JournalError, match="on node-7 since"):
        Journal.open(directory, session_id)
    write_lease(directory, session_id, host="node-7", age=STALE_AFTER * 2)
    close(Journal.open(directory, session_id))


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"[1]", b'{"pid": 1e999}', b'{"pid": "x"}'])
def test_an_unreadable_lease_counts_until_it_is_old(
    directory: Path, without_flock: None, content: bytes
) -> None:
    session_id = finished(directory)
    lease = write_lease(directory, session_id)
    lease.write_bytes(content)

    with pytest.raises(JournalError, match="open in another process"):
        Journal.open(directory, session_id)
    old = time.time() - 2 * STALE_AFTER
    os.utime(lease, (old, old))
    close(Journal.open(directory, session_id))


def test_a_takeover_that_was_killed_halfway_is_finished(
    directory: Path, without_flock: None, dead_pid: int
) -> None:
    session_id = finished(directory)
    write_lease(directory, session_id, pid=dead_pid)
    guard = directory / "locks" / f"{session_id}.lease.takeover"
    guard.touch()

    with pytest.raises(JournalError, match="another process"):
        Journal.open(directory, session_id)
    old = time.time() - 2 * STALE_AFTER
    os.utime(guard, (old, old))
    close(Journal.open(directory, session_id))
    assert list((directory / "locks").iterdir()) == []


def test_a_lease_is_touched_while_it_is_held(directory: Path, without_flock: None) -> None:
    assert BEAT_EVERY * 3 < STALE_AFTER
    journal = Journal.create(directory, {})
    lease = directory / "locks" / f"{journal.id}.lease"
    journal.sync().result(WITHIN)
    os.utime(lease, (1_000, 1_000))

    journal._spool._beat_at = 0.0  # ten seconds later
    journal.sync().result(WITHIN)
    journal.sync().result(WITHIN)  # the one before may end within the round that beats

    assert lease.stat().st_mtime > 1_000
    close(journal)


def test_who_lost_its_lease_stops_writing(directory: Path, without_flock: None) -> None:
    """A laptop that slept for longer than a lease lasts must not write beside the new owner."""
    journal = Journal.create(directory, {})
    journal.append("user", {})
    journal.sync().result(WITHIN)
    assert journal.path is not None
    lease = write_lease(directory, journal.id, host="node-7")
    before = journal.path.read_bytes()

    journal._spool._beat_at = 0.0
    journal.append("update", {"late": True})
    journal.sync().result(WITHIN)

    assert "is open in process" in (journal.problem or "")
    assert "on node-7" in (journal.problem or "")
    assert journal.path.read_bytes() == before
    close(journal)
    assert lease.exists()


def test_nobody_continues_what_another_wrote_meanwhile(
    directory: Path, without_flock: None
) -> None:
    """Two stories under the same numbers would hide each other."""
    journal = Journal.create(directory, {})
    journal.sync().result(WITHIN)
    assert journal.path is not None
    lease = write_lease(directory, journal.id, host="node-7")
    journal._spool._beat_at = 0.0
    journal.append("update", {"n": 1})
    journal.sync().result(WITHIN)

    with journal.path.open("ab") as theirs:
        theirs.write(b'{"v":1,"seq":1,"t":0,"k":"theirs"}\n')
    lease.unlink()
    for _ in range(2):
        journal.sync().result(WITHIN)

    assert "was continued by another process" in (journal.problem or "")
    close(journal)
    assert [record["k"] for record in read_records(journal.path).records] == ["theirs"]


def test_a_lock_that_vanished_is_taken_again(directory: Path, either_way: None) -> None:
    """Somebody tidied up: another process must still be kept out."""
    journal = Journal.create(directory, {})
    journal.sync().result(WITHIN)
    for lock in (directory / "locks").iterdir():
        lock.unlink()
    journal.append("user", {})
    journal.sync().result(WITHIN)

    assert journal.problem is None
    with pytest.raises(JournalError, match=f"process {os.getpid()} "):
        Journal.open(directory, journal.id)
    close(journal)


def test_who_took_the_session_over_keeps_it(directory: Path, either_way: None) -> None:
    journal = Journal.create(directory, {})
    journal.sync().result(WITHIN)
    for lock in (directory / "locks").iterdir():
        lock.unlink()
    other = Journal.open(directory, journal.id)
    other.append("user", {"by": "other"})
    other.sync().result(WITHIN)

    journal.sync().result(WITHIN)
    journal.append("user", {"by": "first"})
    journal.sync().result(WITHIN)

    assert "is open in process" in (journal.problem or "")
    assert other.problem is None
    close(other, journal)
    assert journal.path is not None
    assert [record["by"] for record in read_records(journal.path).records] == ["other"]


def test_a_planted_owner_cannot_write_on_the_screen(directory: Path, without_flock: None) -> None:
    """FAULTS T8: the error names hosts, not escape sequences."""
    session_id = finished(directory)
    write_lease(directory, session_id, host="\x1b]0;pwned\x07" + "x" * 5_000, since="\u202enow")

    with pytest.raises(JournalError) as refused:
        Journal.open(directory, session_id)

    assert "\x1b" not in str(refused.value)
    assert "\u202e" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_pipe_for_a_lock_does_not_hang(directory: Path) -> None:
    """FAULTS T22."""
    session_id = finished(directory)
    os.mkfifo(directory / "locks" / f"{session_id}.lock")

    journal = Journal.open(directory, session_id)
    journal.append("user", {})
    close(journal)

    assert "is not a regular file" in (journal.problem or "")


def test_an_interrupt_does_not_reach_the_writer(directory: Path) -> None:
    """FAULTS K4: SIGINT in a cell is the main thread's affair."""
    journal = Journal.create(directory, {})
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        journal.append("user", {})
    journal.sync().result(WITHIN)

    assert journal.problem is None
    close(journal)
