"""What the benches share: running a measuring program, and showing what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]


def run_module(module: str, *arguments: object) -> Any:
    """Run a bench in a fresh interpreter and return the JSON it prints."""
    return run_python("-m", module, *map(str, arguments))


def run_python(*arguments: str) -> Any:
    """Run Python with these arguments from the root and return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def spread(figures: Iterable[float], unit: str = "") -> str:
    """Show figures as their median and range."""
    values = sorted(figures)
    return f"{median(values):>10,.1f} {unit:<6} ({values[0]:,.1f} to {values[-1]:,.1f})"


def show(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a small table; pytest shows it with -s."""
    width = max(len(name) for name, _ in rows)
    print(f"\n{title}")  # noqa: T201 - the table is what a bench is for
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")  # noqa: T201
