"""Kernels as different front ends use them, for tests of what cells show and ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kernel.kernels import Cell, Kernel

ALLOW_AND_REJECT = [
    {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class FrontEnd(Kernel):
    """A kernel of a front end whose person answers ``input()`` when the test says so.

    Attributes:
        has_person: whether its cells may ask; headless runs say no.
    """

    has_person = True

    def submit(self, code: str, *, answers: Sequence[str] | None = None, **header: Any) -> Cell:
        """Start one cell; without `answers` the test gives them as it goes."""
        given = answers or ()
        return super().submit(code, answers=given if self.has_person else None, **header)

    def _on_stdin(self, message: dict[str, Any]) -> None:
        self.prompts.append(message["content"]["prompt"])
        if self._answers:
            self._client.input(self._answers.pop(0))

    def answer(self, text: str) -> None:
        """Answer the question that is open."""
        self._client.input(text)

    def wait_for_question(self, count: int = 1) -> None:
        """Wait until so many questions were put, all told."""
        self.wait_until(lambda: len(self.prompts) >= count, f"question {count}")


def notebook(directory: Path, **options: Any) -> FrontEnd:
    """Return a kernel as JupyterLab starts it for a notebook in `directory`."""
    file = directory / "test.ipynb"
    file.touch()
    return FrontEnd(cwd=directory, env={"JPY_SESSION_NAME": str(file)}, **options)


def headless(directory: Path, **options: Any) -> FrontEnd:
    """Return a kernel as nbclient starts it: nobody can be asked."""
    kernel = FrontEnd(cwd=directory, **options)
    kernel.has_person = False
    return kernel


def frozen(cell: Cell) -> dict[str, str]:
    """Return the mimetypes of what stays of a cell's first output that is updated or displayed."""
    first: dict[str, Any] = cell.outputs[0]
    display_id = first.get("transient", {}).get("display_id")
    same = [
        output
        for output in cell.outputs
        if output.get("transient", {}).get("display_id") == display_id
    ]
    data: dict[str, str] = same[-1]["data"]
    return data


def displayed(cell: Cell) -> list[tuple[str, int]]:
    """Return kind and size in bytes of every message that displays something."""
    kinds = ("display_data", "update_display_data")
    return [
        (message["msg_type"], len(json.dumps(message["content"])))
        for message in cell.iopub
        if message["msg_type"] in kinds
    ]


def shown_error(cell: Cell) -> list[str]:
    """Return the lines of the traceback the front end is given."""
    errors = [message["content"] for message in cell.iopub if message["msg_type"] == "error"]
    return "\n".join(part for error in errors for part in error["traceback"]).splitlines()
