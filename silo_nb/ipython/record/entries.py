"""The entries of a transcript as rows. Pure, and the one place that decides what a record says."""

from __future__ import annotations

from collections.abc import Iterable

from silo_nb.ipython.record.excerpt import MOST, Excerpt
from silo_nb.ipython.record.rows import Note, Prompt, Row, Said, Thought
from silo_nb.ipython.record.tools import tool_row
from silo_nb.model import (
    Attachment,
    CompactionRow,
    Entry,
    Message,
    Notice,
    NoticeRow,
    PlanEntry,
    ToolCall,
    block_text,
)
from silo_nb.model.text import one_line

__all__ = ["plan_steps", "rows_of"]

_STEP = 500


def rows_of(entries: Iterable[Entry], cwd: str = "", *, most: int = MOST) -> list[Row]:
    """Return `entries` as rows, in order.

    Args:
        entries: a part of a transcript.
        cwd: the directory whose files are shown by their relative path.
        most: characters of one text that are kept.
    """
    rows: list[Row] = []
    for entry in entries:
        match entry:
            case Message(role="user") | Attachment(role="user"):
                _add_to_prompt(rows, entry, most)
            case Message(role="thought"):
                rows.append(Thought(Excerpt.of(entry.text, most)))
            case Message():
                rows.append(Said(Excerpt.of(entry.text, most)))
            case Attachment():
                rows.append(Note(Excerpt.of(block_text(entry.content), most)))
            case ToolCall():
                rows.append(tool_row(entry, cwd, most=most))
            case NoticeRow(notice):
                rows.append(Note(Excerpt.of(_notice_words(notice), most), notice.severity))
            case CompactionRow():
                rows.append(_compaction(entry, most))
    return rows


def plan_steps(plan: Iterable[PlanEntry]) -> tuple[PlanEntry, ...]:
    """Return a plan with its steps inert, one line each."""
    return tuple(
        PlanEntry(one_line(step.content, _STEP), step.status, step.priority) for step in plan
    )


def _notice_words(notice: Notice) -> str:
    # Where the title is a sentence, a colon behind its full stop would be one sign too many.
    between = " " if notice.title.rstrip().endswith((".", "!", "?", ":")) else ": "
    return between.join(filter(None, (notice.title, notice.description)))


def _add_to_prompt(rows: list[Row], entry: Message | Attachment, most: int) -> None:
    last = rows[-1] if rows and isinstance(rows[-1], Prompt) else None
    if last is not None:
        rows.pop()
    said = [last.text.whole] if last is not None and last.text else []
    attached = list(last.attached) if last is not None else []
    if isinstance(entry, Message):
        said.append(entry.text)
    else:
        name = getattr(entry.content, "name", "") or getattr(entry.content, "uri", "")
        attached.append(one_line(name or block_text(entry.content)))
    rows.append(Prompt(Excerpt.of("\n".join(said), most), tuple(attached)))


def _compaction(row: CompactionRow, most: int) -> Row:
    what = {
        "completed": "The agent shortened its context",
        "failed": "Shortening its context failed",
    }
    words = what.get(row.status, "The agent is shortening its context")
    detail = row.error or str(row.summary)
    severity = "error" if row.error or row.status == "failed" else "info"
    return Note(Excerpt.of(f"{words}: {detail}" if detail else f"{words}.", most), severity)
