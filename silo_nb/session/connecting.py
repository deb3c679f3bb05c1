"""connect: from a profile to a session that can be prompted.

Whatever goes wrong or is called off on the way, the process that was started is gone when the
error is raised.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from silo_nb.acp.connection import ConnectionLostError
from silo_nb.acp.environment import child_environment
from silo_nb.acp.handshake import PROTOCOL_VERSION, initialize_params, parse_agent_card
from silo_nb.acp.options import session_options
from silo_nb.acp.process import AgentProcess, Launch
from silo_nb.acp.rpc import RpcError
from silo_nb.errors import (
    AgentError,
    AgentExited,
    AgentRefused,
    HandshakeTimeout,
    NotYet,
    PermissionDenied,
    ProfileError,
)
from silo_nb.journal import Journal, journal_directory
from silo_nb.profiles import Profile, load_profiles
from silo_nb.session import manager
from silo_nb.session.errors import refusal
from silo_nb.session.live import LiveSession
from silo_nb.session.secret_values import secret_values
from silo_nb.session.workspace import notebook_home, working_directory

__all__ = ["DEFAULT_TIMEOUT", "connect_live"]

DEFAULT_TIMEOUT = 120.0
"""Seconds from spawn to an open session. claude-agent-acp takes 1 to 7 on a busy machine."""


async def connect_live(
    profile_id: str,
    *,
    cwd: Path | None,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> LiveSession:
    """Start the agent of a profile and open a session; see :func:`silo_nb.connect`."""
    profile = chat_profile(profile_id)
    directory = working_directory(cwd, profile)
    environment = child_environment(os.environ, profile.env, inherit=profile.inherit_env)
    session = LiveSession(profile, secret_values({**environment, **profile.env}))
    session.cwd = str(directory)
    handshake = _Handshake(session, directory, environment, mcp_servers)
    with manager.starting(session):
        try:
            async with asyncio.timeout(timeout):
                await handshake.run()
        except TimeoutError:
            error = handshake.timed_out(timeout)
            await handshake.give_up()
            raise error from None
        except BaseException:
            await handshake.give_up()
            raise
        manager.add(session)
    return session


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
    if profile.defaults:
        raise NotYet(f"profile {profile_id!r} sets `defaults`, which this version cannot apply yet")
    return profile


class _Handshake:
    """spawn → initialize → session/new, knowing at each point what it was doing."""

    def __init__(
        self,
        session: LiveSession,
        directory: Path,
        environment: Mapping[str, str],
        mcp_servers: Sequence[Mapping[str, Any]],
    ) -> None:
        self._session = session
        self._directory = directory
        self._environment = environment
        self._journals = journal_directory(notebook_home())
        self._mcp_servers = [*session.profile.mcp_servers, *mcp_servers]
        self._phase = "spawn"

    async def run(self) -> None:
        """Go through the phases, in order."""
        session = self._session
        await self._spawn()
        card = await self._request("initialize", initialize_params(version("silo_nb")))
        session.card = parse_agent_card(card)
        if session.card.protocol_version != PROTOCOL_VERSION:
            spoken = session.card.protocol_version
            raise AgentRefused(
                f"it speaks version {spoken!r} of the protocol, silo_nb speaks {PROTOCOL_VERSION}; "
                "another version of the agent may fit",
                **self._about(),
            )
        await self._request("session/new", self._new_params(), on_result=self._on_new)
        if not session.session_id:
            raise AgentRefused("its answer names no sessionId", **self._about())

    async def _spawn(self) -> None:
        session, profile = self._session, self._session.profile
        launch = Launch(
            argv=profile.command,
            cwd=self._directory,
            env=self._environment,
            install_hint=profile.install_hint,
        )
        try:
            process = await AgentProcess.start(
                launch,
                on_stdout=session.connection.feed,
                on_exit=session.on_exit,
            )
        except AgentError as error:
            error.profile, error.phase = profile.id, self._phase
            raise
        session.process = process

    def _new_params(self) -> dict[str, Any]:
        params: dict[str, Any] = {
            "cwd": str(self._directory),
            "mcpServers": [dict(server) for server in self._mcp_servers],
        }
        if self._session.profile.session_meta:
            params["_meta"] = dict(self._session.profile.session_meta)
        return params

    def _on_new(self, result: dict[str, Any]) -> None:
        """Open the session before the next message is looked at: updates may follow at once."""
        session = self._session
        session_id = result.get("sessionId")
        if not isinstance(session_id, str) or not session_id:
            return
        session.config_options = session_options(result)
        card, profile = session.card, session.profile
        header = {
            "sessionId": session_id,
            "profileId": profile.id,
            "agentId": profile.agent_id,
            "agentName": card.title or card.name or profile.label,
            "agentVersion": card.version,
            "cwd": session.cwd,
        }
        journal = Journal.create(self._journals, header, redact=session.secrets)
        session.opened(session_id, journal)

    async def _request(self, method: str, params: dict[str, Any], **options: Any) -> dict[str, Any]:
        self._phase = method
        try:
            return await self._session.connection.request(method, params, **options)
        except RpcError as error:
            raise refusal(error, self._session, method) from None
        except ConnectionLostError:
            raise self._exited() from None

    def _exited(self) -> AgentExited:
        report = self._session.exit
        how = report.describe() if report else "went away"
        return AgentExited(
            f"the process {how} before answering {self._phase}",
            exit_code=report.code if report else None,
            signal=report.signal if report else None,
            **self._about(),
        )

    def timed_out(self, seconds: float) -> HandshakeTimeout:
        """Return the error for an agent that did not answer; call it before :meth:`give_up`."""
        return HandshakeTimeout(
            f"no answer to {self._phase} within {seconds:g} s; the process was stopped",
            seconds=seconds,
            **self._about(),
        )

    def _about(self) -> dict[str, Any]:
        session = self._session
        return {
            "profile": session.profile.id,
            "phase": self._phase,
            "stderr": session.last_words(),
        }

    async def give_up(self) -> None:
        """Leave nothing behind, even when what interrupted us keeps on interrupting."""
        session = self._session
        if session.process is not None:
            session.process.kill()
        await asyncio.shield(asyncio.ensure_future(session.dispose()))
