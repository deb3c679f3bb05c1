"""The tables of a profiles.toml, checked key by key.

A key that is not understood is an error, never ignored: a misspelt `inherit_env` would otherwise
hand an agent the very environment its user meant to keep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from silo_nb.errors import ProfileError
from silo_nb.profiles.checks import (
    Check,
    WrongValue,
    check_command,
    check_defaults,
    check_directory,
    check_filled,
    check_flag,
    check_json,
    check_text,
    check_variables,
    closest,
    kind_of,
    one_of,
)
from silo_nb.profiles.mcp import check_servers
from silo_nb.profiles.profile import DEMO, Profile

__all__ = ["Permission", "parse_permission", "parse_profile"]

Permission = Literal["allow", "deny"]

PROFILE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_PROFILE_KEYS: Mapping[str, Check] = {
    "label": check_filled,
    "command": check_command,
    "interface": one_of("chat", "terminal"),
    "agent_id": check_filled,
    "env": check_variables,
    "cwd": check_directory,
    "inherit_env": check_flag,
    "defaults": check_defaults,
    "session_meta": check_json,
    "mcp_servers": check_servers,
    "kernel_tools": check_flag,
    "install_hint": check_text,
}
_AGENTS_KEYS: Mapping[str, Check] = {"permission": one_of("allow", "deny")}


def parse_profile(profile_id: str, table: object, file: Path) -> Profile:
    """Return the profile a ``[profiles.<id>]`` table describes.

    Raises:
        ProfileError: with `file`, `table` and `key` of the first thing that is wrong.
    """
    name = f"profiles.{profile_id}"
    if not PROFILE_ID.fullmatch(profile_id):
        raise ProfileError(
            f"{profile_id!r} cannot be a profile's id; use up to 64 letters, digits, '-' and '_', "
            "the first a letter or digit.",
            file=file,
            table="profiles",
        )
    if profile_id == DEMO.id:
        raise ProfileError(
            f"{DEMO.id!r} is built in and cannot be redefined; choose another id.",
            file=file,
            table=name,
        )
    values = _parse_table(table, _PROFILE_KEYS, file, name)
    if "command" not in values:
        raise ProfileError(
            'is missing; write command = ["<program>", "<argument>", …].',
            file=file,
            table=name,
            key="command",
        )
    return Profile(**{"label": profile_id, **values, "id": profile_id, "file": file})


def parse_permission(table: object, file: Path) -> Permission | None:
    """Return what an ``[agents]`` table says of the "agents" permission; None: nothing.

    Raises:
        ProfileError: with `file`, `table` and `key` of the first thing that is wrong.
    """
    values = _parse_table(table, _AGENTS_KEYS, file, "agents")
    return cast("Permission | None", values.get("permission"))


def _parse_table(
    table: object, checks: Mapping[str, Check], file: Path, name: str
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ProfileError(f"must be a table, not {kind_of(table)}.", file=file, table=name)
    values = {}
    for key, value in table.items():
        if key not in checks:
            hint = closest(key, checks) or f" Known keys: {', '.join(checks)}."
            raise ProfileError(f"unknown key.{hint}", file=file, table=name, key=key)
        try:
            values[key] = checks[key](value)
        except WrongValue as wrong:
            where = ".".join((key, *wrong.path))
            raise ProfileError(wrong.message, file=file, table=name, key=where) from None
    return values
