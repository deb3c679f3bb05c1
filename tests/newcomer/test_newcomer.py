"""What a newcomer is told to do works, from nothing: a fresh clone, a fresh venv.

Needs the package index, as a newcomer does. The README's other command is the one that runs these
tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 900

pytestmark = [pytest.mark.newcomer, pytest.mark.timeout(2 * INSTALL_SECONDS)]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of what is committed, nothing of what merely lies about."""
    target = tmp_path / "clone"
    # The checkout may belong to somebody else, as in a container: Git asks for a word on that.
    run("git", "-c", f"safe.directory={ROOT}/.git", "clone", "-q", str(ROOT), str(target))
    return target


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env or own_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def own_environment(venv: Path | None = None) -> dict[str, str]:
    """A newcomer's environment: nothing of the one that runs the tests leads into it."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JUPYTER_PATH", "SILO_NB_CONFIG_DIR"}
    environment = {k: v for k, v in os.environ.items() if k not in ours}
    here = str(Path(sys.executable).parent)
    kept = [part for part in environment["PATH"].split(os.pathsep) if part != here]
    first = [str(venv / "bin")] if venv else []
    return {**environment, "PATH": os.pathsep.join((*first, *kept))}


def first_command() -> str:
    """The README's first shell block."""
    block = re.search(
        r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert block
    return block[1].strip()


def outputs_of(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells for output in cell.get("outputs", ())]


def test_the_readmes_first_command_shows_a_turn_in_an_executed_notebook(clone: Path) -> None:
    said = run("bash", "-c", first_command(), cwd=clone)

    shown = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    notebook = Path(shown["executed notebook"].strip())
    page = Path(shown["as a web page"].strip())
    outputs = outputs_of(notebook)
    turns = [output for output in outputs if "text/markdown" in output.get("data", {})]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert turns
    assert "measurements.csv" in json.dumps(turns)
    assert "measurements.csv" in page.read_text(encoding="utf-8")
    assert run("git", "status", "--porcelain", cwd=clone) == ""


def test_binder_opens_the_tour(clone: Path) -> None:
    """JUPYTER.md §8: what repo2docker would do, without docker."""
    binder = clone / "binder"
    venv = clone.parent / "venv"
    python = shutil.which("python3", path=own_environment()["PATH"])
    assert python
    run(python, "-m", "venv", str(venv))
    env = {
        **own_environment(venv),
        "JUPYTER_CONFIG_DIR": str(clone.parent / "config"),
        "JUPYTER_DATA_DIR": str(clone.parent / "data"),
    }
    run("pip", "install", "-q", "-r", "binder/requirements.txt", cwd=clone, env=env)
    run(str(binder / "postBuild"), cwd=clone, env=env)

    assert re.fullmatch(r"python-3\.\d+\n", (binder / "runtime.txt").read_text())
    assert run(str(binder / "start"), "echo", "a b", cwd=clone, env=env) == "a b\n"
    execute = ("jupyter", "execute", "--inplace", "notebooks/01-first-turn.ipynb")
    with lab(clone, env) as url:
        run(str(binder / "start"), *execute, cwd=clone, env=env)
        tour = f"{url}/api/contents/notebooks/01-first-turn.ipynb"
        with urllib.request.urlopen(f"{url}/lab/tree/notebooks/01-first-turn.ipynb") as page:
            assert page.status == 200
        with urllib.request.urlopen(tour) as answer:
            cells = json.load(answer)["content"]["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert any("text/markdown" in output.get("data", {}) for output in outputs)
    assert [output for output in outputs if output["output_type"] == "error"] == []


@contextmanager
def lab(clone: Path, env: dict[str, str]) -> Iterator[str]:
    """JupyterLab as Binder starts it; yields its address."""
    options: Sequence[str] = (
        "--no-browser",
        "--allow-root",
        "--port=0",
        "--IdentityProvider.token=",
    )
    server = subprocess.Popen(
        [str(clone / "binder" / "start"), "jupyter", "lab", *options],
        cwd=clone,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield address(server)
    finally:
        server.terminate()
        server.communicate(timeout=60)


def address(server: subprocess.Popen[str]) -> str:
    """Return where the server listens, once it says so; the test's time limit ends the wait."""
    assert server.stderr
    said = []
    for line in server.stderr:
        said.append(line)
        found = re.search(r"(http://(?:localhost|127\.0\.0\.1):\d+)/lab", line)
        if found:
            return found[1]
    pytest.fail("JupyterLab ended: " + "".join(said))


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_binders_scripts_can_be_executed(name: str) -> None:
    script = ROOT / "binder" / name
    text = script.read_bytes()

    assert text.startswith(b"#!")
    assert b"\r" not in text
    assert os.access(script, os.X_OK)


def test_binder_installs_nothing_that_can_change_under_it() -> None:
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if "://" in line] == []
    assert (ROOT / "binder" / "start").read_text(encoding="utf-8").endswith('exec "$@"\n')
