"""The live output: a bounded tail, as often as what it shows is worth."""

from __future__ import annotations

from functools import reduce

import pytest

from silo_nb.ipython.live import live_record
from silo_nb.ipython.pace import Pace
from silo_nb.ipython.record import record_html
from silo_nb.model import ToolCallPatch, Update, apply_update
from silo_nb.profiles import DEMO
from silo_nb.session.live import LiveSession


def live(*updates: Update) -> LiveSession:
    session = LiveSession(DEMO)
    session.transcript = reduce(apply_update, updates, session.transcript)
    return session


def html(*updates: Update, first_entry: int = 0) -> str:
    return record_html(live_record(live(*updates), first_entry, 3.0, ""), fold=False)


def chunk(text: str, message_id: str = "m", kind: str = "agent_message_chunk") -> Update:
    return Update(kind, text=text, message_id=message_id)


def call(number: int, status: str = "completed") -> Update:
    patch = ToolCallPatch(tool_call_id=f"t{number}", title=f"step {number}.", status=status)
    return Update("tool_call", tool_call=patch)


class TestTail:
    def test_a_short_message_is_formatted_and_whole(self) -> None:
        assert "<strong>bold</strong>" in html(chunk("so **bold**"))

    def test_of_a_long_one_the_end_is_shown_from_the_start_of_a_line(self) -> None:
        shown = html(chunk("".join(f"line {n}\n" for n in range(50_000))))

        assert len(shown) < 8_000
        assert "line 49999" in shown
        assert "characters left out" in shown
        assert ">line 49" in shown, "the tail begins with a whole line"

    def test_an_end_inside_a_fence_is_still_code(self) -> None:
        shown = html(chunk("```python\n" + "x = 1  # *no emphasis*\n" * 2_000))

        assert "<pre" in shown
        assert "<em>" not in shown

    def test_many_rows_are_counted_not_shown(self) -> None:
        shown = html(*(call(n) for n in range(1_000)))

        assert len(shown) < 16_000
        assert "step 999." in shown
        assert "988 rows left out" in shown

    def test_many_long_messages_share_the_room(self) -> None:
        shown = html(*(chunk("word " * 2_000, f"m{n}") for n in range(12)))

        assert len(shown) < 16_000

    def test_what_is_being_thought_is_open_what_was_thought_is_not(self) -> None:
        thought = chunk("hm", "t", "agent_thought_chunk")

        assert "<details open" in html(thought)
        assert "<details open" not in html(thought, chunk("so"))

    def test_earlier_turns_are_not_shown_again(self) -> None:
        assert "first" not in html(chunk("first", "a"), chunk("second", "b"), first_entry=1)

    def test_the_state_is_told(self) -> None:
        assert "Working, 3.0 s" in html(chunk("a"))


class TestPace:
    def test_ten_a_second_at_most(self) -> None:
        pace = Pace(0.0)
        pace.spend(0.0, 10)

        assert pace.wait(0.04) == pytest.approx(0.06)
        assert pace.wait(0.2) == 0

    @pytest.mark.parametrize("rate", [100, 2_000, 50_000, 5_000_000])
    def test_the_total_is_bounded_by_what_was_sent(self, rate: int) -> None:
        """At most twice the text, a start of 256 KiB, and 8 KiB a second."""
        pace = Pace(0.0)
        now, sent, painted, frames = 0.0, 0, 0, 0
        while now < 120:
            now += 0.02
            sent += rate // 50
            pace.earn(rate // 50)
            if pace.wait(now) == 0:
                size = min(sent, 6_000) + 1_500
                pace.spend(now, size)
                painted += size
                frames += 1

        assert painted <= 2 * sent + 256 * 1024 + 8 * 1024 * now + 7_500
        assert frames >= 120, "an agent that sends little does not look stuck"


class TestQuiet:
    """Case 4: no endless clock without a word."""

    def test_an_agent_that_was_just_heard_needs_no_word(self) -> None:
        assert "Nothing heard" not in html(chunk("hm"))

    def test_one_that_says_nothing_for_long_is_said_to(self) -> None:
        session = live(chunk("hm"))
        session._heard_at -= 42

        shown = record_html(live_record(session, 0, 50.0, ""), fold=False)

        assert "Nothing heard for 42 s. Interrupt the cell to stop the turn." in shown
