"""Nothing an agent says does anything in a record, and all of it can be read (FAULTS T4 to T8).

The corpus goes through every field of a record. "No script ran" is not enough (finding 9): the
oracle is structural, every element and attribute has to be one of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import mistune
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.ipython.record import (
    TurnRecord,
    frozen_bundle,
    plan_steps,
    question_html,
    record_html,
    rows_of,
    tool_row,
)
from silo_nb.ipython.record.markdown import record_markdown
from silo_nb.ipython.record.plain import record_plain
from silo_nb.model import (
    Attachment,
    CompactionRow,
    DiffContent,
    EmbeddedResource,
    Entry,
    ImageBlock,
    Location,
    Message,
    Notice,
    NoticeRow,
    Permission,
    PermissionOption,
    PlanEntry,
    ResourceLink,
    Rope,
    TerminalExit,
    TextBlock,
    ToolCall,
    UnknownBlock,
    Usage,
)
from silo_nb.model.text import inert, one_line

CORPUS = Path(__file__).parents[1] / "data" / "xss_corpus.jsonl"
INPUTS = [
    line["text"]
    for line in map(json.loads, CORPUS.read_text("utf-8").splitlines())
    if "text" in line
]

ELEMENTS = {
    *("a", "blockquote", "code", "details", "div", "em", "hr", "li", "ol", "p", "pre", "s", "span"),
    *("strong", "summary", "table", "tbody", "td", "th", "tr", "ul"),
}
ATTRIBUTES = {
    "a": {"href", "rel", "target"},
    "details": {"open"},
    "ol": {"start"},
}
VOID = {"hr"}
STYLE = re.compile(r"(?:[a-z-]+:(?:var\(--jp-[a-z0-9-]+,[^;()]+\)|rgba\([\d,.]+\)|[^;()])+;?)+")
INERT = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]*")


class Page(HTMLParser):
    """Reads a page the way a browser would, and keeps what it is made of."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, bool]] = []
        self.other: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements that do not nest"

    def handle_data(self, data: str) -> None:
        self.texts.append((data, bool({"pre", "code"} & set(self._open))))

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.texts)


def entries(text: str) -> list[Entry]:
    """Return entries with `text` in every field that an agent fills."""
    option = PermissionOption("o", text, text)
    asked = Permission("p", "t", (option,), "selected", "o", text)
    call = ToolCall(
        tool_call_id=text,
        title=text,
        kind=text,
        status=text,
        name=text,
        content=(
            TextBlock(text),
            DiffContent(text, new_text=f"{text}\nnew", old_text=f"{text}\nold"),
            DiffContent(text, new_text=text),
            UnknownBlock(text),
            EmbeddedResource(text),
            ImageBlock(text, text, text),
        ),
        locations=(Location(text, 1), Location(f"{text}2")),
        raw_input={"command": text},
        output=Rope(text),
        exit=TerminalExit(signal=text),
        permissions=(asked,),
    )
    other = ToolCall(tool_call_id="u", raw_input={text: [text]}, raw_output=text, parent_id=text)
    return [
        Message("user", "u", Rope(text)),
        Attachment("user", "u", ResourceLink(text, text)),
        Attachment("user", "u", EmbeddedResource(text, text)),
        Message("thought", "t", Rope(text)),
        Message("agent", "a", Rope(text)),
        call,
        other,
        ToolCall(tool_call_id="v", title="argv", raw_input={"command": [text, text]}),
        Attachment("agent", "b", ImageBlock(text, text, text)),
        Attachment("agent", "b", UnknownBlock(text)),
        NoticeRow(Notice(text, text, text)),
        CompactionRow("c", "completed", Rope(text)),
        CompactionRow("d", text, error=text),
    ]


def record(text: str) -> TurnRecord:
    return TurnRecord(
        agent=one_line(text),
        state=text,
        rows=tuple(rows_of(entries(text), "/w")),
        plan=plan_steps((PlanEntry(text, text, text), PlanEntry(text, "completed"))),
        usage=Usage(1, 2, 0.5, text),
        where=one_line(text),
        journal=one_line(text),
        footnotes=(one_line(text),),
    )


