"""The normalizer: every kind of the schema, every lenience, nothing that raises. (R25 to R37)"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb import Update
from silo_nb.acp.normalize import Normalizer
from silo_nb.acp.options import parse_config_options, typed_options, without_doubles
from silo_nb.acp.quirks import EchoFilter
from silo_nb.model import (
    AudioBlock,
    Command,
    Compaction,
    ConfigChoice,
    ConfigOption,
    DiffContent,
    EmbeddedResource,
    ImageBlock,
    Location,
    Notice,
    PlanEntry,
    ResourceLink,
    TerminalContent,
    TerminalExit,
    TextBlock,
    UnknownBlock,
    Usage,
)
from tests.acp_schema import SCHEMA


def normalize(**raw: Any) -> Update:
    return Normalizer().normalize({"sessionUpdate": raw.pop("kind"), **raw})


def chunk(text: str, kind: str = "agent_message_chunk", **extra: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **extra}


MODELLED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "user_message_chunk": (
        {"content": {"type": "text", "text": "hi"}, "messageId": "u"},
        {"text": "hi", "content": TextBlock("hi"), "message_id": "u"},
    ),
    "agent_message_chunk": (
        {"content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        {"text": None, "content": ImageBlock("aGk=", "image/png")},
    ),
    "agent_thought_chunk": (
        {"content": {"type": "text", "text": "hm"}, "messageId": "t"},
        {"text": "hm", "message_id": "t"},
    ),
    "plan": (
        {"entries": [{"content": "read", "priority": "high", "status": "in_progress"}]},
        {"plan": (PlanEntry("read", "in_progress", "high"),)},
    ),
    "available_commands_update": (
        {
            "availableCommands": [
                {"name": "plan", "description": "Plan", "input": {"hint": "what"}},
                {"name": "help", "description": "Help", "input": None},
            ]
        },
        {"commands": (Command("plan", "Plan", "what"), Command("help", "Help"))},
    ),
    "current_mode_update": ({"currentModeId": "plan"}, {"mode_id": "plan"}),
    "config_option_update": (
        {
            "configOptions": [
                {
                    "id": "model",
                    "name": "Model",
                    "type": "select",
                    "currentValue": "a",
                    "options": [
                        {"group": "g", "name": "Big", "options": [{"value": "a", "name": "A"}]}
                    ],
                },
                {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True},
                {"id": "heat", "name": "Heat", "type": "slider", "currentValue": 3},
            ]
        },
        {
            "config_options": (
                ConfigOption(
                    "model", "Model", "select", "a", (ConfigChoice("a", "A", None, "Big"),)
                ),
                ConfigOption("fast", "Fast", "boolean", True),
                ConfigOption("heat", "Heat", "slider", 3),
            )
        },
    ),
    "session_info_update": (
        {"title": "Report", "updatedAt": None},
        {"info": {"title": "Report", "updated_at": None}},
    ),
    "usage_update": (
        {"used": 10, "size": 200, "cost": {"amount": 0.5, "currency": "USD"}},
        {"usage": Usage(10, 200, 0.5, "USD")},
    ),
    "notice": (
        {"severity": "warning", "title": "Slow", "description": "busy"},
        {"notice": Notice("Slow", "warning", "busy")},
    ),
    "compaction_update": (
        {"compactionId": "c", "status": "failed", "error": {"message": "full"}},
        {"compaction": Compaction("c", "failed", None, "full")},
    ),
    "compaction_summary_chunk": (
        {"compactionId": "c", "content": {"type": "text", "text": "so far"}},
        {"compaction": Compaction("c", summary="so far")},
    ),
}


@pytest.mark.parametrize("kind", MODELLED)
def test_each_kind_has_its_modelled_field(kind: str) -> None:
    raw, expected = MODELLED[kind]

    update = normalize(kind=kind, **raw)

    assert update.kind == kind
    assert {name: getattr(update, name) for name in expected} == expected
    assert dict(update.raw) == {"sessionUpdate": kind, **raw}


def test_every_kind_of_the_schema_is_tested_here() -> None:
    kinds = {
        kind["properties"]["sessionUpdate"]["const"]
        for kind in SCHEMA["$defs"]["SessionUpdate"]["oneOf"]
    }

    assert kinds - {"tool_call", "tool_call_update"} == set(MODELLED)


def test_a_tool_call_in_full() -> None:
    """R33."""
    update = normalize(
        kind="tool_call",
        toolCallId="t1",
        title="Edit",
        name="Write",
        status="pending",
        content=[
            {"type": "diff", "path": "/w/a", "newText": "new", "oldText": None},
            {"type": "content", "content": {"type": "text", "text": "note"}},
            {"type": "terminal", "terminalId": "t1"},
            {"type": "hologram", "x": 1},
            "not an object",
        ],
        locations=[{"path": "/w/a", "line": 3}, {"path": "/w/b", "line": "x"}, 7],
        rawInput={"path": "/w/a"},
        rawOutput="done",
    )

    call = update.tool_call
    assert call is not None
    assert (call.tool_call_id, call.opens, call.title, call.name) == ("t1", True, "Edit", "Write")
    assert call.content == (
        DiffContent("/w/a", "new"),
        TextBlock("note"),
        TerminalContent("t1"),
        UnknownBlock("hologram", {"type": "hologram", "x": 1}),
    )
    assert call.locations == (Location("/w/a", 3), Location("/w/b"))
    assert (call.raw_input, call.raw_output) == ({"path": "/w/a"}, "done")


def test_null_and_absent_both_mean_unchanged() -> None:
    """FAULTS R23: one rule for both, as ACP v1 says; an empty list is a value."""
    absent = normalize(kind="tool_call_update", toolCallId="t").tool_call
    null = normalize(
        kind="tool_call_update",
        toolCallId="t",
        title=None,
        status=None,
        content=None,
        locations=None,
        rawInput=None,
    ).tool_call
    empty = normalize(kind="tool_call_update", toolCallId="t", content=[]).tool_call

    assert absent == null
    assert absent is not None
    assert absent.content is None
    assert empty is not None
    assert empty.content == ()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            AudioBlock("aGk=", "audio/wav"),
        ),
        (
            {"type": "resource_link", "uri": "file:///w/my%20data.csv", "size": 12},
            ResourceLink("file:///w/my%20data.csv", "my data.csv", size=12),
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
            EmbeddedResource("file:///a", "x"),
        ),
        ({"type": "hologram"}, UnknownBlock("hologram", {"type": "hologram"})),
        ({"type": "text"}, UnknownBlock("text", {"type": "text"})),
    ],
)
def test_blocks_that_are_not_text(block: dict[str, Any], expected: object) -> None:
    """R27, FAULTS R22."""
    update = normalize(kind="agent_message_chunk", content=block)

    assert (update.text, update.content) == (None, expected)


def test_an_unknown_kind_is_delivered_with_its_raw() -> None:
    """R26, FAULTS R21."""
    update = normalize(kind="subagent_spawned", name="Bob")

    assert update.kind == "subagent_spawned"
    assert update.raw["name"] == "Bob"


def test_raw_is_read_only() -> None:
    """R36."""
    with pytest.raises(TypeError):
        normalize(kind="plan", entries=[]).raw["entries"] = 1  # type: ignore[index]


# ------------------------------------------------------------------------------ message ids


def test_ids_are_made_up_a_run_at_a_time() -> None:
    """R28."""
    run = Normalizer()

    ids = [
        run.normalize(raw).message_id
        for raw in (
            chunk("a"),
            chunk("b"),
            {"sessionUpdate": "usage_update", "used": 1, "size": 2},
            {"sessionUpdate": "available_commands_update", "availableCommands": []},
            chunk("c"),
            chunk("t", "agent_thought_chunk"),
            chunk("d"),
            {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": ""},
            chunk("e"),
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}},
            chunk("f"),
        )
    ]

    a, b, _, _, c, t, d, _, e, _, f = ids
    assert a == b == c
    assert len({a, t, d, e, f}) == 5


def test_made_up_ids_are_never_mixed_with_the_agents_own() -> None:
    """claude and codex leave the id out inside a run that has one (REAL_AGENTS §4.14)."""
    run = Normalizer()

    ids = [
        run.normalize(raw).message_id
        for raw in (chunk("a", messageId="m1"), chunk("b"), chunk("c"), chunk("d", messageId="m1"))
    ]

    assert ids == ["m1", "syn-1", "syn-1", "m1"]


# --------------------------------------------------------------------------------- lenience


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"used": None, "size": 200}, Usage(None, 200)),
        ({"used": 300, "size": 200}, Usage(300, 200)),
        ({"used": -1, "size": 0}, Usage(None, 0)),
        ({"used": "12", "size": True}, Usage()),
        ({}, Usage()),
    ],
)
def test_odd_usage_is_unknown_never_zero(raw: dict[str, Any], usage: Usage) -> None:
    """R35, FAULTS R26, case 31."""
    assert normalize(kind="usage_update", **raw).usage == usage


def test_a_plan_without_entries_is_no_plan() -> None:
    """FAULTS R25."""
    assert normalize(kind="plan").plan is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *sorted({key for raw, _ in MODELLED.values() for key in raw}),
        *("toolCallId", "title", "kind", "status", "locations", "rawInput", "options", "_meta"),
    ]
)


@given(
    st.sampled_from([*MODELLED, "tool_call", "tool_call_update", "vendor"]) | JSON,
    st.dictionaries(KEYS, JSON),
)
def test_nothing_an_agent_can_send_raises(kind: Any, fields: dict[str, Any]) -> None:
    """T-4."""
    update = Normalizer().normalize({**fields, "sessionUpdate": kind})

    assert isinstance(update.kind, str)


# ----------------------------------------------------------------------------------- quirks


@pytest.mark.parametrize(
    "meta",
    [
        {"terminal_output": {"terminal_id": "t", "data": "out\n"}},
        {"terminal_output_delta": {"terminal_id": "t", "data": "out\n"}},
        {"terminal_output_delta": {"data": "out\n"}, "terminal_output": {"data": "all of it"}},
    ],
)
def test_command_output_in_meta_belongs_to_the_row(meta: dict[str, Any]) -> None:
    """Case 27; codex-acp 2.6, claude-agent-acp 0.101."""
    call = normalize(kind="tool_call_update", toolCallId="t", _meta=meta).tool_call

    assert call is not None
    assert call.output == "out\n"


def test_how_a_command_ended_is_in_meta_too() -> None:
    meta = {"terminal_exit": {"terminal_id": "t", "exit_code": 3, "signal": None}}
    call = normalize(kind="tool_call_update", toolCallId="t", _meta=meta).tool_call

    assert call is not None
    assert call.exit == TerminalExit(3)


def test_a_sub_agents_call_names_its_parent() -> None:
    """Case 29; claude-agent-acp 0.101."""
    meta = {"claudeCode": {"toolName": "Bash", "parentToolUseId": "parent"}}
    call = normalize(kind="tool_call", toolCallId="t", _meta=meta).tool_call

    assert call is not None
    assert (call.parent_id, call.name) == ("parent", "Bash")


def test_an_echo_of_the_prompt_is_taken_out_whole_or_in_pieces() -> None:
    """R30, case 21; mistral-vibe 2.25."""
    run = Normalizer()
    for pieces in (["hello"], ["hel", "lo"]):
        echo = EchoFilter()
        echo.expect("hello")
        assert all(
            echo.is_echo(run.normalize(chunk(piece, "user_message_chunk"))) for piece in pieces
        )
        assert not echo.is_echo(run.normalize(chunk("hello", "user_message_chunk")))


def test_what_is_no_echo_is_kept() -> None:
    run, echo = Normalizer(), EchoFilter()
    echo.expect("hello")

    assert not echo.is_echo(run.normalize(chunk("other", "user_message_chunk")))
    assert not echo.is_echo(run.normalize(chunk("hello", "user_message_chunk")))

    echo.expect("hello")
    assert not echo.is_echo(run.normalize(chunk("answer")))
    assert not echo.is_echo(run.normalize(chunk("hello", "user_message_chunk")))


# ------------------------------------------------------------------ controls in the older forms

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "go"}]}
MODELS = {"currentModelId": "big", "availableModels": [{"modelId": "big"}, {"modelId": "small"}]}


def offered(**result: Any) -> list[str]:
    options = parse_config_options(result)
    return [option.id for option in without_doubles(options, typed_options(result))]


def test_modes_and_models_become_controls() -> None:
    """gemini-cli 0.61 has nothing else."""
    mode, model = typed_options({"modes": MODES, "models": MODELS})

    assert (mode.id, mode.category, mode.current_value) == ("mode", "mode", "ask")
    assert [choice.value for choice in mode.choices] == ["ask", "go"]
    assert (model.id, model.current_value) == ("model", "big")


def test_modes_beside_a_mode_option_are_not_offered_twice() -> None:
    option = {"id": "permission", "category": "mode", "type": "select", "name": "Mode"}

    assert offered(modes=MODES, configOptions=[option]) == ["permission"]


def test_modes_stay_offered_beside_other_options() -> None:
    """Case 55."""
    option = {"id": "model", "category": "model", "type": "select", "name": "Model"}

    assert offered(modes=MODES, models=MODELS, configOptions=[option]) == ["model", "mode"]


def test_modes_that_repeat_another_options_values_are_no_control_of_their_own() -> None:
    """pi-acp 0.0.34 sends its thinking levels as config option and as modes."""
    choices = [{"value": "ask", "name": "Ask"}, {"value": "go", "name": "Go"}]
    option = {"id": "thought_level", "type": "select", "name": "Thinking", "options": choices}

    assert offered(modes=MODES, configOptions=[option]) == ["thought_level"]
