"""Paths as the reader of this notebook would write them."""

from __future__ import annotations

import os
from pathlib import Path

from silo_nb.model.text import one_line
from silo_nb.runtime import kernel_compat

__all__ = ["short_path"]

_WIDTH = 400


def short_path(path: Path) -> str:
    """Return `path` relative to the notebook if it lies below it, else with ``~`` for home."""
    try:
        inside = os.path.relpath(path, kernel_compat.notebook_directory())
    except (OSError, ValueError):  # the working directory is gone, or on another drive
        inside = ""
    if inside and inside != "." and not inside.startswith(".."):
        return one_line(inside, _WIDTH)
    try:
        return one_line(f"~/{path.relative_to(Path.home())}".removesuffix("/."), _WIDTH)
    except (RuntimeError, ValueError):  # nobody's home, or not below it
        return one_line(str(path), _WIDTH)
