"""A transcript told again as journal records, for a file that was deleted: FAULTS D8, D9.

What is told folds back to the same transcript. It is shorter than what was: pieces are joined, and
of a row only its last state is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from silo_nb.acp.blocks import wire_block, wire_tool_content
from silo_nb.model import (
    Attachment,
    CompactionRow,
    Entry,
    Message,
    NoticeRow,
    ToolCall,
    Transcript,
    TurnEnd,
)
from silo_nb.session.records import permission_fields, turn_fields

__all__ = ["Record", "tell_again"]

Record = tuple[str, dict[str, Any]]

_CHUNKS = {
    "user": "user_message_chunk",
    "agent": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}


def tell_again(transcript: Transcript) -> Iterator[Record]:
    """Yield the records, kind and fields, that fold to `transcript`."""
    began = False
    for entry in transcript.entries:
        if not began:
            yield "turn_start", {}
        began = not isinstance(entry, TurnEnd)
        yield from _entry(entry)
    if transcript.turn_running and not began:
        yield "turn_start", {}
    yield from _head(transcript)


def _entry(entry: Entry) -> Iterator[Record]:
    match entry:
        case Message():
            yield _said(entry, {"type": "text", "text": entry.text})
        case Attachment():
            yield _said(entry, wire_block(entry.content))
        case ToolCall():
            yield from _row(entry)
        case NoticeRow(notice):
            yield _update(
                "notice",
                severity=notice.severity,
                title=notice.title,
                description=notice.description,
            )
        case CompactionRow():
            yield _update(
                "compaction_update",
                compactionId=entry.compaction_id,
                status=entry.status,
                summary=str(entry.summary) or None,
                error=entry.error,
            )
        case TurnEnd(turn, at):
            yield "turn_end", turn_fields(turn, at)


def _said(entry: Message | Attachment, content: dict[str, Any]) -> Record:
    kind, fields = _update(_CHUNKS[entry.role], content=content)
    if entry.message_id is not None:
        fields["m"] = entry.message_id
    if entry.timestamp is not None:
        fields["at"] = entry.timestamp
    return kind, fields


def _row(row: ToolCall) -> Iterator[Record]:
    meta: dict[str, Any] = {}
    if len(row.output):
        meta["terminal_output_delta"] = {"data": str(row.output)}
    if row.exit is not None:
        meta["terminal_exit"] = {"exit_code": row.exit.code, "signal": row.exit.signal}
    if row.parent_id is not None:
        meta["claudeCode"] = {"parentToolUseId": row.parent_id}
    yield _update(
        "tool_call",
        toolCallId=row.tool_call_id,
        title=row.title or None,
        kind=row.kind,
        # What we settled ourselves is settled again by the end of its turn.
        status="pending" if row.settled else row.status,
        content=[wire_tool_content(item) for item in row.content] or None,
        locations=[{"path": p.path, "line": p.line} for p in row.locations] or None,
        rawInput=row.raw_input,
        rawOutput=row.raw_output,
        name=row.name,
        _meta=meta or None,
    )
    for asked in row.permissions:
        yield "permission", permission_fields(asked, {})


def _head(transcript: Transcript) -> Iterator[Record]:
    if transcript.plan:
        entries = [
            {"content": p.content, "status": p.status, "priority": p.priority}
            for p in transcript.plan
        ]
        yield _update("plan", entries=entries)
    usage = transcript.usage
    if usage is not None:
        cost = None if usage.cost is None else {"amount": usage.cost, "currency": usage.currency}
        yield _update("usage_update", used=usage.used, size=usage.size, cost=cost)
    if transcript.title is not None:
        yield _update("session_info_update", title=transcript.title)


def _update(kind: str, /, **fields: Any) -> Record:
    present = {key: value for key, value in fields.items() if value is not None}
    return "update", {"u": {"sessionUpdate": kind, **present}}
