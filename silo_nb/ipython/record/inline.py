"""The inline part of markdown, as elements we build ourselves: code, emphasis, links.

Everything that is not recognized stays literal text; nothing is dropped but the marks themselves.
One pass over the signs, so that no text, however hostile, costs more than its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from silo_nb.ipython.record.escape import code_html, text_html
from silo_nb.ipython.record.styles import style

__all__ = ["inline_html"]

_URL = r"https?://[^\s<>\"'`*()\[\]]{1,2000}"
_SIGNS = re.compile(rf"(`+|\\[*_`~#\[\]|]|\[[^\[\]\n]{{1,300}}\]\({_URL}\)|{_URL}|\*\*|\*|__|_|~~)")
_LINK = re.compile(rf"\[([^\[\]\n]+)\]\(({_URL})\)")
_MARKS = {"**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "s"}
_TRAILING = ".,;:!?"


def inline_html(text: str) -> str:
    """Return one paragraph's `text` as HTML.

    >>> inline_html("a *b* `<c>`")  # doctest: +ELLIPSIS
    'a <em>b</em> <code style="...">&lt;c&gt;</code>'
    >>> inline_html("snake_case_name * 2")
    'snake_case_name * 2'
    """
    return _Inline(_SIGNS.split(text)).run()


class _Inline:
    """The pieces of one paragraph: text at even positions, signs at odd ones."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces
        self._closing_ticks = _next_same(pieces)
        self._out: list[str] = []
        # Where each mark was opened: the position in `out` that becomes an element once it closes.
        self._opened: dict[str, int] = {}

    def run(self) -> str:
        at = 0
        while at < len(self._pieces):
            piece = self._pieces[at]
            if at % 2 == 0:
                self._out.append(text_html(piece))
            elif piece[0] == "`":
                at = self._code(at)
            else:
                self._sign(at, piece)
            at += 1
        return "".join(self._out)

    def _code(self, at: int) -> int:
        """Take the code span that opens at `at`, if it closes; return where it does."""
        end = self._closing_ticks.get(at)
        if end is None:
            self._out.append(text_html(self._pieces[at]))
            return at
        inner = "".join(self._pieces[at + 1 : end])
        if inner.startswith(" ") and inner.endswith(" ") and inner.strip():
            inner = inner[1:-1]
        self._out.append(f"<code{style('inline-code')}>{code_html(inner)}</code>")
        return end

    def _sign(self, at: int, sign: str) -> None:
        if sign in _MARKS:
            self._mark(at, sign)
        elif sign[0] == "\\":
            self._out.append(text_html(sign[1:]))
        elif link := _LINK.fullmatch(sign):
            self._out.append(_link_html(link[1], link[2]))
        else:
            url = sign.rstrip(_TRAILING)
            self._out.append(_link_html(url, url) + text_html(sign[len(url) :]))

    def _mark(self, at: int, mark: str) -> None:
        before, after = self._neighbours(at)
        word = mark[0] == "_"
        opened = self._opened.get(mark)
        if (
            opened is not None
            and not before.isspace()
            and not (word and after.isalnum())
            and any(self._out[opened + 1 :])
        ):
            element = _MARKS[mark]
            self._out[opened] = f"<{element}>"
            self._out.append(f"</{element}>")
            # What was opened inside and never closed stays literal: elements must nest.
            self._opened = {m: i for m, i in self._opened.items() if i < opened}
            return
        if not after.isspace() and not (word and before.isalnum()):
            self._opened[mark] = len(self._out)
        self._out.append(text_html(mark))

    def _neighbours(self, at: int) -> tuple[str, str]:
        """Return the characters around the sign at `at`; a space where there is none."""
        before = self._pieces[at - 1] or (self._pieces[at - 2] if at > 1 else "")
        after = self._pieces[at + 1] or (self._pieces[at + 2] if at + 2 < len(self._pieces) else "")
        return before[-1:] or " ", after[:1] or " "


def _next_same(pieces: Sequence[str]) -> dict[int, int]:
    """Map each run of backticks to the next run of the same length."""
    following: dict[int, int] = {}
    seen: dict[str, int] = {}
    last = len(pieces) - 1 - len(pieces) % 2
    for at in range(last, 0, -2):
        sign = pieces[at]
        if sign[0] == "`":
            if sign in seen:
                following[at] = seen[sign]
            seen[sign] = at
    return following


def _link_html(label: str, url: str) -> str:
    """Return a link that says where it goes; a doubtful address stays text."""
    shown = text_html(label) if label == url else f"{text_html(label)} ({text_html(url)})"
    if not _is_plain(url):
        return shown
    return (
        f'<a href="{code_html(url)}" rel="noopener noreferrer nofollow" target="_blank"'
        f"{style('link')}>{shown}</a>"
    )


def _is_plain(url: str) -> bool:
    """Whether `url` is an ordinary web address: ASCII, with a host and without a user."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        url.isascii()
        and url.isprintable()
        and parts.scheme.lower() in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
        and "\\" not in url
        and "xn--" not in parts.netloc.lower()
    )
