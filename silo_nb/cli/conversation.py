"""A conversation as text for terminals and files, all of it inert.

What was said is indented, or fenced in markdown, so that it can pass for nothing else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from textwrap import indent

from silo_nb.model import (
    Attachment,
    CompactionRow,
    DiffContent,
    Entry,
    Message,
    NoticeRow,
    Permission,
    PlanEntry,
    ToolCall,
    ToolContent,
    Transcript,
    Turn,
    TurnEnd,
    block_text,
)
from silo_nb.model.text import inert, one_line

__all__ = ["Section", "as_markdown", "as_text", "sections"]

_COMPARED_LINES = 1_500  # of longer files all lines count as changed: difflib takes their square
_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "⊘", "unfinished": "⊘"}
_STEPS = {"completed": "✓", "in_progress": "▸"}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#!|~$&:])")
_TICKS = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a conversation; inert.

    Attributes:
        heading: who or what, one line.
        text: all there is to it.
        is_detail: what a tool was given or gave back, of which the first lines may do.
    """

    heading: str
    text: str = ""
    is_detail: bool = False


def sections(transcript: Transcript, agent: str = "") -> Iterator[Section]:
    """Yield the parts of a conversation in order; what one side says in a row is one of them.

    Args:
        transcript: the conversation.
        agent: what the agent calls itself.
    """
    name = one_line(agent, 80) or "Agent"
    last: Section | None = None
    for entry in transcript.entries:
        section = _section(entry, name)
        if section is None:
            continue
        if last is not None and last.heading == section.heading and not section.is_detail:
            last = replace(last, text=f"{last.text}\n\n{section.text}")
            continue
        if last is not None:
            yield last
        last = section
    if last is not None:
        yield last
    if transcript.plan:
        yield Section("Plan", "\n".join(map(_step, transcript.plan)))


def as_text(parts: Iterable[Section], *, detail_lines: int | None = None) -> Iterator[str]:
    """Yield a conversation as plain text, in lines.

    Args:
        parts: the conversation.
        detail_lines: how many lines of what a tool gave back are shown; None for all.
    """
    for part in parts:
        yield ""
        yield part.heading
        lines = part.text.split("\n") if part.text else []
        most = detail_lines if part.is_detail and detail_lines is not None else len(lines)
        yield from (indent(line, "    ") for line in islice(lines, most))
        if len(lines) > most:
            yield f"    … {len(lines) - most:,} more lines"


def as_markdown(title: str, facts: Mapping[str, str], parts: Iterable[Section]) -> Iterator[str]:
    """Yield a conversation as markdown, in lines.

    Args:
        title: what it is about.
        facts: what else is to be known, by name.
        parts: the conversation.
    """
    yield f"# {_escaped(title)}"
    yield ""
    for name, value in facts.items():
        yield f"- {name}: {_escaped(value)}"
    for part in parts:
        yield ""
        yield f"## {_escaped(part.heading)}"
        if part.text:
            longest = max(map(len, _TICKS.findall(part.text)), default=2)
            fence = "`" * (longest + 1)
            yield from ("", f"{fence}text", part.text, fence)


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", one_line(text, 300))


def _section(entry: Entry, agent: str) -> Section | None:
    match entry:
        case Message(role=role, timestamp=when):
            return Section(_speaker(role, agent, when), inert(entry.text).strip("\n"))
        case Attachment(role=role, content=content, timestamp=when):
            return Section(_speaker(role, agent, when), inert(block_text(content)))
        case ToolCall():
            return Section(_tool_heading(entry), "\n".join(_tool_texts(entry)), is_detail=True)
        case NoticeRow(notice):
            return Section(one_line(f"! {notice.title}"), inert(notice.description or ""))
        case CompactionRow(summary=summary, error=error):
            return Section("The agent shortened its context", inert(error or str(summary)))
        case TurnEnd(turn):
            return _turn_end(turn)


def _speaker(role: str, agent: str, when: str | None) -> str:
    if role == "user":
        return f"You, {one_line(when, 40)}" if when else "You"
    return f"{agent}, thinking" if role == "thought" else agent


def _turn_end(turn: Turn) -> Section | None:
    if turn.error is None and turn.stop_reason in (None, "end_turn"):
        return None
    return Section(
        f"The turn ended: {one_line(turn.stop_reason or '', 60)}", inert(turn.error or "")
    )


def _tool_heading(call: ToolCall) -> str:
    title = one_line(call.title or call.name or call.kind)
    facts = [one_line(call.kind, 40)] if call.kind != "other" else []
    if call.status != "completed":
        facts.append(one_line(call.status, 40))
    facts += [_answer(asked) for asked in call.permissions]
    return f"[{_SIGNS.get(call.status, '●')}] {title}" + (f" ({', '.join(facts)})" * bool(facts))


def _answer(asked: Permission) -> str:
    if asked.outcome != "selected":
        return f"asked, {one_line(asked.outcome or 'never answered', 40)}"
    chosen = next((o.name for o in asked.options if o.option_id == asked.option_id), "")
    verb = {True: "allowed", False: "rejected", None: "answered"}[asked.allowed]
    return f"{verb}: {one_line(chosen, 80)}"


def _tool_texts(call: ToolCall) -> Iterator[str]:
    for place in call.locations:
        yield one_line(place.path) + (f":{place.line}" if place.line else "")
    for content in call.content:
        yield from _content(content)
    if call.output:
        yield inert(str(call.output)).strip("\n")
    elif not call.content and isinstance(call.raw_output, str):
        yield inert(call.raw_output).strip("\n")
    if call.exit is not None and (call.exit.code or call.exit.signal):
        yield (
            f"exit {call.exit.code}" if call.exit.code else one_line(f"ended by {call.exit.signal}")
        )


def _content(content: ToolContent) -> Iterator[str]:
    if not isinstance(content, DiffContent):
        text = inert(block_text(content)).strip("\n")
        if text:
            yield text
        return
    yield one_line(content.path) + (" (new file)" if content.old_text is None else "")
    old, new = inert(content.old_text or "").splitlines(), inert(content.new_text).splitlines()
    if max(len(old), len(new)) > _COMPARED_LINES:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
    else:
        # The first two lines name the files.
        yield from islice(difflib.unified_diff(old, new, lineterm=""), 2, None)


def _step(step: PlanEntry) -> str:
    return f"{_STEPS.get(step.status, '○')} {one_line(step.content, 500)}"
