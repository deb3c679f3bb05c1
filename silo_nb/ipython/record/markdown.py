"""A turn, or a session, as markdown that renders to nothing but text.

JupyterLab runs HTML and follows links that it finds in a markdown output (FAULTS §0.1). So all
words of the agent's stand in code: blocks fenced by more backticks than any run inside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from silo_nb.ipython.record.past import SessionRecord
from silo_nb.ipython.record.plain import details_plain
from silo_nb.ipython.record.rows import Gap, Note, Prompt, Row, Said, Thought, Tool
from silo_nb.ipython.record.turn import TurnRecord
from silo_nb.ipython.record.words import (
    foot_words,
    plan_heading,
    sign_of_step,
    sign_of_tool,
    state_words,
    tool_meta,
)

__all__ = ["heading_markdown", "record_markdown", "session_markdown"]

_TICKS = re.compile(r"`+")


def session_markdown(session: SessionRecord) -> Iterator[str]:
    """Yield the parts of `session` as a document: what it is, then its turns."""
    yield heading_markdown(session) + "\n"
    for number, turn in enumerate(session.turns, start=1):
        yield f"\n## Turn {number}\n\n{record_markdown(turn.record)}\n"


def heading_markdown(session: SessionRecord) -> str:
    """Return what there is to know of `session` before its turns."""
    facts = (f"{name}: {value}" for name, value in (("title", session.title), *session.facts))
    return "# Session\n\n" + _fenced("\n".join(facts))


def record_markdown(record: TurnRecord) -> str:
    """Return `record` as markdown."""
    where = f" in {record.where}" if record.where else ""
    parts = [_fenced(f"{record.agent}{where}: {state_words(record)}")]
    for row in record.rows:
        parts += _row(row)
    if record.plan:
        steps = "\n".join(f"{sign_of_step(step)[0]} {step.content}" for step in record.plan)
        parts += [f"**Plan**, {plan_heading(record.plan)}", _fenced(steps)]
    words = foot_words(record)
    if words:
        parts.append(_fenced(" · ".join(words)))
    return "\n\n".join(parts)


def _row(row: Row) -> Iterator[str]:
    match row:
        case Prompt():
            yield "**Prompt**"
            yield _fenced("\n".join((*(f"[{n}]" for n in row.attached), row.text.whole)))
        case Said():
            yield _fenced(row.text.whole)
        case Thought():
            yield "**Thought**"
            yield _fenced(row.text.whole)
        case Note():
            yield "**Note**"
            yield _fenced(row.text.whole)
        case Gap():
            yield f"… {row.count:,} rows left out …"
        case Tool():
            yield "**Tool**"
            meta = tool_meta(row)
            head = f"{sign_of_tool(row)[0]} {row.title}" + (f"  ({meta})" if meta else "")
            places = [", ".join(row.places)] if row.places else []
            yield _fenced("\n".join((head, *places, *details_plain(row.details))))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
