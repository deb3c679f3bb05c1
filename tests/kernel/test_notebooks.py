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
