"""A turn as HTML: inline styles only, every word of the agent's escaped, nothing that loads.

No script, style sheet, class, id or data attribute, so that neither a viewer nor JupyterLab can be
made to act by what an agent said (FAULTS T4, T6, T7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from silo_nb.ipython.record.diffs import DiffText
from silo_nb.ipython.record.escape import code_html, text_html
from silo_nb.ipython.record.excerpt import Excerpt
from silo_nb.ipython.record.prose import prose_html
from silo_nb.ipython.record.rows import Detail, Gap, Note, Prompt, Row, Said, Thought, Tool
from silo_nb.ipython.record.styles import COLOURS, style
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
from silo_nb.model import PlanEntry

__all__ = ["answered_html", "question_html", "record_html", "table_html"]


def record_html(record: TurnRecord, *, fold: bool = True) -> str:
    """Return `record` as HTML.

    Args:
        record: what to show, already as short as it has to be.
        fold: whether details, such as diffs and command output, are there to be opened; otherwise
            each tool call is one line.
    """
    body = "".join((*_rows(record.rows, fold=fold), _plan(record.plan)))
    if body:
        body = f"<div{style('body')}>{body}</div>"
    return f"<div{style('root')}>{_head(record)}{body}{_foot(record)}</div>"


def question_html(agent: str, row: Tool, options: Sequence[str]) -> str:
    """Return a permission request: who asks, what for, in full, and the answers offered.

    Args:
        agent: who asks.
        row: the tool call.
        options: the agent's words for the answers, in its order.
    """
    kind = "" if row.kind == "other" else f" <span{style('muted')}>{text_html(row.kind)}</span>"
    answers = "".join(f"<li{style('li')}>{text_html(option)}</li>" for option in options)
    return (
        f"<div{style('root')}><div{style('head')}>{_sign('◆', 'warn')} "
        f"<strong>{text_html(agent)} asks for your permission</strong></div>"
        f"<div{style('question')}><strong>{text_html(row.title)}</strong>{kind}</div>"
        f"{_tool_body(row)}<ol{style('options')}>{answers}</ol>"
        f"<div{style('foot')}>Answering only tells the agent; it is no sandbox.</div></div>"
    )


def table_html(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th{style('th')}>{text_html(cell)}</th>" for cell in heads)
    body = ("".join(f"<td{style('td')}>{text_html(cell)}</td>" for cell in row) for row in rows)
    lines = "".join(f"<tr{style('tr')}>{line}</tr>" for line in (head, *body))
    return f"<div{style('bare')}><table{style('table')}><tbody>{lines}</tbody></table></div>"


def answered_html(row: Tool, outcome: str) -> str:
    """Return the one line a settled permission request leaves behind."""
    return f"<div{style('small')}>◆ {text_html(row.title)}: {text_html(outcome)}</div>"


def _head(record: TurnRecord) -> str:
    sign, colour = STATE_SIGNS.get(record.state, ("●", "warn"))
    where = f" <span{style('muted')}>in {text_html(record.where)}</span>" if record.where else ""
    return (
        f"<div{style('head')}><span{style('state')}>{_sign(sign, colour)} "
        f"<span{style('muted')}>{text_html(state_words(record))}</span></span>"
        f"<strong>{text_html(record.agent)}</strong>{where}</div>"
    )


def _sign(sign: str, colour: str) -> str:
    return f'<span style="color:{COLOURS[colour]};font-weight:600">{sign}</span>'


def _foot(record: TurnRecord) -> str:
    words = foot_words(record)
    return f"<div{style('foot')}>{text_html(' · '.join(words))}</div>" if words else ""


# --------------------------------------------------------------------------------------- rows


def _rows(rows: Sequence[Row], *, fold: bool) -> Iterator[str]:
    """Yield the rows, with tool calls that follow each other in one frame."""
    for _, group in groupby(rows, key=lambda row: isinstance(row, Tool)):
        together = list(group)
        tools = [row for row in together if isinstance(row, Tool)]
        if tools:
            yield f"<div{style('tools')}>{''.join(_tools(tools, fold=fold))}</div>"
        else:
            yield from map(_row, together)


def _row(row: Row) -> str:
    match row:
        case Prompt():
            chips = "".join(f"<span{style('chip')}>{text_html(n)}</span>" for n in row.attached)
            chips = f"<div>{chips}</div>" if chips else ""
            return f"<div{style('prompt')}>{chips}{text_html(row.text.whole)}</div>"
        case Said():
            return f"<div{style('said')}>{_prose(row.text)}</div>"
        case Thought():
            opened = " open" if row.fresh else ""
            return (
                f"<details{opened}{style('thought')}><summary{style('summary')}>Thought</summary>"
                f"<div{style('thought-body')}>{_prose(row.text)}</div></details>"
            )
        case Note():
            return _note(row)
        case Gap():
            return f"<div{style('gap')}>… {row.count:,} rows left out …</div>"
        case Tool():
            return "".join(_tools([row], fold=True))


def _prose(text: Excerpt) -> str:
    """Return an agent's markdown; each side of a gap is a text of its own."""
    if not text.left_out:
        return prose_html(text.head)
    gap = f"<div{style('gap')}>{text_html(text.gap)}</div>"
    return prose_html(text.head) + gap + prose_html(text.tail)


