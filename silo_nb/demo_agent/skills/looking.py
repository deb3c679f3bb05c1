"""Looking at the directory and the files in it, with a row for each look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from silo_nb.demo_agent.describe import TABLES, describe, describe_table, fenced
from silo_nb.demo_agent.folder import Entry, OutOfBounds, entries, find, read_text, size_of
from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.tool_row import ToolRow, text_content
from silo_nb.demo_agent.turn import Turn

_LINES_SHOWN = 12
_WIDEST = 200
_TELLING = (".csv", ".tsv", ".md", ".py", ".json", ".txt", ".ipynb")


def look_around(turn: Turn) -> list[Entry]:
    """List the session's directory."""
    with ToolRow(
        turn,
        kind="search",
        name="list_files",
        title=f"List the files of {turn.cwd.name or turn.cwd}",
        raw_input={"path": str(turn.cwd)},
        path=turn.cwd,
    ) as row:
        row.begin()
        try:
            found = entries(turn.cwd)
        except OSError as error:
            row.fail(f"cannot be read: {error.strerror}")
            return []
        listing = "\n".join(entry.name for entry in found) or "(nothing)"
        turn.count_input(listing)
        row.complete(
            raw_output={"files": [entry.name for entry in found]},
            content=[text_content(fenced(listing))],
        )
        return found


def look_into(turn: Turn, path: Path) -> str | None:
    """Read a file and describe it in Markdown; None when that did not work, which the row says."""
    with ToolRow(
        turn,
        kind="read",
        name="read_file",
        title=f"Read {relative(turn, path)}",
        raw_input={"path": str(path)},
        path=path,
    ) as row:
        row.begin()
        try:
            said, facts, beginning = _read(turn, path)
        except (OutOfBounds, ValueError) as error:
            row.fail(str(error))
            return None
        except OSError as error:
            row.fail(f"`{path.name}` cannot be read: {error.strerror}")
            return None
        row.complete(
            raw_output={"path": str(path), "size": path.stat().st_size, **facts},
            content=[text_content(fenced(beginning))],
        )
        return said


def _read(turn: Turn, path: Path) -> tuple[str, dict[str, Any], str]:
    if path.suffix.lower() in TABLES:
        beginning = _beginning_of(path)
        turn.count_input(beginning)
        # Read line by line: a table may be larger than any text.
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            return *describe_table(lines, turn.checkpoint), beginning
    text = read_text(path)
    turn.count_input(text)
    return *describe(path.name, text), "\n".join(text.splitlines()[:_LINES_SHOWN])


def _beginning_of(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return "".join(file.readline(_WIDEST) for _ in range(_LINES_SHOWN))


def relative(turn: Turn, path: Path) -> str:
    """Return a path as seen from the session's directory."""
    root = turn.cwd.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def named_files(turn: Turn, prompt: Prompt) -> tuple[list[Path], list[str]]:
    """Return the files a prompt names, and the names that stand for no file here."""
    found: dict[Path, None] = {}
    missing = []
    for name in prompt.names():
        path = find(turn.cwd, name)
        if path is not None:
            found[path] = None
        elif "." in name.strip("."):
            missing.append(name)
    return list(found), [] if found else missing


def most_telling(found: list[Entry]) -> Path | None:
    """Return the file that is most worth a look: a table, else something to read."""
    files = [entry.path for entry in found if not entry.is_directory]
    known = [path for path in files if path.suffix.lower() in _TELLING]
    order = {suffix: place for place, suffix in enumerate(_TELLING)}
    return min(known, key=lambda path: order[path.suffix.lower()], default=None)


def sized(entry: Entry) -> str:
    """Return the size of an entry, for people."""
    if entry.is_directory:
        return f"{entry.size:,} entr{'y' if entry.size == 1 else 'ies'}"
    return size_of(entry.size)
