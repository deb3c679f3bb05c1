"""Strategies for what agents send in session/update, in the wire's own spelling."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=6)
IDS = st.sampled_from(["a", "b", "c"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)

Raw = dict[str, Any]


def objects(needed: dict[str, Any], **optional: Any) -> st.SearchStrategy[Raw]:
    """Objects with what is needed, and any of what is optional."""
    fixed = {
        key: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for key, value in needed.items()
    }
    return st.fixed_dictionaries(fixed, optional=optional)


TEXT_BLOCKS = objects({"type": "text", "text": TEXT}, _meta=JSON)
BLOCKS = st.one_of(
    TEXT_BLOCKS,
    objects({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
    objects({"type": "resource_link", "uri": "file:///a"}, name=TEXT, size=JSON),
    objects({"type": TEXT}, x=JSON),
    JSON,
)
KINDS = st.sampled_from(["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"])
MESSAGE_IDS = st.sampled_from(["m1", "m2", "syn-1", None, 5])

PLAIN_CHUNKS = st.one_of(
    objects({"sessionUpdate": KINDS, "content": objects({"type": "text", "text": TEXT})}),
    objects(
        {
            "sessionUpdate": KINDS,
            "content": objects({"type": "text", "text": TEXT}),
            "messageId": st.sampled_from(["m1", "m2", "syn-1"]),
        }
    ),
)
"""Chunks that are nothing but text: most of all there is."""

CHUNKS = PLAIN_CHUNKS | objects(
    {"sessionUpdate": KINDS, "content": BLOCKS}, messageId=MESSAGE_IDS, _meta=JSON
)

TOOL_CONTENT = st.one_of(
    objects({"type": "content", "content": BLOCKS}),
    objects({"type": "diff", "path": TEXT, "newText": TEXT}, oldText=st.none() | TEXT),
    objects({"type": "terminal", "terminalId": IDS}),
    JSON,
)
TERMINAL_META = st.fixed_dictionaries(
    {},
    optional={
        "terminal_output_delta": objects({"data": TEXT}),
        "terminal_exit": objects({"exit_code": JSON}, signal=JSON),
        "claudeCode": objects({}, toolName=TEXT, parentToolUseId=IDS),
    },
)
STATUSES = st.sampled_from(["pending", "in_progress", "completed", "failed", "acme_queued"])
TOOL_CALLS = objects(
    {"toolCallId": IDS},
    title=TEXT,
    kind=TEXT,
    status=STATUSES,
    content=st.lists(TOOL_CONTENT, max_size=2),
    locations=st.lists(objects({"path": TEXT}, line=JSON) | JSON, max_size=2),
    rawInput=JSON,
    rawOutput=JSON,
    _meta=TERMINAL_META,
)


def of_kind(kind: str, fields: st.SearchStrategy[Raw]) -> st.SearchStrategy[Raw]:
    return fields.map(lambda found: {"sessionUpdate": kind, **found})


PLAN_ENTRIES = st.lists(objects({"content": TEXT}, status=TEXT, priority=JSON) | JSON, max_size=2)
OTHERS = st.one_of(
    of_kind("plan", objects({}, entries=PLAN_ENTRIES | JSON)),
    of_kind("usage_update", objects({}, used=JSON, size=JSON, cost=objects({}, amount=JSON))),
    of_kind("session_info_update", objects({}, title=st.none() | TEXT, updatedAt=JSON)),
    of_kind("available_commands_update", objects({}, availableCommands=st.lists(JSON, max_size=2))),
    of_kind("config_option_update", objects({}, configOptions=st.lists(JSON, max_size=2))),
    of_kind("current_mode_update", objects({}, currentModeId=JSON)),
    of_kind("notice", objects({}, title=TEXT, severity=TEXT, description=JSON)),
    of_kind(
        "compaction_update",
        objects({"compactionId": IDS}, status=STATUSES, summary=TEXT, error=JSON),
    ),
    of_kind("compaction_summary_chunk", objects({"compactionId": IDS}, content=BLOCKS)),
)
UNKNOWN = st.one_of(
    st.sampled_from(["turn_start", "turn_end", "permission", "user", "acme_update"]).flatmap(
        lambda kind: of_kind(kind, st.dictionaries(TEXT, JSON, max_size=2))
    ),
    objects({}, sessionUpdate=JSON.filter(lambda kind: not isinstance(kind, str))),
)
"""Kinds that no version has, some of which are the names of our own records."""

UPDATES = st.one_of(
    CHUNKS,
    of_kind("tool_call", TOOL_CALLS),
    of_kind("tool_call_update", TOOL_CALLS),
    OTHERS,
    UNKNOWN,
)
