"""Inert text: nothing of an agent's words can act on a terminal or fool an eye (FAULTS T8)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.model.text import inert, one_line


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\label\x1b]8;;\x1b\\", "label"),
        ("\x1b]52;c;ZXZpbA==\x07copied", "copied"),
        ("\x1bPq#0;2;0;0;0\x1b\\sixel", "sixel"),
        ("\x1b^private\x1b\\text", "text"),
        ("\x9b31mC1\x9b0m", "C1"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("over\rwritten", "over\nwritten"),
        ("win\r\ndows", "win\ndows"),
        ("be\x07ll back\x08space nul\x00", "bell backspace nul"),
        ("txt.\u202eexe", "txt.<U+202E>exe"),
        ("\u2066iso\u2069", "<U+2066>iso<U+2069>"),
        ("\ud800alone", "\ufffdalone"),
        ("\x1b", ""),
        ("café ✓ 😀 日本", "café ✓ 😀 日本"),
    ],
)
def test_hostile_text_becomes_inert(hostile: str, shown: str) -> None:
    assert inert(hostile) == shown


@given(st.text(alphabet=st.characters(), max_size=200))
def test_inert_text_holds_no_control_character_whatever_comes_in(text: str) -> None:
    safe = inert(text)

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", safe)
    safe.encode()


@given(st.text(max_size=200))
def test_inert_text_stays_as_it_is(text: str) -> None:
    assert inert(inert(text)) == inert(text)


def test_a_title_cannot_push_the_rest_of_a_card_down() -> None:
    """FAULTS T11: titles are one line of at most 200 characters."""
    assert one_line("rm\n" * 400) == ("rm " * 400)[:199] + "…"
