"""session/update notifications to :class:`~silo_nb.model.Update`: the wire's spelling ends here.

Every kind of the v1 schema is modelled, every other kind is delivered with its `raw`. Nothing an
agent can put into an update raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from silo_nb.acp.blocks import parse_block, parse_tool_content
from silo_nb.acp.fields import count, items, mapping, number, string
from silo_nb.acp.options import parse_commands, parse_config_options
from silo_nb.acp.quirks import parent_tool_call, terminal_exit, terminal_output, tool_name
from silo_nb.model import (
    Compaction,
    Location,
    Notice,
    PlanEntry,
    TextBlock,
    ToolCallPatch,
    Update,
    Usage,
    block_text,
)
from silo_nb.model.update import MESSAGE_ROLES

__all__ = ["Normalizer", "parse_tool_call"]


class Normalizer:
    """Normalizes the updates of one session, in wire order.

    It has to remember one thing: which run of chunks is going on, since gemini, pi, qwen, kimi and
    copilot send no ``messageId`` and claude and codex leave it out now and then. A made-up id
    (``syn-…``) lasts until another kind of chunk, a row or a block that is not text; it is never
    mixed with the agent's own ids. (R28)

    Args:
        runs: how many ids were made up before, in the same journal.

    >>> run = Normalizer()
    >>> chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    >>> run.normalize(chunk).message_id, run.normalize(chunk).message_id
    ('syn-1', 'syn-1')
    """

    def __init__(self, *, runs: int = 0) -> None:
        self._kind: str | None = None
        self._message_id: str | None = None
        self._runs = runs

    def end_run(self) -> None:
        """Let the next chunk without an id begin a message of its own."""
        self._kind = None

    def normalize(self, raw: dict[str, Any]) -> Update:
        """Return `raw`, the ``update`` object of a session/update, as an Update."""
        kind = raw.get("sessionUpdate")
        if not isinstance(kind, str):
            return Update("unknown", raw=MappingProxyType(raw))
        if kind in MESSAGE_ROLES:
            return self._chunk(kind, raw)
        if kind in _ENDS_RUN:
            self._kind = None
        parse = _KINDS.get(kind)
        known = {} if parse is None else parse(raw)
        return Update(kind, raw=MappingProxyType(raw), **known)

    def _chunk(self, kind: str, raw: dict[str, Any]) -> Update:
        content: Any = raw.get("content")
        message_id = raw.get("messageId")
        keys = _KIND_AND_CONTENT
        if isinstance(message_id, str):
            self._kind = None
            keys += 1
        else:
            message_id = self._made_up_id(kind)
        try:
            # The one path that runs thousands of times a second.
            text = content["text"] if content["type"] == "text" else None
        except (TypeError, KeyError):
            text = None
        if isinstance(text, str):
            plain = len(raw) == keys and len(content) == _TYPE_AND_TEXT
            block = TextBlock(text)
            return Update(kind, text, block, message_id, raw=MappingProxyType(raw), plain=plain)
        self._kind = None
        other = parse_block(content)
        return Update(kind, content=other, message_id=message_id, raw=MappingProxyType(raw))

    def _made_up_id(self, kind: str) -> str | None:
        if self._kind != kind:
            self._runs += 1
            self._kind = kind
            self._message_id = f"syn-{self._runs}"
        return self._message_id


def parse_tool_call(raw: Mapping[str, Any], *, opens: bool = False) -> ToolCallPatch | None:
    """Return what `raw` says of a tool call; None when it names none.

    Absent and null mean unchanged (ACP v1); `content` and `locations` replace the collection.
    """
    tool_call_id = string(raw, "toolCallId")
    if not tool_call_id:
        return None
    content = raw.get("content")
    locations = raw.get("locations")
    return ToolCallPatch(
        tool_call_id=tool_call_id,
        opens=opens,
        title=string(raw, "title"),
        kind=string(raw, "kind"),
        status=string(raw, "status"),
        content=tuple(c for item in content if (c := parse_tool_content(item)) is not None)
        if isinstance(content, list)
        else None,
        locations=tuple(
            Location(path, count(item, "line"))
            for item in items(raw, "locations")
            if (path := string(item, "path")) is not None
        )
        if isinstance(locations, list)
        else None,
        raw_input=raw.get("rawInput"),
        raw_output=raw.get("rawOutput"),
        name=tool_name(raw),
        parent_id=parent_tool_call(raw),
        output=terminal_output(raw),
        exit=terminal_exit(raw),
    )


def _tool_call(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_call": parse_tool_call(raw, opens=True)}


def _tool_call_update(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_call": parse_tool_call(raw)}


def _plan(raw: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(raw.get("entries"), list):
        return {}
    entries = tuple(
        PlanEntry(
            content,
            string(item, "status") or "pending",
            string(item, "priority") or "medium",
        )
        for item in items(raw, "entries")
        if (content := string(item, "content")) is not None
    )
    return {"plan": entries}


def _usage(raw: Mapping[str, Any]) -> dict[str, Any]:
    cost = mapping(raw, "cost")
    usage = Usage(
        used=count(raw, "used"),
        size=count(raw, "size"),
        cost=number(cost, "amount"),
        currency=string(cost, "currency"),
    )
    return {"usage": usage}


def _info(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Absent keeps, null clears: codex sends this with nothing but ``_meta``, all the time."""
    names = {"title": "title", "updatedAt": "updated_at"}
    info = {
        ours: raw[theirs]
        for theirs, ours in names.items()
        if theirs in raw and (raw[theirs] is None or isinstance(raw[theirs], str))
    }
    return {"info": MappingProxyType(info)}


def _commands(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"commands": parse_commands(raw)}


def _config_options(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"config_options": parse_config_options(raw)}


def _mode(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"mode_id": string(raw, "currentModeId")}


def _notice(raw: Mapping[str, Any]) -> dict[str, Any]:
    title = string(raw, "title")
    if title is None:
        return {}
    severity = string(raw, "severity") or "info"
    return {"notice": Notice(title, severity, string(raw, "description"))}


def _compaction(raw: Mapping[str, Any]) -> dict[str, Any]:
    compaction_id = string(raw, "compactionId")
    if not compaction_id:
        return {}
    error = raw.get("error")
    block = parse_block(raw.get("content"))
    summary = string(raw, "summary") if block is None else block_text(block)
    return {
        "compaction": Compaction(
            compaction_id,
            string(raw, "status"),
            summary,
            error if isinstance(error, str) else string(mapping(raw, "error"), "message"),
        )
    }


_KINDS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "tool_call": _tool_call,
    "tool_call_update": _tool_call_update,
    "plan": _plan,
    "usage_update": _usage,
    "session_info_update": _info,
    "available_commands_update": _commands,
    "config_option_update": _config_options,
    "current_mode_update": _mode,
    "notice": _notice,
    "compaction_update": _compaction,
    "compaction_summary_chunk": _compaction,
}

# How many keys a chunk of text and its block have, the message's id aside.
_KIND_AND_CONTENT = _TYPE_AND_TEXT = 2

_ENDS_RUN = frozenset(
    {"tool_call", "tool_call_update", "notice", "compaction_update", "compaction_summary_chunk"}
)
