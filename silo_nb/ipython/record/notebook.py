"""A session as a notebook: each prompt is the cell that would send it, with its record as output.

Opening the file runs nothing, and running a cell does no more than send its prompt. What the record
says of a profile or a file gets into an option line only where it cannot be anything else: IPython
evaluates what stands in braces there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from silo_nb.ipython.record.bundle import frozen_bundle
from silo_nb.ipython.record.markdown import heading_markdown, record_markdown
from silo_nb.ipython.record.past import PastTurn, SessionRecord
from silo_nb.model.text import inert

__all__ = ["session_notebook"]

_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PATH = re.compile(r"[^{}$\x00-\x1f\x7f]+")

_METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def session_notebook(session: SessionRecord) -> Iterator[str]:
    """Yield the text of `session` as an ipynb file."""
    cells = [
        _cell("markdown", "heading", heading_markdown(session)),
        _code("load", "%load_ext silo_nb"),
    ]
    for number, turn in enumerate(session.turns, start=1):
        cells.append(_turn_cell(f"turn-{number}", turn, session))
    document = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    yield json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _turn_cell(cell_id: str, turn: PastTurn, session: SessionRecord) -> dict[str, Any]:
    options = _options(turn, session)
    if not turn.prompt.strip() and "--file" not in options:
        return _cell("markdown", cell_id, record_markdown(turn.record))
    source = f"{' '.join(('%%agent', *options))}\n{inert(turn.prompt)}"
    output = {"output_type": "display_data", "metadata": {}, "data": frozen_bundle(turn.record)}
    return _code(cell_id, source, output)


def _options(turn: PastTurn, session: SessionRecord) -> list[str]:
    options = [session.profile] if _PROFILE.fullmatch(session.profile) else []
    for link in turn.links:
        path = _local_path(link).removeprefix(session.cwd.rstrip("/") + "/")
        if path and not path.startswith("-") and inert(path) == path and _PATH.fullmatch(path):
            options += ["--file", shlex.quote(path)]
    return options


def _local_path(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that are no address
        return ""
    return unquote(parts.path) if parts.scheme == "file" and not parts.netloc else ""


def _code(cell_id: str, source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    cell = _cell("code", cell_id, source)
    return {**cell, "execution_count": None, "outputs": list(outputs)}


def _cell(kind: str, cell_id: str, source: str) -> dict[str, Any]:
    return {"cell_type": kind, "id": cell_id, "metadata": {}, "source": source}
