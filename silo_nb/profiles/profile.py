"""One profile, as plain data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["DEMO", "Interface", "Profile"]

Interface = Literal["chat", "terminal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """An agent a user has allowed to be started, and how.

    What may hold a secret (`env`, `session_meta`, `mcp_servers`) is left out of the repr, which
    ends up in outputs and logs.

    Attributes:
        id: the name it is connected by.
        label: the name people read; the id when the file gives none.
        command: program and arguments, started as they stand; there is never a shell.
        interface: ``"chat"`` speaks the Agent Client Protocol; ``"terminal"`` cannot be connected.
        agent_id: the catalogue's name of the agent, when the user asserts it.
        env: variables set for the agent on top of, or instead of, what it inherits.
        cwd: where the agent works; None: the directory of the notebook.
        inherit_env: whether the agent gets the kernel's environment; False: only a minimal one.
        defaults: configuration options to set right after a session is opened, by option id.
        session_meta: what is sent as ``_meta`` when a session is opened.
        mcp_servers: MCP servers offered to the agent, in the shape of the protocol's `McpServer`.
        kernel_tools: whether the agent is offered the tools that see into the kernel.
        install_hint: what to tell somebody who does not have the program.
        file: where the profile is defined; None for the built-in one.

    >>> DEMO.id, DEMO.interface, DEMO.inherit_env
    ('demo', 'chat', True)
    """

    id: str
    label: str
    command: tuple[str, ...]
    interface: Interface = "chat"
    agent_id: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    inherit_env: bool = True
    defaults: Mapping[str, str | bool] = field(default_factory=dict)
    session_meta: Mapping[str, Any] = field(default_factory=dict, repr=False)
    mcp_servers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    kernel_tools: bool = True
    install_hint: str = ""
    file: Path | None = None


DEMO = Profile(
    id="demo",
    label="Demo agent (offline)",
    # -P: a `json.py` beside the notebook must not become part of the agent.
    command=(sys.executable, "-P", "-m", "silo_nb.demo_agent"),
    agent_id="demo",
    install_hint="It is part of silo_nb: install silo_nb again.",
)
"""The offline agent. Its id is built in and cannot be redefined."""
