"""The compatibility table: agent by scenario, as the tests found it.

The tests leave what they found in pytest's cache, each run replacing the cells it ran. From there

    python tests/agents/table.py --write

takes it into ``results.json`` and into README, and ``--check`` says whether README shows what is in
``results.json``. Needs only the standard library.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = Path(__file__).with_name("results.json")
CACHE_KEY = "agents/results"
LAST_RUN = ROOT / ".pytest_cache" / "v" / CACHE_KEY
BEGIN, END = "<!-- agents:begin -->", "<!-- agents:end -->"

AGENTS = ("claude", "codex", "gemini", "qwen", "kimi", "pi")

SCENARIOS = {
    "text": "an answer streams in",
    "thoughts": "thoughts stand apart from it",
    "shell": "a command and its output",
    "plan": "a plan that moves on",
    "usage": "reports",
    "flood": "2000 chunks stay in order",
    "write-allow": "asks before it writes",
    "write-reject": "after a refusal, the turn",
    "cancel-with-open-permission": "cancelled while it asks",
    "no-listener": "asks, and nobody answers",
    "cancel-mid-stream": "cancelled while it answers",
    "interrupt": "its task is cancelled",
    "dispose-idle": "disposed: nothing is left",
    "dispose-mid-shell": "disposed while a command runs",
    "kill-mid-shell": "killed while a command runs",
    "kernel-kill-mid-shell": "its kernel is killed then",
    "kill-idle": "killed between turns, goes on",
    "restart": "after a restart, a session is",
    "stale": "a session it has forgotten is",
    "list": "lists its sessions",
    "titles": "gives a title",
    "options": "takes all values it offers",
    "stale-option": "an option it refuses is",
    "no-auth": "a missing login is told at",
}
"""What README calls the scenarios, in its order; a test's id names its scenario."""

PASSED, FAILED, NOT_RUN = "✓", "fails", ""
EMPTY: dict[str, Any] = {"agents": {}}


def cell(results: dict[str, Any], agent: str, scenario: str) -> str:
    """Return what a cell shows."""
    found = results["agents"].get(agent, {}).get("cells", {}).get(scenario, NOT_RUN)
    return str(found)


def merged(
    before: dict[str, Any], programs: dict[str, dict[str, Any]], found: dict[tuple[str, str], str]
) -> dict[str, Any]:
    """Return results with the cells of another run.

    Args:
        before: results so far; what other versions of an agent did is dropped.
        programs: package and version of each agent, and versions of what goes with it, by agent.
        found: cells of the run, by agent and scenario.
    """
    agents: dict[str, Any] = {}
    for agent in AGENTS:
        known = before["agents"].get(agent, {})
        cells = dict(known.get("cells", {})) if known.get("program") == programs[agent] else {}
        cells |= {scenario: text for (name, scenario), text in found.items() if name == agent}
        if cells:
            ordered = {scenario: cells[scenario] for scenario in SCENARIOS if scenario in cells}
            agents[agent] = {"program": programs[agent], "cells": ordered}
    return {"agents": agents}


def lines(results: dict[str, Any]) -> list[list[str]]:
    """Return the table: a head, then a line per scenario that was run with any agent."""
    agents = [agent for agent in AGENTS if agent in results["agents"]]
    body = [
        [label, *(cell(results, agent, scenario) for agent in agents)]
        for scenario, label in SCENARIOS.items()
    ]
    return [["", *agents], *(line for line in body if any(line[1:]))]


def plain(results: dict[str, Any]) -> str:
    """Return the table for a terminal."""
    table = lines(results)
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )


def markdown(results: dict[str, Any]) -> str:
    """Return the table for README, with the versions that were tested."""
    head, *body = lines(results)
    programs = [results["agents"][agent]["program"] for agent in head[1:]]
    versions = ["version", *(program["version"] for program in programs)]
    rule = ["---"] * len(head)
    table = "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, versions, *body))
    return f"{table}\n\nOn npm: {', '.join(map(_package, programs))}."


def _package(program: dict[str, Any]) -> str:
    beside = [f"`{package}` {version}" for package, version in program["beside"].items()]
    return " with ".join((f"`{program['package']}`", *beside))


def filled(readme: str, results: dict[str, Any]) -> str:
    """Return README with the table in its place.

    Raises:
        ValueError: the markers are missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        message = f"README needs the markers {BEGIN} and {END}"
        raise ValueError(message)
    return f"{before}{begin}\n\n{markdown(results)}\n\n{end}{after}"


def load(path: Path) -> dict[str, Any]:
    """Read results from a file."""
    results: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return results


def write() -> int:
    """Take the last run into the repository."""
    if not LAST_RUN.is_file():
        sys.stderr.write("no results: run `pytest tests/agents` first\n")
        return 1
    results = load(LAST_RUN)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    README.write_text(filled(README.read_text("utf-8"), results), "utf-8")
    return 0


def check() -> int:
    """Say whether README shows the recorded results."""
    readme = README.read_text("utf-8")
    if readme == filled(readme, load(RESULTS)):
        return 0
    sys.stderr.write("README shows other results: run `python tests/agents/table.py --write`\n")
    return 1


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Keep README's table of agents.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_const", const=write, dest="do")
    action.add_argument("--check", action="store_const", const=check, dest="do")
    done: int = parser.parse_args().do()
    return done


if __name__ == "__main__":
    sys.exit(main())
