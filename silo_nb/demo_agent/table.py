"""Tables in text files: what the columns are, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

_DELIMITERS = ",;\t|"
_MOST_ROWS = 200_000
_MOST_DISTINCT = 1000
_ROWS_BETWEEN_CHECKS = 1000
_CELL_WIDTH = 40

_KINDS: dict[str, re.Pattern[str]] = {
    "whole number": re.compile(r"[+-]?\d+"),
    "number": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
    "yes or no": re.compile(r"true|false|yes|no", re.IGNORECASE),
    "date": re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?"),
}
_NUMERIC = {"whole number", "number"}


class Column:
    """What is known of a column so far.

    Args:
        name: its heading.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.filled = 0
        self.missing = 0
        self._kinds = dict.fromkeys(_KINDS)
        self._distinct: set[str] = set()
        self._sum = 0.0
        self._lowest: tuple[float, str] | None = None
        self._highest: tuple[float, str] | None = None
        self._first: str | None = None
        self._last: str | None = None

    def add(self, cell: str) -> None:
        """Take a cell in."""
        value = cell.strip()
        if not value:
            self.missing += 1
            return
        self.filled += 1
        if len(self._distinct) < _MOST_DISTINCT:
            self._distinct.add(value)
        self._kinds = {kind: None for kind in self._kinds if _KINDS[kind].fullmatch(value)}
        self._first = value if self._first is None else min(self._first, value)
        self._last = value if self._last is None else max(self._last, value)
        if not _NUMERIC.isdisjoint(self._kinds):
            self._add_number(float(value), value)

    def _add_number(self, number: float, written: str) -> None:
        self._sum += number
        if self._lowest is None or number < self._lowest[0]:
            self._lowest = (number, written)
        if self._highest is None or number > self._highest[0]:
            self._highest = (number, written)

    @property
    def kind(self) -> str:
        """What all its cells are: a kind of number, dates, yes or no, else ``text``."""
        if not self.filled:
            return "empty"
        return next(iter(self._kinds), "text")

    @property
    def distinct(self) -> str:
        """How many different values it has."""
        many = len(self._distinct)
        return str(many) if many < _MOST_DISTINCT else f"{_MOST_DISTINCT} or more"

    @property
    def span(self) -> tuple[str, str]:
        """The lowest and the highest value; of text, nothing."""
        if self.kind in _NUMERIC and self._lowest and self._highest:
            return self._lowest[1], self._highest[1]
        if self.kind == "date" and self._first and self._last:
            return self._first, self._last
        return "", ""

    @property
    def mean(self) -> str:
        """The mean of its numbers; of anything else, nothing."""
        return number_of(self._sum / self.filled) if self.kind in _NUMERIC else ""


class Table(NamedTuple):
    """What is known of a table.

    Attributes:
        columns: its columns, in order.
        rows: how many rows were read, the heading aside.
        complete: whether there were no more.
    """

    columns: list[Column]
    rows: int
    complete: bool

    def as_markdown(self) -> str:
        """Describe the columns as a Markdown table."""
        head = ["column", "type", "filled", "lowest", "highest", "mean", "distinct"]
        rows = [[c.name, c.kind, str(c.filled), *c.span, c.mean, c.distinct] for c in self.columns]
        return markdown_table(head, rows)

    def as_data(self) -> dict[str, object]:
        """Describe it as JSON."""
        return {
            "rows": self.rows,
            "complete": self.complete,
            "columns": [
                {
                    "name": column.name,
                    "type": column.kind,
                    "filled": column.filled,
                    "missing": column.missing,
                    "lowest": column.span[0],
                    "highest": column.span[1],
                    "mean": column.mean,
                    "distinct": column.distinct,
                }
                for column in self.columns
            ],
        }


def read_table(lines: Iterable[str], checkpoint: Callable[[], None] = lambda: None) -> Table:
    r"""Read a table from lines of delimited text.

    Args:
        lines: the lines; the first names the columns, unless all of it is numbers.
        checkpoint: called now and then; may raise to stop.

    Raises:
        ValueError: this is no delimited text.

    >>> table = read_table(["day,cost\n", "Monday,2\n", "Tuesday,3.5\n"])
    >>> [(column.name, column.kind, column.span, column.mean) for column in table.columns]
    [('day', 'text', ('', ''), ''), ('cost', 'number', ('2', '3.5'), '2.75')]
    """
    import csv

    rest = iter(lines)
    first = next(rest, "")
    reader = csv.reader(_chained(first, rest), delimiter=delimiter_of(first))
    try:
        return _fold(reader, checkpoint)
    except csv.Error as error:
        raise ValueError(f"this is no delimited text: {error}") from error


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _fold(reader: Iterator[list[str]], checkpoint: Callable[[], None]) -> Table:
    head = next(reader, [])
    columns = [Column(name.strip() or f"column {n}") for n, name in enumerate(head, start=1)]
    rows = 0
    if head and all(_KINDS["number"].fullmatch(cell.strip()) for cell in head):
        columns = [Column(f"column {number}") for number in range(1, len(head) + 1)]
        rows = _add(columns, head)
    for cells in reader:
        if not cells:
            continue
        if rows >= _MOST_ROWS:
            return Table(columns, rows, complete=False)
        rows += _add(columns, cells)
        if rows % _ROWS_BETWEEN_CHECKS == 0:
            checkpoint()
    return Table(columns, rows, complete=True)


def _add(columns: Sequence[Column], cells: Sequence[str]) -> int:
    padded = [*cells, *[""] * (len(columns) - len(cells))]
    for column, cell in zip(columns, padded, strict=False):
        column.add(cell)
    return 1


def delimiter_of(line: str) -> str:
    r"""Guess what separates the cells of a line.

    >>> delimiter_of("a;b;c"), delimiter_of("a\tb"), delimiter_of("a")
    (';', '\t', ',')
    """
    return max(_DELIMITERS, key=line.count)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Write a Markdown table, whatever is in the cells.

    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    | --- | --- |
    | 1 | x\|y |
    """
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > _CELL_WIDTH:
        line = line[: _CELL_WIDTH - 1] + "…"
    return line.replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")


def number_of(value: float) -> str:
    """Write a number with at most three decimals.

    >>> number_of(10.95), number_of(2.0), number_of(1e20)
    ('10.95', '2', '1e+20')
    """
    digits = 1e15
    if abs(value) >= digits:
        return f"{value:.3g}"
    return f"{value:.3f}".rstrip("0").rstrip(".")
