"""Compaction: one record where a message was written in many. Only ever on request.

An append-only file is never wrong for being long; rewriting files is how others lost theirs. So
the old one stays, as a backup.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from silo_nb.errors import JournalError
from silo_nb.journal.encoding import TEXT_PIECE_CHARS, Encoder
from silo_nb.journal.file import JournalFile
from silo_nb.journal.header import new_header
from silo_nb.journal.layout import create_directories, no_journal, session_path
from silo_nb.journal.lock import acquire
from silo_nb.journal.reader import RecordReader, read_beginning, refuse_newer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_CHUNK_KEYS = {"sessionUpdate", "content", "messageId"}
_RECORD_KEYS = {"v", "seq", "t", "k", "u", "m"}
_CONTENT_KEYS = {"type", "text"}


def compact(directory: Path, session_id: str) -> None:
    """Write a session's journal anew, with the streamed text of each message joined.

    Damaged lines are left out. The old file is kept beside the new one, as
    ``<session id>.jsonl.bak1`` or the next that is free.

    Args:
        directory: the ``.silo_nb`` it lies in.
        session_id: our own id; for an agent's id ask `find_session` first.

    Raises:
        JournalError: there is no such journal, it cannot be read, another process writes it (the
            message says which), a newer silo_nb wrote it, or the disk refuses.
    """
    path = session_path(directory, session_id)
    if not path.exists():
        raise no_journal(path)
    try:
        create_directories(directory)
        lock = acquire(directory, session_id)
        try:
            _rewrite(directory, session_id)
        finally:
            lock.release()
    except OSError as error:
        msg = f"{str(path)!r} cannot be compacted: {error.strerror or error}"
        raise JournalError(msg) from error


def joined(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records with adjacent text chunks of one message joined, under the last one's number.

    Chunks that say more than text, and those without a message id, stay as they are.

    >>> def record(seq, text):
    ...     content = {"type": "text", "text": text}
    ...     update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "m"}
    ...     return {"v": 1, "seq": seq, "t": 0, "k": "update", "u": update}
    >>> [(r["seq"], r["u"]["content"]["text"]) for r in joined([record(1, "a"), record(2, "b")])]
    [(2, 'ab')]
    """
    run = _Run()
    for record in records:
        chunk = _chunk(record)
        if not run.may_take(chunk):
            yield from run.end()
        if chunk is None:
            yield record
        else:
            run.take(record, chunk)
    yield from run.end()


class _Chunk(NamedTuple):
    message: tuple[Any, ...]
    text: str


class _Run:
    """Adjacent chunks of one message."""

    def __init__(self) -> None:
        self._message: tuple[Any, ...] = ()
        self._records: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._size = 0

    def may_take(self, chunk: _Chunk | None) -> bool:
        if chunk is None or chunk.message != self._message:
            return False
        return self._size + len(chunk.text) <= TEXT_PIECE_CHARS

    def take(self, record: dict[str, Any], chunk: _Chunk) -> None:
        self._message = chunk.message
        self._records.append(record)
        self._texts.append(chunk.text)
        self._size += len(chunk.text)

    def end(self) -> Iterator[dict[str, Any]]:
        records, texts = self._records, self._texts
        self._records, self._texts, self._message, self._size = [], [], (), 0
        if not records:
            return
        last = records[-1]
        content = {"type": "text", "text": "".join(texts)}
        yield {**last, "t": records[0]["t"], "u": {**last["u"], "content": content}}


def _chunk(record: dict[str, Any]) -> _Chunk | None:
    """Return what a record adds to a message, if it does nothing else."""
    update = record.get("u")
    if record["k"] != "update" or record.keys() - _RECORD_KEYS or not isinstance(update, dict):
        return None
    content, message_id, made_up = update.get("content"), update.get("messageId"), record.get("m")
    if update.keys() - _CHUNK_KEYS or not isinstance(content, dict):
        return None
    if content.keys() != _CONTENT_KEYS or content["type"] != "text":
        return None
    text = content["text"]
    if not isinstance(text, str) or (message_id is None and made_up is None):
        return None
    return _Chunk((update.get("sessionUpdate"), message_id, made_up), text)


def _rewrite(directory: Path, session_id: str) -> None:
    path = session_path(directory, session_id)
    beginning = read_beginning(path)
    refuse_newer(path, beginning)
    header = beginning.header or new_header({"id": session_id})
    encoder = Encoder()
    file = JournalFile(directory, session_id)
    try:
        file.replace(map(encoder.line, chain([header], joined(RecordReader(path)))))
        file.sync()
    finally:
        file.close()