def _note(row: Note) -> str:
    colour = {"warning": "warn", "error": "bad"}.get(row.severity)
    extra = f"border-left-color:{COLOURS[colour]}" if colour else ""
    return f"<div{style('note', extra)}>{text_html(row.text.whole)}</div>"


def _tools(rows: Sequence[Tool], *, fold: bool) -> Iterator[str]:
    for number, row in enumerate(rows):
        look = style("tool-next" if number else "tool")
        sign, colour = sign_of_tool(row)
        head = (
            f"<span{style('tool-meta')}><span{style('muted')}>{text_html(tool_meta(row))}</span> "
            f"{_sign(sign, colour)}</span>{text_html(row.title)}"
        )
        body = _tool_body(row) if fold else ""
        if body:
            yield (
                f"<details{look}><summary{style('tool-head')}>{head}</summary>"
                f"<div{style('tool-body')}>{body}</div></details>"
            )
        else:
            yield f"<div{look}><div{style('tool-flat')}>{head}</div></div>"


def _tool_body(row: Tool) -> str:
    places = f"<div{style('tool-line')}>{text_html(', '.join(row.places))}</div>"
    return (places if row.places else "") + "".join(map(_detail, row.details))


def _detail(detail: Detail | DiffText) -> str:
    if isinstance(detail, DiffText):
        return _diff(detail)
    if detail.look == "command":
        return f"<pre{style('text')}>$ {code_html(detail.text.whole)}</pre>"
    return f"<pre{style('text')}>{code_html(detail.text.whole)}</pre>"


def _diff(diff: DiffText) -> str:
    lines = (f"<span{style('diff-' + line[0])}>{code_html(line)}</span>" for line in diff.lines)
    name = f"{diff.path} (new file)" if diff.is_new else diff.path
    parts = [f"<div{style('tool-line')}>{text_html(name)}</div>"]
    if diff.lines:
        parts.append(f"<pre{style('diff')}>{''.join(lines)}</pre>")
    if diff.left_out:
        parts.append(f"<div{style('tool-line')}>… {diff.left_out:,} more lines …</div>")
    return "".join(parts)


# --------------------------------------------------------------------------------------- plan


def _plan(plan: Sequence[PlanEntry]) -> str:
    if not plan:
        return ""
    steps = []
    for step in plan:
        sign, colour = sign_of_step(step)
        look = {"completed": "plan-done", "in_progress": "plan-now"}.get(step.status, "plan-step")
        steps.append(f"<div{style(look)}>{_sign(sign, colour)} {text_html(step.content)}</div>")
    heading = f"<div><strong>Plan</strong> <span{style('muted')}>{plan_heading(plan)}</span></div>"
    return f"<div{style('plan')}>{heading}{''.join(steps)}</div>"
