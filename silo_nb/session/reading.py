"""read_journal: a session's record from disk, with nothing started."""

from __future__ import annotations

import asyncio

from silo_nb.errors import PermissionDenied
from silo_nb.journal import find_session, journal_directory, read_records
from silo_nb.model import Update
from silo_nb.profiles import load_profiles
from silo_nb.session.records import read_updates
from silo_nb.session.workspace import notebook_home

__all__ = ["read_journal", "read_journal_now"]


async def read_journal(session_id: str, *, workspace_id: str | None = None) -> tuple[Update, ...]:
    """Return what a session's journal holds; starts no process.

    Args:
        session_id: our id of the session, or any id its agent ever gave it.
        workspace_id: path of another notebook, or of its directory, to look beside.

    Returns:
        The updates, in order; empty when there is no such journal. Damaged lines are skipped.

    Raises:
        PermissionDenied: the "agents" permission is set to deny.
        WorkspaceError: there is no directory `workspace_id`.

    Example:
        >>> import silo_nb
        >>> await silo_nb.read_journal("no-such-session")    # doctest: +SKIP
        ()
    """
    return await asyncio.to_thread(read_journal_now, session_id, workspace_id=workspace_id)


def read_journal_now(session_id: str, *, workspace_id: str | None = None) -> tuple[Update, ...]:
    """Return what a session's journal holds, blocking; see :func:`read_journal`."""
    if load_profiles().permission == "deny":
        raise PermissionDenied('profiles.toml says [agents] permission = "deny"')
    directory = journal_directory(notebook_home(workspace_id))
    path = find_session(directory, session_id)
    return () if path is None else tuple(read_updates(read_records(path).records))
