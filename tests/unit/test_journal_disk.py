"""T-10: a disk that fails costs one line of explanation, and no turn.

Faults are made where the system makes them: `os.write` and `os.fdatasync` fail for journal files
only; full and read-only disks are real ones where the tests may mount them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from silo_nb.journal import Journal, Reading, find_session, journal_directory, read_records
from silo_nb.journal.outbox import FAILING_BYTES

WITHIN = 10


class Disk:
    """Between the journals of this process and the system: takes what it is told to take."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at_once = 1 << 30
        self.room = 1 << 40
        self.error = errno.ENOSPC
        self.sync_error = 0
        self._write, self._sync = os.write, os.fdatasync
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "fdatasync", self.sync)

    def write(self, fd: int, data: bytes) -> int:
        if not str(Path(f"/proc/self/fd/{fd}").readlink()).endswith(".jsonl"):
            return self._write(fd, data)
        allowed = min(len(data), self.at_once, self.room)
        if allowed == 0:
            raise OSError(self.error, os.strerror(self.error))
        self.room -= allowed
        return self._write(fd, data[:allowed])

    def sync(self, fd: int) -> None:
        if self.sync_error:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        self._sync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


class Problems:
    """What a journal said about the disk, and when it had said so much."""

    def __init__(self) -> None:
        self.said: list[str | None] = []
        self._spoken = threading.Condition()

    def __call__(self, problem: str | None) -> None:
        with self._spoken:
            self.said.append(problem)
            self._spoken.notify_all()

    def wait_for(self, count: int) -> None:
        with self._spoken:
            assert self._spoken.wait_for(lambda: len(self.said) >= count, WITHIN)


@pytest.fixture
def problems() -> Problems:
    return Problems()


@pytest.fixture
def start(tmp_path: Path, problems: Problems) -> Iterator[Callable[..., Journal]]:
    with contextlib.ExitStack() as opened:

        def start(where: Path = tmp_path, **options: Any) -> Journal:
            journal = Journal.create(
                journal_directory(where), {"profileId": "demo"}, on_problem=problems, **options
            )
            opened.callback(lambda: journal.close().result(WITHIN))
            return journal

        yield start


def sync(journal: Journal) -> None:
    journal.sync().result(WITHIN)


def read(journal: Journal) -> Reading:
    assert journal.path is not None
    return read_records(journal.path)


def said(reading: Reading) -> list[Any]:
    return [record.get("n") for record in reading.records]


def test_short_writes_are_continued(disk: Disk, start: Callable[..., Journal]) -> None:
    """FAULTS D1: a write may be short without an error."""
    disk.at_once = 7
    journal = start()
    for n in range(50):
        journal.append("update", {"n": n, "filler": "x" * n})
    sync(journal)

    assert said(read(journal)) == list(range(50))
    assert read(journal).bad_lines == 0
    assert journal.problem is None


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("room", [0, 1, 40, 95, 96, 97, 200])
def test_what_a_full_disk_refused_is_written_when_it_recovers(
    disk: Disk, start: Callable[..., Journal], problems: Problems, fault: int, room: int
) -> None:
    """FAULTS D1: one banner, nothing lost, at most the torn line is left as damage."""
    journal = start()
    sync(journal)
    disk.room, disk.error = room, fault
    for n in range(20):
        journal.append("update", {"n": n, "text": "and so on, and so on"})
        sync(journal)  # is done though the disk failed

    (banner,) = problems.said
    assert banner is not None
    assert (journal.problem or "") == banner
    assert os.strerror(fault) in banner
    assert str(journal.path) in banner

    disk.room = 1 << 40
    sync(journal)

    assert journal.problem is None
    assert len(problems.said) == 2
    assert problems.said[1] is None
    assert said(read(journal)) == list(range(20))
    assert read(journal).bad_lines <= 1


def test_the_disk_is_tried_again_without_being_asked(
    disk: Disk, start: Callable[..., Journal], problems: Problems
) -> None:
    journal = start()
    disk.room = 0
    journal.append("user", {"n": 0})
    problems.wait_for(1)
    disk.room = 1 << 40
    problems.wait_for(2)

    assert said(read(journal)) == [0]


def test_a_sync_that_fails_writes_again_what_it_may_have_lost(
    disk: Disk, start: Callable[..., Journal], problems: Problems
) -> None:
    """Network disks take a write and report the full quota at the sync, when the data is gone."""
    journal = start()
    journal.append("user", {"n": 0})
    sync(journal)
    disk.sync_error = errno.EDQUOT
    for n in (1, 2):
        journal.append("update", {"n": n})
    sync(journal)
    assert journal.path is not None
    assert "quota" in (journal.problem or "")

    lost = journal.path.read_bytes().splitlines(keepends=True)[:2]
    journal.path.write_bytes(b"".join(lost))
    disk.sync_error = 0
    journal.append("update", {"n": 3})
    sync(journal)

    assert said(read(journal)) == [0, 1, 2, 3]
    assert problems.said[1:] == [None]


