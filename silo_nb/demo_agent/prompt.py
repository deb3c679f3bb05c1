"""What the user sent: the text, and what is attached to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from silo_nb.demo_agent.wire import INVALID_PARAMS, Refused

_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|'([^'\n]+)'(?!\w)")
_FILE_LIKE = re.compile(r"[\w./~-]*\w\.\w+|[\w.-]+/[\w./-]*")


class Attachment(NamedTuple):
    """Something attached to a prompt.

    Attributes:
        name: what it is called.
        kind: ``image``, ``audio``, ``link`` or ``resource``.
        text: its text, when it has one.
        size: its size in bytes, as far as it is known.
    """

    name: str
    kind: str
    text: str | None = None
    size: int | None = None


class Prompt(NamedTuple):
    """A prompt, taken apart.

    Attributes:
        text: its text blocks, joined.
        attachments: its other blocks.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()

    @classmethod
    def of(cls, blocks: Any) -> Prompt:
        """Take the content blocks of a session/prompt apart.

        Raises:
            Refused: they are no content blocks.
        """
        if not isinstance(blocks, list) or not all(isinstance(b, dict) for b in blocks):
            raise Refused(INVALID_PARAMS, "prompt: a list of content blocks is required")
        texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
        others = [block for block in blocks if block.get("type") != "text"]
        return cls("\n".join(texts), tuple(map(_attachment, others)))

    @property
    def command(self) -> tuple[str, str] | None:
        """The slash command it begins with and the rest, if it does.

        >>> Prompt("/run ls -l").command
        ('run', 'ls -l')
        """
        match = re.match(r"\s*/([a-z][\w-]*)(?:\s+|$)(.*)", self.text, re.DOTALL)
        return (match[1], match[2].strip()) if match else None

    def quoted(self) -> list[str]:
        """Return what stands in quotes or backticks.

        >>> Prompt("replace `a b` with 'c' in it's place").quoted()
        ['a b', 'c']
        """
        return [next(filter(None, match.groups())) for match in _QUOTED.finditer(self.text)]

    def names(self) -> list[str]:
        """Return what could be the name of a file, in order of appearance.

        >>> Prompt("read data/a.csv, then 'my notes.md'.").names()
        ['my notes.md', 'data/a.csv', 'notes.md']
        """
        return list(dict.fromkeys([*self.quoted(), *self._file_like()]))

    def _file_like(self) -> Iterator[str]:
        return (match[0] for match in _FILE_LIKE.finditer(self.text))


def _attachment(block: dict[str, Any]) -> Attachment:
    kind = block.get("type")
    match kind:
        case "resource":
            inner = block.get("resource")
            resource: dict[str, Any] = inner if isinstance(inner, dict) else {}
            text = resource.get("text")
            name = _last_part(str(resource.get("uri", "attachment")))
            has_text = isinstance(text, str)
            return Attachment(name, "resource", text if has_text else None, _size(text))
        case "resource_link":
            return Attachment(str(block.get("name") or block.get("uri")), "link", None, None)
        case _:
            name = _last_part(str(block.get("uri") or block.get("mimeType") or kind))
            encoded = len(str(block.get("data", "")))
            return Attachment(name, str(kind), None, encoded * 3 // 4)


def _last_part(uri: str) -> str:
    return uri.rstrip("/").rsplit("/", 1)[-1]


def _size(text: Any) -> int | None:
    return len(text.encode(errors="replace")) if isinstance(text, str) else None


def shortened(text: str, limit: int) -> str:
    r"""Return the beginning of a text, on one line.

    >>> shortened("one\ntwo three", 8)
    'one two…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def listed(words: Sequence[str]) -> str:
    """Join words as people do.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
