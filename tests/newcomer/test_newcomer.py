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
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 900

pytestmark = [pytest.mark.newcomer, pytest.mark.timeout(2 * INSTALL_SECONDS)]


def clone_into(directory: Path) -> Path:
    """Clone what is committed, nothing of what merely lies about."""
    target = directory / "clone"
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


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A clone in which the README's first command was run, and what it said."""
    target = clone_into(tmp_path_factory.mktemp("newcomer"))
    return target, run("bash", "-c", first_command(), cwd=target)


def test_the_readmes_first_command_shows_a_turn_in_an_executed_notebook(
    newcomer: tuple[Path, str],
) -> None:
    clone, said = newcomer

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


def test_the_demo_opens_in_jupyterlab(newcomer: tuple[Path, str]) -> None:
    clone, _said = newcomer
    silo_nb = str(clone / ".venv" / "bin" / "silo-nb")

    with lab([silo_nb, "demo", "tour"], cwd=clone, env=own_environment()) as url:
        tour = json.loads(get(f"{url}/api/contents/01-first-turn.ipynb"))
        page = get(f"{url}/lab/tree/01-first-turn.ipynb")

    assert tour["content"]["cells"][0]["source"].startswith("# A first turn")
    assert b"jupyter-config-data" in page


def test_binder_opens_the_tour(tmp_path: Path) -> None:
    """What repo2docker would do, without docker."""
    clone = clone_into(tmp_path)
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
    with lab([str(binder / "start"), "jupyter", "lab"], cwd=clone, env=env) as url:
        run(str(binder / "start"), *execute, cwd=clone, env=env)
        page = get(f"{url}/lab/tree/notebooks/01-first-turn.ipynb")
        tour = json.loads(get(f"{url}/api/contents/notebooks/01-first-turn.ipynb"))
    cells = tour["content"]["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert b"jupyter-config-data" in page
    assert any("text/markdown" in output.get("data", {}) for output in outputs)
    assert [output for output in outputs if output["output_type"] == "error"] == []


@contextmanager
def lab(command: Sequence[str], *, cwd: Path, env: dict[str, str]) -> Iterator[str]:
    """Run `command`, which starts JupyterLab; yields its address."""
    config = cwd.parent / "lab-config"
    config.mkdir()
    server_app = {"allow_root": True, "open_browser": False, "port": 0}
    settings = {"ServerApp": server_app, "IdentityProvider": {"token": ""}}
    (config / "jupyter_server_config.json").write_text(json.dumps(settings))
    server = subprocess.Popen(
        command,
        cwd=cwd,
        env={**env, "JUPYTER_CONFIG_PATH": str(config)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield address(server)
    finally:
        server.terminate()
        server.communicate(timeout=60)


def get(url: str, *, within: float = 60.0) -> bytes:
    """Return what a server answers, one that says where it listens before it does included."""
    deadline = time.monotonic() + within
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return cast("bytes", answer.read())
        except urllib.error.URLError as error:
            refused = isinstance(error.reason, ConnectionRefusedError)
            if not refused or time.monotonic() > deadline:
                raise


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
