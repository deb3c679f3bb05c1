"""initialize: what we tell an agent of ourselves, and what it tells us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from silo_nb.acp.fields import items, mapping, string
from silo_nb.model import PromptCapabilities

__all__ = ["PROTOCOL_VERSION", "AgentCard", "initialize_params", "parse_agent_card"]

PROTOCOL_VERSION = 1
"""The only version we speak. claude-agent-acp 0.101 answers a client that offers 2 with a draft."""


def initialize_params(version: str) -> dict[str, Any]:
    """Return the params of initialize; `version` is silo_nb's own.

    fs and terminal stay off: agent and kernel see the same disk, and agents bring their own tools.
    An elicitation mode counts only as an object; without ``form`` claude takes its question tool
    away from the model. The ``_meta`` keys are Zed's convention for command output.
    """
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientInfo": {"name": "silo_nb", "title": "silo_nb", "version": version},
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "elicitation": {"form": {}, "url": {}},
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "auth": {"terminal": False},
            "_meta": {"terminal_output": True, "terminal_output_delta": True},
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCard:
    """What an agent says of itself in its initialize result; what it omits is False or empty."""

    protocol_version: Any = None
    name: str | None = None
    title: str | None = None
    version: str | None = None
    can_load: bool = False
    can_resume: bool = False
    can_list: bool = False
    can_close: bool = False
    prompt: PromptCapabilities = field(default_factory=PromptCapabilities)
    auth_methods: tuple[dict[str, Any], ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)


def parse_agent_card(result: Mapping[str, Any]) -> AgentCard:
    """Return the card in an initialize `result`."""
    capabilities = mapping(result, "agentCapabilities")
    session = mapping(capabilities, "sessionCapabilities")
    prompt = mapping(capabilities, "promptCapabilities")
    info = mapping(result, "agentInfo")
    return AgentCard(
        protocol_version=result.get("protocolVersion"),
        name=string(info, "name"),
        title=string(info, "title"),
        version=string(info, "version"),
        can_load=capabilities.get("loadSession") is True,
        can_resume=isinstance(session.get("resume"), Mapping),
        can_list=isinstance(session.get("list"), Mapping),
        can_close=isinstance(session.get("close"), Mapping),
        prompt=PromptCapabilities(
            image=prompt.get("image") is True,
            audio=prompt.get("audio") is True,
            embedded_context=prompt.get("embeddedContext") is True,
        ),
        auth_methods=tuple(dict(item) for item in items(result, "authMethods")),
        raw=result,
    )
