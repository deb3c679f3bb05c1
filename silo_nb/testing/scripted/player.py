"""Plays a scenario: one method per verb, in the order of the file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from silo_nb.testing.scripted import faults
from silo_nb.testing.scripted.inbox import Inbox, TurnEnded
from silo_nb.testing.scripted.log import Log
from silo_nb.testing.scripted.names import Names
from silo_nb.testing.scripted.scenario import Scenario, Step, branches, case_of, fits, verb_of
from silo_nb.testing.scripted.wire import STDOUT, STREAMS, Reader, Writer, close, write_repeated

# How often a step that waits for a test looks whether it may go on, in seconds.
_LOOK = 0.005

_PERMISSION = "session/request_permission"
_OPTIONS = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
_CANCELLED = {"result": {"stopReason": "cancelled"}}

_ENDINGS = {"reply", "error"}

# (steps, place of the one being played, whether the list is played again after its end) …
Frames = tuple[tuple[Sequence[Step], int, bool], ...]


class Player:
    """Plays one scenario, once, on the process's main thread.

    Args:
        scenario: what to play.
        names: the values behind ``$`` names.
        inbox: what the client sends.
        writer: standard output.
        reader: standard input.
        log: where marks and the like go.
        control: directory where a test releases what ``wait_for`` holds.
        tag: what processes left behind can be found by.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        names: Names,
        inbox: Inbox,
        writer: Writer,
        reader: Reader,
        log: Log,
        control: Path,
        tag: str,
    ) -> None:
        self._scenario = scenario
        self._names = names
        self._inbox = inbox
        self._writer = writer
        self._reader = reader
        self._log = log
        self._control = control
        self._tag = tag
        self._ask_ids = count(0)
        # Where we are, outermost list first. The reading thread looks at it at any moment to see
        # whether a message is awaited, so it is replaced whole and never misses a step to come.
        self._frames: Frames = ((scenario.steps, 0, False),)
        # The request whose turn the client called off: its remaining steps are skipped.
        self._skipping: Any = None
        inbox.expect_ahead(self._expects_ahead)

    def play(self) -> None:
        """Play the whole scenario. Afterwards everything is answered by default."""
        self._play(self._scenario.steps)
        self._skipping = None
        self._inbox.settle()
        self._log.event("finished")

    # ------------------------------------------------------------------- where we are

    def _play(self, steps: Sequence[Step], outer: Frames = (), *, again: bool = False) -> None:
        for place, step in enumerate(steps):
            self._frames = (*outer, (steps, place, again))
            if self._skipping is not None and self._skips(step):
                continue
            try:
                self._inbox.check()
                getattr(self, f"_{verb_of(step)}")(step)
            except TurnEnded as ended:
                self._inbox.respond(ended.request_id, ended.answer)
                self._skipping = ended.request_id

    def _skips(self, step: Step) -> bool:
        """Whether a step belongs to the turn that was called off. Its reply is the last one."""
        verb = verb_of(step)
        if verb in _ENDINGS and self._target(step) == self._skipping:
            self._skipping = None
            return True
        if verb == "expect":
            self._skipping = None
            return False
        return not (verb == "loop" and any(map(_leads_out, step["steps"])))

    def _past(self) -> Frames:
        """Where we are once the step that is being played is done."""
        *outer, (steps, place, again) = self._frames
        return (*outer, (steps, place + 1, again))

    def _pass(self) -> None:
        self._frames = self._past()

    def _expects_ahead(self) -> Iterator[Step]:
        for steps, place, again in self._frames:
            yield from _expects_in(steps[place:])
            if again:
                yield from _expects_in(steps)

    # ------------------------------------------------------------------------ talking

    def _expect(self, step: Step) -> None:
        message = self._inbox.take(step, self._pass)
        if "as" in step:
            self._names[step["as"]] = message.get("id")

    def _reply(self, step: Step) -> None:
        result = self._value(step, "reply")
        if isinstance(result, str):
            result = {"stopReason": result}
        self._respond(step, {"result": result})

    def _error(self, step: Step) -> None:
        self._respond(step, {"error": self._value(step, "error")})

    def _respond(self, step: Step, answer: Mapping[str, Any]) -> None:
        self._inbox.respond(self._target(step), answer, end=step.get("end", "\n"))

    def _target(self, step: Step) -> Any:
        return self._names[step.get("to", "request")]

    def _update(self, step: Step) -> None:
        session = step.get("session", "$session")
        params = self._names.substitute({"sessionId": session, "update": step["update"]})
        self._emit({"jsonrpc": "2.0", "method": "session/update", "params": params}, step)

    def _say(self, step: Step) -> None:
        self._chunk("agent_message_chunk", step["say"], step)

    def _think(self, step: Step) -> None:
        self._chunk("agent_thought_chunk", step["think"], step)

    def _chunk(self, kind: str, text: Any, step: Step) -> None:
        update: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        if "id" in step:
            update["messageId"] = step["id"]
        self._update({**step, "update": update})

    def _send(self, step: Step) -> None:
        message = self._value(step, "send")
        if "as" in step:
            self._names[step["as"]] = message.get("id")
        if isinstance(message, dict) and "method" not in message:
            self._inbox.count_as_answered(message.get("id"))
        self._emit(message, step)

    def _value(self, step: Step, key: str) -> Any:
        return step[key] if step.get("verbatim") else self._names.substitute(step[key])

    def _emit(self, message: Any, step: Step) -> None:
        self._writer.message(message, end=step.get("end", "\n"))

    def _ask(self, step: Step) -> None:
        method = step["ask"]
        request_id = step["id"] if "id" in step else next(self._ask_ids)
        params = {"sessionId": "$session", **step.get("params", {})}
        if method == _PERMISSION:
            params = {"options": _OPTIONS, **params}
        if "as" in step:
            self._names[step["as"]] = request_id
        request = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self._emit({**request, "params": self._names.substitute(params)}, step)
        if step.get("wait", True):
            self._go_by(self._inbox.reply_to(request_id), step)

    def _answered(self, step: Step) -> None:
        answer = self._inbox.reply_to(self._names[step["answered"]])
        if "result" in step and not fits(step["result"], answer.get("result")):
            self._log.event("unexpected", answer=answer)
            raise SystemExit(f"the answer to {step['answered']!r} is not as expected: {answer}")
        self._go_by(answer, step)

    def _go_by(self, answer: Mapping[str, Any], step: Step) -> None:
        """Play the steps that the scenario has for this answer."""
        cases = step.get("answers", {})
        case = case_of(answer)
        self._log.event("answer", name=step.get("as", step.get("answered")), answer=case)
        request_id = self._names["request"]
        if case in cases or "*" in cases:
            self._play(cases.get(case, cases.get("*")), self._past())
        elif case == "cancelled" and self._inbox.is_open(request_id, "session/prompt"):
            raise TurnEnded(request_id, _CANCELLED)

    # ----------------------------------------------------------------- order and time

    def _mark(self, step: Step) -> None:
        self._log.event("mark", name=step["mark"], value=self._names.substitute(step.get("value")))

    def _wait_for(self, step: Step) -> None:
        while not (self._control / step["wait_for"]).exists():
            self._inbox.rest(_LOOK)

    def _sleep(self, step: Step) -> None:
        seconds = step["sleep"]
        self._inbox.rest(math.inf if seconds == "forever" else seconds)

    def _loop(self, step: Step) -> None:
        times = step["loop"]
        outer = self._past()
        for number in count() if times == "forever" else range(times):
            self._names["i"] = number
            self._play(step["steps"], outer, again=times == "forever" or number < times - 1)
            if self._skipping is not None:
                return

    # -------------------------------------------------------------------------- bytes

    def _garbage(self, step: Step) -> None:
        for _ in range(step.get("repeat", 1)):
            for data, times in faults.raw_bytes(step["garbage"], self._text):
                write_repeated(STDOUT, data, times)

    def _text(self, text: str) -> str:
        return str(self._names.substitute(text))

    def _split(self, step: Step) -> None:
        self._writer.split_next(step["split"])

    def _flood(self, step: Step) -> None:
        lines = faults.chunks_of_flood(step, self._names["session"])
        for block in faults.in_bulk(lines, step.get("rate")):
            self._writer.raw(block)
            self._inbox.check()

    def _stderr(self, step: Step) -> None:
        write_repeated(STREAMS["stderr"], step["stderr"].encode(), step.get("repeat", 1))

    # ------------------------------------------------------------------------ process

    def _exit(self, step: Step) -> None:
        self._log.event("exit", code=step["exit"])
        os._exit(step["exit"])

    def _signal(self, step: Step) -> None:
        self._log.event("signal", name=step["signal"])
        faults.raise_signal(step["signal"])

    def _close(self, step: Step) -> None:
        if step["close"] == "stdin":
            self._reader.stop()
        close(STREAMS[step["close"]])

    def _ignore(self, step: Step) -> None:
        what = step["ignore"]
        for name in [what] if isinstance(what, str) else what:
            if name.startswith("sig"):
                faults.ignore_signal(name)
            elif name == "stdin":
                self._reader.stop()
            else:
                self._inbox.ignored.add(name)

    def _fork(self, step: Step) -> None:
        child = faults.leave_behind(step["fork"], keeps=step.get("keeps", ()), tag=self._tag)
        self._log.event("forked", kind=step["fork"], child=child)


def _expects_in(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        if "expect" in step:
            yield step
        for body in branches(step):
            yield from _expects_in(body)


def _leads_out(step: Step) -> bool:
    """Whether a step, or one inside it, can end the skipping of a turn."""
    inner = (_leads_out(nested) for body in branches(step) for nested in body)
    return "expect" in step or not _ENDINGS.isdisjoint(step) or any(inner)
