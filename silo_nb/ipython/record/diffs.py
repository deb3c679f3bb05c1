"""What changed in a file, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice

from silo_nb.model import DiffContent
from silo_nb.model.text import inert, one_line

__all__ = ["DiffText", "diff_text"]

_CONTEXT = 3

_COMPARED = 1_500
"""Lines on either side that are compared; of longer ones all count as changed. difflib's time
grows with the square of this."""


@dataclass(frozen=True, slots=True)
class DiffText:
    """A unified diff.

    Attributes:
        path: of the file, one line.
        lines: each with its sign (``+``, ``-``, a space, ``@`` for a place) in front.
        left_out: how many lines are not shown.
    """

    path: str
    lines: tuple[str, ...]
    added: int
    removed: int
    is_new: bool = False
    left_out: int = 0

    def cut(self, limit: int) -> DiffText:
        """Return this diff with at most about `limit` characters of its lines."""
        kept = 0
        for count, line in enumerate(self.lines):
            kept += len(line) + 1
            if kept > limit:
                out = len(self.lines) - count
                return DiffText(
                    self.path,
                    self.lines[:count],
                    self.added,
                    self.removed,
                    self.is_new,
                    self.left_out + out,
                )
        return self

    def __len__(self) -> int:
        """How many characters are shown."""
        return sum(map(len, self.lines)) + len(self.lines)


def diff_text(change: DiffContent, path: str | None = None) -> DiffText:
    r"""Return `change` as a unified diff.

    Args:
        change: whole files or the part that changes, as the agent gave it.
        path: how to name the file, if not by the agent's path.

    >>> diff_text(DiffContent("a.txt", new_text="1\n3\n", old_text="1\n2\n")).lines
    ('@@ -1,2 +1,2 @@', ' 1', '-2', '+3')
    """
    old = inert(change.old_text or "").splitlines()
    new = inert(change.new_text).splitlines()
    lines = _compare(old, new)
    return DiffText(
        path=one_line(path or change.path),
        lines=tuple(lines),
        added=sum(line[0] == "+" for line in lines),
        removed=sum(line[0] == "-" for line in lines),
        is_new=change.old_text is None,
    )


def _compare(old: list[str], new: list[str]) -> list[str]:
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if not old_middle and not new_middle:
        return []
    if max(len(old_middle), len(new_middle)) > _COMPARED:
        return [*(f"-{line}" for line in old_middle), *(f"+{line}" for line in new_middle)]
    first = max(0, start - _CONTEXT)
    last = max(0, end - _CONTEXT)
    hunks = unified_diff(
        old[first : len(old) - last], new[first : len(new) - last], n=_CONTEXT, lineterm=""
    )
    # Its first two lines name the files.
    return [_moved(line, first) for line in islice(hunks, 2, None)]


def _common(a: list[str], b: list[str]) -> int:
    """Return how many lines `a` and `b` begin with in common."""
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _moved(line: str, by: int) -> str:
    """Return a hunk's heading with its line numbers counted from the start of the text."""
    if not line.startswith("@@") or not by:
        return line
    _, old, new, _ = line.split(" ")
    return f"@@ {_shifted(old, by)} {_shifted(new, by)} @@"


def _shifted(place: str, by: int) -> str:
    sign, (start, *length) = place[0], place[1:].split(",")
    return f"{sign}{int(start) + by}" + "".join(f",{n}" for n in length)
