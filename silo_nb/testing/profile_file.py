"""Writing profiles.toml the way a careful user has it: readable and writable by nobody else."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_profile(directory: Path, profile: str, *, command: Sequence[str], **keys: Any) -> Path:
    """Add a profile to ``profiles.toml`` in a config directory, or replace it.

    Args:
        directory: what SILO_NB_CONFIG_DIR names; made (0700) when missing.
        profile: its id.
        command: the argv it starts.
        **keys: other keys of its table, for example ``env`` or ``label``.

    Returns:
        The file, mode 0600.

    >>> from tempfile import mkdtemp
    >>> file = write_profile(Path(mkdtemp()), "mine", command=["my-agent", "--acp"], label="Mine")
    >>> print(file.read_text())
    [profiles."mine"]
    command = ["my-agent", "--acp"]
    label = "Mine"
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = directory / "profiles.toml"
    document: dict[str, Any] = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
    document.setdefault("profiles", {})[profile] = {"command": list(command), **keys}
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as text:
        text.write(_toml(document))
    return file


def _toml(document: Mapping[str, Any]) -> str:
    tables = [("agents", document.get("agents"))]
    tables += [(f"profiles.{json.dumps(id_)}", keys) for id_, keys in document["profiles"].items()]
    return "\n\n".join(
        "\n".join([f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in keys.items())])
        for name, keys in tables
        if keys
    )


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else json.dumps(key)


def _value(value: Any) -> str:
    """Write a value inline. JSON's strings, numbers and booleans are TOML's too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, Path):
        value = str(value)
    # TOML has no DEL in strings, and JSON does not escape it.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
