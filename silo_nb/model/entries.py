"""An immutable sequence whose append and replace do not depend on its length.

A transcript is a value, yet changes thousands of times a turn. Copying a tuple of 10,000 entries
for each change costs seven times what the change costs (measured). :class:`Entries` is the
persistent vector known from Clojure: a tree of 32-wide tuples, a short tail, and the last entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, overload

__all__ = ["Entries"]

T_co = TypeVar("T_co", covariant=True)

_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1


class Entries(Sequence[T_co]):
    """An immutable sequence with cheap :meth:`append` and :meth:`replace`.

    >>> letters = Entries("ab")
    >>> letters.append("c"), letters.replace(0, "z"), letters
    (Entries('a', 'b', 'c'), Entries('z', 'b'), Entries('a', 'b'))
    """

    __slots__ = ("_root", "_shift", "_size", "_tail", "last")

    last: T_co | None
    """The last entry, None when there is none. It stands apart: streamed text grows there."""

    _size: int
    _shift: int
    _root: tuple[Any, ...]
    _tail: tuple[T_co, ...]

    def __new__(cls, items: Iterable[T_co] = ()) -> Self:
        """Return the entries `items`, in order."""
        entries = cls._make(0, _BITS, (), (), None)
        for item in items:
            entries = entries.append(item)
        return entries

    @classmethod
    def _make(
        cls, size: int, shift: int, root: tuple[Any, ...], tail: tuple[Any, ...], last: Any
    ) -> Self:
        entries = object.__new__(cls)
        entries._size = size
        entries._shift = shift
        entries._root = root
        entries._tail = tail
        entries.last = last
        return entries

    def append(self, item: Any) -> Self:
        """Return these entries followed by `item`."""
        size, shift, root = self._size, self._shift, self._root
        if not size:
            return self._make(1, shift, root, (), item)
        tail = (*self._tail, self.last)
        if len(tail) < _WIDTH:
            return self._make(size + 1, shift, root, tail, item)
        if (size >> _BITS) > (1 << shift):
            root = (root, _path(shift, tail))
            shift += _BITS
        else:
            root = _push(root, size - 1, shift, tail)
        return self._make(size + 1, shift, root, (), item)

    def replace(self, index: int, item: Any) -> Self:
        """Return these entries with `item` at `index`, a position from 0.

        Raises:
            IndexError: there is no entry at `index`.
        """
        if not 0 <= index < self._size:
            raise IndexError(index)
        if index == self._size - 1:
            return self.replace_last(item)
        root, tail = self._root, self._tail
        at = index - self._tail_start
        if at >= 0:
            tail = (*tail[:at], item, *tail[at + 1 :])
        else:
            root = _assoc(root, index, self._shift, item)
        return self._make(self._size, self._shift, root, tail, self.last)

    def replace_last(self, item: Any) -> Self:
        """Return these entries, of which there is at least one, with `item` as the last."""
        return self._make(self._size, self._shift, self._root, self._tail, item)

    @property
    def _tail_start(self) -> int:
        return self._size - 1 - len(self._tail)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._size)))
        if index < 0:
            index += self._size
        if not 0 <= index < self._size:
            raise IndexError(index)
        if index == self._size - 1:
            return self.last  # type: ignore[return-value] # there is one
        at = index - self._tail_start
        if at >= 0:
            return self._tail[at]
        node = self._root
        for shift in range(self._shift, 0, -_BITS):
            node = node[(index >> shift) & _MASK]
        found: T_co = node[index & _MASK]
        return found

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T_co]:
        yield from _leaves(self._root, self._shift)
        yield from self._tail
        if self._size:
            yield self.last  # type: ignore[misc] # there is one

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries):
            return NotImplemented
        return self._size == other._size and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Entries({', '.join(map(repr, self))})"


def _path(shift: int, leaf: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wrap `leaf` in single-child nodes until it is as deep as `shift` says."""
    for _ in range(0, shift, _BITS):
        leaf = (leaf,)
    return leaf


def _push(node: tuple[Any, ...], last: int, shift: int, leaf: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `node` with `leaf`, whose last entry has the position `last`, put at its end."""
    at = (last >> shift) & _MASK
    if shift == _BITS:
        return (*node, leaf)
    if at < len(node):
        return (*node[:at], _push(node[at], last, shift - _BITS, leaf))
    return (*node, _path(shift - _BITS, leaf))


def _assoc(node: tuple[Any, ...], index: int, shift: int, item: Any) -> tuple[Any, ...]:
    at = (index >> shift) & _MASK
    child = item if shift == 0 else _assoc(node[at], index, shift - _BITS, item)
    return (*node[:at], child, *node[at + 1 :])


def _leaves(node: tuple[Any, ...], shift: int) -> Iterator[Any]:
    if shift == 0:
        yield from node
        return
    for child in node:
        yield from _leaves(child, shift - _BITS)
