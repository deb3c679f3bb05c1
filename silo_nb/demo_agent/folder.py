"""The session's directory: what is in it, and what may be touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

# Directories that hold what tools made, not what people wrote.
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv"}
LARGEST_TEXT = 1024 * 1024
_KIB = 1024


class OutOfBounds(Exception):
    """A file the demo agent leaves alone; the message says why."""


class Entry(NamedTuple):
    """A file or directory.

    Attributes:
        path: where.
        is_directory: whether it is a directory.
        size: bytes of a file, entries of a directory.
    """

    path: Path
    is_directory: bool
    size: int

    @property
    def name(self) -> str:
        """Its name; that of a directory ends in a slash."""
        return self.path.name + ("/" if self.is_directory else "")


def entries(folder: Path) -> list[Entry]:
    """Return what is in a directory, by name, directories first; hidden things are left out."""
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name.casefold()):
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        try:
            is_directory = path.is_dir()
            size = sum(1 for _ in path.iterdir()) if is_directory else path.stat().st_size
        except OSError:
            # Dangling links, and directories of other users.
            continue
        found.append(Entry(path, is_directory, size))
    return sorted(found, key=lambda entry: not entry.is_directory)


def find(folder: Path, name: str) -> Path | None:
    """Return the file of that name or relative path inside the directory, if it is there."""
    try:
        path = inside(folder, name)
    except OutOfBounds:
        return None
    return path if path.is_file() else None


def inside(folder: Path, name: str) -> Path:
    """Return the path a name stands for, if it lies in the directory and is nobody's secret.

    Raises:
        OutOfBounds: it lies elsewhere, also by way of a link, or is hidden.
    """
    root = folder.resolve()
    try:
        path = (root / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise OutOfBounds(f"`{name}` is no name of a file") from error
    if not path.is_relative_to(root) or path == root:
        raise OutOfBounds(f"`{name}` is outside of this directory, and I stay in it")
    if any(part.startswith(".") for part in path.relative_to(root).parts):
        raise OutOfBounds(f"`{name}` is hidden, and I leave hidden files alone")
    return path


def read_text(path: Path) -> str:
    """Read a text file.

    Raises:
        OutOfBounds: it is too large, or not text.
        OSError: it cannot be read.
    """
    if not path.is_file():
        raise OutOfBounds(f"`{path.name}` is not a file")
    if path.stat().st_size > LARGEST_TEXT:
        raise OutOfBounds(f"`{path.name}` has {size_of(path.stat().st_size)}, too much for me")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OutOfBounds(f"`{path.name}` is not a text file") from error


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole, keeping its mode; missing directories are made.

    Raises:
        OSError: it cannot be written.
    """
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(draft).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def size_of(size: int) -> str:
    """Write a number of bytes for people.

    >>> size_of(512), size_of(20_000)
    ('512 B', '19.5 KiB')
    """
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < _KIB:
            return f"{value:.1f} {unit}" if unit != "B" else f"{size} B"
        value /= _KIB
    return f"{value:.1f} GiB"
