"""README's table of agents is the one that was recorded, for the versions that are pinned."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents import table
from tests.agents.install import PACKAGES

STALE = "run `python tests/agents/table.py --write`"

# pi asks for nothing, and only claude takes an option back.
NOT_FOR = {
    "pi": {"write-reject", "cancel-with-open-permission", "no-listener", "stale-option"},
    **{name: {"stale-option"} for name in ("codex", "gemini", "qwen", "kimi")},
}


def test_readme_shows_what_was_recorded() -> None:
    readme = table.README.read_text("utf-8")
    assert readme == table.filled(readme, table.load(table.RESULTS)), STALE


@pytest.mark.parametrize("name", table.AGENTS)
def test_every_scenario_of_the_pinned_version_was_recorded_and_passed(name: str) -> None:
    package, recorded = PACKAGES[name], table.load(table.RESULTS)["agents"][name]
    program = {"package": package.npm, "version": package.version, "beside": package.beside}
    assert recorded["program"] == program
    assert set(recorded["cells"]) == set(table.SCENARIOS) - NOT_FOR.get(name, set())
    assert table.FAILED not in recorded["cells"].values()


def test_a_run_replaces_its_own_cells_and_drops_those_of_other_versions() -> None:
    programs = {name: _program(name, "2") for name in table.AGENTS}
    before = table.merged(
        table.EMPTY, programs, {("claude", "text"): "old", ("claude", "plan"): "kept"}
    )
    before["agents"]["codex"] = {
        "program": _program("codex", "1"),
        "cells": {"text": "of another version"},
    }

    after = table.merged(before, programs, {("claude", "text"): "new", ("pi", "list"): "–"})

    found = {name: about["cells"] for name, about in after["agents"].items()}
    assert found == {"claude": {"text": "new", "plan": "kept"}, "pi": {"list": "–"}}


def test_the_table_goes_between_its_markers_and_nowhere_else() -> None:
    programs = {name: _program(name, "2.0") for name in table.AGENTS}
    results = table.merged(table.EMPTY, programs, {("pi", "text"): table.PASSED})
    readme = f"before\n\n{table.BEGIN}\nold\n{table.END}\n\nbehind\n"

    filled = table.filled(readme, results)

    head, _, rest = filled.partition(table.BEGIN)
    inside, _, tail = rest.partition(table.END)
    assert (head, tail) == ("before\n\n", "\n\nbehind\n")
    assert "| version | 2.0 |" in inside
    assert f"| an answer streams in | {table.PASSED} |" in inside
    assert table.filled(filled, results) == filled
    with pytest.raises(ValueError, match="markers"):
        table.filled("no markers", results)


def _program(package: str, version: str) -> dict[str, Any]:
    return {"package": package, "version": version, "beside": {}}
