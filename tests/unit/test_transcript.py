"""apply_update: what each update makes of a transcript. (R25 to R37; FAULTS R20 to R26)"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb import EMPTY_TRANSCRIPT, Transcript, Update, apply_update
from silo_nb.model import (
    Attachment,
    Compaction,
    CompactionRow,
    DiffContent,
    ImageBlock,
    Message,
    Notice,
    NoticeRow,
    Permission,
    PermissionOption,
    PlanEntry,
    TerminalExit,
    ToolCall,
    ToolCallPatch,
    Turn,
    TurnEnd,
    Usage,
)


def play(*updates: Update, start: Transcript = EMPTY_TRANSCRIPT) -> Transcript:
    return reduce(apply_update, updates, start)


def said(text: str, message_id: str = "m1", kind: str = "agent_message_chunk") -> Update:
    return Update(kind, text=text, message_id=message_id)


def row(tool_call_id: str, *, opens: bool = False, **facts: object) -> Update:
    patch = ToolCallPatch(tool_call_id=tool_call_id, opens=opens, **facts)  # type: ignore[arg-type]
    return Update("tool_call" if opens else "tool_call_update", tool_call=patch)


def turn_end(stop_reason: str = "end_turn", *, cancel_requested: bool = False) -> Update:
    return Update("turn_end", turn=Turn(stop_reason, cancel_requested=cancel_requested))


TURN_START = Update("turn_start", turn=Turn())
ALLOW = PermissionOption("yes", "Allow", "allow_once")
REJECT = PermissionOption("no", "Reject", "reject_once")


def test_chunks_of_one_message_grow_one_bubble() -> None:
    transcript = play(said("Hel"), said("lo"))

    assert [message.text for message in transcript.messages] == ["Hello"]


def test_alternating_kinds_make_three_bubbles() -> None:
    """FAULTS R20."""
    transcript = play(
        said("a"), said("b", "t1", "agent_thought_chunk"), said("c", "m2"), said("d", "m2")
    )

    assert [(m.role, m.text) for m in transcript.messages] == [
        ("agent", "a"),
        ("thought", "b"),
        ("agent", "cd"),
    ]


def test_a_block_that_is_not_text_stands_in_the_conversation_as_it_came() -> None:
    """R27, FAULTS R22."""
    image = ImageBlock("aGk=", "image/png")

    transcript = play(said("see:"), Update("agent_message_chunk", content=image, message_id="m1"))

    assert transcript.entries[1] == Attachment("agent", "m1", image)


def test_an_empty_chunk_opens_no_bubble() -> None:
    assert not play(said("")).entries


def test_an_update_without_its_call_opens_a_row() -> None:
    """R32."""
    transcript = play(row("t1", status="completed"))

    assert transcript.tool_calls == (ToolCall(tool_call_id="t1", status="completed"),)


def test_what_an_update_leaves_out_is_unchanged() -> None:
    """R31."""
    diff = (DiffContent("/w/a.py", "x = 1\n"),)

    transcript = play(
        row("t1", opens=True, title="Edit a.py", kind="edit", content=diff),
        row("t1", status="completed"),
    )

    found = transcript.tool_call("t1")
    assert found is not None
    assert (found.title, found.kind, found.content) == ("Edit a.py", "edit", diff)
    assert found.status == "completed"


def test_content_replaces_and_output_appends() -> None:
    transcript = play(
        row("t1", opens=True, content=(DiffContent("a", "1"),), output="one\n"),
        row("t1", content=(DiffContent("a", "2"),), output="two\n", exit=TerminalExit(3)),
    )

    found = transcript.tool_calls[0]
    assert found.content == (DiffContent("a", "2"),)
    assert str(found.output) == "one\ntwo\n"
    assert found.exit == TerminalExit(3)


def test_a_repeated_opening_is_an_upsert() -> None:
    transcript = play(row("t1", opens=True, title="a"), row("t1", opens=True, status="failed"))

    assert [(r.title, r.status) for r in transcript.tool_calls] == [("a", "failed")]


def test_vendor_words_for_kind_and_status_are_kept() -> None:
    """R33; FAULTS R24."""
    transcript = play(row("t1", opens=True, kind="acme_deploy", status="queued"))

    assert (transcript.tool_calls[0].kind, transcript.tool_calls[0].status) == (
        "acme_deploy",
        "queued",
    )


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (turn_end(), "unfinished"),
        (turn_end("cancelled"), "cancelled"),
        (turn_end("end_turn", cancel_requested=True), "cancelled"),
    ],
)
def test_no_row_stays_open_when_the_turn_ends(end: Update, status: str) -> None:
    """Case 8."""
    transcript = play(TURN_START, row("t1", opens=True), row("t2", status="completed"), end)

    assert [r.status for r in transcript.tool_calls] == [status, "completed"]


def test_a_late_update_does_not_revive_a_cancelled_row() -> None:
    """Case 8."""
    transcript = play(
        TURN_START, row("t1", opens=True, status="in_progress"), turn_end("cancelled")
    )

    late = play(row("t1", status="in_progress"), row("t1", status="completed"), start=transcript)

    assert late.tool_calls[0].status == "cancelled"


def test_an_unfinished_row_takes_late_word_of_its_end_only() -> None:
    """FAULTS R17."""
    transcript = play(TURN_START, row("t1", opens=True), turn_end())

    assert play(row("t1", status="in_progress"), start=transcript).tool_calls[0].is_open is False
    assert play(row("t1", status="failed"), start=transcript).tool_calls[0].status == "failed"


def test_an_id_used_again_in_a_later_turn_opens_its_row_again() -> None:
    transcript = play(
        TURN_START,
        row("t1", opens=True),
        turn_end(),
        TURN_START,
        row("t1", opens=True, status="pending"),
    )

    assert transcript.tool_calls[0].is_open
    assert not play(turn_end(), start=transcript).tool_calls[0].is_open


def test_a_permission_request_is_a_row_of_its_own() -> None:
    """Rows exist from tool calls, updates without one, and permission requests alone (gemini)."""
    asked = Permission("p1", "t1", (ALLOW, REJECT))
    patch = ToolCallPatch(tool_call_id="t1", title="Write x", kind="edit")

    transcript = play(TURN_START, Update("permission", tool_call=patch, permission=asked))

    assert transcript.tool_calls[0].title == "Write x"
    assert transcript.tool_calls[0].permissions == (asked,)


def test_a_rejected_row_the_agent_forgets_ends_as_failed() -> None:
    asked = Permission("p1", "t1", (ALLOW, REJECT))
    answered = Permission("p1", "t1", (ALLOW, REJECT), "selected", "no", "listener")

    transcript = play(
        TURN_START,
        Update("permission", permission=asked),
        Update("permission", permission=answered),
        turn_end(),
    )

    assert transcript.tool_calls[0].status == "failed"
    assert transcript.tool_calls[0].permissions == (answered,)


def test_a_plan_is_replaced_whole_and_may_be_cleared() -> None:
    """R34, case 30."""
    entries = (PlanEntry("read", "cancelled"), PlanEntry("write"))

    planned = play(Update("plan", plan=entries))

    assert planned.plan == entries
    assert play(Update("plan", plan=()), start=planned).plan == ()
    assert play(Update("plan"), start=planned).plan == entries


def test_usage_absent_is_not_zero() -> None:
    """R35, FAULTS R26."""
    assert play(said("x")).usage is None
    assert play(Update("usage_update", usage=Usage(used=None, size=200))).usage == Usage(None, 200)


def test_a_title_absent_stays_and_null_clears() -> None:
    titled = play(Update("session_info_update", info={"title": "Report"}))

    assert play(Update("session_info_update", info={}), start=titled).title == "Report"
    assert play(Update("session_info_update", info={"title": None}), start=titled).title is None


def test_notices_and_compactions_are_entries() -> None:
    transcript = play(
        Update("notice", notice=Notice("Model changed")),
        Update("compaction_update", compaction=Compaction("c1", "in_progress")),
        Update("compaction_summary_chunk", compaction=Compaction("c1", summary="So far: ")),
        Update("compaction_summary_chunk", compaction=Compaction("c1", summary="all well")),
        Update("compaction_update", compaction=Compaction("c1", "completed")),
    )

    assert transcript.entries[0] == NoticeRow(Notice("Model changed"))
    compaction = transcript.entries[1]
    assert isinstance(compaction, CompactionRow)
    assert (compaction.status, str(compaction.summary)) == ("completed", "So far: all well")


def test_an_unknown_kind_changes_nothing() -> None:
    """R26, FAULTS R21."""
    transcript = play(said("a"))

    assert apply_update(transcript, Update("subagent_spawned", raw={"x": 1})) is transcript


def test_a_wire_kind_that_looks_like_one_of_ours_moves_nothing() -> None:
    transcript = play(TURN_START, row("t1", opens=True))

    for forged in ("turn_start", "turn_end", "permission"):
        assert apply_update(transcript, Update(forged, raw={"sessionUpdate": forged})) is transcript


def test_turns_end_with_an_entry_that_says_how() -> None:
    transcript = play(TURN_START, said("a"), turn_end("refusal"))

    assert transcript.entries[-1] == TurnEnd(Turn(stop_reason="refusal"))
    assert (transcript.head.turns, transcript.turn_running) == (1, False)


# ------------------------------------------------------------------------------- properties

IDS = st.sampled_from(["a", "b", "c"])
UPDATES = st.lists(
    st.one_of(
        st.builds(
            said,
            st.text(max_size=4),
            IDS,
            st.sampled_from(["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]),
        ),
        st.builds(
            lambda i, opens, status: row(i, opens=opens, status=status),
            IDS,
            st.booleans(),
            st.sampled_from([None, "pending", "in_progress", "completed", "failed"]),
        ),
        st.builds(
            lambda i, outcome: Update(
                "permission", permission=Permission(f"p{i}", i, (ALLOW, REJECT), outcome)
            ),
            IDS,
            st.sampled_from([None, "cancelled"]),
        ),
        st.builds(lambda i: Update("compaction_update", compaction=Compaction(i)), IDS),
        st.just(TURN_START),
        st.builds(turn_end, st.sampled_from(["end_turn", "cancelled"])),
    ),
    max_size=40,
)


@given(UPDATES)
def test_rows_are_the_distinct_ids_and_none_is_open_after_a_turn(updates: list[Update]) -> None:
    transcript = play(*updates, turn_end())

    ids = [r.tool_call_id for r in transcript.tool_calls]
    assert len(ids) == len(set(ids))
    assert not any(r.is_open for r in transcript.tool_calls)
    for tool_call_id in ids:
        found = transcript.tool_call(tool_call_id)
        assert found is not None
        assert found.tool_call_id == tool_call_id


@given(UPDATES, UPDATES, UPDATES)
def test_branches_of_a_transcript_do_not_see_each_other(
    trunk: list[Update], left: list[Update], right: list[Update]
) -> None:
    start = play(*trunk)
    before = list(start.entries)

    one, two = play(*left, start=start), play(*right, start=start)

    assert list(start.entries) == before
    assert one == play(*trunk, *left)
    assert two == play(*trunk, *right)


@given(UPDATES, st.data())
def test_unknown_kinds_anywhere_change_nothing(updates: list[Update], data: st.DataObject) -> None:
    """FAULTS §4.3."""
    at = data.draw(st.integers(0, len(updates)))

    assert play(*updates[:at], Update("vendor"), *updates[at:]) == play(*updates)


@given(st.text(min_size=1), st.data())
def test_chunk_boundaries_never_matter(text: str, data: st.DataObject) -> None:
    """FAULTS §4.3: any split of any text, also inside what a reader sees as one character."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    bounds = [0, *cuts, len(text)]
    chunks = [text[a:b] for a, b in pairwise(bounds)]

    assert play(*map(said, chunks)) == play(said(text))
    assert [m.text for m in play(*map(said, chunks)).messages] == [text]


def test_a_message_is_a_value() -> None:
    message = next(play(said("x")).messages)

    assert message == Message("agent", "m1", message.body)
    with pytest.raises(AttributeError):
        message.role = "user"  # type: ignore[misc]
