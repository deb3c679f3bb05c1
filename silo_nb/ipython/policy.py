"""What may be answered to a permission request without asking a person.

A policy answers what an agent asks *permission* for. A request whose options are really choices,
several of one kind, is not for it to answer (kimi-code 2.1, qwen-code 0.24): how to go on is a
question, not a permission. Permissions are the agent's courtesy and no sandbox.
"""

from __future__ import annotations

from collections import Counter

from silo_nb.model import PermissionOption
from silo_nb.session import PermissionRequest

__all__ = ["READING_KINDS", "is_choice", "policy_answer", "refusal"]

READING_KINDS = frozenset({"read", "search", "think"})
"""Kinds of tool call that change nothing and send nothing out; `fetch` does the latter."""


def policy_answer(policy: str, ask: PermissionRequest) -> PermissionOption | None:
    """Return the answer `policy` gives to `ask`; None when a person has to be asked.

    Args:
        policy: ``ask``, ``reject``, ``reads`` (which allows reading and asks for all else) or
            ``allow``.
        ask: the request. Only an option for this one time is ever chosen: no policy of a cell's
            shall outlive it.
    """
    if is_choice(ask):
        return None
    reads = policy == "reads" and ask.tool_call.kind in READING_KINDS
    if policy == "allow" or reads:
        return ask.option("allow_once")
    if policy == "reject":
        return refusal(ask)
    return None


def refusal(ask: PermissionRequest) -> PermissionOption | None:
    """Return the option that says no to this one request, if that is clear."""
    return None if is_choice(ask) else ask.option("reject_once")


def is_choice(ask: PermissionRequest) -> bool:
    """Whether the options are different ways to go on, rather than yes and no."""
    return any(count > 1 for count in Counter(o.kind for o in ask.options).values())
