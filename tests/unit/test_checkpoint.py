"""A transcript told again folds to the same transcript. (FAULTS D8, D9)"""

from __future__ import annotations

from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from silo_nb import EMPTY_TRANSCRIPT, Transcript, Update, apply_update
from silo_nb.acp.normalize import Normalizer
from silo_nb.model import Permission, PermissionOption, Turn
from silo_nb.session.checkpoint import tell_again
from silo_nb.session.records import read_updates, user_updates


def fold(updates: list[Update]) -> Transcript:
    return reduce(apply_update, updates, EMPTY_TRANSCRIPT)


def again(transcript: Transcript) -> Transcript:
    records = [{"k": kind, **fields} for kind, fields in tell_again(transcript)]
    return fold(list(read_updates(records)))


WIRE: list[dict[str, Any]] = [
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}},
    {
        "sessionUpdate": "agent_thought_chunk",
        "content": {"type": "text", "text": "b"},
        "messageId": "m1",
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    },
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "t1",
        "title": "Edit",
        "kind": "edit",
        "status": "completed",
        "content": [
            {"type": "diff", "path": "/w/a", "newText": "2", "oldText": None},
            {"type": "content", "content": {"type": "text", "text": "note"}},
            {"type": "terminal", "terminalId": "t1"},
            {"type": "hologram", "x": 1},
        ],
        "locations": [{"path": "/w/a", "line": 3}],
        "rawInput": {"path": "/w/a"},
        "rawOutput": ["x"],
        "_meta": {
            "terminal_output_delta": {"data": "out\n"},
            "terminal_exit": {"exit_code": 3, "signal": None},
            "claudeCode": {"toolName": "Write", "parentToolUseId": "t0"},
        },
    },
    {"sessionUpdate": "tool_call_update", "toolCallId": "t2", "status": "in_progress"},
    {"sessionUpdate": "plan", "entries": [{"content": "x", "status": "odd", "priority": "low"}]},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5}},
    {"sessionUpdate": "session_info_update", "title": "T"},
    {"sessionUpdate": "notice", "severity": "info", "title": "N"},
    {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"},
    {
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": "c",
        "content": {"type": "text", "text": "so far"},
    },
]
OPTIONS = (PermissionOption("y", "Yes", "allow_once"),)


@given(
    st.lists(
        st.sampled_from(range(len(WIRE)))
        | st.sampled_from(["prompt", "end", "cancel", "ask", "answer"]),
        max_size=25,
    )
)
def test_what_is_told_again_is_the_same(script: list[int | str]) -> None:
    normalizer = Normalizer()
    updates: list[Update] = []
    turn = 0
    for step in script:
        match step:
            case int():
                updates.append(normalizer.normalize(dict(WIRE[step])))
            case "prompt":
                turn += 1
                blocks = [{"type": "text", "text": f"question {turn}"}]
                updates += user_updates(blocks, turn, "2026-11-30T12:00:00.000+00:00")
                updates.append(Update("turn_start", turn=Turn()))
            case "end" | "cancel":
                reason = "end_turn" if step == "end" else "cancelled"
                updates.append(Update("turn_end", timestamp="2026", turn=Turn(reason)))
            case _:
                outcome = "selected" if step == "answer" else None
                asked = Permission("p1", "t1", OPTIONS, outcome, "y" if outcome else None)
                updates.append(Update("permission", permission=asked))
    transcript = fold(updates)

    told = again(transcript)

    assert told.entries == transcript.entries
    assert (told.plan, told.usage, told.title) == (
        transcript.plan,
        transcript.usage,
        transcript.title,
    )
    assert told.head.turns == transcript.head.turns