def test_records_written_twice_are_read_once(disk: Disk, start: Callable[..., Journal]) -> None:
    """Idempotence comes from the numbers."""
    journal = start()
    sync(journal)
    disk.sync_error = errno.EIO
    journal.append("user", {"n": 0})
    sync(journal)
    disk.sync_error = 0
    sync(journal)

    assert said(read(journal)) == [0]
    assert read(journal).duplicates == 1


def test_a_disk_that_is_full_from_the_start(
    disk: Disk, start: Callable[..., Journal], tmp_path: Path
) -> None:
    """FAULTS D1: memory only, then the whole story."""
    disk.room = 10
    journal = start()
    journal.append("user", {"n": 0})

    assert journal.path is None
    assert journal.problem is not None
    assert list((tmp_path / ".silo_nb" / "sessions").iterdir()) == []

    disk.room = 1 << 40
    sync(journal)

    assert read(journal).header == journal.header
    assert said(read(journal)) == [0]
    assert journal.problem is None


def test_memory_is_bounded_and_the_gap_is_on_record(
    disk: Disk, start: Callable[..., Journal]
) -> None:
    """FAULTS D1: 16 MiB are kept; what had to go is named."""
    journal = start()
    journal.append("user", {"n": 0})
    sync(journal)
    disk.room = 0
    journal.append("update", {"n": 1})
    sync(journal)
    for n in range(2, 50):
        journal.append("update", {"n": n, "filler": "x" * 500_000})
        assert journal._spool.outbox.size <= FAILING_BYTES
    disk.room = 1 << 40
    sync(journal)

    first, gap, *rest = read(journal).records

    assert (first["n"], gap["k"], gap["from"]) == (0, "gap", 2)
    assert gap["to"] == gap["seq"] == rest[0]["seq"] - 1
    assert [record["n"] for record in rest] == list(range(rest[0]["n"], 50))
    assert len(rest) > 25


def test_closing_over_a_dead_disk_ends(disk: Disk, start: Callable[..., Journal]) -> None:
    journal = start()
    disk.room = 0
    journal.append("user", {})

    journal.close().result(WITHIN)

    assert journal.problem is not None
    assert list((journal_directory_of(journal) / "locks").iterdir()) == []


def journal_directory_of(journal: Journal) -> Path:
    assert journal.path is not None
    return journal.path.parents[1]


def test_a_hook_that_raises_harms_nothing(
    disk: Disk, start: Callable[..., Journal], caplog: pytest.LogCaptureFixture
) -> None:
    """FAULTS K15."""

    def raises(problem: str | None) -> None:
        raise RuntimeError(problem)

    journal = start()
    journal.on_problem = raises
    disk.room = 0
    journal.append("user", {"n": 0})
    sync(journal)
    disk.room = 1 << 40
    sync(journal)

    assert said(read(journal)) == [0]
    assert "on_problem hook" in caplog.text


# Real disks.


@contextlib.contextmanager
def mounted(where: Path, *options: str) -> Iterator[Path]:
    """Mount a small file system, or skip, saying so."""
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(where)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED on a real disk: mounting is not possible here: {done.stderr}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


@contextlib.contextmanager
def sealed(where: Path) -> Iterator[Path]:
    """Make a directory nobody can write to: by its mode, or, for root, by a read-only mount."""
    where.mkdir()
    where.chmod(0o555)
    if not os.access(where, os.W_OK):
        yield where
        return
    where.rmdir()
    with mounted(where, "ro"):
        yield where


def test_a_real_disk_that_fills_up_and_is_cleared(
    start: Callable[..., Journal], tmp_path: Path, problems: Problems
) -> None:
    """FAULTS §4.9: 256 KiB of tmpfs."""
    with mounted(tmp_path / "disk", "size=256k") as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(128 << 10))
        journal = start(small)
        for n in range(200):
            journal.append("update", {"n": n, "filler": "x" * 1_000})
        sync(journal)
        assert "No space left on device" in (journal.problem or "")

        ballast.unlink()
        sync(journal)

        assert journal.problem is None
        assert said(read(journal)) == list(range(200))
        assert read(journal).bad_lines <= 1
        assert len(problems.said) == 2
        journal.close().result(WITHIN)


