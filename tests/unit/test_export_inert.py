"""Nothing of a session does anything in a document that is made of it (FAULTS T4 to T8).

The same corpus and the same oracle as for the record of a turn: every element and attribute has to
be one of ours, and everything said can still be read.
"""

from __future__ import annotations

import json
import re

import mistune
import pytest

from silo_nb.ipython.record import (
    PastTurn,
    SessionRecord,
    frozen_bundle,
    session_markdown,
    session_notebook,
    session_page,
)
from silo_nb.model.text import inert, one_line
from tests.unit.test_record_inert import (
    ATTRIBUTES,
    ELEMENTS,
    INERT,
    INPUTS,
    STYLE,
    Page,
    letters,
    record,
)

AROUND = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "dl", "dt", "dd"),
    "section",
}
METAS = [
    {"charset": "utf-8"},
    {
        "http-equiv": "Content-Security-Policy",
        "content": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'",
    },
    {"name": "viewport", "content": "width=device-width, initial-scale=1"},
    {"name": "referrer", "content": "no-referrer"},
]


class Document(Page):
    """A whole page: what a browser makes of it."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "meta":
            self.elements.append((tag, {name: value or "" for name, value in attrs}))
        else:
            super().handle_starttag(tag, attrs)


def session(text: str) -> SessionRecord:
    turn = PastTurn(record=record(text), prompt=text, links=(text, f"file:///w/{text}"))
    return SessionRecord(
        title=one_line(text),
        profile=text,
        cwd=text,
        facts=((one_line(text), one_line(text)),),
        turns=(turn, turn),
    )


@pytest.mark.parametrize("text", INPUTS)
def test_a_page_is_made_of_our_elements_and_keeps_the_text(text: str) -> None:
    html = "".join(session_page(session(text)))

    page = Document(html)
    assert page.other == ["doctype html"]
    assert [attributes for tag, attributes in page.elements if tag == "meta"] == METAS
    for tag, attributes in page.elements:
        if tag in AROUND:
            assert attributes.keys() <= {"lang"} or tag == "meta"
            continue
        assert tag in ELEMENTS
        assert attributes.keys() <= {"style"} | ATTRIBUTES.get(tag, set())
        assert STYLE.fullmatch(attributes.get("style", "color:red"))
        if "href" in attributes:
            assert re.match(r"https?://[a-z0-9]", attributes["href"])
    assert INERT.fullmatch(page.text)
    assert letters(page.text).count(letters(inert(text))) >= 40
    head, body = html.split("<main>")
    assert html.count("<style>") == 1
    assert one_line(text) in Document(head.replace("<body>", "</html>")).text
    assert "<title" not in body


@pytest.mark.parametrize("text", INPUTS)
def test_markdown_renders_to_nothing_but_code_and_words_of_ours(text: str) -> None:
    markdown = "".join(session_markdown(session(text)))

    assert INERT.fullmatch(markdown)
    assert_only_code(markdown)
    assert letters(markdown).count(letters(inert(text))) >= 40


def assert_only_code(markdown: str) -> None:
    tokens = mistune.create_markdown(renderer=None)(markdown)
    assert isinstance(tokens, list)
    for token in tokens:
        assert token["type"] in ("block_code", "blank_line", "paragraph", "heading")
        if token["type"] in ("paragraph", "heading"):
            words = "".join(words_of(token))
            ours = r"Session|Turn \d+|Prompt|Thought|Tool|Note|Plan, \d+ of \d+"
            assert re.fullmatch(ours, words)


def words_of(token: dict[str, object]) -> list[str]:
    children = token.get("children", [])
    assert isinstance(children, list)
    assert token["type"] in ("paragraph", "heading", "strong", "text")
    return [str(token.get("raw", "")), *(word for child in children for word in words_of(child))]


@pytest.mark.parametrize("text", INPUTS)
def test_a_notebook_holds_our_words_the_prompt_and_the_record_of_the_cell(text: str) -> None:
    document = json.loads("".join(session_notebook(session(text))))

    heading, load, *turns = document["cells"]
    assert_only_code(heading["source"])
    assert load["source"] == "%load_ext silo_nb"
    for cell in turns:
        if cell["cell_type"] == "markdown":
            # A prompt of nothing but spaces is no cell.
            assert_only_code(cell["source"])
            continue
        first, _, body = cell["source"].partition("\n")
        assert re.fullmatch(r"%%agent( [A-Za-z0-9][\w-]*)?( --file [^{}$\n]+)*", first)
        assert body == inert(text)
        (output,) = cell["outputs"]
        assert output["data"] == frozen_bundle(record(text))
    (json.dumps(document, ensure_ascii=False)).encode()
