"""How a journal is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from silo_nb.journal.outbox import Records
    from silo_nb.journal.spool import Durability


class JournalOptions(TypedDict, total=False):
    """How a journal is kept; all optional, by keyword.

    Attributes:
        redact: secrets that are replaced wherever they occur in a record.
        durability: when data is made safe against power loss: ``"turn"`` (the default) at each
            `Journal.sync`, ``"record"`` after each write, ``"none"`` leaves it to the system.
        checkpoint: called at each `Journal.sync`, so cheap; returns records, as kind and fields,
            that tell the session up to that moment. They are read later, on another thread, and
            only if somebody deleted or damaged the file.
        on_problem: called once when a problem appears, with its text, and once with None when it
            is over; on the journal thread: hop to your own.
    """

    redact: Sequence[str]
    durability: Durability
    checkpoint: Callable[[], Records] | None
    on_problem: Callable[[str | None], None] | None
