"""The house rules that no tool checks by itself."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "silo_nb"
MODULES = sorted(PACKAGE.rglob("*.py"))
LINES_PER_MODULE = 400
# The guard runs isolated from everything that is installed, so that it has to be one file.
ONE_FILE_BY_NATURE = {"silo_nb/acp/guard.py": 430}

TOP_LEVEL = {
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "binder",
    "js",
    "notebooks",
    "pyproject.toml",
    "silo_nb",
    "tests",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tracked() -> list[str]:
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        capture_output=True,
        check=False,
    )
    return [name for name in listing.stdout.decode().split("\0") if name]


def test_the_top_level_holds_only_what_the_tree_shows() -> None:
    """ARCHITECTURE §2: a dotfile, or one of these."""
    found = {name.split("/")[0] for name in tracked()}

    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_can_be_read_in_one_sitting(module: Path) -> None:
    limit = ONE_FILE_BY_NATURE.get(name_of(module), LINES_PER_MODULE)

    assert len(module.read_text(encoding="utf-8").splitlines()) <= limit


@pytest.mark.parametrize(
    "module",
    [PACKAGE / "acp" / "guard.py", *sorted((PACKAGE / "demo_agent").rglob("*.py"))],
    ids=name_of,
)
def test_what_runs_on_its_own_needs_only_the_standard_library(module: Path) -> None:
    """The guard outlives a dying kernel; the demo agent is a program like any other agent."""
    foreign = {
        name
        for name in imports(module)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith("silo_nb.demo_agent")
    }

    assert foreign == set()


def imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0, module=str(name)):
                yield name
            case ast.ImportFrom():
                yield "silo_nb.demo_agent"  # relative: ruff allows siblings only


def test_what_is_imported_is_what_is_installed() -> None:
    """A module nobody declared works here and fails in a newcomer's fresh venv."""
    project = settings()["project"]
    lab = project["optional-dependencies"]["lab"]
    declared = {re.split(r"[<>=]", line)[0].replace("-", "_") for line in project["dependencies"]}
    declared |= {"IPython", "zmq"}  # ipykernel is nothing without them
    extra = {
        "cli": {re.split(r"[<>=]", line)[0] for line in lab} | {"nbformat"},
        "testing": {"pytest", "hypothesis"},
    }

    for module in MODULES:
        allowed = declared | extra.get(module.relative_to(PACKAGE).parts[0], set())
        names = {name.split(".")[0] for name in imports(module)} - {"silo_nb"}
        assert names - sys.stdlib_module_names <= allowed, name_of(module)


def test_every_ignored_rule_carries_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lists = re.findall(r"^(?:ignore|\"[^\"]+\") = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    rules = [line for block in lists for line in block.splitlines()]
    self_evident = {'"D",', '"INP001",', '"T201",'}

    assert len(rules) > 20
    assert [rule for rule in rules if "  # " not in rule and rule.strip() not in self_evident] == []


def test_the_import_contracts_cover_every_package() -> None:
    """A package nobody listed would be bound by nothing."""
    parts = {path.stem for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    parts |= {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    contracts = {each["id"]: each for each in settings()["tool"]["importlinter"]["contracts"]}

    def covered(contract: str, exempt: set[str]) -> set[str]:
        listed = contracts[contract]["source_modules"]
        return {name.removeprefix("silo_nb.") for name in listed} | exempt

    assert parts <= covered("kernel-names", {"ipython", "testing"})
    assert parts <= covered("no-kit", {"testing"})


def test_one_test_command_here_and_in_ci() -> None:
    """CI calls what the README tells a newcomer, and nothing else."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = [
        line for line in script.splitlines() if line and not line.startswith(("#", "set ", "cd "))
    ]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(steps) == 1
    assert steps[0] in readme.splitlines()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_pytest_has_the_last_word() -> None:
    scripts = settings()["tool"]["hatch"]["envs"]["default"]["scripts"]

    assert scripts["all"][-1].split()[0] == "test"
    assert scripts["test"].split()[0] == "pytest"


def test_tools_are_pinned_to_one_version() -> None:
    extras = settings()["project"]["optional-dependencies"]
    tools = [line for line in (*extras["test"], *extras["dev"]) if not line.startswith("silo_nb")]

    assert [line for line in tools if not re.fullmatch(r"[\w-]+==[\d.]+", line)] == []


def test_importing_silo_nb_brings_in_nothing_heavy() -> None:
    """Case 14's cousin: who only imports pays for nothing and starts nothing."""
    heavy = "{'IPython', 'anywidget', 'asyncio', 'ipykernel', 'pydantic', 'subprocess'}"
    code = f"import sys, silo_nb; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is part of the dev extra"
)
def test_the_wheel_holds_the_tour_and_no_leftovers(tmp_path: Path) -> None:
    """What a checkout gathers (journals, checkpoints) stays out; what users need is in."""
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv", "tests", "js"))
    for leftover in (".silo_nb/sessions/secret.jsonl", ".ipynb_checkpoints/01-copy.ipynb"):
        file = checkout / "notebooks" / leftover
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")

    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=checkout,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    tours = [f"silo_nb/{name_of(path)}" for path in (ROOT / "notebooks").glob("*.ipynb")]
    assert tours
    assert {*tours, "silo_nb/py.typed", "silo_nb/cli/demo.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"silo_nb", "silo_nb-0.1.0.dist-info"}
    assert [name for name in names if ".silo_nb/" in name or ".ipynb_checkpoints" in name] == []
