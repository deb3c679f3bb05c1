"""The command `silo-nb`, run as a person runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from silo_nb.journal import Journal, journal_directory


def silo_nb(*words: str, cwd: Path, code: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run ``silo-nb`` with these words, after `code` in the same process."""
    program = f"import sys; {code}; from silo_nb.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def write_notebook(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def test_a_command_is_required_and_only_existing_ones_are_named(tmp_path: Path) -> None:
    done = silo_nb("doctor", cwd=tmp_path)

    assert done.returncode == 2
    assert "(choose from" in done.stderr
    assert "demo" in done.stderr
    assert "doctor" not in silo_nb("--help", cwd=tmp_path).stdout


@pytest.mark.parametrize("words", [["--help"], ["journal", "--help"], ["journal", "export", "-h"]])
def test_every_command_explains_itself(tmp_path: Path, words: list[str]) -> None:
    done = silo_nb(*words, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: silo-nb" in done.stdout


def test_a_session_of_the_demo_agent_is_there_afterwards(tmp_path: Path) -> None:
    """R59, R60: its kernel is gone; it is listed, read and deleted."""
    talk = "import silo_nb; silo_nb.sync.connect('demo').prompt('What files are here?')"
    subprocess.run([sys.executable, "-c", talk], cwd=tmp_path, check=True, timeout=60)

    listed = silo_nb("journal", "list", cwd=tmp_path)
    (row,) = listed.stdout.splitlines()[1:]
    session_id = row.split()[0]
    shown = silo_nb("journal", "show", session_id, cwd=tmp_path)
    deleted = silo_nb("journal", "purge", session_id, "--yes", cwd=tmp_path)

    assert (listed.returncode, shown.returncode, deleted.returncode) == (0, 0, 0)
    assert "\n    What files are here?\n" in shown.stdout
    assert f"Session: {session_id}\n" in shown.stdout
    assert silo_nb("journal", "list", cwd=tmp_path).stdout.startswith("no sessions in ")


def test_reading_a_session_needs_neither_jupyter_nor_ipython(tmp_path: Path) -> None:
    """It is asked for on servers, over slow connections, when a kernel will not start."""
    hidden = "sys.modules.update(dict.fromkeys(('IPython', 'ipykernel', 'anywidget', 'nbformat')))"

    done = silo_nb("journal", "list", cwd=tmp_path, code=hidden)

    assert (done.returncode, done.stderr) == (0, "")


def test_whoever_reads_the_output_may_stop_reading(tmp_path: Path) -> None:
    """``silo-nb journal export … | head`` ends without a traceback."""
    journal = Journal.create(journal_directory(tmp_path), {"id": "demo-1"})
    for _ in range(50):
        journal.append("update", {"filler": "x" * 10_000})
    journal.close().result(30)

    program = "import sys; from silo_nb.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "journal", "export", "demo-1", "--to", "jsonl"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        assert export.stdout.read(1) == b"{"
        export.stdout.close()
        complaints = export.stderr.read()

    assert (export.returncode, complaints) == (1, b"")


def test_a_run_keeps_the_users_own_notebook(tmp_path: Path) -> None:
    """What is in the folder already is executed, and left as it is."""
    mine = tmp_path / "mine" / "01-first-turn.ipynb"
    write_notebook(mine, "40 + 2")
    before = mine.read_bytes()

    done = silo_nb("demo", "mine", "--run", cwd=tmp_path)

    executed = tmp_path / "mine" / "01-first-turn.executed.ipynb"
    assert (done.returncode, done.stderr) == (0, "")
    assert f"executed notebook: {executed}\n" in done.stdout
    assert f"{executed.with_suffix('.html')}\n" in done.stdout
    assert mine.read_bytes() == before
    assert nbformat.read(executed, as_version=4).cells[0].outputs[0].data["text/plain"] == "42"
    assert "42" in executed.with_suffix(".html").read_text(encoding="utf-8")


def test_a_failing_cell_fails_the_command_and_is_kept(tmp_path: Path) -> None:
    write_notebook(tmp_path / "mine" / "01-first-turn.ipynb", "1 / 0", "'never'")

    done = silo_nb("demo", "mine", "--run", cwd=tmp_path)

    executed = nbformat.read(tmp_path / "mine" / "01-first-turn.executed.ipynb", as_version=4)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert executed.cells[0].outputs[0].ename == "ZeroDivisionError"
    assert executed.cells[1].outputs == []


@pytest.mark.parametrize(
    ("words", "missing"),
    [(["demo"], "jupyterlab"), (["demo", "--run"], "nbclient and nbconvert")],
    ids=["lab", "run"],
)
def test_without_the_lab_extra_the_command_says_what_to_install(
    tmp_path: Path, words: list[str], missing: str
) -> None:
    modules = ("jupyterlab", "nbclient", "nbconvert")
    hidden = f"sys.modules.update(dict.fromkeys({modules}))"

    done = silo_nb(*words, cwd=tmp_path, code=hidden)

    assert done.returncode == 1
    assert f"the demo needs {missing}, not installed here" in done.stderr
    assert f"{sys.executable} -m pip install 'silo_nb[lab]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    done = silo_nb("demo", "file/folder", "--run", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("silo-nb: ")
    assert "Traceback" not in done.stderr
