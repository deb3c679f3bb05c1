"""From a profile to an agent that has opened a session: spawn, initialize, then new or restored.

It knows at each point what it was doing, so that an error can say it. It can be run again for the
same session, when the process is gone and the conversation shall go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silo_nb.acp.connection import ConnectionLostError, OnResult
from silo_nb.acp.handshake import PROTOCOL_VERSION, initialize_params, parse_agent_card
from silo_nb.acp.process import AgentProcess, Launch
from silo_nb.acp.rpc import RpcError
from silo_nb.errors import AgentError, AgentExited, AgentRefused, HandshakeTimeout
from silo_nb.session.errors import refusal

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["NOWHERE", "Handshake", "Surroundings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a session's agent runs and where its journal lies; fixed at connect: K17.

    Attributes:
        cwd: the directory the agent works in.
        environment: the agent's variables, all of them.
        journals: the ``.silo_nb`` directory beside the notebook.
        mcp_servers: MCP servers offered to the agent, as the protocol spells them.
    """

    cwd: Path
    environment: Mapping[str, str] = field(repr=False)
    journals: Path
    mcp_servers: Sequence[Mapping[str, Any]] = ()


NOWHERE = Surroundings(cwd=Path(), environment={}, journals=Path())
"""For a session whose agent is not a process of ours."""


class Handshake:
    """One connecting of one session; lives on the agent thread."""

    def __init__(self, session: LiveSession, surroundings: Surroundings) -> None:
        self._session = session
        self._surroundings = surroundings
        self._phase = "spawn"

    async def initialize(self) -> None:
        """Start the process and learn what it can do."""
        session = self._session
        await self._spawn()
        card = await self.request("initialize", initialize_params(version("silo_nb")))
        session.card = parse_agent_card(card)
        spoken = session.card.protocol_version
        if spoken != PROTOCOL_VERSION:
            raise AgentRefused(
                f"it speaks version {spoken!r} of the protocol, silo_nb speaks {PROTOCOL_VERSION}; "
                "another version of the agent may fit",
                **self._about(),
            )

    async def new(self, on_result: OnResult) -> None:
        """Open a new session; `on_result` gets the answer, which names its id."""
        await self.request("session/new", self._params(), on_result=on_result)
        if not self._session.session_id:
            raise AgentRefused("its answer names no sessionId", **self._about())

    async def restore(self, method: str, session_id: str, on_result: OnResult) -> None:
        """Ask for an earlier session back; `method` is session/resume or session/load."""
        params = {"sessionId": session_id, **self._params()}
        await self.request(method, params, on_result=on_result)

    async def request(
        self, method: str, params: dict[str, Any], *, on_result: OnResult | None = None
    ) -> dict[str, Any]:
        """Send a request; a refusal becomes the error a caller of connect gets."""
        self._phase = method
        try:
            return await self._session.connection.request(method, params, on_result=on_result)
        except RpcError as error:
            raise refusal(error, self._session, method) from None
        except ConnectionLostError:
            raise self._exited() from None

    async def _spawn(self) -> None:
        session, profile = self._session, self._session.profile
        launch = Launch(
            argv=profile.command,
            cwd=self._surroundings.cwd,
            env=self._surroundings.environment,
            install_hint=profile.install_hint,
        )
        try:
            session.process = await AgentProcess.start(
                launch, on_stdout=session.hear, on_exit=session.on_exit
            )
        except AgentError as error:
            error.profile, error.phase = profile.id, self._phase
            raise

    def _params(self) -> dict[str, Any]:
        profile = self._session.profile
        servers = [*profile.mcp_servers, *self._surroundings.mcp_servers]
        params: dict[str, Any] = {
            "cwd": str(self._surroundings.cwd),
            "mcpServers": [dict(server) for server in servers],
        }
        if profile.session_meta:
            params["_meta"] = dict(profile.session_meta)
        return params

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
        """Return the error for an agent that did not answer in time."""
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

    async def stop(self) -> None:
        """Leave no process behind."""
        process = self._session.process
        if process is not None:
            process.kill()
            await process.stop()
