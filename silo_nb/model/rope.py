"""Text that grows by appending, as a value.

A streamed answer is appended to thousands of times. Joining strings would make each append cost as
much as all text so far; a list would be shared and mutable. A :class:`Rope` is an immutable value
whose append is O(1): versions of one text share one store of pieces, and each sees only its own
first `n` of them.
"""

from __future__ import annotations

from itertools import islice

__all__ = ["EMPTY_ROPE", "Rope"]


class Rope:
    """An immutable text with a cheap :meth:`append`.

    >>> hello = EMPTY_ROPE.append("Hel").append("lo")
    >>> str(hello.append(" world")), str(hello)
    ('Hello world', 'Hello')
    """

    __slots__ = ("_count", "_joined", "_length", "_pieces")

    def __init__(self, text: str = "") -> None:
        self._pieces: dict[int, str] = {0: text} if text else {}
        self._count = len(self._pieces)
        self._length = len(text)
        self._joined: str | None = text

    def append(self, text: str) -> Rope:
        """Return this text followed by `text`."""
        if not text:
            return self
        pieces, count = self._pieces, self._count
        # setdefault claims the next place in one step that no other thread can come between. Who
        # finds it taken by another text is a second branch, and goes on with a copy of its own.
        if not count or pieces.setdefault(count, text) is not text:
            pieces = dict(islice(pieces.items(), count))
            pieces[count] = text
        rope = object.__new__(Rope)
        rope._pieces = pieces
        rope._count = count + 1
        rope._length = self._length + len(text)
        rope._joined = None
        return rope

    def __str__(self) -> str:
        if self._joined is None:
            self._joined = "".join(islice(self._pieces.values(), self._count))
        return self._joined

    def __len__(self) -> int:
        return self._length

    def tail(self, limit: int) -> str:
        """Return the last `limit` characters at a cost that depends on `limit` alone."""
        if self._joined is not None or limit >= self._length:
            text = str(self)
            return text[max(0, len(text) - limit) :]
        taken: list[str] = []
        index = self._count
        while limit > 0 and index > 0:
            index -= 1
            taken.append(self._pieces[index][-limit:])
            limit -= len(taken[-1])
        return "".join(reversed(taken))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rope):
            return NotImplemented
        return self._length == other._length and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Rope({str(self)!r})"


EMPTY_ROPE = Rope()