def letters(text: str) -> str:
    """Return what remains of a text when whitespace and marks do not count."""
    return re.sub(r"[\W_]", "", text)


def check_page(html: str) -> Page:
    page = Page(html)
    assert page.other == []
    for tag, attributes in page.elements:
        assert tag in ELEMENTS
        assert attributes.keys() <= {"style"} | ATTRIBUTES.get(tag, set())
        assert STYLE.fullmatch(attributes.get("style", "color:red")), attributes
        if "href" in attributes:
            assert re.match(r"https?://[a-z0-9]", attributes["href"])
            assert attributes["rel"] == "noopener noreferrer nofollow"
            assert attributes["target"] == "_blank"
    for text, is_code in page.texts:
        if not is_code:
            # What a TeX typesetter would look for in one piece of text.
            assert text in ("$", "\\") or not re.search(r"[$\\]", text)
    assert INERT.fullmatch(page.text)
    return page


@pytest.mark.parametrize("text", INPUTS)
def test_html_is_made_of_our_elements_and_keeps_the_text(text: str) -> None:
    page = check_page(record_html(record(text)))

    shown = inert(text)
    # As often as there are fields; in those that are prose, marks of markdown are not text.
    assert page.text.count(one_line(text)) >= 10
    assert letters(page.text).count(letters(shown)) >= 20


@pytest.mark.parametrize("text", INPUTS)
def test_live_html_and_questions_are_no_different(text: str) -> None:
    check_page(record_html(record(text), fold=False))
    call = next(e for e in entries(text) if isinstance(e, ToolCall))
    page = check_page(
        question_html(one_line(text), tool_row(call, details="all"), [one_line(text)])
    )

    assert letters(page.text).count(letters(inert(text))) >= 10


@pytest.mark.parametrize("text", INPUTS)
def test_markdown_renders_to_nothing_but_code_and_words_of_ours(text: str) -> None:
    markdown = record_markdown(record(text))

    assert INERT.fullmatch(markdown)
    tokens = mistune.create_markdown(renderer=None)(markdown)
    assert isinstance(tokens, list)
    words = "".join(_words_outside_code(tokens))
    assert re.fullmatch(r"(Prompt|Thought|Tool|Note|Plan|, \d+ of \d+)*", words)
    code = "\n".join(token["raw"] for token in tokens if token["type"] == "block_code")
    assert letters(code).count(letters(inert(text))) >= 20


def _words_outside_code(tokens: list[dict[str, object]]) -> Iterator[str]:
    for token in tokens:
        assert token["type"] in ("block_code", "blank_line", "paragraph", "strong", "text")
        if token["type"] == "text":
            yield str(token["raw"])
        children = token.get("children", [])
        assert isinstance(children, list)
        yield from _words_outside_code(children)


@pytest.mark.parametrize("text", INPUTS)
def test_plain_text_is_inert_and_keeps_the_text(text: str) -> None:
    """FAULTS T8."""
    plain = record_plain(record(text))

    assert INERT.fullmatch(plain)
    assert letters(plain).count(letters(inert(text))) >= 20


FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from(INPUTS),
        st.sampled_from(
            [
                *("\n", "\n\n", "```\n", "~~~", "> ", "- ", "1. ", "| ", "|-|-|\n", "    ", "**"),
                *("_", "`", "``", "# ", "---\n", "[x](https://a.b)", "https://a.b ", "\\", "$"),
                *("<", "~~", "(", "]", "&", '"'),
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=12,
).map("".join)


@given(FRAGMENTS)
def test_no_mixture_of_markup_gets_through(text: str) -> None:
    page = check_page(record_html(record(text)))
    bundle = frozen_bundle(record(text))

    assert letters(inert(text)) in letters(page.text)
    assert all(INERT.fullmatch(part) for part in bundle.values())
