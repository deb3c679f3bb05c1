"""FAULTS R1 to R37, PROTOCOL §7, T-4: whatever an agent writes, what follows is read.

Every scenario is played through the public session, by a real process. The fixture ``play`` checks
after each that nothing waits any more, that the journal folds to the live transcript and that no
exception went unnoticed. Floods measured in full (R18, R19, T-5) are in test_flood.py.
"""

from __future__ import annotations

import asyncio

import pytest

import silo_nb
from silo_nb import PermissionRequest, Session, Update
from silo_nb.model import (
    Attachment,
    AudioBlock,
    EmbeddedResource,
    ImageBlock,
    NoticeRow,
    PermissionOption,
    PlanEntry,
    PromptCapabilities,
    ResourceLink,
    ToolCall,
    TurnEnd,
    UnknownBlock,
    Usage,
)
from silo_nb.testing import FakeAgent
from tests.wire.conftest import eventually
from tests.wire.playing import Play, bubbles, counted, goes_on, no_stall, rows

pytestmark = pytest.mark.timeout(30)

AT_ONCE = 2.0
"""Seconds in which an answer that needs nobody else has to be there."""


def codes(agent: FakeAgent) -> list[int]:
    """Return the error codes we answered the agent's requests with, in order."""
    return [message["error"]["code"] for message in agent.received() if "error" in message]


def oddities(session: Session) -> dict[str, int]:
    """Return how often the connection noted what."""
    return dict(session._live.connection.diagnostics.counts)


def row(session: Session, tool_call_id: str) -> ToolCall:
    """Return a tool row that is there."""
    found = session.transcript.tool_call(tool_call_id)
    assert found is not None
    return found


class Asked:
    """Collects the permissions a session is asked for."""

    def __init__(self, session: Session) -> None:
        self.asks: list[PermissionRequest] = []
        session.on_permission(self.asks.append)

    async def at_least(self, count: int) -> list[PermissionRequest]:
        """Wait until so many have been asked for; return them."""
        await eventually(lambda: len(self.asks) >= count)
        return self.asks


# ----------------------------------------------------------------------------------- framing


@pytest.mark.parametrize(
    ("scenario", "text", "noted"),
    [
        pytest.param(
            "text_that_is_no_json_in_mid_turn",
            "before, after",
            {"not a message": 6},
            id="R1",
        ),
        pytest.param(
            "a_line_of_200_mb",
            "before, after",
            {"line too long": 1},
            id="R3",
        ),
        pytest.param(
            "bytes_that_are_no_utf8",
            "caf\ufffd au lait",
            {"mended": 1, "not a message": 1},
            id="R4",
        ),
        pytest.param(
            "a_lone_surrogate_and_nan",
            "half \ufffd a pair",
            {"mended": 1, "not a message": 1},
            id="R4 surrogate",
        ),
        pytest.param(
            "json_nested_too_deep",
            "before, after",
            {"not a message": 1},
            id="R5",
        ),
        pytest.param("duplicate_keys_in_an_object", "last", {}, id="R6"),
        pytest.param("a_character_split_between_two_reads", "ééééé ✓", {}, id="split"),
        pytest.param("lines_that_end_in_crlf", "one, two", {}, id="crlf"),
        pytest.param(
            "responses_to_ids_nobody_used",
            "unmoved",
            {"response to no open request": 5},
            id="R8",
        ),
    ],
)
async def test_noise_is_logged_and_the_turn_goes_on(
    play: Play, scenario: str, text: str, noted: dict[str, int]
) -> None:
    _, session = await play(scenario)

    result = await session.prompt("go")

    assert (result.text, result.stop_reason) == (text, "end_turn")
    assert bubbles(session) == [("user", "go"), ("agent", text)]
    assert oddities(session) == noted
    assert sum(noted.values()) == len(session.log)
    await goes_on(session)


async def test_r2_a_line_of_50_mb_is_delivered(play: Play) -> None:
    _, session = await play("a_line_of_50_mb")

    result = await session.prompt("go")

    long, after = (update.text for update in result.updates if update.kind == AGENT)
    assert (long, after) == ("0123456789" * 5_000_000, "after")
    assert session.log == ()
    await goes_on(session)


async def test_the_last_line_may_lack_its_newline(play: Play) -> None:
    """PROTOCOL §7: an agent that says goodbye and exits has ended its turn in order."""
    _, session = await play("a_last_line_without_newline")

    result = await session.prompt("go")

    assert (result.text, result.stop_reason) == ("goodbye", "end_turn")
    await eventually(lambda: session.status == "exited")
    assert (await session.prompt("again")).text == "goodbye"


