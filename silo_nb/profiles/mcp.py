"""The MCP servers a profile offers to its agent, as people write them and as the protocol does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from silo_nb.profiles.checks import (
    Check,
    WrongValue,
    check_filled,
    check_list,
    check_table,
    check_texts,
    check_variables,
    checked_at,
    closest,
    one_of,
)

__all__ = ["check_servers"]

_STDIO: Mapping[str, Check] = {
    "name": check_filled,
    "command": check_filled,
    "args": check_texts,
    "env": check_variables,
}
_REMOTE: Mapping[str, Check] = {
    "name": check_filled,
    "url": check_filled,
    "headers": check_variables,
}


def check_servers(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return an array of servers, each in the shape of the protocol's `McpServer`.

    >>> check_servers([{"name": "files", "command": "/usr/bin/files", "env": {"DEPTH": "3"}}])[0]
    mappingproxy({'name': 'files', 'command': '/usr/bin/files', 'args': [],
                  'env': [{'name': 'DEPTH', 'value': '3'}]})
    """
    items = enumerate(check_list(value))
    return tuple(checked_at(str(index), _check_server, item) for index, item in items)


def _check_server(value: object) -> Mapping[str, Any]:
    table = check_table(value)
    transport = checked_at("type", one_of("stdio", "http", "sse"), table.pop("type", "stdio"))
    if transport == "stdio":
        _check_keys(table, _STDIO, required=("name", "command"))
        server = {
            "name": table["name"],
            "command": table["command"],
            "args": table.get("args", []),
            "env": _pairs(table.get("env", {})),
        }
    else:
        _check_keys(table, _REMOTE, required=("name", "url"))
        server = {
            "type": transport,
            "name": table["name"],
            "url": table["url"],
            "headers": _pairs(table.get("headers", {})),
        }
    return MappingProxyType(server)


def _check_keys(
    table: Mapping[str, object], checks: Mapping[str, Check], *, required: tuple[str, ...]
) -> None:
    for key, value in table.items():
        if key not in checks:
            hint = closest(key, checks) or f" Known keys: type, {', '.join(checks)}."
            raise WrongValue(f"unknown key.{hint}", key)
        checked_at(key, checks[key], value)
    for key in required:
        if key not in table:
            raise WrongValue("is missing.", key)


def _pairs(variables: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": text} for name, text in variables.items()]
