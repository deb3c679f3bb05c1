"""What a record says of what happened."""

from __future__ import annotations

from silo_nb.ipython.record import (
    Excerpt,
    Limits,
    TurnRecord,
    answer_words,
    frozen_bundle,
    record_html,
    record_plain,
    rows_of,
    tool_row,
)
from silo_nb.ipython.record.diffs import diff_text
from silo_nb.ipython.record.rows import Detail, Gap, Note, Prompt, Said, Tool
from silo_nb.model import (
    Attachment,
    CompactionRow,
    DiffContent,
    Entry,
    Location,
    Message,
    Permission,
    PermissionOption,
    PlanEntry,
    ResourceLink,
    Rope,
    TerminalExit,
    TextBlock,
    ToolCall,
    Turn,
    TurnEnd,
    Usage,
)

OPTIONS = (
    PermissionOption("yes", "Allow once", "allow_once"),
    PermissionOption("no", "Reject", "reject_once"),
)


def said(text: str) -> Message:
    return Message("agent", "m", Rope(text))


def record(*entries: Entry, state: str = "done", **about: object) -> TurnRecord:
    rows = tuple(rows_of(entries, "/w"))
    return TurnRecord(agent="Agent", state=state, rows=rows, **about)  # type: ignore[arg-type]


class TestRows:
    def test_a_prompt_is_one_row_with_what_was_attached(self) -> None:
        link = ResourceLink("file:///w/a.csv", "a.csv")

        rows = rows_of([Message("user", "1", Rope("look")), Attachment("user", "2", link)])

        assert rows == [Prompt(Excerpt("look"), ("a.csv",))]

    def test_the_end_of_a_turn_is_no_row(self) -> None:
        assert rows_of([said("a"), TurnEnd(Turn("end_turn"))]) == [Said(Excerpt("a"))]

    def test_compaction_is_a_note(self) -> None:
        (row,) = rows_of([CompactionRow("c", "completed", Rope("all about cats"))])

        assert row == Note(Excerpt("The agent shortened its context: all about cats"))

    def test_an_edit_shows_its_diff_and_counts_its_lines(self) -> None:
        change = DiffContent("/w/a.py", new_text="1\n2\n3\n", old_text="1\nx\n")

        row = tool_row(
            ToolCall(
                tool_call_id="t", title="Edit", locations=(Location("/w/a.py"),), content=(change,)
            ),
            "/w",
        )

        assert row.facts == ("+2 -1",)
        assert row.details == (diff_text(change, "a.py"),)
        assert row.places == (), "the diff names the file already"

    def test_a_command_shows_its_line_output_and_exit(self) -> None:
        row = tool_row(
            ToolCall(
                tool_call_id="t",
                title="Run the tests",
                kind="execute",
                status="failed",
                raw_input={"command": ["bash", "-lc", "pytest -q"]},
                output=Rope("1 failed\n"),
                exit=TerminalExit(1),
            )
        )

        assert row.details == (
            Detail("command", Excerpt("pytest -q")),
            Detail("output", Excerpt("1 failed")),
        )
        assert (row.facts, row.state) == (("exit 1",), "bad")

    def test_a_command_in_the_title_is_said_once_but_asked_about_in_full(self) -> None:
        call = ToolCall(tool_call_id="t", title="ls -l", raw_input={"command": "ls -l"})

        assert tool_row(call).details == ()
        assert tool_row(call, details="all").details == (Detail("command", Excerpt("ls -l")),)

    def test_a_long_title_is_cut_and_kept_in_full_inside(self) -> None:
        title = "rm -rf " + "x" * 500

        row = tool_row(ToolCall(tool_call_id="t", title=title))

        assert len(row.title) == 200
        assert row.details == (Detail("text", Excerpt(title)),)

    def test_a_fence_around_what_a_tool_returned_is_taken_off(self) -> None:
        """claude-agent-acp 0.101 sends the output of commands so."""
        call = ToolCall(tool_call_id="t", title="ls", content=(TextBlock("```console\na\nb\n```"),))

        assert tool_row(call).details == (Detail("text", Excerpt("a\nb")),)

    def test_how_an_ask_ended_is_told(self) -> None:
        def ended(outcome: str | None, option: str | None = None, by: str | None = None) -> str:
            return answer_words(Permission("p", "t", OPTIONS, outcome, option, by))

        assert ended(None) == "waiting for an answer"
        assert ended("selected", "yes", "stdin") == "allowed: Allow once"
        assert ended("selected", "no", "policy") == "rejected by policy: Reject"
        assert ended("cancelled", None, "no-listener") == "not answered, nobody could be asked"
        assert ended("withdrawn", None, "agent") == "withdrawn"


