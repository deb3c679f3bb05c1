"""The process: arguments, streams, and the two threads it has."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Container, Sequence
from pathlib import Path

from silo_nb.testing.scripted.answers import Answers
from silo_nb.testing.scripted.inbox import Inbox
from silo_nb.testing.scripted.log import Log
from silo_nb.testing.scripted.names import Names
from silo_nb.testing.scripted.player import Player
from silo_nb.testing.scripted.scenario import BadScenario, Scenario
from silo_nb.testing.scripted.wire import Reader, Writer

USAGE = "usage: fake_agent SCENARIO.jsonl [--log FILE] [--control DIR] [--tag TEXT]"
_BAD_USAGE = 64
_NO_SCENARIO = 65


def main(arguments: Sequence[str]) -> int:
    """Play the scenario that the arguments name, then serve until standard input ends."""
    options = parse(arguments, "scenario", {"log", "control", "tag"})
    if options is None:
        sys.stderr.write(f"{USAGE}\n")
        return _BAD_USAGE
    try:
        scenario = Scenario.read(Path(options["scenario"]))
    except (BadScenario, OSError) as error:
        sys.stderr.write(f"cannot play {options['scenario']!r}: {error}\n")
        return _NO_SCENARIO
    serve(
        scenario,
        log=options.get("log"),
        control=options.get("control"),
        tag=options.get("tag", ""),
    )
    return 0


def serve(
    scenario: Scenario, *, log: str | None = None, control: str | None = None, tag: str = ""
) -> None:
    """Play a scenario on this process's own streams. The process exits with its stdin."""
    names = Names()
    record = Log(Path(log) if log else None)
    record.event(
        "start", argv=sys.argv, cwd=str(Path.cwd()), ppid=os.getppid(), group=os.getpgid(0)
    )
    writer = Writer(record)
    answers = Answers(scenario.defaults, names.substitute)
    inbox = Inbox(names, answers, writer, record)
    reader = Reader(inbox.receive)
    player = Player(
        scenario,
        names=names,
        inbox=inbox,
        writer=writer,
        reader=reader,
        log=record,
        control=Path(control) if control else Path.cwd(),
        tag=tag,
    )
    threading.Thread(target=_read, args=(reader, inbox), daemon=True).start()
    player.play()
    # The reading thread ends the process; until then it answers by default.
    threading.Event().wait()


def _read(reader: Reader, inbox: Inbox) -> None:
    reader.run()
    if not reader.stopped:
        inbox.end()


def parse(
    arguments: Sequence[str], positional: str, known: Container[str]
) -> dict[str, str] | None:
    """Parse a command line of one positional argument and ``--name VALUE`` options.

    By hand, because argparse would add much to the time it takes to start.

    Returns:
        What was given, by name; None when the command line is not of that form.

    >>> parse(["a.jsonl", "--log", "b"], "scenario", {"log"})
    {'scenario': 'a.jsonl', 'log': 'b'}
    >>> parse(["--log"], "scenario", {"log"}) is None
    True
    """
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and word[2:] in known and rest:
            options[word[2:]] = rest.pop(0)
        elif not word.startswith("-") and positional not in options:
            options[positional] = word
        else:
            return None
    return options if positional in options else None
