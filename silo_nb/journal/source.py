"""Another session's records, as the beginning of a new one's file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from silo_nb.errors import JournalError
from silo_nb.journal.descriptors import close_private
from silo_nb.journal.reader import (
    RecordReader,
    last_seq,
    open_to_read,
    read_beginning,
    refuse_newer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from silo_nb.journal.encoding import Encoder
    from silo_nb.journal.file import JournalFile

_PIECE_BYTES = 1 << 20


class Source:
    """What a journal holds at this moment; what becomes of the file later changes nothing.

    Args:
        path: the ``.jsonl`` file; a missing one holds nothing.

    Attributes:
        last_seq: the highest record number near its end; 0 when it has none.

    Raises:
        JournalError: it cannot be read, or was written by a newer silo_nb.
    """

    def __init__(self, path: Path) -> None:
        self.last_seq = 0
        self._path = path
        self._size = 0
        self._fd = open_to_read(path)
        if self._fd is None:
            return
        try:
            self._size = os.fstat(self._fd).st_size
            refuse_newer(path, read_beginning(path, fd=self._fd))
            self.last_seq = last_seq(path, end=self._size, fd=self._fd)
        except JournalError:
            self.close()
            raise

    def reader(self) -> RecordReader:
        """Return a reader of the records, from the beginning."""
        return RecordReader(self._path, end=self._size, fd=self._fd)

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            close_private(fd)


class Copying:
    """Writes a new session's file, beginning with another's records, a piece at a time.

    Args:
        source: what to copy; closed at the end.
        encoder: the new session's, which knows its secrets.
        header: makes the first line; told how many lines are left behind.
    """

    def __init__(self, source: Source, encoder: Encoder, header: Callable[[int], bytes]) -> None:
        self._source = source
        self._encoder = encoder
        self._header = header
        self._steps: Generator[None] | None = None

    def step(self, file: JournalFile) -> bool:
        """Write the next piece; return whether the file is complete.

        Raises:
            OSError: the disk does not take it; the next step begins anew.
            JournalError: the source cannot be read; the same.
        """
        if self._steps is None:
            self._steps = self._write(file)
        try:
            next(self._steps)
        except StopIteration:
            self.close()
            return True
        except (OSError, JournalError):
            self._steps = None
            raise
        return False

    def close(self) -> None:
        """Let go of everything; what is not complete is removed. Idempotent."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()
        self._source.close()

    def _write(self, file: JournalFile) -> Generator[None]:
        left_behind = 0
        while True:
            with file.draft() as draft:
                reader = self._source.reader()
                draft.write(self._header(left_behind))
                for piece in self._pieces(reader):
                    draft.write(piece)
                    yield
                damaged = reader.bad_lines + reader.torn_tail
                if damaged == left_behind:
                    file.use(draft)
                    file.sync()
                    return
            # The header comes first and says how many: a damaged journal is read twice.
            left_behind = damaged

    def _pieces(self, reader: RecordReader) -> Iterator[bytes]:
        lines: list[bytes] = []
        size = 0
        for record in reader:
            line = self._encoder.line(record)
            lines.append(line)
            size += len(line)
            if size >= _PIECE_BYTES:
                yield b"".join(lines)
                lines.clear()
                size = 0
        yield b"".join(lines)
