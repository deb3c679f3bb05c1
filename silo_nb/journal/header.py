"""The first line of a journal: what it says of the session, and of the one it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from silo_nb.journal.encoding import VERSION

CARRIED_FROM = "carriedFrom"
"""The session whose records this one began with."""

CARRIED_SEQ = "carriedSeq"
"""The number of the last record that may have been carried."""

CARRIED_BAD_LINES = "carriedBadLines"
"""How many damaged lines were left behind, if any."""

DISCARDS = "discards"
"""The session that shall be deleted now that this one exists."""

DISCARDS_BYTES = "discardsBytes"
"""The size its file had when that was decided."""


def new_header(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header of a new journal: what the caller says, and when it was made.

    Args:
        fields: facts of the session; ``id`` is required.
    """
    ours = {"v": VERSION, "k": "session", "id": fields["id"]}
    created = {"createdAt": datetime.now(UTC).isoformat(timespec="milliseconds")}
    return {**ours, **created, **fields, **ours}


def agent_session_ids(
    header: Mapping[str, Any] | None, records: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return every id an agent gave the session, in the order of their last use.

    Ids among carried records belong to the session they were carried from.

    Args:
        header: the journal's first record.
        records: the others.

    >>> adopted = {"v": 1, "seq": 7, "t": 0, "k": "meta", "sessionId": "b"}
    >>> agent_session_ids({"sessionId": "a"}, [adopted])
    ('a', 'b')
    >>> agent_session_ids({"sessionId": "c", "carriedFrom": "demo-1", "carriedSeq": 7}, [adopted])
    ('c',)
    """
    facts = header or {}
    own_since = facts.get(CARRIED_SEQ)
    carried = own_since if isinstance(own_since, int) and CARRIED_FROM in facts else None
    ids: dict[str, None] = {}
    for session_id in (
        facts.get("sessionId"),
        *(
            record.get("sessionId")
            for record in records
            if record["k"] == "meta" and (carried is None or record["seq"] > carried)
        ),
    ):
        if isinstance(session_id, str):
            ids.pop(session_id, None)
            ids[session_id] = None
    return tuple(ids)
