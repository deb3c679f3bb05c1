"""The words and signs of a record that are the same in HTML, markdown and plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from silo_nb.ipython.record.rows import Tool
from silo_nb.ipython.record.turn import TurnRecord
from silo_nb.model import PlanEntry, Usage
from silo_nb.model.text import one_line

__all__ = [
    "STATE_SIGNS",
    "foot_words",
    "plan_heading",
    "sign_of_step",
    "sign_of_tool",
    "state_words",
    "token_words",
    "tool_meta",
]

STATE_SIGNS = {
    "connecting": ("●", "brand"),
    "working": ("●", "brand"),
    "waiting": ("◆", "warn"),
    "done": ("✓", "ok"),
    "cancelled": ("⊘", "muted"),
    "failed": ("✗", "bad"),
    "not-connected": ("✗", "bad"),
    "agent-exited": ("✗", "bad"),
    "error": ("✗", "bad"),
    "interrupted": ("⊘", "muted"),
    "unfinished": ("●", "brand"),
    "aside": ("●", "muted"),
    "resumed": ("✓", "ok"),
    "opened": ("●", "warn"),
    "read-only": ("⊘", "warn"),
    "cleared": ("✓", "ok"),
}
"""How a turn goes or ended, or a session came about: a sign and the name of its colour."""

_STATES = {
    "connecting": "Connecting",
    "working": "Working",
    "waiting": "Waiting for your answer",
    "done": "Done",
    "cancelled": "Cancelled",
    "failed": "Failed",
    "not-connected": "Not connected",
    "max_tokens": "Stopped: the answer reached its limit of tokens",
    "max_turn_requests": "Stopped: the turn reached its limit of requests",
    "refusal": "Stopped: the agent refused",
    "unknown": "Ended without a reason",
    "agent-exited": "Failed: the agent exited",
    "error": "Failed",
    "interrupted": "Interrupted",
    "unfinished": "Not finished",
    "aside": "Outside of a turn",
    "resumed": "Resumed",
    "opened": "New session",
    "read-only": "Can only be read",
    "cleared": "Cleared",
}

_TOOLS = {
    "done": ("✓", "ok"),
    "bad": ("✗", "bad"),
    "stopped": ("⊘", "muted"),
    "open": ("●", "brand"),
}
_STEPS = {"completed": ("✓", "ok"), "in_progress": ("▸", "brand")}


def state_words(record: TurnRecord) -> str:
    """Say how the turn goes, or how it ended and how long it took, if that is known."""
    state = _STATES.get(record.state) or f"Stopped: {one_line(record.state, 60)}"
    elapsed = record.elapsed
    if elapsed is None or record.state in ("connecting", "not-connected"):
        return state
    if elapsed < 1 and record.state in ("working", "waiting"):
        return state
    return f"{state}, {_duration(elapsed)}"


def foot_words(record: TurnRecord) -> list[str]:
    """Return the facts at the end of a record."""
    words = [*_usage(record.usage), *record.footnotes]
    if record.journal:
        what = "All of it is" if record.is_cut else "Kept"
        words.append(f"{what} in {record.journal}")
    return words


def token_words(tokens: Mapping[str, Any]) -> str:
    """Say how many tokens a turn took, as far as the agent counted them.

    >>> token_words({"inputTokens": 1234, "outputTokens": 56, "totalTokens": 1290})
    '1.2k tokens in, 56 out'
    """
    counts = [tokens.get(name) for name in ("inputTokens", "outputTokens", "totalTokens")]
    read, written, total = (n if isinstance(n, int) and n > 0 else 0 for n in counts)
    if read and written:
        return f"{_tokens(read)} tokens in, {_tokens(written)} out"
    return f"{_tokens(total)} tokens" if total else ""


def tool_meta(tool: Tool) -> str:
    """Return the figures and the state of a tool call in a few words."""
    words = [*tool.facts, tool.answer]
    if tool.state == "stopped" or (tool.state == "bad" and not any(words)):
        words.append(tool.status)
    words.append(tool.kind if tool.kind != "other" else "")
    return " · ".join(filter(None, words))


def sign_of_tool(tool: Tool) -> tuple[str, str]:
    """Return a sign and the name of its colour."""
    return _TOOLS[tool.state]


def sign_of_step(step: PlanEntry) -> tuple[str, str]:
    """Return a sign and the name of its colour."""
    return _STEPS.get(step.status, ("○", "muted"))


def plan_heading(plan: Sequence[PlanEntry]) -> str:
    """Say how far a plan has got."""
    return f"{sum(step.status == 'completed' for step in plan)} of {len(plan)}"


def _duration(seconds: float) -> str:
    if seconds < 10:  # noqa: PLR2004 - below, a tenth tells something
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _usage(usage: Usage | None) -> list[str]:
    if usage is None:
        return []
    words = []
    if usage.used is not None:
        of = f" of {_tokens(usage.size)}" if usage.size else ""
        words.append(f"{_tokens(usage.used)}{of} tokens of context")
    if usage.cost:
        words.append(f"{usage.cost:.2f} {one_line(usage.currency or '', 8)}".strip())
    return words


def _tokens(count: int) -> str:
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)  # noqa: PLR2004 - thousands