def test_a_real_disk_without_room_for_the_first_line(
    start: Callable[..., Journal], tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", "size=64k") as small:
        ballast = small / "ballast"
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(128 << 10))
        journal = start(small)
        journal.append("user", {"n": 0})
        sync(journal)
        assert journal.problem is not None

        ballast.unlink()
        sync(journal)

        assert said(read(journal)) == [0]
        journal.close().result(WITHIN)


def test_a_read_only_directory_means_no_journal(
    start: Callable[..., Journal], tmp_path: Path
) -> None:
    """FAULTS D2: the session works, and is told."""
    with sealed(tmp_path / "disk") as place:
        journal = start(place)
        number = journal.append("user", {})
        sync(journal)
        journal.close().result(WITHIN)

    assert number == 1
    assert journal.path is None
    assert "not journaled" in (journal.problem or "")
    assert re.search("Read-only file system|Permission denied", journal.problem or "")


def test_a_session_whose_disk_became_read_only_can_still_be_told(
    start: Callable[..., Journal], tmp_path: Path
) -> None:
    """FAULTS D2 for an existing journal: read, numbered on, kept in memory, written later."""
    with mounted(tmp_path / "disk", "size=1m") as place:
        journal = start(place)
        journal.append("user", {"n": 0})
        journal.close().result(WITHIN)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)

        again = Journal.open(journal_directory(place), journal.id)
        assert again.append("user", {"n": 1}) == 2
        assert again.path is None
        assert again.problem is not None

        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        sync(again)
        assert said(read(again)) == [0, 1]
        again.close().result(WITHIN)


def test_a_missing_notebook_directory_is_not_made(
    start: Callable[..., Journal], tmp_path: Path
) -> None:
    journal = start(tmp_path / "gone")

    assert journal.path is None
    assert "No such file or directory" in (journal.problem or "")
    assert not (tmp_path / "gone").exists()


# What others do to the file.


class Story:
    """A session that can tell itself again, as one can with an immutable transcript."""

    def __init__(self, start: Callable[..., Journal], **options: Any) -> None:
        self.told: tuple[int, ...] = ()
        self.journal = start(checkpoint=self.checkpoint, **options)

    def checkpoint(self) -> Iterator[tuple[str, dict[str, Any]]]:
        told = self.told  # bound now, though the rest runs later
        return (("update", {"n": n, "again": True}) for n in told)

    def tell(self, n: int) -> None:
        self.journal.append("update", {"n": n})
        self.told += (n,)


def delete_file(path: Path) -> None:
    path.unlink()


def delete_everything(path: Path) -> None:
    shutil.rmtree(path.parents[1])


def delete_the_locks_too(path: Path) -> None:
    path.unlink()
    shutil.rmtree(path.parents[1] / "locks")


def move_to_trash(path: Path) -> None:
    path.rename(path.parents[2] / "trash")


def truncate(path: Path) -> None:
    os.truncate(path, 150)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def save_from_an_editor(path: Path) -> None:
    edited = path.with_suffix(".swp")
    edited.write_bytes(path.read_bytes()[:-30] + b" edited")
    edited.replace(path)


def plant_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    "harm",
    [
        delete_file,
        delete_everything,
        delete_the_locks_too,
        move_to_trash,
        truncate,
        empty,
        save_from_an_editor,
        plant_a_link,
    ],
)
def test_a_journal_that_others_damaged_is_told_again(
    start: Callable[..., Journal], harm: Callable[[Path], None]
) -> None:
    """FAULTS D8, D9: noticed at the next sync point; nothing of the session is lost."""
    story = Story(start)
    for n in range(3):
        story.tell(n)
    sync(story.journal)
    path = story.journal.path
    assert path is not None

    harm(path)
    story.tell(3)
    done = story.journal.sync()
    story.tell(4)  # on its way when the loss is noticed: not told twice
    done.result(WITHIN)
    sync(story.journal)

    reading = read(story.journal)
    assert story.journal.path == path
    assert not path.is_symlink()
    assert reading.header == story.journal.header
    assert said(reading) == [0, 1, 2, 3, 4]
    assert (reading.bad_lines, story.journal.problem) == (0, None)
    assert [record["seq"] for record in reading.records] == [1, 2, 3, 4, 5]


def test_what_others_made_of_the_file_is_kept_beside_it(start: Callable[..., Journal]) -> None:
    story = Story(start)
    story.tell(0)
    sync(story.journal)
    path = story.journal.path
    assert path is not None

    save_from_an_editor(path)
    edited = path.read_bytes()
    sync(story.journal)

    assert path.with_name(f"{path.name}.bak1").read_bytes() == edited
    assert find_session(path.parents[1], story.journal.id) == path


