"""session/request_permission: what is asked, and the answers the wire knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silo_nb.acp.fields import items, string
from silo_nb.acp.normalize import parse_tool_call
from silo_nb.acp.rpc import InvalidParamsError
from silo_nb.model import PermissionOption, ToolCallPatch

__all__ = ["CANCELLED", "parse_options", "parse_permission", "selected"]

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}


def selected(option_id: str) -> dict[str, Any]:
    """Return the answer that chooses `option_id`."""
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def parse_permission(
    params: Mapping[str, Any],
) -> tuple[ToolCallPatch, tuple[PermissionOption, ...]]:
    """Return the tool call a request is about, and the options it offers.

    Raises:
        InvalidParamsError: no tool call or no option can be made out; names the field.
    """
    raw = params.get("toolCall")
    if not isinstance(raw, Mapping):
        raise InvalidParamsError("toolCall: expected an object")
    tool_call = parse_tool_call(raw)
    if tool_call is None:
        raise InvalidParamsError("toolCall.toolCallId: expected a string")
    options = parse_options(params)
    if not options:
        raise InvalidParamsError("options: expected at least one {optionId, name, kind}")
    return tool_call, options


def parse_options(source: Mapping[str, Any]) -> tuple[PermissionOption, ...]:
    """Return the options, in the agent's order; a kind unknown to us is kept. Case 46."""
    options: dict[str, PermissionOption] = {}
    for item in items(source, "options"):
        option_id = string(item, "optionId")
        if option_id is not None:
            option = PermissionOption(
                option_id, string(item, "name") or option_id, string(item, "kind") or ""
            )
            options.setdefault(option_id, option)
    return tuple(options.values())
