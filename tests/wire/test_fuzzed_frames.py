"""T-4: 5,000 fuzzed frames of a real process in one session, and then a turn like any other.

A frame is a message the protocol knows with some of its values replaced by others, fields taken
away or added, and now and then its bytes damaged. The frames are the same in every run.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import pytest

from silo_nb import Update
from tests.wire.playing import Play, goes_on

pytestmark = pytest.mark.timeout(60)

FRAMES = 5_000
FRAMES_PER_BATCH = 100
SESSION = "fuzzed"

TEXT = {"type": "text", "text": "word "}
ENTRY = {"content": "Look", "priority": "high", "status": "pending"}
CHOICE = {"value": "large", "name": "Large"}
OPTION = {
    "id": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "plan",
    "options": [CHOICE, {"group": "g", "name": "Group", "options": [CHOICE]}],
}
ROW = {
    "toolCallId": "t1",
    "title": "Edit notes.md",
    "kind": "edit",
    "status": "in_progress",
    "content": [
        {"type": "content", "content": TEXT},
        {"type": "diff", "path": "/notes.md", "oldText": "old", "newText": "new"},
        {"type": "terminal", "terminalId": "x"},
    ],
    "locations": [{"path": "/notes.md", "line": 3}],
    "rawInput": {"command": "ls", "deep": [[[{}]]]},
    "rawOutput": {"output": "1.2.3.4"},
    "_meta": {
        "terminal_output": {"data": "line\n"},
        "terminal_exit": {"exit_code": 1, "signal": None},
        "claudeCode": {"toolName": "Bash", "parentToolUseId": "t0"},
    },
}
FORM = {
    "mode": "form",
    "message": "Which colour?",
    "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
}

UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "content": TEXT},
    {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m1"},
    {"sessionUpdate": "agent_message_chunk", "content": TEXT},
    {"sessionUpdate": "agent_thought_chunk", "content": TEXT},
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///i"},
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3},
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
    },
    {"sessionUpdate": "tool_call", **ROW},
    {"sessionUpdate": "tool_call_update", **ROW},
    {"sessionUpdate": "plan", "entries": [ENTRY, ENTRY]},
    {
        "sessionUpdate": "usage_update",
        "used": 10,
        "size": 200,
        "cost": {"amount": 0.5, "currency": "USD"},
    },
    {"sessionUpdate": "session_info_update", "title": "A title", "updatedAt": "2026-11-30"},
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "go", "description": "Go", "input": {"hint": "where"}}],
    },
    {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
    {"sessionUpdate": "notice", "severity": "info", "title": "Note", "description": "well"},
    {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": "in_progress"},
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c1", "content": TEXT},
    {"sessionUpdate": "hologram", "beam": [1, 2]},
]

# What the agent numbers itself, and what it may answer: never a request we have open.
IDS: list[Any] = [0, -7, 4711, "x", "", None, 1.5, {"a": 1}, [1], True]

JUNK: list[Any] = [
    *(None, True, False, 0, -1, 7, 1.5, -0.0, 1e308, 10**18, 2**63, 2**64, 10**30, -(10**30)),
    *("", " ", "x", "t1", "c1", "m1", "\ud83d", "a\udc00b", "\x00", "\x1b[31m", "\u202e", "é😀"),
    *([], {}, [[]], [None, 1, "x", {}], {"": None}, {"a": {"b": {"c": []}}}, {"type": "text"}),
    *("long " * 500, float("nan"), float("inf")),
]


class Fuzz:
    """Makes frames that are nearly right."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def batch(self) -> bytes:
        """Return some frames, a line each."""
        return b"".join(self._frame() + b"\n" for _ in range(FRAMES_PER_BATCH))

    def _frame(self) -> bytes:
        message = self._mutated(self._message(), self._random.choice([0, 0.02, 0.1, 0.5]))
        frame = json.dumps(message, ensure_ascii=self._random.random() < 0.5)
        data = frame.encode("utf-8", "surrogatepass")
        return self._damaged(data) if self._random.random() < 0.1 else data

    def _message(self) -> Any:
        kinds = [self._update, self._update, self._update, self._request, self._response]
        message: Any = {"jsonrpc": "2.0", **self._random.choice(kinds)()}
        return self._random.choice(JUNK) if self._random.random() < 0.02 else message

    def _update(self) -> dict[str, Any]:
        session = SESSION if self._random.random() < 0.95 else "another"
        params = {"sessionId": session, "update": self._random.choice(UPDATES)}
        return {"method": "session/update", "params": params}

    def _request(self) -> dict[str, Any]:
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        row = {**ROW, "toolCallId": self._random.choice(["t1", "t2", "c1"])}
        requests: list[tuple[str, dict[str, Any]]] = [
            ("session/request_permission", {"toolCall": row, "options": options}),
            ("elicitation/create", FORM),
            ("fs/read_text_file", {"path": "/etc/passwd"}),
            ("_vendor/x", {}),
        ]
        method, params = self._random.choice(requests)
        params = {"sessionId": SESSION, **params}
        return {"id": self._random.choice(IDS), "method": method, "params": params}

    def _response(self) -> dict[str, Any]:
        request_id = self._random.choice(IDS)
        return self._random.choice(
            [
                {"id": request_id, "result": {"stopReason": "end_turn"}},
                {"id": request_id, "error": {"code": -32603, "message": "no", "data": {}}},
                {"method": "$/cancel_request", "params": {"requestId": request_id}},
                {"method": "$/cancel_request", "params": {"requestId": 0}},
            ]
        )

    def _mutated(self, value: Any, rate: float) -> Any:
        """Replace, leave out and add values, each with a probability of `rate`."""
        if self._random.random() < rate / 4:
            return self._random.choice(JUNK)
        if isinstance(value, list):
            items = [self._mutated(item, rate) for item in value]
            return items * 2 if self._random.random() < rate / 4 else items
        if not isinstance(value, dict):
            return self._random.choice(JUNK) if self._random.random() < rate else value
        fields = {
            # An id that is replaced could be one of ours.
            key: item if key in {"id", "requestId"} else self._mutated(item, rate)
            for key, item in value.items()
            if key in {"jsonrpc", "id"} or self._random.random() >= rate / 2
        }
        if self._random.random() < rate:
            fields[self._random.choice(["x", "_meta", "content", "title"])] = self._random.choice(
                JUNK
            )
        return fields

    def _damaged(self, frame: bytes) -> bytes:
        at = self._random.randrange(len(frame))
        noise = self._random.choice([b"\xff", b"\x00", b'"', b"}", b"{", b"[" * 300, b" ", b"\r"])
        return self._random.choice(
            [frame[:at], frame[at:], frame[:at] + noise + frame[at + 1 :], noise + frame]
        )


