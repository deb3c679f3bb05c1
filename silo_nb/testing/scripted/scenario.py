"""Scenarios: reading them, and saying where one is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Step = Mapping[str, Any]

_MESSAGE = {"end"}

# Every verb, with the options it takes.
VERBS: dict[str, set[str]] = {
    "expect": {"params", "as"},
    "reply": {"to", "verbatim", *_MESSAGE},
    "error": {"to", "verbatim", *_MESSAGE},
    "update": {"session", *_MESSAGE},
    "say": {"id", "session", *_MESSAGE},
    "think": {"id", "session", *_MESSAGE},
    "send": {"as", "verbatim", *_MESSAGE},
    "ask": {"params", "id", "as", "wait", "answers", *_MESSAGE},
    "answered": {"result", "answers"},
    "mark": {"value"},
    "wait_for": set(),
    "sleep": set(),
    "loop": {"steps"},
    "garbage": {"repeat"},
    "split": set(),
    "flood": {"text", "rate", "id", "kind"},
    "stderr": {"repeat"},
    "exit": set(),
    "signal": set(),
    "close": set(),
    "ignore": set(),
    "fork": {"keeps"},
}

# What a line may say that is no step.
_HEADINGS = ("about", "defaults")

_CHOICES = {
    "close": {"stdin", "stdout", "stderr"},
    "ignore": {"cancel", "sigterm", "sigint", "sighup", "eof", "stdin", "requests"},
    "fork": {"child", "setsid", "daemon", "term_immune", "zombie"},
}


class BadScenario(ValueError):
    """A scenario that cannot be played; the message names the line and what is wrong with it."""


class Scenario:
    """A script, ready to be played.

    Attributes:
        about: what the scenario shows, for people.
        defaults: method -> result (or ``{"error": …}``) that replaces the built-in answer.
        steps: what to do, in order.
    """

    def __init__(
        self, steps: Sequence[Step], *, about: str = "", defaults: Mapping[str, Any] | None = None
    ) -> None:
        self.about = about
        self.defaults = dict(defaults or {})
        self.steps = tuple(steps)

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Scenario:
        """Make a scenario of its lines, checking each.

        Raises:
            BadScenario: a line is no step; the message says which and why.

        >>> Scenario.of([{"about": "silence"}, {"sleep": "forever"}]).about
        'silence'
        >>> Scenario.of([{"sey": "hello"}])
        Traceback (most recent call last):
        ...
        silo_nb.testing.scripted.scenario.BadScenario: line 1: no verb in {"sey": "hello"}; did you
        mean 'say'?
        """
        about = ""
        defaults: dict[str, Any] = {}
        steps: list[Step] = []
        for number, line in enumerate(lines, start=1):
            if not isinstance(line, dict):
                raise BadScenario(f"line {number}: a step is a JSON object, not {_shown(line)}")
            if line.keys() <= set(_HEADINGS):
                about = line.get("about", about)
                defaults |= line.get("defaults", {})
                continue
            _check(line, f"line {number}")
            steps.append(line)
        return cls(steps, about=about, defaults=defaults)

    @classmethod
    def read(cls, path: Path) -> Scenario:
        """Read a scenario file (JSON Lines, UTF-8; empty lines are skipped).

        Raises:
            BadScenario: a line is not JSON, or no step.
            OSError: the file cannot be read.
        """
        lines = []
        for number, text in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not text.strip():
                continue
            try:
                lines.append(json.loads(text))
            except ValueError as error:
                raise BadScenario(f"{path.name}, line {number}: not JSON: {error}") from error
        try:
            return cls.of(lines)
        except BadScenario as error:
            raise BadScenario(f"{path.name}, {error}") from error


def verb_of(step: Step) -> str:
    """Return the verb of a step that was checked."""
    return next(verb for verb in VERBS if verb in step)


def branches(step: Step) -> Iterator[Sequence[Step]]:
    """Yield the lists of steps inside a step: the body of a loop, the cases of an ask."""
    if "steps" in step:
        yield step["steps"]
    yield from step.get("answers", {}).values()


def fits(wanted: Any, value: Any) -> bool:
    """Whether `value` has all that `wanted` asks for: objects may have more keys, lists may not.

    >>> fits({"outcome": {"optionId": "a"}}, {"outcome": {"outcome": "selected", "optionId": "a"}})
    True
    >>> fits([1], [1, 2])
    False
    """
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and fits(inner, value[key]) for key, inner in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(value, list)
            and len(wanted) == len(value)
            and all(fits(a, b) for a, b in zip(wanted, value, strict=True))
        )
    return bool(wanted == value)


def case_of(answer: Mapping[str, Any]) -> str:
    """Name an answer as scenarios do: an optionId, an action, ``cancelled``, ``error`` or ``*``.

    >>> case_of({"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
    'allow'
    >>> case_of({"result": {"outcome": {"outcome": "cancelled"}}})
    'cancelled'
    >>> case_of({"result": {"action": "decline"}})
    'decline'
    """
    if "error" in answer:
        return "error"
    result = answer.get("result")
    if not isinstance(result, dict):
        return "*"
    outcome = result.get("outcome")
    if isinstance(outcome, dict):
        selected = outcome.get("outcome") == "selected"
        return str(outcome.get("optionId") if selected else outcome.get("outcome"))
    return str(result.get("action", "*"))


def _check(step: Step, where: str) -> None:
    verbs = [verb for verb in VERBS if verb in step]
    # A word can be a verb here and an option there: `id` is none, but what follows `error` may be.
    if len(verbs) != 1:
        raise BadScenario(f"{where}: {_verb_trouble(step, verbs)}")
    verb = verbs[0]
    for option in step.keys() - {verb} - VERBS[verb]:
        raise BadScenario(f"{where}: {verb!r} takes no {option!r}; it takes {sorted(VERBS[verb])}")
    if verb in _CHOICES:
        _check_choice(verb, step[verb], where)
    if verb == "loop" and "steps" not in step:
        raise BadScenario(f"{where}: 'loop' needs 'steps'")
    for body in branches(step):
        for number, inner in enumerate(body, start=1):
            _check(inner, f"{where}, step {number}")


def _check_choice(verb: str, value: Any, where: str) -> None:
    chosen = value if isinstance(value, list) else [value]
    for one in chosen:
        if one not in _CHOICES[verb]:
            raise BadScenario(f"{where}: {verb!r} knows {sorted(_CHOICES[verb])}, not {one!r}")


def _verb_trouble(step: Step, verbs: Sequence[str]) -> str:
    if verbs:
        return f"one verb a step, not {' and '.join(map(repr, verbs))}"
    import difflib

    for key in step:
        near = difflib.get_close_matches(key, VERBS, n=1)
        if near:
            return f"no verb in {_shown(step)}; did you mean {near[0]!r}?"
    return f"no verb in {_shown(step)}; the verbs are {', '.join(VERBS)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=repr)
    limit = 200
    return text if len(text) <= limit else text[:limit] + "…"