class TestDiff:
    def test_lines_are_counted_from_the_start_of_the_file(self) -> None:
        old = "".join(f"{n}\n" for n in range(1, 101))

        lines = diff_text(
            DiffContent("f", new_text=old.replace("50\n", "fifty\n"), old_text=old)
        ).lines

        assert lines[0] == "@@ -47,7 +47,7 @@"
        assert [line for line in lines if line[0] in "+-"] == ["-50", "+fifty"]

    def test_a_new_file_is_all_additions(self) -> None:
        diff = diff_text(DiffContent("f", new_text="a\nb"))

        assert (diff.is_new, diff.added, diff.removed) == (True, 2, 0)

    def test_lines_that_look_like_a_diff_stay_what_they_are(self) -> None:
        diff = diff_text(DiffContent("f", new_text="++ b\n@@ x\n", old_text="-- a\n"))

        assert diff.lines[1:] == ("--- a", "+++ b", "+@@ x")

    def test_files_with_nothing_in_common_take_no_time(self) -> None:
        old = "".join(f"{n % 7}\n" for n in range(50_000))
        new = "".join(f"{n % 11}\n" for n in range(50_000))

        assert diff_text(DiffContent("f", new_text=new, old_text=old)).added > 40_000


class TestRoom:
    """FAULTS T7: 64 KiB of each mimetype; complete up to that, then an honest cut."""

    def test_what_fits_is_complete(self) -> None:
        text = "word " * 10_000

        html = frozen_bundle(record(said(text)))["text/html"]

        assert text.strip() in html
        assert "left out" not in html

    def test_what_does_not_fit_says_so_and_where_the_rest_is(self) -> None:
        text = "".join(f"line {n}\n" for n in range(100_000))

        bundle = frozen_bundle(record(said(text), journal="j.jsonl"))

        for part in bundle.values():
            assert len(part.encode()) <= 64 * 1024
            assert "line 0\n" in part
            assert "line 99999" in part
            assert "characters left out" in part
            assert "All of it is in j.jsonl" in part

    def test_details_give_way_before_words_do(self) -> None:
        output = ToolCall(tool_call_id="t", title="big", output=Rope("x" * 500_000))

        plain = frozen_bundle(record(output, said("the answer " * 1_000)))["text/plain"]

        assert "the answer " * 1_000 in plain

    def test_ten_thousand_rows_fit(self) -> None:
        rows = [ToolCall(tool_call_id=str(n), title="<&>" * 60, kind="edit") for n in range(10_000)]

        bundle = frozen_bundle(record(*rows, said("done")))

        assert all(len(part.encode()) <= 64 * 1024 for part in bundle.values())
        assert "rows left out" in bundle["text/plain"]
        assert "done" in bundle["text/html"]

    def test_text_that_grows_when_it_is_escaped_fits_too(self) -> None:
        bundle = frozen_bundle(record(said("`\"<>&'` " * 9_000), said('- "\n' * 9_000)))

        assert all(len(part.encode()) <= 64 * 1024 for part in bundle.values())

    def test_an_excerpt_counts_what_it_leaves_out(self) -> None:
        text = "".join(f"{n:09}\n" for n in range(50_000))

        for limit in (10, 1_000, 70_000):
            shown = Excerpt.of(text).cut(limit)

            assert len(shown) + shown.left_out == len(text)
            assert text.startswith(shown.head)
            assert text.endswith(shown.tail)

    def test_rows_left_out_are_counted_once(self) -> None:
        whole = record(*(said(f"m{n}") for n in range(100)))

        twice = whole.within(Limits(100, 100, 40)).within(Limits(100, 100, 20))

        gap = next(row for row in twice.rows if isinstance(row, Gap))
        assert gap.count + sum(not isinstance(row, Gap) for row in twice.rows) == 100


class TestWords:
    def test_the_plan_and_the_figures_are_at_the_end(self) -> None:
        plan = (PlanEntry("first", "completed"), PlanEntry("then", "in_progress"))

        plain = record_plain(
            record(said("hi"), plan=plan, usage=Usage(1500, 200_000, 0.25, "USD"), elapsed=75.0)
        )

        assert "✓ Agent: Done, 1 min 15 s" in plain
        assert "Plan, 1 of 2\n  ✓ first\n  ▸ then" in plain
        assert "1.5k of 200.0k tokens of context · 0.25 USD" in plain

    def test_a_strange_stop_reason_is_told_in_the_agents_word(self) -> None:
        """FAULTS R33."""
        assert "Stopped: paused" in record_html(record(state="paused"))

    def test_tool_details_are_folded_and_thoughts_too(self) -> None:
        output = ToolCall(tool_call_id="t", title="ls", output=Rope("a"))

        html = record_html(record(output, Message("thought", "t", Rope("hm"))))

        assert html.count("<details") == 2
        assert "open" not in html.replace("noopener", "")

    def test_a_row_without_details_has_nothing_to_open(self) -> None:
        (row,) = rows_of([ToolCall(tool_call_id="t", title="ls")])

        assert isinstance(row, Tool)
        assert "<details" not in record_html(record(ToolCall(tool_call_id="t", title="ls")))