def marker(number: int) -> dict[str, Any]:
    """Return the step that shows that all before it was read."""
    return {"think": f"batch {number}", "id": f"batch-{number}"}


def fuzzed(fuzz: Fuzz, batches: range) -> list[dict[str, Any]]:
    """Return steps that write batches of frames, each with its marker."""
    return [
        step
        for number in batches
        for step in (
            {"garbage": {"base64": base64.b64encode(fuzz.batch()).decode()}},
            marker(number),
        )
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_after_5_000_fuzzed_frames_a_turn_is_a_turn(play: Play, seed: int) -> None:
    """Half of them in mid-turn, half between turns: all read, no exception, nothing stuck."""
    batches = FRAMES // FRAMES_PER_BATCH
    fuzz = Fuzz(seed)
    agent, session = await play(
        [
            {"defaults": {"session/new": {"sessionId": SESSION}}},
            {"expect": "session/prompt"},
            *fuzzed(fuzz, range(batches // 2)),
            {"reply": "end_turn"},
            *fuzzed(fuzz, range(batches // 2, batches)),
            {"mark": "written"},
            {"expect": "session/prompt"},
            {"say": "as if nothing had been", "id": "the answer"},
            {"reply": "end_turn"},
        ]
    )
    heard: list[Update] = []
    session.on_update(heard.append)
    session.on_permission(lambda request: request.respond(request.options[-1].option_id))

    async with asyncio.timeout(20):
        first = await session.prompt("one")
        await agent.reached("written", within=20)
        second = await session.prompt("two")

    assert (first.stop_reason, second.stop_reason) == ("end_turn", "end_turn")
    assert second.text == "as if nothing had been"
    marks = [u.text for u in heard if (u.message_id or "").startswith("batch-")]
    assert marks == [f"batch {number}" for number in range(batches)]
    await goes_on(session)
