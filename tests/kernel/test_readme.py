"""Every Python block of the README runs, in order, as the cells of one notebook."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.timeout(180)
def test_the_python_blocks_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILO_DEMO_STATE", str(tmp_path / "demo"))
    blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(block) for block in blocks]

    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert len(blocks) >= 4
    assert blocks[0].strip() == "%load_ext silo_nb"
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert "end_turn" in str(outputs)