# --------------------------------------------------------------------------------- responses

AGENT = "agent_message_chunk"


async def test_r7_case_6_a_second_response_ends_no_turn(play: Play) -> None:
    _, session = await play("a_response_twice_for_one_id")

    first, second = await session.prompt("1"), await session.prompt("2")

    assert (first.text, first.stop_reason) == ("one", "end_turn")
    assert (second.text, second.stop_reason) == ("two", "end_turn")
    assert oddities(session) == {"response to no open request": 1}
    await goes_on(session)


async def test_r9_of_result_and_error_the_error_counts(play: Play) -> None:
    _, session = await play("a_response_with_result_and_error")

    with pytest.raises(silo_nb.AgentRefused, match="it did not work") as caught:
        await session.prompt("go")

    assert (caught.value.code, caught.value.phase) == (-32603, "prompt")
    await goes_on(session)


async def test_r10_every_error_is_readable(play: Play) -> None:
    _, session = await play("malformed_errors")
    expected = [
        ("the code is a string", None),
        ("the agent gave no reason", -32603),
        ("much data", -32603),
        ("just a text", None),
    ]

    for message, code in expected:
        with pytest.raises(silo_nb.AgentRefused, match=message) as caught:
            await session.prompt("go")
        assert (caught.value.code, caught.value.phase) == (code, "prompt")
        assert len(str(caught.value)) < 200
        assert len(repr(caught.value.data)) < 30_000
        last = session.transcript.entries[-1]
        assert isinstance(last, TurnEnd)
        assert (last.turn.stop_reason, last.turn.error) == ("error", message)

    await goes_on(session)


async def test_r33_an_unknown_stop_reason_is_passed_through(play: Play) -> None:
    _, session = await play("an_unknown_stop_reason")

    result = await session.prompt("go")

    assert (result.text, result.stop_reason) == ("for now", "paused")
    await goes_on(session)


async def test_r34_a_response_without_a_stop_reason_ends_the_turn_as_unknown(play: Play) -> None:
    """One rule for {}, null, a text and a list."""
    _, session = await play("prompt_responses_without_a_stop_reason")

    assert [(await session.prompt("go")).stop_reason for _ in range(4)] == ["unknown"] * 4

    await goes_on(session)


async def test_r34_a_session_without_an_id_is_none(play: Play) -> None:
    with pytest.raises(silo_nb.AgentRefused, match="names no sessionId") as caught:
        await play("session_new_without_an_id")

    assert caught.value.phase == "session/new"


async def test_another_version_of_the_protocol_is_refused(play: Play) -> None:
    """PROTOCOL §7."""
    with pytest.raises(silo_nb.AgentRefused, match="version 2") as caught:
        await play("speaks_protocol_version_2")

    assert caught.value.phase == "initialize"


async def test_r35_a_login_is_asked_for_with_the_ways_there_are(play: Play) -> None:
    agent = play.agent("wants_a_login_to_open_a_session")

    with pytest.raises(silo_nb.AuthRequired, match=r"'Log in', 'API key'") as caught:
        await play(agent)

    assert caught.value.phase == "session/new"
    assert [method["id"] for method in caught.value.methods] == ["login", "key"]


async def test_r35_a_login_may_be_missed_at_the_prompt(play: Play) -> None:
    _, session = await play("wants_a_login_to_answer_a_prompt")

    with pytest.raises(silo_nb.AuthRequired, match="log in first") as caught:
        await session.prompt("go")

    assert caught.value.phase == "prompt"
    assert [method["id"] for method in caught.value.methods] == ["login", "key"]
    await goes_on(session)


async def test_r35_case_18_a_list_of_logins_asks_for_none(play: Play) -> None:
    _, session = await play("lists_logins_and_needs_none")

    assert session.agent_name == "Guarded Agent"
    await goes_on(session)


@pytest.mark.parametrize(
    "scenario", ["capabilities_unknown_and_missing", "capabilities_of_the_wrong_type"]
)
async def test_r37_what_an_agent_does_not_say_it_can_it_cannot(play: Play, scenario: str) -> None:
    _, session = await play(scenario)

    assert session.prompt_capabilities == PromptCapabilities()
    assert (session.can_resume, session.can_list) == (False, False)
    with pytest.raises(ValueError, match="takes no image"):
        await session.prompt(ImageBlock("aGk=", "image/png"))
    await goes_on(session)


