"""connect: from a profile to a session that can be prompted, new or restored.

Whatever goes wrong or is called off on the way, the process that was started is gone when the
error is raised, and an earlier session's journal is as it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from silo_nb.acp.environment import child_environment
from silo_nb.errors import PermissionDenied, ProfileError
from silo_nb.journal import finish_discards, journal_directory
from silo_nb.profiles import Profile, load_profiles
from silo_nb.session import manager
from silo_nb.session.handshake import Surroundings
from silo_nb.session.live import LiveSession
from silo_nb.session.opening import Opening
from silo_nb.session.restore import Restore, elsewhere
from silo_nb.session.workspace import notebook_home, working_directory

__all__ = ["DEFAULT_TIMEOUT", "connect_live"]

DEFAULT_TIMEOUT = 120.0
"""Seconds from spawn to an open session. claude-agent-acp takes 1 to 7 on a busy machine."""


async def connect_live(
    profile_id: str,
    *,
    cwd: Path | None,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    workspace_id: str | None = None,
    restore: Restore | None = None,
    title: str | None = None,
    reveal: Callable[[], object] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> LiveSession:
    """Start the agent of a profile and open a session; see :func:`silo_nb.connect`."""
    profile = chat_profile(profile_id)
    home = notebook_home(workspace_id)
    surroundings = Surroundings(
        cwd=working_directory(cwd, profile, home),
        environment=child_environment(os.environ, profile.env, inherit=profile.inherit_env),
        journals=journal_directory(home),
        mcp_servers=tuple(mcp_servers),
    )
    session = LiveSession(profile, surroundings)
    session.given_title = title if restore is not None else None
    if reveal is not None:
        session.on_reveal = reveal
    await elsewhere(finish_discards, surroundings.journals)
    opening = Opening(session)
    with manager.starting(session):
        try:
            await _within(timeout, opening, opening.connect(restore))
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(_give_up(opening, session)))
            raise
        session.reconnect = partial(_reconnect, session)
        manager.add(session)
    return session


async def _give_up(opening: Opening, session: LiveSession) -> None:
    """Leave nothing behind, even when what interrupted us keeps on interrupting."""
    await opening.handshake.stop()
    await opening.let_go()
    await session.dispose()


async def _reconnect(session: LiveSession) -> None:
    """Give a session another process; its conversation goes on where the agent can do that."""
    process = session.process
    if process is not None:
        process.kill()
        await process.stop()
    lost = session.session_id
    session.renew()
    opening = Opening(session)
    try:
        await _within(DEFAULT_TIMEOUT, opening, opening.again(lost))
    except BaseException:
        session.session_id = session.session_id or lost
        await opening.handshake.stop()
        raise


async def _within(seconds: float, opening: Opening, work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        raise opening.handshake.timed_out(seconds) from None


def chat_profile(profile_id: str) -> Profile:
    """Return the profile `profile_id`, if it may be connected.

    Raises:
        PermissionDenied: the "agents" permission is set to deny.
        ProfileError: there is no such profile, or none that can be used from a notebook.
    """
    profiles = load_profiles()
    if profiles.permission == "deny":
        raise PermissionDenied(
            'agents are not allowed here: profiles.toml says [agents] permission = "deny". '
            "If the file is yours, change it; otherwise ask your administrator."
        )
    profile = profiles.get(profile_id)
    if profile.interface != "chat":
        raise ProfileError(
            f"profile {profile_id!r} is for a {profile.interface}; only profiles with "
            'interface = "chat" can be connected',
            file=profile.file,
            table=f"profiles.{profile_id}",
            key="interface",
        )
    return profile
