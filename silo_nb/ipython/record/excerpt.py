"""A text that may be too long to show: its beginning, its end, and how much is between them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Self

from silo_nb.model.text import inert

__all__ = ["MOST", "WHOLE", "Excerpt"]

MOST = 64 * 1024
"""Characters of one text that are looked at; more than that fits into no output of a cell."""

WHOLE = sys.maxsize
"""For documents, which have room."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Inert text, whole or with its middle left out.

    Attributes:
        head: the beginning; all of it when nothing is left out.
        left_out: how many characters are not shown.
        tail: the end.
    """

    head: str
    left_out: int = 0
    tail: str = ""

    @classmethod
    def of(cls, text: str, most: int = MOST) -> Self:
        """Return `text` made inert; of one longer than `most` characters, only the ends."""
        if len(text) <= most:
            return cls(inert(text))
        half = most // 2
        return cls(inert(text[:half]), len(text) - 2 * half, inert(text[-half:]))

    @property
    def whole(self) -> str:
        """The text, with a word about what is left out."""
        return f"{self.head}\n{self.gap}\n{self.tail}" if self.left_out else self.head

    @property
    def gap(self) -> str:
        """The word about what is left out."""
        return f"[… {self.left_out:,} characters left out …]"

    def cut(self, limit: int) -> Excerpt:
        """Return this text with at most about `limit` characters of it.

        >>> Excerpt("abcdefghij").cut(6)
        Excerpt(head='abcd', left_out=4, tail='ij')
        """
        if len(self) <= limit:
            return self
        head, tail = limit - limit // 3, limit // 3
        if not self.left_out:
            end = len(self.head) - tail
            return Excerpt(self.head[:head], end - head, self.head[end:])
        # Where there is a gap already, head and tail are as long as each other.
        end = max(0, len(self.tail) - tail)
        dropped = len(self.head) - head + end
        return Excerpt(self.head[:head], self.left_out + dropped, self.tail[end:])

    def __len__(self) -> int:
        """How many characters are shown."""
        return len(self.head) + len(self.tail)
