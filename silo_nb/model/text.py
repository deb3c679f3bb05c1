"""Text of foreign origin, made harmless to show.

An agent's words may carry terminal escapes (OSC 8 and 52, cursor movement), control characters and
direction overrides that make one thing look like another. :func:`inert` is the one function that
takes them out; every place that shows agent text as text goes through it (FAULTS T8).
"""

from __future__ import annotations

import re

__all__ = ["inert", "one_line"]

# A string sequence (OSC, DCS, SOS, PM, APC) ends at BEL or ST. One that never ends is given up at
# the end of its line, so that a lone introducer cannot swallow the rest of a text.
_STRING_SEQUENCE = r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
_CONTROL_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
_OTHER_ESCAPE = r"\x1b[ -/]*[0-~]?"
_ESCAPES = re.compile(f"{_STRING_SEQUENCE}|{_CONTROL_SEQUENCE}|{_OTHER_ESCAPE}")
_LINE_ENDS = re.compile(r"\r\n?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTIONS = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def inert(text: str) -> str:
    r"""Return `text` without anything a terminal or a reader's eye could be fooled by.

    Newlines and tabs stay, a carriage return becomes a newline, escape sequences and other control
    characters go, direction overrides are shown by their code point, lone surrogates become U+FFFD.

    >>> inert("a\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07")
    'ared link'
    >>> inert("txt.\u202eexe")
    'txt.<U+202E>exe'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", _LINE_ENDS.sub("\n", text))
    text = _CONTROLS.sub("", text)
    text = _DIRECTIONS.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, limit: int = 200) -> str:
    r"""Return `text` made inert, on one line, of at most `limit` characters.

    >>> one_line("rm -rf build\n\n\nand more", limit=20)
    'rm -rf build and mo…'
    """
    line = " ".join(inert(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
