"""A tool call as a row: what it does, how it went, and what there is to see of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from silo_nb.ipython.record.diffs import DiffText, diff_text
from silo_nb.ipython.record.excerpt import MOST, Excerpt
from silo_nb.ipython.record.rows import Detail, Tool
from silo_nb.model import DiffContent, Permission, TerminalContent, ToolCall, block_text
from silo_nb.model.text import inert, one_line

__all__ = ["answer_words", "tool_row"]

_TITLE = 200
_WORD = 40
_PLACES = 20
_FENCED = re.compile(r"(`{3,})\w*\n((?:(?!\1).*\n)*)\1")

_STATES = {
    "completed": "done",
    "failed": "bad",
    "cancelled": "stopped",
    "unfinished": "stopped",
}


def tool_row(
    call: ToolCall,
    cwd: str = "",
    *,
    details: Literal["none", "some", "all"] = "some",
    most: int = MOST,
) -> Tool:
    """Return a tool call as a row.

    Args:
        call: the call.
        cwd: the directory whose files are shown by their relative path.
        details: ``"none"`` for the row alone, which is cheap; ``"all"`` to repeat even a command
            that the title shows.
        most: characters of one text that are kept.
    """
    title = one_line(call.title or call.name or call.kind, _TITLE)
    diffs = [] if details == "none" else _diffs(call, cwd)
    inside: list[Detail | DiffText] = []
    if details != "none":
        inside += [*_texts(call, most, full=details == "all"), *diffs]
    named = "\n".join(diff.path for diff in diffs) if inside else title
    told = all(one_line(_relative(place.path, cwd)) in named for place in call.locations)
    return Tool(
        title=("↳ " if call.parent_id else "") + title,
        kind=one_line(call.kind, _WORD),
        state=_STATES.get(call.status, "open"),
        status=one_line(call.status, _WORD),
        places=() if told else _places(call, cwd),
        answer=answer_words(call.permissions[-1]) if call.permissions else "",
        facts=_facts(call, diffs),
        details=tuple(inside),
    )


def _diffs(call: ToolCall, cwd: str) -> list[DiffText]:
    return [
        diff_text(change, _relative(change.path, cwd))
        for change in call.content
        if isinstance(change, DiffContent)
    ]


def _command(call: ToolCall) -> str:
    """Return the command line a call is about to run, as far as its raw input says, else ``""``.

    claude-agent-acp gives a string, codex-acp the argv of a shell with the line at its end.
    """
    raw = call.raw_input
    said = raw.get("command") if isinstance(raw, Mapping) else None
    if isinstance(said, str):
        return inert(said)
    if isinstance(said, list) and said and all(isinstance(word, str) for word in said):
        shell = len(said) == 3 and said[1] in ("-c", "-lc")  # noqa: PLR2004 - bash -lc LINE
        return inert(said[2] if shell else " ".join(said))
    return ""


def _texts(call: ToolCall, most: int, *, full: bool) -> list[Detail]:
    details: list[Detail] = []
    command = _command(call)
    if command and (full or command != call.title.strip() or len(command) > _TITLE):
        details.append(Detail("command", Excerpt.of(command, most)))
    elif len(call.title) > _TITLE:
        details.append(Detail("text", Excerpt.of(call.title, most)))
    details += [
        Detail("text", Excerpt.of(_unfenced(block_text(content)), most))
        for content in call.content
        if not isinstance(content, DiffContent | TerminalContent)
    ]
    if call.output:
        details.append(Detail("output", Excerpt.of(str(call.output).strip("\n"), most)))
    elif not call.content and isinstance(call.raw_output, str):
        details.append(Detail("output", Excerpt.of(call.raw_output.strip("\n"), most)))
    if call.raw_input and not (command or details or call.content or call.locations):
        details.append(Detail("text", Excerpt.of(_as_json(call.raw_input), most)))
    return [detail for detail in details if detail.text]


def _unfenced(text: str) -> str:
    """Return `text` without the code fence that claude-agent-acp puts around what tools return."""
    fenced = _FENCED.fullmatch(text.strip())
    return (fenced[2] if fenced else text).strip("\n")


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _places(call: ToolCall, cwd: str) -> tuple[str, ...]:
    places = [
        one_line(_relative(place.path, cwd) + (f":{place.line}" if place.line else ""))
        for place in call.locations[:_PLACES]
    ]
    more = len(call.locations) - len(places)
    return (*places, f"and {more} more") if more else tuple(places)


def _relative(path: str, cwd: str) -> str:
    inside = path.removeprefix(cwd.rstrip("/") + "/") if cwd else path
    return "." if path == cwd else inside


def _facts(call: ToolCall, diffs: Sequence[DiffText]) -> tuple[str, ...]:
    facts = []
    if diffs:
        facts.append(f"+{sum(d.added for d in diffs)} -{sum(d.removed for d in diffs)}")
    if call.exit is not None and call.exit.signal:
        facts.append(one_line(f"ended by {call.exit.signal}", _WORD))
    elif call.exit is not None and call.exit.code:
        facts.append(f"exit {call.exit.code}")
    return tuple(facts)


_BY = {
    "policy": " by policy",
    "cancel": ", the turn was cancelled",
    "turn-end": ", the turn ended",
    "agent-exited": ", the agent exited",
    "no-listener": ", nobody could be asked",
    "no-answer": ", nobody could be asked",
}


def answer_words(permission: Permission) -> str:
    """Say in a few words how an ask was settled."""
    by = _BY.get(permission.answered_by or "", "")
    if permission.outcome is None:
        return "waiting for an answer"
    if permission.outcome != "selected":
        return f"{'withdrawn' if permission.outcome == 'withdrawn' else 'not answered'}{by}"
    chosen = next((o.name for o in permission.options if o.option_id == permission.option_id), "")
    verb = {True: "allowed", False: "rejected", None: "answered"}[permission.allowed]
    return f"{verb}{by}: {one_line(chosen, 80)}"
