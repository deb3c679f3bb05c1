"""Plays the agent's side of a recording again, as a scripted agent.

::

    python -m silo_nb.testing.replayer RECORDING.jsonl [--process N] [--pace F] [--log FILE]

It says what the agent said, in order, and waits for the client's requests, notifications and
answers where the recording has them (by method; what they contain is the client's business).
Request ids of the client are mapped, those of the agent are the recorded ones. What the recording
does not have is answered by default. ``--pace 1`` keeps the recorded pauses, 0 (the default) makes
none.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from silo_nb.testing.recording import Event, Recording
from silo_nb.testing.scripted.main import parse, serve
from silo_nb.testing.scripted.scenario import Scenario

USAGE = "usage: replayer RECORDING.jsonl [--process N] [--pace F] [--log FILE] [--tag TEXT]"
_BAD_USAGE = 64
_NO_RECORDING = 65

_CLIENT, _AGENT = "client", "agent"


def scenario_of(recording: Recording, *, process: int = 0, pace: float = 0.0) -> Scenario:
    """Turn a recording into a scenario that plays the agent's side.

    Args:
        recording: what was said.
        process: which process of the recording.
        pace: how long the recorded pauses become, 0 for none.

    >>> scenario = scenario_of(Recording([
    ...     {"t": 0, "dir": "out", "msg": {"id": 7, "method": "initialize"}},
    ...     {"t": 1, "dir": "in", "msg": {"id": 7, "result": {"protocolVersion": 1}}},
    ... ]))
    >>> scenario.steps[0]
    {'expect': 'initialize', 'as': 'client 7'}
    >>> scenario.steps[1]["reply"]
    {'protocolVersion': 1}
    """
    steps: list[dict[str, Any]] = []
    before = 0.0
    for event in recording.of_process(process).events:
        if pace and event["dir"] == "in":
            steps.append({"sleep": max(0.0, event["t"] - before) * pace})
        before = max(before, event["t"])
        steps += _steps_of(event)
    return Scenario.of([{"about": "a recording"}, *steps, *_end_of(recording, process)])


def _steps_of(event: Event) -> Iterator[dict[str, Any]]:
    match event:
        case {"dir": "out", "msg": {"method": method, "id": request_id}}:
            yield {"expect": method, "as": _name(_CLIENT, request_id)}
        case {"dir": "out", "msg": {"method": method}}:
            yield {"expect": method}
        case {"dir": "out", "msg": {"id": request_id}}:
            # Whatever the live client answers, the agent goes on as it did.
            yield {"answered": _name(_AGENT, request_id), "answers": {"*": []}}
        case {"dir": "in", "msg": {"method": _, "id": request_id} as message}:
            yield {"send": message, "as": _name(_AGENT, request_id), "verbatim": True}
        case {"dir": "in", "msg": {"method": _} as message}:
            yield {"send": message, "verbatim": True}
        case {"dir": "in", "msg": {"id": request_id, "error": error}}:
            yield {"error": error, "to": _name(_CLIENT, request_id), "verbatim": True}
        case {"dir": "in", "msg": {"id": request_id, "result": result}}:
            yield {"reply": result, "to": _name(_CLIENT, request_id), "verbatim": True}
        case {"dir": "raw", "text": text}:
            yield {"garbage": {"base64": base64.b64encode(f"{text}\n".encode()).decode()}}


def _end_of(recording: Recording, process: int) -> Iterator[dict[str, Any]]:
    """An agent that ended without being told to does so again."""
    for event in recording.of_process(process).events:
        match event:
            case {"event": "stop"}:
                return
            case {"event": "exit", "rc": int(status)} if status >= 0:
                yield {"exit": status}
            case {"event": "exit", "rc": int(status)}:
                yield {"signal": _signal_name(-status)}


def _signal_name(number: int) -> str:
    from signal import Signals

    return Signals(number).name


def _name(side: str, request_id: Any) -> str:
    return f"{side} {request_id}"


def main(arguments: Sequence[str]) -> int:
    """Replay the recording that the command line names, then serve until stdin ends."""
    options = parse(arguments, "recording", {"process", "pace", "log", "tag"})
    if options is None:
        sys.stderr.write(f"{USAGE}\n")
        return _BAD_USAGE
    try:
        recording = Recording.read(Path(options["recording"]))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cannot replay {options['recording']!r}: {error}\n")
        return _NO_RECORDING
    scenario = scenario_of(
        recording,
        process=int(options.get("process", 0)),
        pace=float(options.get("pace", 0)),
    )
    serve(scenario, log=options.get("log"), tag=options.get("tag", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
