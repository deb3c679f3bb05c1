"""A whole session as a document: how it is cut into turns, and what each format makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import nbformat
import pytest

from silo_nb.acp.normalize import Normalizer
from silo_nb.ipython.record import (
    PastTurn,
    SessionRecord,
    last_rows,
    session_markdown,
    session_notebook,
    session_page,
    turns_of,
    turns_of_transcript,
)
from silo_nb.ipython.record.rows import Gap, Note, Prompt, Said, Tool
from silo_nb.model import EMPTY_TRANSCRIPT, Turn, Update, apply_update
from silo_nb.session.records import user_updates


def agent_says(text: str, message_id: str = "m") -> Update:
    content = {"type": "text", "text": text}
    return wire("agent_message_chunk", content=content, messageId=message_id)


def wire(kind: str, **fields: Any) -> Update:
    return Normalizer().normalize({"sessionUpdate": kind, **fields})


def asked(text: str, turn: int, *blocks: dict[str, Any], at: str = "") -> Iterator[Update]:
    said = [{"type": "text", "text": text}] if text else []
    yield from user_updates([*said, *blocks], turn, at)
    yield Update("turn_start", timestamp=at, turn=Turn())


def ended(reason: str = "end_turn", at: str = "", **facts: Any) -> Update:
    return Update("turn_end", timestamp=at, turn=Turn(stop_reason=reason, **facts))


def turns(*updates: Update) -> tuple[PastTurn, ...]:
    return turns_of(updates, agent="Agent", cwd="/w")


def session(*updates: Update, **about: Any) -> SessionRecord:
    known: dict[str, Any] = {"title": "Title", "profile": "demo", "cwd": "/w", "facts": ()}
    return SessionRecord(**{**known, **about}, turns=turns(*updates))


def notebook(record: SessionRecord) -> Any:
    document = nbformat.reads("".join(session_notebook(record)), as_version=4)
    nbformat.validate(document)
    return document


PLAN = {"content": "look", "priority": "medium", "status": "completed"}
TWO_TURNS = [
    *asked("first", 1, at="2026-01-01T10:00:00+00:00"),
    wire("plan", entries=[PLAN]),
    agent_says("one", "m1"),
    wire("usage_update", used=10, size=100),
    ended(at="2026-01-01T10:00:02+00:00", usage={"inputTokens": 3, "outputTokens": 4}),
    *asked("second", 2),
    agent_says("two", "m2"),
    ended("cancelled"),
]


class TestTurns:
    def test_each_has_what_happened_in_it(self) -> None:
        first, second = turns(*TWO_TURNS)

        assert (first.prompt, second.prompt) == ("first", "second")
        assert [type(row) for row in first.record.rows] == [Prompt, Said]
        assert (first.record.state, second.record.state) == ("done", "cancelled")
        assert (first.record.elapsed, second.record.elapsed) == (2.0, None)
        assert [step.content for step in first.record.plan] == ["look"]
        assert second.record.plan == ()
        assert first.record.usage is not None
        assert first.record.usage.used == 10
        assert first.record.footnotes == ("3 tokens in, 4 out",)

    def test_what_came_between_two_turns_belongs_to_the_later_one(self) -> None:
        """As in cells, which show what they had not shown."""
        banner = agent_says("welcome", "b")

        first, second = turns(banner, *TWO_TURNS[:6], agent_says("late", "l"), *TWO_TURNS[6:])

        assert [type(row) for row in first.record.rows] == [Said, Prompt, Said]
        assert [type(row) for row in second.record.rows] == [Said, Prompt, Said]

    def test_a_replay_without_ends_is_cut_at_its_prompts(self) -> None:
        """session/load tells of no turns; see R50."""
        content = {"type": "text", "text": "hi"}
        replay = [
            update
            for n in range(3)
            for update in (
                wire("user_message_chunk", content=content, messageId=f"u{n}"),
                agent_says("ho", f"a{n}"),
            )
        ]

        found = turns(*replay)

        assert [(turn.prompt, turn.record.state) for turn in found] == [("hi", "done")] * 3

    def test_what_is_outside_of_any_turn_is_kept(self) -> None:
        (aside,) = turns(agent_says("banner"))

        assert (aside.prompt, aside.record.state) == ("", "aside")

    def test_a_turn_that_runs_is_not_finished(self) -> None:
        (turn,) = turns(*asked("go", 1), agent_says("so far"))

        assert turn.record.state == "unfinished"

    def test_the_end_of_nothing_is_no_turn(self) -> None:
        """A restored session is settled with an end of its own."""
        assert len(turns(*TWO_TURNS, ended("interrupted"))) == 2

    def test_a_session_without_a_journal_is_cut_the_same_way(self) -> None:
        transcript = reduce(apply_update, TWO_TURNS, EMPTY_TRANSCRIPT)

        found = turns_of_transcript(transcript, agent="Agent", cwd="/w")

        assert [turn.record.rows for turn in found] == [t.record.rows for t in turns(*TWO_TURNS)]
        assert [step.content for step in found[-1].record.plan] == ["look"]

    def test_nothing_is_left_out_however_long_it_is(self) -> None:
        text = "x" * 200_000

        (turn,) = turns(*asked(text, 1), agent_says(text), ended())

        assert not turn.record.is_cut
        assert [len(row.text) for row in turn.record.rows if not isinstance(row, Tool | Gap)] == [
            200_000,
            200_000,
        ]


class TestTheEndOfAConversation:
    def test_begins_with_a_turn_if_one_is_near(self) -> None:
        updates = [u for n in range(10) for u in (*asked(f"q{n}", n), agent_says("a"), ended())]
        transcript = reduce(apply_update, updates, EMPTY_TRANSCRIPT)

        gap, first, *_ = last_rows(transcript.entries, "/w", 10)

        assert isinstance(first, Prompt)
        assert first.text.whole == "q7"
        assert gap == Gap(14)

    def test_is_all_of_a_short_one(self) -> None:
        transcript = reduce(apply_update, TWO_TURNS, EMPTY_TRANSCRIPT)

        rows = last_rows(transcript.entries, "/w", 100)

        assert [type(row) for row in rows] == [Prompt, Said, Prompt, Said]


class TestDocuments:
    def test_markdown_has_every_turn(self) -> None:
        text = "".join(session_markdown(session(*TWO_TURNS, facts=(("agent", "Demo"),))))

        assert text.startswith("# Session\n\n```\ntitle: Title\nagent: Demo\n```\n")
        assert text.count("\n## Turn ") == 2
        assert "```\nfirst\n```" in text
        assert text.endswith("\n")

    def test_a_page_stands_alone_and_is_light_or_dark(self) -> None:
        text = "".join(session_page(session(*TWO_TURNS)))

        assert text.startswith("<!doctype html>\n")
        assert "@media (prefers-color-scheme: dark)" in text
        assert "default-src 'none'" in text
        assert "<title>Title</title>" in text
        assert text.count("<section>") == 2
        assert "src=" not in text
        assert "<link" not in text

    def test_a_notebook_has_a_cell_a_prompt_with_its_output(self) -> None:
        document = notebook(session(*TWO_TURNS))

        heading, load, first, second = document.cells
        assert heading.cell_type == "markdown"
        assert load.source == "%load_ext silo_nb"
        assert (first.source, second.source) == ("%%agent demo\nfirst", "%%agent demo\nsecond")
        assert set(first.outputs[0].data) == {"text/html", "text/markdown", "text/plain"}
        assert "one" in first.outputs[0].data["text/plain"]

    def test_a_notebook_links_to_the_files_again(self) -> None:
        links = [
            {"type": "resource_link", "uri": uri, "name": "n"}
            for uri in ("file:///w/a%20b.csv", "file:///else/c.csv", "https://a.b/c", "file://h/x")
        ]
        record = session(*asked("look", 1, *links), ended())

        cell = notebook(record).cells[2]

        assert cell.source == "%%agent demo --file 'a b.csv' --file /else/c.csv\nlook"

    def test_what_nobody_asked_for_is_no_cell_to_run(self) -> None:
        cell = notebook(session(agent_says("banner"))).cells[2]

        assert cell.cell_type == "markdown"
        assert "banner" in cell.source

    @pytest.mark.parametrize(
        "profile", ["{__import__('os').getpid()}", "a b", "demo\nimport os", "$HOME", "", "-o x"]
    )
    def test_a_profile_that_is_none_is_not_written_where_ipython_evaluates(
        self, profile: str
    ) -> None:
        """What stands in braces behind a magic is run; a journal may say anything."""
        cell = notebook(session(*asked("hi", 1), ended(), profile=profile)).cells[2]

        assert cell.source == "%%agent\nhi"

    @pytest.mark.parametrize("name", ["{1+1}", "$HOME", "a%0Ab", "-o", "%E2%80%AE"])
    def test_nor_is_such_a_path(self, name: str) -> None:
        link = {"type": "resource_link", "uri": f"file:///w/{name}", "name": "n"}

        cell = notebook(session(*asked("hi", 1, link), ended())).cells[2]

        assert cell.source == "%%agent demo\nhi"

    def test_a_long_turn_is_cut_in_the_notebook_alone(self) -> None:
        """FAULTS T7: a notebook's outputs stay small; the document has all of it."""
        record = session(*asked("hi", 1), agent_says("zebra " * 40_000), ended())

        output = notebook(record).cells[2].outputs[0]

        assert all(len(text.encode()) <= 64 * 1024 for text in output.data.values())
        assert "".join(session_page(record)).count("zebra") == 40_000
        assert "".join(session_markdown(record)).count("zebra") == 40_000

    def test_the_same_session_makes_the_same_file(self) -> None:
        first, second = ("".join(session_notebook(session(*TWO_TURNS))) for _ in range(2))

        assert first == second
        assert json.loads(first)["nbformat"] == 4


def test_a_notice_is_told_as_a_sentence() -> None:
    """What a restarted agent forgot is a title with a full stop, and a reason."""
    stated = wire("notice", severity="warning", title="It was lost.", description="Sorry")
    named = wire("notice", severity="info", title="Model", description="small")

    (turn,) = turns(stated, named)

    assert [row.text.whole for row in turn.record.rows if isinstance(row, Note)] == [
        "It was lost. Sorry",
        "Model: small",
    ]