def test_a_checkpoint_longer_than_the_history_keeps_its_order(
    start: Callable[..., Journal],
) -> None:
    story = Story(start)
    story.told = tuple(range(100, 110))
    story.tell(0)
    sync(story.journal)
    assert story.journal.path is not None
    story.journal.path.unlink()
    sync(story.journal)
    story.tell(1)
    sync(story.journal)

    assert said(read(story.journal)) == [*range(100, 110), 0, 1]


def test_a_full_disk_while_telling_again_is_survived(
    disk: Disk, start: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(start)
    story.tell(0)
    sync(story.journal)
    path = story.journal.path
    assert path is not None
    path.unlink()

    with monkeypatch.context() as full:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(os, "rename", refuse)
        sync(story.journal)
        story.tell(1)
        sync(story.journal)
        assert "No space left" in (story.journal.problem or "")
    sync(story.journal)

    assert story.journal.problem is None
    assert said(read(story.journal)) == [0, 1]


def test_a_checkpoint_that_fails_leaves_a_gap(
    start: Callable[..., Journal], caplog: pytest.LogCaptureFixture
) -> None:
    def checkpoint() -> Iterator[tuple[str, dict[str, Any]]]:
        yield "update", {}
        raise RuntimeError("out of words")

    journal = start(checkpoint=checkpoint)
    journal.append("update", {"n": 0})
    sync(journal)
    assert journal.path is not None
    journal.path.unlink()
    sync(journal)

    assert [record["k"] for record in read(journal).records] == ["gap"]
    assert "out of words" in caplog.text


def test_without_a_checkpoint_the_loss_is_on_record(start: Callable[..., Journal]) -> None:
    """FAULTS D8: a journal nobody can tell again says what it lost, and goes on."""
    journal = start()
    for n in range(3):
        journal.append("update", {"n": n})
    sync(journal)
    assert journal.path is not None
    journal.path.unlink()
    sync(journal)
    journal.append("update", {"n": 3})
    sync(journal)

    gap, record = read(journal).records
    assert (gap["k"], gap["from"], gap["to"]) == ("gap", 1, 3)
    assert gap["why"] == "the file was deleted"
    assert record["n"] == 3


@pytest.mark.parametrize("harm", [truncate, empty, save_from_an_editor])
def test_without_a_checkpoint_what_is_left_is_kept(
    start: Callable[..., Journal], harm: Callable[[Path], None]
) -> None:
    """FAULTS D9."""
    journal = start()
    for n in range(3):
        journal.append("update", {"n": n})
    sync(journal)
    assert journal.path is not None
    harm(journal.path)
    kept = said(read(journal))
    sync(journal)
    journal.append("update", {"n": 3})
    sync(journal)

    reading = read(journal)
    (gap,) = [record for record in reading.records if record["k"] == "gap"]
    assert [n for n in said(reading) if n is not None] == [*kept, 3]
    assert (gap["from"], gap["to"]) == (len(kept) + 1, 3)
    assert reading.bad_lines <= 1


def test_a_renamed_directory_is_followed(start: Callable[..., Journal], tmp_path: Path) -> None:
    """FAULTS D10: the journal moves with its notebook; the old place stays gone."""
    old, new = tmp_path / "analysis", tmp_path / "analysis-2"
    old.mkdir()
    journal = start(old)
    journal.append("update", {"n": 0})
    sync(journal)

    old.rename(new)
    journal.append("update", {"n": 1})
    sync(journal)
    journal.append("update", {"n": 2})
    sync(journal)

    assert not old.exists()
    assert journal.path == find_session(journal_directory(new), journal.id)
    assert said(read(journal)) == [0, 1, 2]
    assert journal.problem is None


def test_changing_the_working_directory_changes_nothing(
    start: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS K17: where the journal lies is fixed at the session's start."""
    monkeypatch.chdir(tmp_path)
    journal = start(Path())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    journal.append("update", {"n": 0})
    sync(journal)

    assert find_session(journal_directory(tmp_path), journal.id) == journal.path
    assert said(read(journal)) == [0]


def test_made_up_inode_numbers_are_no_replacement(
    start: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some FUSE file systems have a new inode number for every look-up."""
    story = Story(start)
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    monkeypatch.setattr("silo_nb.journal.lock._is_named", lambda *_: True)
    story.tell(0)
    sync(story.journal)
    sync(story.journal)

    assert story.journal.path is not None
    assert [path.suffix for path in story.journal.path.parent.iterdir()] == [".jsonl"]