# ------------------------------------------------------------------------- the agent's requests


async def test_r11_what_is_not_offered_is_not_found(play: Play) -> None:
    agent, session = await play("a_request_with_an_unknown_method")

    assert (await session.prompt("go")).text == "refused, all of them"

    assert codes(agent) == [-32601, -32601, -32601]
    await goes_on(session)


async def test_r12_vendors_requests_are_not_found_and_their_notifications_ignored(
    play: Play,
) -> None:
    agent, session = await play("vendor_requests_and_notifications")

    result = await session.prompt("go")

    assert result.text == "went on"
    assert codes(agent) == [-32601, -32601]
    assert [update.kind for update in result.updates] == [
        "user_message_chunk",
        "turn_start",
        AGENT,
        "turn_end",
    ]
    await goes_on(session)


async def test_r13_bad_params_are_answered_with_the_field(play: Play) -> None:
    """The elicitation without a mode is turned down as every question is in this version."""
    agent, session = await play("requests_with_bad_params")
    asked = Asked(session)

    assert (await session.prompt("go")).text == "refused, all of them"

    errors = {m["id"]: m["error"] for m in agent.received() if "error" in m}
    assert [error["code"] for error in errors.values()] == [-32602] * 4
    assert {id: error["message"].split(":")[0] for id, error in errors.items()} == {
        0: "toolCall",
        1: "options",
        2: "toolCall.toolCallId",
        3: "toolCall",
    }
    assert agent.answers[-1] == "cancel"
    assert asked.asks == []
    assert rows(session) == {}
    await goes_on(session)


async def test_a_request_is_answered_whatever_its_id_is(play: Play) -> None:
    """PROTOCOL §7: an object cannot be an id, so it is answered as null; the rest as they came."""
    agent, session = await play("a_request_whose_id_is_an_object")
    session.on_permission(lambda request: request.respond("allow"))
    # The agent waits for an answer with its object as the id, which JSON-RPC does not know.
    turn = asyncio.ensure_future(session.prompt("go"))
    await eventually(lambda: len(agent.answers) == 4)
    session.cancel()
    assert (await turn).stop_reason == "cancelled"

    assert [m["id"] for m in agent.received() if "method" not in m] == [None, 1.5, "text", 0]
    assert agent.answers == ["allow"] * 4
    await goes_on(session)


async def test_r27_two_permissions_at_once_are_independent(play: Play) -> None:
    agent, session = await play("two_permissions_at_once")
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    first, second = await asked.at_least(2)

    assert session.status == "waiting"
    assert second.respond("allow")
    assert session.status == "waiting"
    assert not first.answered
    assert first.respond("reject")

    assert (await turn).text == "a refused, b allowed"
    assert agent.answers == ["allow", "reject"]
    await goes_on(session)


async def test_r28_a_cancel_answers_all_that_is_open_before_it_is_sent(play: Play) -> None:
    agent, session = await play("a_cancel_with_permissions_open")
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    asks = await asked.at_least(2)

    session.cancel()
    async with asyncio.timeout(AT_ONCE):
        result = await turn

    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)
    assert [ask.respond("allow") for ask in asks] == [False, False]
    assert [m.get("method", "an answer") for m in agent.received()][-3:] == [
        "an answer",
        "an answer",
        "session/cancel",
    ]
    assert agent.answers == ["cancelled", "cancelled"]
    assert rows(session) == {"t1": "cancelled", "t2": "cancelled"}
    await goes_on(session)


async def test_r29_without_a_listener_a_permission_is_cancelled_at_once(play: Play) -> None:
    agent, session = await play("asks_permission_to_edit")

    async with asyncio.timeout(AT_ONCE):
        result = await session.prompt("go")

    assert result.text == "nobody answered"
    assert agent.answers == ["cancelled"]
    assert rows(session) == {"t1": "failed"}
    await goes_on(session)


@pytest.mark.parametrize(("choice", "status"), [("allow", "completed"), ("reject", "failed")])
async def test_r29_with_one_it_is_answered_as_chosen(play: Play, choice: str, status: str) -> None:
    agent, session = await play("asks_permission_to_edit")
    session.on_permission(lambda request: request.respond(choice))

    result = await session.prompt("go")

    assert agent.answers == [choice]
    assert result.text == ("edited" if choice == "allow" else "left it alone")
    assert rows(session) == {"t1": status}
    await goes_on(session)


