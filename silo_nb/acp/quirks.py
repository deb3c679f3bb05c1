"""What real agents do beside the protocol. One named function each, with the version seen.

A quirk is data read or written a little differently; none of them is allowed to lose anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from silo_nb.acp.fields import mapping, string
from silo_nb.model import TerminalExit, Update

__all__ = [
    "EchoFilter",
    "is_aside",
    "parent_tool_call",
    "terminal_exit",
    "terminal_output",
    "tool_name",
]

_ASIDE = re.compile(
    r"\s*(<session_context>.*</session_context>|(\[Function Response: [^\]]*\]\s*)+)\s*", re.DOTALL
)


def terminal_output(update: Mapping[str, Any]) -> str | None:
    """Return what a command printed, from the ``_meta`` of a tool row.

    Zed's convention. codex-acp 2.6 and pi-acp 0.0.34 send it to every client, claude-agent-acp
    0.101 to those that ask. With ``terminal_output_delta`` advertised all of them append, and that
    key wins over ``terminal_output`` where both are there.
    """
    meta = mapping(update, "_meta")
    for key in ("terminal_output_delta", "terminal_output"):
        data = string(mapping(meta, key), "data")
        if data is not None:
            return data
    return None


def terminal_exit(update: Mapping[str, Any]) -> TerminalExit | None:
    """Return how a command ended, from the ``_meta`` of a tool row (as above)."""
    ended = mapping(update, "_meta", "terminal_exit")
    if not ended:
        return None
    code = ended.get("exit_code")
    return TerminalExit(code if isinstance(code, int) else None, string(ended, "signal"))


def parent_tool_call(update: Mapping[str, Any]) -> str | None:
    """Return the row a sub-agent's call belongs to (claude-agent-acp 0.101; case 29)."""
    return string(mapping(update, "_meta", "claudeCode"), "parentToolUseId")


def tool_name(update: Mapping[str, Any]) -> str | None:
    """Return the tool's own name: ``name`` since schema 1.22, in claude's ``_meta`` before."""
    return string(update, "name") or string(mapping(update, "_meta", "claudeCode"), "toolName")


def is_aside(update: Update) -> bool:
    """Return whether a replay has as the user's words what the agent told its model.

    gemini-cli 0.61 replays its own introduction, and ``[Function Response: write_file]`` after each
    tool call, as user messages. Live it sends neither.

    >>> is_aside(Update("user_message_chunk", text="[Function Response: write_file]"))
    True
    """
    text = update.text if update.kind == "user_message_chunk" else None
    return text is not None and _ASIDE.fullmatch(text) is not None


class EchoFilter:
    """Take the user's own prompt out of what the agent sends back within the turn.

    mistral-vibe 2.25 and opencode echo the prompt as ``user_message_chunk``; ours is recorded
    already. Only text that continues the prompt, before anything else of the turn, is taken out.
    (R30, case 21)
    """

    def __init__(self) -> None:
        self._expected = ""

    def expect(self, prompt: str) -> None:
        """Start watching for an echo of `prompt`."""
        self._expected = prompt

    def is_echo(self, update: Update) -> bool:
        """Return whether `update` only repeats the prompt."""
        if not self._expected:
            return False
        if update.kind != "user_message_chunk":
            if update.text is not None or update.tool_call is not None:
                self._expected = ""
            return False
        text = update.text or ""
        if text and self._expected.startswith(text):
            self._expected = self._expected[len(text) :]
            return True
        self._expected = ""
        return False
