"""What the journal thread does for one journal: write, sync, and get over a disk that fails.

A disk problem never reaches the session. Lines wait in memory, the attempt is repeated with growing
pauses and at every sync point, and `Spool.problem` says what is wrong until it is not any more.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from silo_nb.errors import JournalError
from silo_nb.journal.encoding import Encoder, envelope
from silo_nb.journal.file import Fate, JournalFile
from silo_nb.journal.layout import create_directories
from silo_nb.journal.lock import Lock, acquire
from silo_nb.journal.outbox import FAILING_BYTES, PATIENT_BYTES, Line, Mark, Outbox
from silo_nb.journal.reader import last_seq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from silo_nb.journal.source import Copying

Durability: TypeAlias = Literal["turn", "none", "record"]

FLUSH_SECONDS = 0.2
"""How long streamed text may wait for more: it is written within 250 ms, on a busy machine too."""

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 30.0

_log = logging.getLogger("silo_nb.journal")


class Spool:
    """The disk side of one journal.

    Args:
        directory: the ``.silo_nb`` it lives in.
        session_id: our own id.
        is_new: whether the file is still to be made.
        encoder: makes lines of the records that are written here.
        durability: when to sync: at sync points, after every batch of records, never.
        flush: moves text that still waits for more into the outbox.

    Attributes:
        header: the first line, for whenever the file has to be made.
        copying: what makes the file when it begins with another session's records.
        expected_size: of a file that was read without its lock, in bytes.
        urgent: whether a record waits that must not wait for long.
        flush_at: when streamed text has waited long enough, on `time.monotonic`.
    """

    def __init__(
        self,
        directory: Path,
        session_id: str,
        *,
        is_new: bool,
        encoder: Encoder,
        durability: Durability,
        flush: Callable[[], None],
    ) -> None:
        self.header = b""
        self.copying: Copying | None = None
        self.expected_size: int | None = None
        self.problem: str | None = None
        self.on_problem: Callable[[str | None], None] | None = None
        self.path: Path | None = None
        self.is_closed = False
        self.outbox = Outbox(self._gap_line)
        self.urgent = False
        self.flush_at: float | None = None
        self._directory = directory
        self._session_id = session_id
        self._is_new = is_new
        self._encoder = encoder
        self._durability = durability
        self._flush = flush
        self._file = JournalFile(directory, session_id)
        self._lock: Lock | None = None
        self._beat_at: float | None = None
        self._retry_at: float | None = None
        self._pause = _FIRST_PAUSE
        self._rescue: list[bytes] | None = None
        # Written but not yet synced: a network disk reports a full quota only at the sync, and
        # then the data is gone.
        self._unsynced: deque[Line] = deque()
        self._unsynced_size = 0

    def start(self) -> None:
        """Try to open the file, on the thread that makes the journal.

        Raises:
            JournalError: somebody else writes this session.
            FileExistsError: a new journal's file is there already.
        """
        try:
            if self.copying is None:
                self._open()
            else:
                self._claim()
        except (OSError, JournalError) as error:
            is_hopeless = isinstance(error, FileExistsError) and self._is_new
            if is_hopeless or isinstance(error, JournalError):
                self.stop()
                raise
            self._fail(error)

    def stop(self) -> None:
        """Undo `start`."""
        self._end_copying()
        self._file.close()
        self._release()

    def due(self) -> float | None:
        """Return when `service` has something to do, on `time.monotonic`; None for never."""
        if self.urgent:
            return 0.0
        times = (self._retry_at, self.flush_at, self._beat_at)
        return min((when for when in times if when is not None), default=None)

    def service(self) -> None:
        """Do what is due, on the journal thread; a disk that fails is no exception here."""
        now = time.monotonic()
        write, self.urgent = self.urgent, False
        if self.flush_at is not None and now >= self.flush_at:
            self.flush_at = None
            self._flush()
            write = True
        if self._retry_at is not None:
            write = now >= self._retry_at or self.outbox.marks > 0
        try:
            if self._beat_at is not None and now >= self._beat_at:
                self._beat(now)
            if write:
                self._write_out()
        except (OSError, JournalError) as error:
            self._fail(error)

    def abandon(self, error: Exception) -> None:
        """Settle everybody who waits, after an error that is not the disk's."""
        self._fail(error)

    def _open(self) -> None:
        self._claim()
        if self.copying is not None:
            if not self.copying.step(self._file):
                self.urgent = True  # the other journals have their turn between two steps
                return
            self.copying = None
        elif self._is_new:
            self._file.create(self.header)
            self._is_new = False
        else:
            self._file.open(self.expected_size)
            self.expected_size = None
        self.path = self._file.path

    def _claim(self) -> None:
        """Get everything ready for the file to be made or opened."""
        create_directories(self._directory)
        self._acquire()
        if self._is_new and self.copying is not None:
            self._file.must_be_missing()
            self._is_new = False

    def _write_out(self) -> None:
        if self._rescue is not None:
            self._write_anew(self._rescue)
        if not self._file.is_open:
            self._open()
            if not self._file.is_open:
                return
        elif self._lock is None:
            self._regain_lock()
        while any(batch := self.outbox.take()):
            if batch.lines:
                self._write(batch.lines, batch.marks)
            if batch.marks:
                self._settle(batch.marks)
            elif self._durability == "record":
                self._sync()
        if self._retry_at is not None and self._durability != "none":
            self._sync()
        self._recover()

    def _write(self, lines: list[Line], marks: list[Mark]) -> None:
        taken, error = self._file.append(b"".join(line.data for line in lines))
        if error is not None:
            self.outbox.restore(_unwritten(lines, taken), marks)
            raise error
        if self._durability != "none":
            self._retain(lines)

    def _settle(self, marks: list[Mark]) -> None:
        try:
            self._check(marks[-1])
            if self._durability != "none":
                self._sync()
        except Exception:
            self.outbox.restore((), marks)
            raise
        self._recover()  # first: who waits for the marks asks for the problem next
        self._resolve(marks)

    def _check(self, mark: Mark) -> None:
        """Notice, and mend, what others did to the file since the last sync point."""
        fate = self._file.fate()
        self.path = self._file.path
        if fate is Fate.MOVED:
            self._directory = self._file.directory
            if self._lock is not None:
                self._lock.directory = self._directory
            return
        if fate is not Fate.HERE:
            _log.warning("the journal %s was %s by others", self.path, fate.value)
        if fate is Fate.GONE or (fate is not Fate.HERE and mark.records is not None):
            self._write_anew(list(self._anew(mark, fate)))
        elif fate is not Fate.HERE:
            self._go_on(mark, fate)
        elif self._lock is None or not self._lock.is_intact():
            self._regain_lock()

    def _anew(self, mark: Mark, fate: Fate) -> Iterator[bytes]:
        """Yield the lines of a new file: the session as it was at the mark.

        Its records take the numbers that end at the mark, below zero if need be: the lines that
        wait behind the mark have theirs already.
        """
        yield self.header
        records = self._told_until(mark)
        if records is None:
            yield self._gap_line(1, mark.seq, f"the file was {fate.value}")
            return
        for seq, (kind, fields) in enumerate(records, mark.seq - len(records) + 1):
            yield self._encoder.line(envelope(seq, kind, fields))

    def _told_until(self, mark: Mark) -> list[tuple[str, Mapping[str, Any]]] | None:
        try:
            return None if mark.records is None else list(mark.records)
        except Exception:  # noqa: BLE001 - the caller's code; a gap on record is better than none
            _log.exception("the checkpoint for %s failed", self._file.path)
            return None

    def _write_anew(self, lines: list[bytes]) -> None:
        self._rescue = lines  # until it is done: the next attempt needs no new mark
        create_directories(self._directory)
        if self._lock is None or not self._lock.is_intact():
            self._release()
            self._acquire()
        self._file.replace(lines)
        self._rescue = None
        self.path = self._file.path

    def _go_on(self, mark: Mark, fate: Fate) -> None:
        """Continue in a damaged file, saying which records it lost."""
        self._file.open()
        first = last_seq(self._file.path) + 1
        if first <= mark.seq:
            gap = self._gap_line(first, mark.seq, f"the file was {fate.value}")
            self._write([Line(first, mark.seq, gap)], [])

    def _sync(self) -> None:
        try:
            self._file.sync()
        except OSError:
            self.outbox.restore(self._unsynced)
            raise
        finally:
            self._unsynced.clear()
            self._unsynced_size = 0

    def _retain(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._unsynced.append(line)
            self._unsynced_size += len(line.data)
        while self._unsynced_size > FAILING_BYTES:
            self._unsynced_size -= len(self._unsynced.popleft().data)

    def _acquire(self) -> None:
        if self._lock is None:
            self._lock = acquire(self._directory, self._session_id)
            every = self._lock.beat_every
            self._beat_at = None if every is None else time.monotonic() + every

    def _regain_lock(self) -> None:
        """Take the lock again, unless somebody wrote while we had none."""
        self._release()
        self._acquire()
        self.expected_size = self._file.size
        self._file.expect(self.expected_size)
        self.expected_size = None

    def _end_copying(self) -> None:
        copying, self.copying = self.copying, None
        if copying is not None:
            copying.close()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        self._beat_at = None
        if lock is not None:
            lock.release()

    def _beat(self, now: float) -> None:
        if self._lock is None or self._lock.beat_every is None:
            return
        self._beat_at = now + self._lock.beat_every
        try:
            self._lock.beat()
        except JournalError:
            self._release()
            raise

    def _fail(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self.outbox.limit = FAILING_BYTES
        self._report(_explain(error, self._file.path))
        self._resolve(self.outbox.take_marks())

    def _recover(self) -> None:
        if self._retry_at is None:
            return
        self._retry_at = None
        self._pause = _FIRST_PAUSE
        self.outbox.limit = PATIENT_BYTES
        self._report(None)

    def _resolve(self, marks: list[Mark]) -> None:
        if any(mark.closing for mark in marks):
            self._end_copying()
            self._file.close()
            self._release()
            self.flush_at = self._retry_at = None
            self.is_closed = True
        for mark in marks:
            if mark.done.set_running_or_notify_cancel():
                mark.done.set_result(None)

    def _report(self, problem: str | None) -> None:
        known, self.problem = self.problem, problem
        if self.on_problem is None or (known is None) == (problem is None):
            return
        try:
            self.on_problem(problem)
        except Exception:  # noqa: BLE001 - the caller's code; the journal goes on whatever it does
            _log.exception("the on_problem hook of %s failed", self._file.path)

    def _gap_line(self, first: int, last: int, why: str = "the disk did not take them") -> bytes:
        return self._encoder.line(envelope(last, "gap", {"from": first, "to": last, "why": why}))


def _unwritten(lines: list[Line], taken: int) -> list[Line]:
    """Return the lines that are not wholly within the bytes the system took."""
    for index, line in enumerate(lines):
        taken -= len(line.data)
        if taken < 0:
            return lines[index:]
    return []


def _explain(error: Exception, path: Path) -> str:
    what = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    where = error.filename if isinstance(error, OSError) and error.filename else path
    return (
        f"not journaled: {where}: {what}. The session goes on; its latest "
        f"{FAILING_BYTES >> 20} MiB are kept in memory and written when the disk takes them"
    )
