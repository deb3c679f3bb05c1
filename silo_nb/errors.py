"""Every error silo_nb raises on purpose, as one tree.

::

    SiloError
    ├── ProfileError          a profiles.toml that cannot be used: file, table, key
    ├── PermissionDenied      the "agents" permission is set to deny
    ├── WorkspaceError        no directory to work in
    ├── AgentError            something went wrong between us and an agent: profile, phase, stderr
    │   ├── AgentNotFound     the command, or the interpreter it names, is not installed
    │   ├── AgentExited       the process ended: exit_code, signal
    │   ├── HandshakeTimeout  no answer in time: seconds
    │   ├── AuthRequired      the agent wants a login first: methods
    │   └── AgentRefused      the agent answered with an error: code, data
    ├── SessionBusy           a turn is running already
    ├── SessionClosed         the session was disposed, or never had a live agent
    ├── JournalError          a journal that cannot be read or written
    └── NotYet                part of the public surface that a later version brings

A cancelled turn is not an error: ``result.stop_reason == "cancelled"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "AgentError",
    "AgentExited",
    "AgentNotFound",
    "AgentRefused",
    "AuthRequired",
    "HandshakeTimeout",
    "JournalError",
    "NotYet",
    "PermissionDenied",
    "ProfileError",
    "SessionBusy",
    "SessionClosed",
    "SiloError",
    "WorkspaceError",
]

STDERR_LINES_SHOWN = 20


class SiloError(Exception):
    """Base of every error silo_nb raises on purpose."""


class ProfileError(SiloError):
    """A profile that cannot be used; the message names file, table and key."""

    def __init__(
        self,
        message: str,
        *,
        file: Path | None = None,
        table: str | None = None,
        key: str | None = None,
    ) -> None:
        self.file = file
        self.table = table
        self.key = key
        where = ": ".join(
            part
            for part in (str(file) if file else "", f"[{table}]" if table else "", key or "")
            if part
        )
        super().__init__(f"{where}: {message}" if where else message)


class PermissionDenied(SiloError):
    """The "agents" permission is set to deny; nothing was started."""


class WorkspaceError(SiloError):
    """There is no directory for the agent to work in."""


class AgentError(SiloError):
    """Something went wrong between us and an agent.

    Attributes:
        profile: id of the profile that was connected.
        phase: what was going on: ``"spawn"``, ``"initialize"``, ``"session/new"``, ``"prompt"`` …
        stderr: the last lines (at most 20) the agent wrote to stderr, made inert.
    """

    def __init__(
        self,
        message: str,
        *,
        profile: str = "",
        phase: str = "",
        stderr: Sequence[str] = (),
    ) -> None:
        self.message = message
        self.profile = profile
        self.phase = phase
        self.stderr = tuple(stderr)[-STDERR_LINES_SHOWN:]
        super().__init__(message)

    def __str__(self) -> str:
        """Say who, when and what, then the agent's own last words."""
        who = f"agent {self.profile!r}" if self.profile else "agent"
        head = f"{who}, {self.phase}: {self.message}" if self.phase else f"{who}: {self.message}"
        if not self.stderr:
            return head
        return "\n".join((head, "its stderr ended with:", *(f"  {line}" for line in self.stderr)))


class AgentNotFound(AgentError):
    """The profile's command, or the interpreter its first line names, is not installed.

    Attributes:
        command: what was looked for.
        search_path: the PATH that was searched.
    """

    def __init__(self, message: str, *, command: str, search_path: str = "", **about: Any) -> None:
        self.command = command
        self.search_path = search_path
        super().__init__(message, **about)


class AgentExited(AgentError):
    """The agent's process ended while something was expected of it.

    Attributes:
        exit_code: its exit status, or None when a signal ended it or nobody knows.
        signal: number of the signal that ended it, if any.
    """

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        **about: Any,
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        super().__init__(message, **about)


class HandshakeTimeout(AgentError):
    """The agent did not answer in time; its process was stopped.

    Attributes:
        seconds: how long we waited.
    """

    def __init__(self, message: str, *, seconds: float, **about: Any) -> None:
        self.seconds = seconds
        super().__init__(message, **about)


class AuthRequired(AgentError):
    """The agent wants a login first (JSON-RPC error -32000).

    Attributes:
        methods: what the agent offers: dicts with ``id``, ``name`` and ``description``.
    """

    def __init__(
        self,
        message: str,
        *,
        methods: Sequence[dict[str, Any]] = (),
        **about: Any,
    ) -> None:
        self.methods = tuple(methods)
        super().__init__(message, **about)


class AgentRefused(AgentError):
    """The agent answered a request with an error; the message is its own.

    Attributes:
        code: the JSON-RPC error code, or None when the agent gave none.
        data: whatever the agent attached; any shape, never to be relied on.
    """

    def __init__(
        self, message: str, *, code: int | None = None, data: Any = None, **about: Any
    ) -> None:
        self.code = code
        self.data = data
        super().__init__(message, **about)


class SessionBusy(SiloError):
    """A turn is running already; one session takes one prompt at a time."""


class SessionClosed(SiloError):
    """The session was disposed, or its agent is gone and was not resumed."""


class JournalError(SiloError):
    """A journal that cannot be read or written."""


class NotYet(SiloError):
    """Part of the public surface that this version does not have yet."""
