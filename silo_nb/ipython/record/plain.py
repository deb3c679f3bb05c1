"""A turn as plain text: for consoles, logs and whatever shows nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

from silo_nb.ipython.record.diffs import DiffText
from silo_nb.ipython.record.rows import Detail, Gap, Note, Prompt, Row, Said, Thought, Tool
from silo_nb.ipython.record.turn import TurnRecord
from silo_nb.ipython.record.words import (
    STATE_SIGNS,
    foot_words,
    plan_heading,
    sign_of_step,
    sign_of_tool,
    state_words,
    tool_meta,
)

__all__ = ["details_plain", "record_plain"]


def record_plain(record: TurnRecord) -> str:
    """Return `record` as plain text, every line of it inert."""
    sign, _ = STATE_SIGNS.get(record.state, ("●", ""))
    where = f" in {record.where}" if record.where else ""
    parts = [f"{sign} {record.agent}{where}: {state_words(record)}"]
    was_tool = False
    for row in record.rows:
        text = "\n".join(_row(row))
        # Tool calls stand close together, everything else apart.
        is_tool = isinstance(row, Tool)
        parts.append(text if is_tool and was_tool else f"\n{text}")
        was_tool = is_tool
    if record.plan:
        steps = (f"  {sign_of_step(step)[0]} {step.content}" for step in record.plan)
        parts.append("\n".join((f"\nPlan, {plan_heading(record.plan)}", *steps)))
    words = foot_words(record)
    if words:
        parts.append("\n" + " · ".join(words))
    return "\n".join(parts)


def details_plain(details: Sequence[Detail | DiffText]) -> Iterator[str]:
    """Yield what is inside a tool row."""
    for detail in details:
        if isinstance(detail, DiffText):
            yield f"{detail.path} (new file)" if detail.is_new else detail.path
            yield from detail.lines
            if detail.left_out:
                yield f"… {detail.left_out:,} more lines …"
        else:
            yield ("$ " if detail.look == "command" else "") + detail.text.whole


def _row(row: Row) -> Iterator[str]:
    match row:
        case Prompt():
            yield from (f"> [{name}]" for name in row.attached)
            yield indent(row.text.whole, "> ", lambda _: True)
        case Said():
            yield row.text.whole
        case Thought():
            yield indent(row.text.whole, "  ~ ", lambda _: True)
        case Note():
            yield f"! {row.text.whole}"
        case Gap():
            yield f"… {row.count:,} rows left out …"
        case Tool():
            meta = tool_meta(row)
            yield f"[{sign_of_tool(row)[0]}] {row.title}" + (f"  ({meta})" if meta else "")
            if row.places:
                yield "    " + ", ".join(row.places)
            yield from (indent(text, "    ") for text in details_plain(row.details))
