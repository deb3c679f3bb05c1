"""Carrying: a new session's journal that begins with everything another one holds.

The other journal stays as it is, and whoever writes it may go on doing so. The new file takes its
name only when it is complete, so that a crash on the way leaves what was there before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from silo_nb.journal.header import CARRIED_FROM, CARRIED_SEQ
from silo_nb.journal.journal import Journal
from silo_nb.journal.layout import session_path
from silo_nb.journal.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silo_nb.journal.options import JournalOptions


def carry(
    directory: Path,
    source_id: str,
    header: Mapping[str, Any],
    **options: Unpack[JournalOptions],
) -> Journal:
    """Begin the journal of a new session with the records of another.

    What the other holds at this moment is carried: its intact records, in order, under their own
    numbers. It returns at once; the journal thread copies, and the journal has no `Journal.path`
    until that is done. Needs no lock, so the other may be open elsewhere.

    Args:
        directory: the ``.silo_nb`` of both.
        source_id: our own id of the other session; a missing journal has nothing to carry.
        header: as for `Journal.create`; ``carriedFrom`` is added, and ``carriedBadLines`` if
            damaged lines had to be left behind.
        **options: see `JournalOptions`; secrets are also taken out of what is carried.

    Raises:
        JournalError: the other journal cannot be read, or a newer silo_nb wrote it; or as
            `Journal.create` does.

    >>> import tempfile
    >>> from silo_nb.journal import journal_directory, read_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     directory = journal_directory(Path(folder))
    ...     old = Journal.create(directory, {"profileId": "demo"})
    ...     number = old.append("user", {"turn": 1})
    ...     old.close().result(5)
    ...     new = carry(directory, old.id, {"profileId": "demo"})
    ...     number = new.append("user", {"turn": 2})
    ...     new.close().result(5)
    ...     [record["turn"] for record in read_records(new.path).records]
    [1, 2]
    """
    source = Source(session_path(Path(directory).absolute(), source_id))
    origin = {CARRIED_FROM: source_id, CARRIED_SEQ: source.last_seq}
    journal = Journal.create(directory, {**header, **origin}, source=source, **options)
    if "sessionId" in header:
        # The last id on record is the session's own, whichever its source adopted.
        journal.append("meta", {"sessionId": header["sessionId"]})
    return journal
