"""apply_update: the next transcript out of an update. Pure: no clock, no I/O, no awaiting.

Every state of the conversation is reached through this one function, live and from the journal,
so that the two cannot disagree. The cost of one update does not grow with the transcript.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from silo_nb.model.entries import Entries
from silo_nb.model.rope import Rope
from silo_nb.model.transcript import (
    CLOSED_STATUSES,
    NO_ROWS,
    Attachment,
    CompactionRow,
    Entry,
    Head,
    Message,
    NoticeRow,
    ToolCall,
    Transcript,
    TurnEnd,
)
from silo_nb.model.update import (
    MESSAGE_ROLES,
    Compaction,
    Permission,
    Role,
    ToolCallPatch,
    Update,
)

__all__ = ["apply_update"]


def apply_update(transcript: Transcript, update: Update) -> Transcript:
    """Return the transcript after `update`.

    An update of an unknown kind changes nothing and is never an error.

    Example:
        >>> from functools import reduce
        >>> from silo_nb import EMPTY_TRANSCRIPT, Update, apply_update
        >>> chunks = [Update("agent_message_chunk", text=t, message_id="m") for t in ("4", "2")]
        >>> [m.text for m in reduce(apply_update, chunks, EMPTY_TRANSCRIPT).messages]
        ['42']
    """
    reducer = _REDUCERS.get(update.kind)
    return transcript if reducer is None else reducer(transcript, update)


def _message(transcript: Transcript, update: Update) -> Transcript:
    role, text = MESSAGE_ROLES[update.kind], update.text
    entries = transcript.entries
    if text is None:
        return _attachment(transcript, role, update)
    last = entries.last
    if type(last) is Message and last.message_id == update.message_id and last.role == role:
        grown = Message(role, last.message_id, last.body.append(text), last.timestamp)
        return _with_entries(transcript, entries.replace_last(grown))
    if not text:
        # qwen-code 0.24 closes each model round with an empty chunk: no bubble for that.
        return transcript
    bubble = Message(role, update.message_id, Rope(text), update.timestamp)
    return _with_entries(transcript, entries.append(bubble))


def _attachment(transcript: Transcript, role: Role, update: Update) -> Transcript:
    if update.content is None:
        return transcript
    attachment = Attachment(role, update.message_id, update.content, update.timestamp)
    return _with_entries(transcript, transcript.entries.append(attachment))


def _tool_call(transcript: Transcript, update: Update) -> Transcript:
    patch = update.tool_call
    return transcript if patch is None else _patch_row(transcript, patch)


def _permission(transcript: Transcript, update: Update) -> Transcript:
    permission = update.permission
    if permission is None:
        return transcript
    patch = update.tool_call or ToolCallPatch(tool_call_id=permission.tool_call_id)
    return _patch_row(transcript, patch, permission)


def _with_permission(
    known: tuple[Permission, ...], permission: Permission | None
) -> tuple[Permission, ...]:
    if permission is None:
        return known
    if any(p.id == permission.id for p in known):
        return tuple(permission if p.id == permission.id else p for p in known)
    return (*known, permission)


def _plan(transcript: Transcript, update: Update) -> Transcript:
    if update.plan is None:
        return transcript
    return _with_head(transcript, replace(transcript.head, plan=update.plan))


def _usage(transcript: Transcript, update: Update) -> Transcript:
    if update.usage is None:
        return transcript
    return _with_head(transcript, replace(transcript.head, usage=update.usage))


def _info(transcript: Transcript, update: Update) -> Transcript:
    if update.info is None or "title" not in update.info:
        return transcript
    return _with_head(transcript, replace(transcript.head, title=update.info["title"]))


def _notice(transcript: Transcript, update: Update) -> Transcript:
    if update.notice is None:
        return transcript
    return _with_entries(transcript, transcript.entries.append(NoticeRow(update.notice)))


def _compaction(transcript: Transcript, update: Update) -> Transcript:
    said = update.compaction
    if said is None:
        return transcript
    found = transcript.find(said.compaction_id)
    if found is None:
        row = _summarized(CompactionRow(said.compaction_id), said)
        return _append_row(transcript, said.compaction_id, row)
    at, known = found
    if not isinstance(known, CompactionRow):
        return transcript
    return _with_entries(transcript, transcript.entries.replace(at, _summarized(known, said)))


def _summarized(row: CompactionRow, said: Compaction) -> CompactionRow:
    return CompactionRow(
        row.compaction_id,
        said.status or row.status,
        row.summary.append(said.summary or ""),
        said.error or row.error,
    )


def _turn_start(transcript: Transcript, update: Update) -> Transcript:
    if update.turn is None:
        return transcript
    return _with_head(transcript, replace(transcript.head, turn_running=True))


def _turn_end(transcript: Transcript, update: Update) -> Transcript:
    turn = update.turn
    if turn is None:
        return transcript
    cancelled = turn.cancel_requested or turn.stop_reason == "cancelled"
    entries = transcript.entries
    opened = transcript.opened
    while opened is not None:
        at, opened = opened
        row = entries[at]
        if isinstance(row, ToolCall) and row.is_open:
            entries = entries.replace(at, _settled(row, cancelled=cancelled))
    entries = entries.append(TurnEnd(turn, update.timestamp))
    head = transcript.head
    head = replace(head, turns=head.turns + 1, turn_running=False)
    return Transcript(entries, head, transcript.rows, None)


def _settled(row: ToolCall, *, cancelled: bool) -> ToolCall:
    """Close a row the agent left open.

    gemini-cli 0.61 says nothing more of a call once it was rejected; codex-acp 2.6 leaves a
    cancelled call in progress for ever.
    """
    rejected = bool(row.permissions) and row.permissions[-1].allowed is False
    status = "cancelled" if cancelled else "failed" if rejected else "unfinished"
    return replace(row, status=status, settled=True)


def _patch_row(
    transcript: Transcript, patch: ToolCallPatch, permission: Permission | None = None
) -> Transcript:
    found = transcript.find(patch.tool_call_id)
    if found is None:
        row = ToolCall(tool_call_id=patch.tool_call_id)
        row = _patched(row, patch, permission, reopen=True)
        return _append_row(transcript, patch.tool_call_id, row)
    at, known = found
    if not isinstance(known, ToolCall):
        return transcript
    reopen = patch.opens and transcript.turn_running
    row = _patched(known, patch, permission, reopen=reopen)
    entries = transcript.entries.replace(at, row)
    opened = transcript.opened
    if row.is_open and not known.is_open:
        opened = (at, opened)
    return Transcript(entries, transcript.head, transcript.rows, opened)


def _patched(
    row: ToolCall, patch: ToolCallPatch, permission: Permission | None, *, reopen: bool
) -> ToolCall:
    status, settled = _next_status(row, patch, reopen=reopen)
    return ToolCall(
        tool_call_id=row.tool_call_id,
        title=row.title if patch.title is None else patch.title,
        kind=row.kind if patch.kind is None else patch.kind,
        status=status,
        content=row.content if patch.content is None else patch.content,
        locations=row.locations if patch.locations is None else patch.locations,
        raw_input=row.raw_input if patch.raw_input is None else patch.raw_input,
        raw_output=row.raw_output if patch.raw_output is None else patch.raw_output,
        name=row.name if patch.name is None else patch.name,
        parent_id=row.parent_id if patch.parent_id is None else patch.parent_id,
        output=row.output if patch.output is None else row.output.append(patch.output),
        exit=row.exit if patch.exit is None else patch.exit,
        permissions=_with_permission(row.permissions, permission),
        settled=settled,
    )


def _next_status(row: ToolCall, patch: ToolCallPatch, *, reopen: bool) -> tuple[str, bool]:
    """Return the row's status and whether it is ours.

    A row we closed at the end of its turn is not revived by a late update: a cancelled one stays
    cancelled, an unfinished one takes only word of its end. (case 8)
    """
    status = patch.status
    if status is None:
        return row.status, row.settled
    if row.settled and not reopen and (row.status == "cancelled" or status not in CLOSED_STATUSES):
        return row.status, True
    return status, False


def _append_row(transcript: Transcript, key: str, row: ToolCall | CompactionRow) -> Transcript:
    at = len(transcript.entries)
    rows = transcript.rows
    # As in Rope: setdefault claims the place; a branch that finds it taken makes its own index.
    if rows is NO_ROWS or rows.setdefault(key, at) != at:
        rows = {
            found: i
            for i, entry in enumerate(transcript.entries)
            if (found := _key(entry)) is not None
        }
        rows[key] = at
    opened = transcript.opened
    if isinstance(row, ToolCall) and row.is_open:
        opened = (at, opened)
    return Transcript(transcript.entries.append(row), transcript.head, rows, opened)


def _key(entry: Entry) -> str | None:
    match entry:
        case ToolCall(tool_call_id=key) | CompactionRow(compaction_id=key):
            return key
        case _:
            return None


def _with_entries(transcript: Transcript, entries: Entries[Entry]) -> Transcript:
    return Transcript(entries, transcript.head, transcript.rows, transcript.opened)


def _with_head(transcript: Transcript, head: Head) -> Transcript:
    return Transcript(transcript.entries, head, transcript.rows, transcript.opened)


_REDUCERS: dict[str, Callable[[Transcript, Update], Transcript]] = {
    "user_message_chunk": _message,
    "agent_message_chunk": _message,
    "agent_thought_chunk": _message,
    "tool_call": _tool_call,
    "tool_call_update": _tool_call,
    "permission": _permission,
    "plan": _plan,
    "usage_update": _usage,
    "session_info_update": _info,
    "notice": _notice,
    "compaction_update": _compaction,
    "compaction_summary_chunk": _compaction,
    "turn_start": _turn_start,
    "turn_end": _turn_end,
}
