"""Tables that commands show, as HTML and as text."""

from __future__ import annotations

from collections.abc import Sequence

from silo_nb.ipython.outputs import show
from silo_nb.ipython.record import table_html
from silo_nb.model.text import one_line

__all__ = ["show_table"]

_WIDTH = 300


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show a table of texts of whatever origin; columns without a single word are left out."""
    cells = [[one_line(cell, _WIDTH) for cell in row] for row in rows]
    filled = [n for n in range(len(heads)) if any(row[n] for row in cells)]
    heads = [heads[n] for n in filled]
    cells = [[row[n] for n in filled] for row in cells]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *cells)
    )
    show({"text/html": table_html(heads, cells), "text/plain": "\n".join(lines)}, once=True)
