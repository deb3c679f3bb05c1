"""What one update costs in a short conversation and in a long one.

::

    hatch run bench                       # every bench, with its table
    python -m tests.bench.update_cost     # this one alone, microseconds as JSON, from the root

Every kind of update that moves a transcript is applied to the same value again and again: an
immutable conversation of 10 entries, and one of 10,000.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from functools import reduce

from silo_nb.model import (
    EMPTY_TRANSCRIPT,
    Compaction,
    Notice,
    Permission,
    PermissionOption,
    PlanEntry,
    ToolCallPatch,
    Transcript,
    Turn,
    Update,
    Usage,
    apply_update,
)

SIZES = (10, 10_000)
ROUNDS = 9
REPEATS = 200


def conversation(entries: int) -> Transcript:
    """A running turn with so many entries: messages, rows, thoughts and notices by turns."""
    updates = [Update("turn_start", turn=Turn()), *(_entry(number) for number in range(entries))]
    return reduce(apply_update, updates, EMPTY_TRANSCRIPT)


def _entry(number: int) -> Update:
    match number % 4:
        case 0:
            return Update("agent_thought_chunk", text="Hm. ", message_id=f"thought-{number}")
        case 1:
            return _tool_call(f"call-{number}", opens=True)
        case 2:
            return Update("agent_message_chunk", text="So: ", message_id=f"message-{number}")
        case _:
            return Update("notice", notice=Notice("The model was changed"))


def _tool_call(tool_call_id: str, *, opens: bool = False, status: str = "in_progress") -> Update:
    patch = ToolCallPatch(tool_call_id=tool_call_id, opens=opens, title="Read", status=status)
    return Update("tool_call" if opens else "tool_call_update", tool_call=patch)


def mixed_updates(last: int) -> Mapping[str, Update]:
    """One update of each kind, by what it does; `last` is the number of the last entry."""
    middle = last // 2 // 4 * 4 + 1
    option = PermissionOption("yes", "Allow", "allow_once")
    return {
        "a message begins": Update("agent_message_chunk", text="And ", message_id="new"),
        "a message goes on": Update("agent_message_chunk", text="so on ", message_id="new"),
        "a thought": Update("agent_thought_chunk", text="Hm. ", message_id="thought"),
        "a row is opened": _tool_call("call-new", opens=True),
        "the last row changes": _tool_call("call-new", status="completed"),
        "a row in the middle changes": _tool_call(f"call-{middle}", status="completed"),
        "a permission in the middle": Update(
            "permission", permission=Permission("p", f"call-{middle}", (option,))
        ),
        "a plan": Update("plan", plan=(PlanEntry("Read"), PlanEntry("Write"))),
        "usage": Update("usage_update", usage=Usage(10, 200)),
        "a title": Update("session_info_update", info={"title": "Report"}),
        "a notice": Update("notice", notice=Notice("Slow")),
        "a compaction": Update("compaction_update", compaction=Compaction("c", "in_progress")),
        "an unknown kind": Update("vendor_update"),
    }


def costs(entries: int) -> Iterator[tuple[str, float]]:
    """Yield, by kind of update, the microseconds of CPU one takes at so many entries."""
    transcript = conversation(entries)
    assert len(transcript.entries) == entries
    for name, update in mixed_updates(entries - 1).items():
        started = time.process_time_ns()
        for _ in range(REPEATS):
            apply_update(transcript, update)
        yield name, (time.process_time_ns() - started) / REPEATS / 1_000
        transcript = apply_update(transcript, update)


def measure() -> dict[str, dict[str, float]]:
    """Return microseconds by kind of update and number of entries, the least of several rounds."""
    least: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for size in SIZES:
            for name, cost in costs(size):
                at = least.setdefault(name, {})
                at[str(size)] = min(cost, at.get(str(size), cost))
    return least


if __name__ == "__main__":
    json.dump(measure(), sys.stdout)
