"""The journal: what a session was told and did, on the disk, append-only.

One file of JSON Lines per session, beside the notebook. The first line is a header, each other line
a record ``{"v":1,"seq":…,"t":…,"k":…}``: format version, number, milliseconds since 1970, kind. A
record is a plain dict; this package must not know what an update means, nor the wire's spelling
beyond joining streamed text.

::

    Journal ─ append, append_chunk ─▶ Outbox ─▶ Spool ─▶ JournalFile ─▶ disk
    (agent thread)                             (journal thread: Writer)

A session that is begun afresh can `carry` another's records, or `discard` that one once it exists
itself; `finish_discards` completes what a killed process left half done.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     journal = Journal.create(journal_directory(Path(folder)), {"profileId": "demo"})
...     number = journal.append("user", {"blocks": [{"type": "text", "text": "hello"}]})
...     journal.close().result(5)
...     [record["k"] for record in read_records(journal.path).records]
['user']
"""

from silo_nb.journal.carry import carry
from silo_nb.journal.compaction import compact
from silo_nb.journal.discards import discard, finish_discards
from silo_nb.journal.header import agent_session_ids
from silo_nb.journal.ids import new_session_id
from silo_nb.journal.journal import Journal
from silo_nb.journal.layout import journal_directory
from silo_nb.journal.listing import Listing, SessionFile, describe_session, list_sessions
from silo_nb.journal.options import JournalOptions
from silo_nb.journal.reader import Reading, RecordReader, read_records, read_tail
from silo_nb.journal.removal import purge
from silo_nb.journal.search import find_session

__all__ = [
    "Journal",
    "JournalOptions",
    "Listing",
    "Reading",
    "RecordReader",
    "SessionFile",
    "agent_session_ids",
    "carry",
    "compact",
    "describe_session",
    "discard",
    "find_session",
    "finish_discards",
    "journal_directory",
    "list_sessions",
    "new_session_id",
    "purge",
    "read_records",
    "read_tail",
]
