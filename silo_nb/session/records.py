"""Updates to journal records and back: the one place that knows both. See FAULTS §3.3.

A record holds the wire's own object once; the :class:`~silo_nb.model.Update` is derived when it is
read, by the same normalizer as live. ``reduce(apply_update, read) == live transcript``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from silo_nb.acp.blocks import parse_block
from silo_nb.acp.fields import items, mapping, string
from silo_nb.acp.normalize import Normalizer, parse_tool_call
from silo_nb.acp.permission import parse_options
from silo_nb.journal import Journal
from silo_nb.model import Permission, TextBlock, Turn, Update
from silo_nb.model.update import MESSAGE_ROLES

__all__ = [
    "count_made_up_ids",
    "notice",
    "permission_fields",
    "read_updates",
    "turn_fields",
    "user_updates",
    "write_prompt",
    "write_update",
]


def write_update(journal: Journal, update: Update) -> None:
    """Put `update` on record; what stands for the user's own prompt is there already."""
    if update.plain and update.text is not None and update.message_id is not None:
        synthesized = "messageId" not in update.raw
        journal.append_chunk(update.kind, update.message_id, update.text, synthesized=synthesized)
    elif update.turn is not None:
        journal.append(update.kind, turn_fields(update.turn, update.timestamp))
    elif update.permission is not None:
        journal.append("permission", permission_fields(update.permission, update.raw))
    elif update.timestamp is None:
        journal.append("update", _wire_fields(update))


def _wire_fields(update: Update) -> dict[str, Any]:
    raw, message_id = dict(update.raw), update.message_id
    if message_id is None or raw.get("messageId") == message_id:
        return {"u": raw}
    return {"u": raw, "m": message_id}


def write_prompt(journal: Journal, blocks: Sequence[Mapping[str, Any]], turn: int, at: str) -> None:
    """Put what the user said on record; arguments as for :func:`user_updates`."""
    journal.append("user", {"turn": turn, "at": at, "prompt": list(blocks)})


def user_updates(blocks: Iterable[Mapping[str, Any]], turn: int, at: str) -> list[Update]:
    """Return the updates that stand for a prompt: one message a block.

    ACP does not echo a prompt, so that what the user said would be missing from the record. (R30)

    Args:
        blocks: the prompt as the wire spells it.
        turn: number of the turn, from 1, unique in the journal.
        at: when it was sent, ISO 8601.
    """
    updates = []
    for number, raw in enumerate(blocks):
        block = parse_block(raw)
        update = Update(
            "user_message_chunk",
            text=block.text if isinstance(block, TextBlock) else None,
            content=block,
            message_id=f"user-{turn}.{number}",
            timestamp=at,
            raw={"sessionUpdate": "user_message_chunk", "content": raw},
        )
        updates.append(update)
    return updates


def notice(title: str, description: str) -> Update:
    """Return a notice of our own: something about the session that should be seen once."""
    raw = {
        "sessionUpdate": "notice",
        "severity": "warning",
        "title": title,
        "description": description,
    }
    return Normalizer().normalize(raw)


def count_made_up_ids(updates: Iterable[Update]) -> int:
    """Return how many runs of chunks have an id of ours already; see the normalizer."""
    ids = {u.message_id for u in updates if u.message_id and u.message_id.startswith("syn-")}
    return len(ids)


def read_updates(records: Iterable[Mapping[str, Any]]) -> Iterator[Update]:
    """Yield the updates that journal `records` stand for, tolerating what cannot be read."""
    normalizer = Normalizer()
    for record in records:
        match record.get("k"):
            case "update" if isinstance(record.get("u"), dict):
                yield _read_update(normalizer, record)
            case "user" if isinstance(record.get("prompt"), list):
                blocks = list(items(record, "prompt"))
                yield from user_updates(blocks, record.get("turn", 0), string(record, "at") or "")
            case "turn_start" | "turn_end" as kind:
                yield _read_turn(kind, record)
            case "permission" if string(record, "id") and string(record, "toolCallId"):
                yield _read_permission(record)


def _read_update(normalizer: Normalizer, record: Mapping[str, Any]) -> Update:
    update = normalizer.normalize(record["u"])
    made_up, at = string(record, "m"), string(record, "at")
    if update.kind not in MESSAGE_ROLES or made_up is at is None:
        return update
    return replace(update, message_id=made_up or update.message_id, timestamp=at)


def turn_fields(turn: Turn, at: str | None) -> dict[str, Any]:
    """Return the fields of the record of a turn's start or end."""
    fields = {
        "at": at,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "cancelRequested": turn.cancel_requested or None,
        "usage": dict(turn.usage) if turn.usage is not None else None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _read_turn(kind: str, record: Mapping[str, Any]) -> Update:
    turn = Turn(
        stop_reason=string(record, "stopReason"),
        error=string(record, "error"),
        cancel_requested=record.get("cancelRequested") is True,
        usage=mapping(record, "usage") or None,
    )
    return Update(kind, timestamp=string(record, "at"), turn=turn)


def permission_fields(asked: Permission, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the record of an ask.

    Asked and answered are two records of one id: a crash between them shows as unanswered.
    """
    fields: dict[str, Any] = {"id": asked.id, "toolCallId": asked.tool_call_id}
    if asked.outcome is None:
        fields["toolCall"] = raw.get("toolCall")
    fields["options"] = [
        {"optionId": o.option_id, "name": o.name, "kind": o.kind} for o in asked.options
    ]
    if asked.outcome is not None:
        fields |= {"outcome": asked.outcome, "optionId": asked.option_id, "by": asked.answered_by}
    return fields


def _read_permission(record: Mapping[str, Any]) -> Update:
    permission = Permission(
        id=record["id"],
        tool_call_id=record["toolCallId"],
        options=parse_options(record),
        outcome=string(record, "outcome"),
        option_id=string(record, "optionId"),
        answered_by=string(record, "by"),
    )
    tool_call = parse_tool_call(mapping(record, "toolCall"))
    return Update("permission", tool_call=tool_call, permission=permission, raw=record)
