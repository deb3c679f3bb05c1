"""The journal of one session, as the session sees it: append, sync, close."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from silo_nb.errors import JournalError
from silo_nb.journal.encoding import TEXT_PIECE_CHARS, Encoder, envelope
from silo_nb.journal.header import CARRIED_BAD_LINES, DISCARDS, DISCARDS_BYTES, new_header
from silo_nb.journal.ids import checked_session_id, new_session_id
from silo_nb.journal.layout import no_journal, session_path
from silo_nb.journal.outbox import Line, Mark
from silo_nb.journal.reader import last_seq, read_beginning, refuse_newer
from silo_nb.journal.source import Copying, Source
from silo_nb.journal.spool import FLUSH_SECONDS, Spool
from silo_nb.journal.writer import writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from silo_nb.journal.options import JournalOptions
    from silo_nb.journal.outbox import Records

RUN_CHARS = 4096
"""Streamed text is written at least this often."""

_URGENT_BYTES = 256 * 1024

_log = logging.getLogger("silo_nb.journal")


class Journal:
    """Appends the records of one session to its file.

    Made with `create` or `open`. Its methods are called from one thread, the agent's; none waits
    for the disk, and none raises because of it: see `problem`. In a forked child, and once it is
    closed, they do nothing.

    Attributes:
        header: the file's first record.
        on_problem: hook, see `JournalOptions`.
    """

    def __init__(
        self, directory: Path, session_id: str, *, is_new: bool, **options: Unpack[JournalOptions]
    ) -> None:
        self.header: Mapping[str, Any] = {}
        self._encoder = Encoder(options.get("redact", ()))
        self._checkpoint = options.get("checkpoint")
        self._seq = 0
        self._pid = os.getpid()
        self._closed: Future[None] | None = None
        # One maker of records at a time: the agent thread, or the journal thread's timer.
        self._lock = threading.Lock()
        # The run: text of one message that waits for more. `append_chunk` adds to it without the
        # lock: only the agent thread adds, only a holder of the lock takes, and the key changes
        # only when all is taken.
        self._parts: deque[str] = deque()
        self._run_kind = ""
        self._run_message = ""
        self._run_synthesized = False
        self._room = RUN_CHARS
        self._has_timer = False
        self._spool = Spool(
            Path(directory).absolute(),
            session_id,
            is_new=is_new,
            encoder=self._encoder,
            durability=options.get("durability", "turn"),
            flush=self._flush_by_timer,
        )
        self._spool.on_problem = options.get("on_problem")

    @classmethod
    def create(
        cls,
        directory: Path,
        header: Mapping[str, Any],
        *,
        source: Source | None = None,
        discards: str | None = None,
        **options: Unpack[JournalOptions],
    ) -> Journal:
        """Begin the journal of a new session.

        Args:
            directory: the ``.silo_nb`` it goes to, see `journal_directory`; made when missing.
            header: what the first line says: ``sessionId``, ``profileId``, ``agentId``,
                ``agentName``, ``cwd`` …; ``id`` and ``createdAt`` are made when missing.
            source: records it begins with, see `silo_nb.journal.carry`.
            discards: our own id of a session in whose place this one is begun; its journal goes
                when `silo_nb.journal.discard` is called, or finished after a crash.
            **options: see `JournalOptions`.

        Returns:
            The journal; with a `problem` and without a `path` when the disk refuses.

        Raises:
            JournalError: the id is not one of ours, or has a journal already.
        """
        session_id = header.get("id") or new_session_id(str(header.get("profileId", "")))
        journal = cls(directory, checked_session_id(session_id), is_new=True, **options)
        intent = _intent(Path(directory), discards)
        journal._use_header(new_header({**header, "id": session_id, **intent}))
        if source is not None:
            journal._begin_with(source)
        try:
            journal._spool.start()
        except FileExistsError as error:
            msg = f"session {session_id!r} has a journal already; continue it with Journal.open"
            raise JournalError(msg) from error
        journal._mark(Future())
        writer().add(journal._spool, journal.close)
        return journal

    @classmethod
    def open(cls, directory: Path, session_id: str, **options: Unpack[JournalOptions]) -> Journal:
        """Continue the journal of a session; a torn last line is ended first.

        Args:
            directory: the ``.silo_nb`` it lies in.
            session_id: our own id; for an agent's id ask `find_session` first.
            **options: see `JournalOptions`.

        Raises:
            JournalError: there is no such journal, it cannot be read, another process writes it
                (the message says which), or a newer silo_nb wrote it.
        """
        path = session_path(Path(directory).absolute(), session_id)
        if not path.exists():
            raise no_journal(path)
        journal = cls(directory, session_id, is_new=False, **options)
        journal._spool.start()
        try:
            journal._go_on_from(path, session_id)
        except JournalError:
            journal._spool.stop()
            raise
        writer().add(journal._spool, journal.close)
        return journal

    @property
    def id(self) -> str:
        """Our own id of the session, which names the file."""
        return str(self.header["id"])

    @property
    def path(self) -> Path | None:
        """Where the file is; None while the disk refuses one, or what was carried is copied."""
        return self._spool.path

    @property
    def problem(self) -> str | None:
        """Why records wait in memory, for people to read; None when all is well."""
        return self._spool.problem

    @property
    def on_problem(self) -> Callable[[str | None], None] | None:
        """Hook for `problem`, see `JournalOptions`."""
        return self._spool.on_problem

    @on_problem.setter
    def on_problem(self, hook: Callable[[str | None], None] | None) -> None:
        self._spool.on_problem = hook

    def append(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Add a record and return its number.

        Args:
            kind: what the record is, its ``k``.
            fields: the rest of it; ``v``, ``seq``, ``t`` and ``k`` are the journal's own.
        """
        if self._is_inert():
            return self._seq
        with self._lock:
            self._flush_run(is_over=True)
            seq = self._put(kind, fields)
        self._hurry()
        return seq

    def append_beside(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Add a record from another thread; streamed text that waits for more goes on waiting."""
        if self._is_inert():
            return
        with self._lock:
            self._flush_run(is_over=False)
            self._put(kind, fields)
        self._hurry()

    def append_chunk(
        self, update_kind: str, message_id: str, text: str, *, synthesized: bool = False
    ) -> None:
        """Add streamed text; what follows of the same message joins it in one record.

        Args:
            update_kind: the update's ``sessionUpdate``.
            message_id: which message the text belongs to.
            text: any part of it.
            synthesized: whether the id is ours: then it is recorded beside the update, as ``m``,
                not inside it as if the agent had sent it.
        """
        if (
            update_kind != self._run_kind
            or message_id != self._run_message
            or synthesized is not self._run_synthesized
        ):
            self._begin_run(update_kind, message_id, synthesized=synthesized)
        self._parts.append(text)
        self._room -= len(text)
        if self._room <= 0 or not self._has_timer:
            self._tend_run()

    def sync(self) -> Future[None]:
        """Make everything appended so far survive a power loss.

        Returns:
            A future that is done when that is so, or when the disk failed: `problem` says which.
        """
        done: Future[None] = Future()
        if self._is_inert():
            done.set_result(None)
        else:
            self._mark(done, self._told_so_far())
        return done

    def close(self) -> Future[None]:
        """Write and sync what is left, and release the lock. Idempotent.

        Returns:
            A future that is done when the file is closed.
        """
        if self._pid != os.getpid():
            done: Future[None] = Future()
            done.set_result(None)
            return done
        with self._lock:
            if self._closed is not None:
                return self._closed
            self._closed = Future()
        self._mark(self._closed, self._told_so_far(), closing=True)
        return self._closed

    def _use_header(self, header: Mapping[str, Any]) -> None:
        self.header = header
        self._spool.header = self._encoder.line(dict(header))

    def _begin_with(self, source: Source) -> None:
        self._seq = source.last_seq
        self._spool.copying = Copying(source, self._encoder, self._carried_header)

    def _carried_header(self, left_behind: int) -> bytes:
        if left_behind:
            self._use_header({**self.header, CARRIED_BAD_LINES: left_behind})
        return self._spool.header

    def _go_on_from(self, path: Path, session_id: str) -> None:
        if not path.exists():  # deleted by the last holder of the lock
            raise no_journal(path)
        reader = read_beginning(path)
        refuse_newer(path, reader)
        self._seq = last_seq(path)
        if self._spool.path is None:
            self._spool.expected_size = path.stat().st_size
        if reader.header is not None:
            self._use_header({**reader.header, "id": session_id})
        else:
            self._use_header(new_header({"id": session_id}))
            self._spool.outbox.put(Line(0, 0, self._spool.header))

    def _is_inert(self) -> bool:
        return self._closed is not None or self._pid != os.getpid()

    def _hurry(self) -> None:
        self._spool.urgent = True
        writer().wake()

    def _told_so_far(self) -> Records | None:
        if self._checkpoint is None:
            return None
        try:
            return self._checkpoint()
        except Exception:  # noqa: BLE001 - the caller's code; a journal goes on without it
            _log.exception("the checkpoint of session %s failed", self.id)
            return None

    def _mark(
        self, done: Future[None], records: Records | None = None, *, closing: bool = False
    ) -> None:
        with self._lock:
            self._flush_run(is_over=True)
            mark = Mark(done=done, seq=self._seq, records=records, closing=closing)
            self._spool.outbox.put_mark(mark)
        self._hurry()

    def _begin_run(self, update_kind: str, message_id: str, *, synthesized: bool) -> None:
        if self._is_inert():
            return
        with self._lock:
            self._flush_run(is_over=True)
            self._run_kind = update_kind
            self._run_message = message_id
            self._run_synthesized = synthesized
        self._room = RUN_CHARS

    def _tend_run(self) -> None:
        if self._is_inert():
            self._parts.clear()
            return
        if self._room <= 0:
            with self._lock:
                self._flush_run(is_over=False)
            self._room = RUN_CHARS
            if self._spool.outbox.size > _URGENT_BYTES:
                self._hurry()
        if not self._has_timer:
            self._has_timer = True
            self._spool.flush_at = time.monotonic() + FLUSH_SECONDS
            writer().wake()

    def _flush_by_timer(self) -> None:
        # In this order: a chunk that is added too late to be taken sees that it needs a timer.
        self._has_timer = False
        with self._lock:
            self._flush_run(is_over=False)

    def _flush_run(self, *, is_over: bool) -> None:
        """Make records of the text that waits; the caller holds the lock.

        While the run goes on, an end that may begin a secret stays behind: halves of a secret in
        two records would not be recognized.
        """
        waiting = len(self._parts)
        if not waiting:
            return
        text = self._encoder.text("".join([self._parts.popleft() for _ in range(waiting)]))
        held = 0 if is_over else self._encoder.may_begin_secret(text)
        if held:
            self._parts.appendleft(text[-held:])
            text = text[:-held]
        for start in range(0, len(text), TEXT_PIECE_CHARS):
            self._put("update", self._chunk(text[start : start + TEXT_PIECE_CHARS]))

    def _chunk(self, text: str) -> dict[str, Any]:
        update: dict[str, Any] = {
            "sessionUpdate": self._run_kind,
            "content": {"type": "text", "text": text},
        }
        if self._run_synthesized:
            return {"m": self._run_message, "u": update}
        update["messageId"] = self._run_message
        return {"u": update}

    def _put(self, kind: str, fields: Mapping[str, Any]) -> int:
        seq = self._seq = self._seq + 1
        self._spool.outbox.put(Line(seq, seq, self._encoder.line(envelope(seq, kind, fields))))
        return seq


def _intent(directory: Path, discards: str | None) -> dict[str, Any]:
    """Return what a header says of the session it shall replace, if that has a journal."""
    if discards is None:
        return {}
    try:
        size = session_path(directory, discards).lstat().st_size
    except OSError:
        return {}
    return {DISCARDS: discards, DISCARDS_BYTES: size}
