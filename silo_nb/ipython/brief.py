"""Errors in a cell, told in a few lines: the cell fails, but without our traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from silo_nb.errors import SiloError
from silo_nb.model.text import one_line

__all__ = ["brief_errors", "brief_lines"]

MOST_LINES = 12
_FIRST = 3
_WIDTH = 400


@contextmanager
def brief_errors() -> Iterator[None]:
    """Let an error of silo_nb's end the cell as ever, shown as :func:`brief_lines`.

    So is an interrupt. Anything else is a mistake of ours, and keeps its traceback.
    """
    try:
        yield
    except (SiloError, KeyboardInterrupt) as error:
        lines = brief_lines(error)
        # IPython asks an exception how it wants to be shown, if it has this attribute.
        error.__dict__["_render_traceback_"] = lambda: lines
        raise


def brief_lines(error: BaseException) -> list[str]:
    """Return what is wrong in at most 12 lines: what happened first, and what was said last.

    >>> brief_lines(SiloError("nothing works"))
    ['SiloError: nothing works']
    """
    notes: list[str] = getattr(error, "__notes__", [])
    said = [line for part in (str(error), *notes) for line in part.splitlines() if line.strip()]
    said = said or [""]
    lines = [one_line(line, _WIDTH) if line[:1] != " " else f"  {one_line(line)}" for line in said]
    lines[0] = f"{type(error).__name__}: {lines[0]}".rstrip(": ")
    if len(lines) > MOST_LINES:
        last = MOST_LINES - _FIRST - 1
        left = len(lines) - _FIRST - last
        lines[_FIRST:-last] = [f"  … {left} lines left out …"]
    return lines