async def test_r29_a_permission_needs_no_row_and_no_known_kinds(play: Play) -> None:
    """Case 37: a row is made of the request."""
    agent, session = await play("a_permission_without_any_row")
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    (request,) = await asked.at_least(1)

    assert request.options[0] == PermissionOption(
        "always", "Allow for this project", "allow_persistent"
    )
    assert request.tool_call.tool_call_id == "t1"
    request.respond("always")

    assert (await turn).text == "always"
    assert agent.answers == ["always"]
    assert row(session, "t1").permissions[0].option_id == "always"
    await goes_on(session)


@pytest.mark.parametrize(
    ("scenario", "asked", "text"),
    [
        pytest.param("asks_a_question", "Which colour?", "nobody answered", id="R30"),
        pytest.param("a_question_without_fields", "Go on?", "not acknowledged", id="R32"),
    ],
)
async def test_r30_r32_a_question_is_cancelled_and_said_to_be(
    play: Play, scenario: str, asked: str, text: str
) -> None:
    """Nothing can show a question in this version, with or without fields."""
    agent, session = await play(scenario)

    async with asyncio.timeout(AT_ONCE):
        result = await session.prompt("go")

    assert result.text == text
    assert agent.answers == ["cancel"]
    (notice,) = [e.notice for e in session.transcript.entries if isinstance(e, NoticeRow)]
    assert (notice.severity, notice.description) == ("warning", asked)
    await goes_on(session)


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, asyncio.CancelledError])
async def test_r31_a_listener_that_raises_leaves_nobody_waiting(
    play: Play, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    """K15. Not even one that would end the thread, and what was read with the update."""
    agent, session = await play("asks_permission_to_edit")
    heard: list[str] = []

    def listen(_: object) -> None:
        raise error

    session.on_permission(listen)
    session.on_update(listen)
    session.on_update(lambda update: heard.append(update.kind))

    async with asyncio.timeout(AT_ONCE):
        result = await session.prompt("go")

    assert result.text == "nobody answered"
    assert agent.answers == ["cancelled"]
    assert heard == [update.kind for update in result.updates]
    assert len(caplog.records) == len(heard) + 1
    assert all("the session goes on" in record.getMessage() for record in caplog.records)
    await goes_on(session)
    caplog.clear()


async def test_what_a_listener_causes_is_told_after_what_made_it(play: Play) -> None:
    """R25: one that answers from within hears of its own answer, and all in the same order."""
    _, session = await play("two_permissions_at_once")
    asked = Asked(session)
    mine: list[Update] = []
    others: list[Update] = []

    def answer_the_first_when_the_second_is_asked(update: Update) -> None:
        mine.append(update)
        if asked.asks and not asked.asks[0].answered:
            asked.asks[0].respond("allow")

    session.on_update(answer_the_first_when_the_second_is_asked)
    session.on_update(others.append)
    turn = asyncio.ensure_future(session.prompt("go"))
    (await asked.at_least(2))[1].respond("allow")

    result = await turn

    assert result.text == "a allowed, b allowed"
    assert mine == others == list(result.updates)
    await goes_on(session)


async def test_a_withdrawn_permission_cannot_be_answered(play: Play) -> None:
    """PROTOCOL §7, §3.5."""
    agent, session = await play("a_permission_is_withdrawn")
    asked = Asked(session)
    turn = asyncio.ensure_future(session.prompt("go"))
    (request,) = await asked.at_least(1)

    agent.release("withdraw")
    assert (await turn).text == "never mind"

    assert request.respond("allow") is False
    assert (request.permission.outcome, request.permission.answered_by) == ("withdrawn", "agent")
    assert codes(agent) == [-32800]
    await goes_on(session)


async def test_what_is_asked_before_the_session_is_open_is_answered(play: Play) -> None:
    """PROTOCOL §7: nobody can listen yet, so it is cancelled, and on record all the same."""
    agent, session = await play("asks_while_the_session_opens")

    assert agent.answers == ["cancelled", "cancel"]
    assert [type(entry) for entry in session.transcript.entries] == [ToolCall, NoticeRow]
    await goes_on(session)


# ----------------------------------------------------------------------------------- updates


async def test_r14_case_15_what_is_another_sessions_is_not_shown_here(play: Play) -> None:
    """Neither its words nor what it asks for."""
    agent, session = await play("updates_for_another_session")
    asked = Asked(session)

    result = await session.prompt("go")

    assert result.text == "ours, ours again"
    assert rows(session) == {}
    assert asked.asks == []
    assert codes(agent) == [-32602]
    assert counted(session, "update of another session") == 1
    await goes_on(session)


async def test_r15_what_is_no_sessions_is_counted(play: Play) -> None:
    _, session = await play("updates_for_an_unknown_session")

    result = await session.prompt("go")

    assert result.text == "ours"
    assert counted(session, "update of another session") == 4
    assert counted(session, "notification without params") == 1
    await goes_on(session)


async def test_r16_a_banner_is_given_to_the_first_listener_and_to_no_other(play: Play) -> None:
    agent, session = await play("a_banner_before_the_session_is_named")
    await agent.reached("open")
    await eventually(lambda: bubbles(session) == [("agent", "Welcome. Ready.")])
    first: list[Update] = []
    second: list[Update] = []

    session.on_update(first.append)
    session.on_update(second.append)

    await goes_on(session)
    assert [update.kind for update in first][:3] == [AGENT, "usage_update", AGENT]
    assert [update.text for update in second][:1] == ["and now?"]
    assert session.usage == Usage(0, 200_000)
    assert bubbles(session)[0] == ("agent", "Welcome. Ready.")


async def test_r17_what_comes_after_the_response_still_belongs_to_the_session(play: Play) -> None:
    agent, session = await play("updates_after_the_turns_response")
    heard: list[Update] = []
    session.on_update(heard.append)

    result = await session.prompt("go")
    await agent.reached("late")
    await eventually(lambda: session.title == "A late title")

    assert result.text == "in time, "
    assert bubbles(session)[1:] == [("agent", "in time, "), ("agent", "too late")]
    assert rows(session) == {"t1": "completed"}
    assert [update.kind for update in heard][-3:] == [
        AGENT,
        "tool_call_update",
        "session_info_update",
    ]
    await goes_on(session)


@pytest.mark.timeout(60)
async def test_r18_a_flood_holds_nobody_up_and_loses_nothing(play: Play) -> None:
    _, session = await play("a_flood_of_updates")

    async with no_stall():
        result = await session.prompt("go")

    assert result.text == "".join(f"word {n} " for n in range(300_000))
    assert session.log == ()
    await goes_on(session)


async def test_r19_100_000_chunks_of_a_character_are_one_message(play: Play) -> None:
    _, session = await play("a_message_in_100000_chunks")

    async with no_stall():
        result = await session.prompt("go")

    assert bubbles(session) == [("user", "go"), ("agent", "x" * 100_000)]
    assert len(result.updates) == 100_000 + 3
    await goes_on(session)


async def test_r20_without_ids_a_change_of_kind_begins_a_bubble(play: Play) -> None:
    _, session = await play("kinds_alternate_without_message_ids")

    result = await session.prompt("go")

    assert bubbles(session)[1:] == [
        ("agent", "one bubble"),
        ("thought", "a thought"),
        ("agent", "another bubble"),
    ]
    assert result.text == "one bubble\n\nanother bubble"
    await goes_on(session)


async def test_r21_unknown_kinds_are_delivered_and_change_nothing(play: Play) -> None:
    _, session = await play("unknown_kinds_of_update")

    result = await session.prompt("go")

    assert bubbles(session)[1:] == [("agent", "before, after")]
    unknown = [update for update in result.updates if update.text is None and update.turn is None]
    assert [update.kind for update in unknown] == [
        "hologram",
        "plan_update",
        "subagent_update",
        "unknown",
        "unknown",
    ]
    assert unknown[0].raw["beam"] == {"up": True}
    assert oddities(session) == {"session/update without an update": 2}
    assert [u for u in await silo_nb.read_journal(session.id) if u.kind == "hologram"]
    await goes_on(session)


async def test_r22_what_is_not_text_is_a_row_of_its_own(play: Play) -> None:
    _, session = await play("chunks_of_every_content")

    result = await session.prompt("go")

    shown = [entry.content for entry in session.transcript.entries if isinstance(entry, Attachment)]
    assert [type(content) for content in shown] == [
        ImageBlock,
        AudioBlock,
        ResourceLink,
        EmbeddedResource,
        UnknownBlock,
        UnknownBlock,
    ]
    chunks = [update for update in result.updates if update.kind == AGENT]
    assert [update.content for update in chunks if update.content is not None][1:-1] == shown
    assert [update.text for update in chunks] == ["before ", *[None] * 8, "after"]
    assert result.text == "before \n\nafter"
    await goes_on(session)


async def test_r23_null_and_absent_mean_unchanged_and_empty_means_empty(play: Play) -> None:
    """One rule for every field, the protocol's own."""
    _, session = await play("null_and_absent_fields_of_a_tool_call")
    seen: list[ToolCall] = []
    session.on_update(lambda update: seen.append(row(session, "t1")) if update.tool_call else None)

    await session.prompt("go")

    opened, nulls, one_field, emptied = seen
    assert (opened.title, opened.kind, opened.status) == ("Read a", "read", "pending")
    assert (len(opened.content), len(opened.locations)) == (1, 1)
    assert nulls == opened
    assert (one_field.status, one_field.content) == ("completed", opened.content)
    assert (emptied.content, emptied.locations) == ((), ())
    assert (emptied.raw_input, emptied.raw_output) == ({"path": "/a"}, {"ok": True})
    await goes_on(session)


async def test_r24_a_tool_call_may_take_any_way_to_its_end(play: Play) -> None:
    _, session = await play("tool_calls_that_skip_states")

    result = await session.prompt("go")

    assert rows(session) == {"t1": "completed", "t2": "completed", "t3": "failed"}
    assert [(call.title, call.kind) for call in result.tool_calls] == [
        ("No status", "other"),
        ("Opened again", "dance"),
        ("Never opened", "other"),
    ]
    await goes_on(session)


async def test_r25_a_plan_without_entries_leaves_the_one_before(play: Play) -> None:
    _, session = await play("plans_without_entries")
    plans: list[tuple[PlanEntry, ...]] = []
    session.on_update(
        lambda update: plans.append(session.transcript.plan) if update.kind == "plan" else None
    )

    result = await session.prompt("go")

    first = (PlanEntry("Look", "completed", "high"), PlanEntry("Leap", "pending", "low"))
    assert plans == [first] * 4 + [(PlanEntry("Look again", "pending", "high"),)]
    assert result.plan == plans[-1]
    await goes_on(session)


async def test_r26_usage_is_taken_as_far_as_it_makes_sense(play: Play) -> None:
    _, session = await play("usage_that_makes_no_sense")

    result = await session.prompt("go")

    assert [update.usage for update in result.updates if update.kind == "usage_update"] == [
        Usage(10, 0),
        Usage(),
        Usage(),
        Usage(None, 200_000),
        Usage(),
        Usage(10, 100),
        Usage(419_574, 200_000),
    ]
    assert result.usage == Usage(419_574, 200_000)
    await goes_on(session)


async def test_r36_controls_are_replaced_as_a_whole_before_what_follows(play: Play) -> None:
    _, session = await play("options_change_in_mid_turn")
    before = session.config_options
    told: list[tuple[int, int]] = []
    session.on_config_options_changed(
        lambda: told.append((len(session.config_options), len(bubbles(session)[-1][1])))
    )

    result = await session.prompt("go")

    assert [(option.id, option.current_value) for option in before] == [
        ("model", "small"),
        ("effort", "low"),
    ]
    assert [(option.id, option.current_value) for option in session.config_options] == [
        ("model", "large"),
        ("effort", "max"),
        ("fast", False),
    ]
    assert [choice.value for choice in session.config_options[1].choices] == ["max"]
    assert told == [(3, len("switching, "))]
    assert result.text == "switching, switched"
    await goes_on(session)


async def test_r36_setting_one_control_moves_the_others_before_the_call_returns(
    play: Play,
) -> None:
    agent, session = await play("options_change_while_one_is_set")
    told: list[list[object]] = []
    session.on_config_options_changed(
        lambda: told.append([option.current_value for option in session.config_options])
    )

    await session.set_config_option("model", "large")

    assert told == [["large", "max", False]] * 2, "the update, then the response"
    assert agent.received("session/set_config_option")[0]["params"]["value"] == "large"
    await session.prompt("go")
    assert [option.id for option in session.config_options] == ["model", "fast"]
    await goes_on(session)


async def test_a_title_is_kept_until_it_is_replaced_or_cleared(play: Play) -> None:
    """PROTOCOL §7: absent is not null."""
    _, session = await play("titles_null_and_absent")
    titles: list[str | None] = []
    session.on_update(
        lambda update: titles.append(session.title) if update.info is not None else None
    )

    await session.prompt("go")

    assert titles == ["The title", "The title", None]
    await goes_on(session)
