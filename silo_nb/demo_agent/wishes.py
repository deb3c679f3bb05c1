"""What a prompt wants to have changed, found by its form."""

from __future__ import annotations

import re
from typing import NamedTuple

from silo_nb.demo_agent.prompt import Prompt, shortened

NOTES = "demo_notes.md"
_NOTE_LENGTH = 120

_QUOTED = r"`[^`\n]+`|\"[^\"]+\"|“[^”]+”|'[^'\n]+'"
_FILE = rf"(?:{_QUOTED}|[\w./-]*\w\.\w+)"
_TEXT = rf"(?:{_QUOTED}|\S+)"
_LONG_TEXT = rf"(?:{_QUOTED}|.+?)"

_REPLACE = rf"(?:replace|change)\s+(?P<old>{_TEXT})\s+(?:with|by|to|into)\s+(?P<new>{_TEXT})"
_ADD = rf"(?:add|append|insert)\s+(?:(?:the|a|this) (?:line|note|text)\s+)?(?P<new>{_LONG_TEXT})"
_NAMED = r"(?:(?:a|the|a new) file\s+)?(?:called\s+|named\s+)?"
_WRITE = rf"(?:write|create|save|make)\s+{_NAMED}(?P<file>{_FILE})"

# The form of a prompt -> what is to be done. The first that fits counts.
_FORMS: tuple[tuple[str, str], ...] = (
    ("replace", rf"(?P<file>{_FILE}):?\s+(?P<old>{_LONG_TEXT})\s*(?:=>|->|→)\s*(?P<new>.+)"),
    ("replace", rf"\b{_REPLACE}\s+in\s+(?:the file\s+)?(?P<file>{_FILE})"),
    ("replace", rf"\bin\s+(?P<file>{_FILE}),?\s+{_REPLACE}"),
    ("summary", rf"\bsummary of\s+(?P<old>{_FILE})\s+(?:to|into|in|as)\s+(?P<file>{_FILE})"),
    ("append", rf"\b{_ADD}\s+(?:to|at the end of|into|in)\s+(?:the file\s+)?(?P<file>{_FILE})"),
    ("write", rf"\b{_WRITE}\s+(?:with|containing|saying|that says)\s+(?P<new>{_QUOTED}|.+)"),
    (
        "write",
        rf"\b(?:write|save|put)\s+(?P<new>{_LONG_TEXT})\s+(?:to|into|in)\s+(?P<file>{_FILE})",
    ),
)


class Wish(NamedTuple):
    """A change somebody wants.

    Attributes:
        kind: ``replace``, ``append``, ``write``, ``summary`` (of the file `old`) or ``note``.
        file: name of the file.
        old: what to replace.
        new: what to write.
    """

    kind: str
    file: str
    old: str = ""
    new: str = ""


def wish_of(prompt: Prompt) -> Wish:
    """Return what a prompt wants changed; a note of the prompt itself when no form fits.

    >>> wish_of(Prompt("Replace `a b` with c in notes.md."))
    Wish(kind='replace', file='notes.md', old='a b', new='c')
    >>> wish_of(Prompt("notes.md: a => b"))
    Wish(kind='replace', file='notes.md', old='a', new='b')
    >>> wish_of(Prompt("Add the line 'one more' to notes.md"))
    Wish(kind='append', file='notes.md', old='', new='one more')
    >>> wish_of(Prompt("Write a summary of a.csv to b.md"))
    Wish(kind='summary', file='b.md', old='a.csv', new='')
    >>> wish_of(Prompt("Create hello.txt with hello world"))
    Wish(kind='write', file='hello.txt', old='', new='hello world')
    >>> wish_of(Prompt("Edit something"))
    Wish(kind='note', file='demo_notes.md', old='', new='- Edit something')
    """
    for kind, form in _FORMS:
        match = re.search(form, prompt.text, re.IGNORECASE | re.DOTALL)
        if match is not None:
            found = match.groupdict(default="")
            return Wish(kind, *(_bare(found.get(name, "")) for name in ("file", "old", "new")))
    named = [name for name in prompt.names() if re.fullmatch(r"[\w./-]*\w\.(md|txt)", name)]
    note = shortened(prompt.text, _NOTE_LENGTH) or "The demo agent was here."
    return Wish("note", named[0] if named else NOTES, new=f"- {note}")


def _bare(text: str) -> str:
    """Take the quotes off a text that stands in them."""
    text = text.strip()
    return text[1:-1] if re.fullmatch(_QUOTED, text) else text
