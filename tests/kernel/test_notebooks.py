"""The notebooks people are shown run from top to bottom, and show what they promise."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
CELL_SECONDS = 60


@pytest.fixture(autouse=True)
def _demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the demo agent remembers out of the user's home."""
    monkeypatch.setenv("SILO_DEMO_STATE", str(tmp_path / "demo"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path))


def execute(notebook: Path) -> Any:
    cells = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(cells, timeout=CELL_SECONDS, resources=resources).execute()
    return cells


def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    code = [c for c in nbformat.read(notebook, as_version=4).cells if c.cell_type == "code"]

    assert code
    assert [c for c in code if c.outputs or c.execution_count is not None] == []


@pytest.mark.timeout(180)
def test_a_notebook_runs_and_keeps_each_turn_in_its_outputs(notebook: Path) -> None:
    """B11, case 73: no error, and what the agent said can be read without a kernel."""
    executed = execute(notebook)

    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    turns = [cell for cell in executed.cells if cell.source.startswith("%%agent")]

    assert [output for output in outputs if output.output_type == "error"] == []
    assert turns
    for turn in turns:
        (shown,) = [output.data for output in turn.outputs if "data" in output]
        assert {"text/html", "text/markdown", "text/plain"} <= shown.keys()
        assert "application/vnd.jupyter.widget-view+json" not in shown
        assert len(shown["text/plain"].split()) > 5


@pytest.mark.timeout(180)
def test_a_notebook_leaves_its_sessions_beside_itself(notebook: Path) -> None:
    execute(notebook)

    assert list((notebook.parent / ".silo_nb" / "sessions").glob("*.jsonl"))


@pytest.mark.timeout(180)
def test_the_tour_of_sessions_shows_what_it_tells(tmp_path: Path) -> None:
    """R43, R59, R62: set, dormant, resumed, exported, cleared."""
    tour = next(path for path in NOTEBOOKS if path.stem == "02-sessions")

    executed = execute(Path(shutil.copy(tour, tmp_path)))

    shown = {
        cell.source.splitlines()[-1]: "".join(
            output.get("text") or output["data"]["text/plain"] for output in cell.outputs
        )
        for cell in executed.cells
        if cell.cell_type == "code"
    }
    assert "thinking is off, was short" in shown["%agent config thinking off"]
    assert "dormant" in shown["%agent sessions"]
    assert "Resumed" in shown["%agent resume {session_id}"]
    assert "Checked by hand." in (tmp_path / "findings.md").read_text(encoding="utf-8")
    assert "exported to conversation.ipynb" in shown["%agent export ipynb conversation.ipynb"]
    assert (tmp_path / "conversation.html").is_file()
    assert shown["len(await silo_nb.read_journal(session_id))"] == "0"
