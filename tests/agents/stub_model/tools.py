"""What the stub model wants done, as a call of the agent's own tools.

Every agent names its tools and their arguments in its own way and lists them in each request. So
one script runs against every agent.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from .script import Call, Plan, Shell, Text, Wish, Write

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]

WRITERS = ("Write", "write_file", "apply_patch", "write")
SHELLS = ("Bash", "run_shell_command", "exec_command", "bash")
PLANNERS = ("TodoWrite", "update_plan", "todo_write", "write_todos", "TodoList")


def call_for(wish: Wish, tools: Mapping[str, Schema | None]) -> Call | Text:
    """Return the call that grants a wish, or a text that says that no tool can.

    Args:
        wish: what the script wants.
        tools: the tools of the request, each with its JSON schema, or None if it takes free text.
    """
    match wish:
        case Write():
            call = _write(wish, tools)
        case Shell():
            call = _shell(wish, tools)
        case Plan():
            call = _plan(wish, tools)
    return call or Text(f"No tool for {type(wish).__name__} among {sorted(tools)}.")


def _first(names: tuple[str, ...], offered: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in offered), None)


def _properties(schema: Schema | None) -> Schema:
    return (schema or {}).get("properties") or {}


def _write(wish: Write, tools: Mapping[str, Schema | None]) -> Call | None:
    name = _first(WRITERS, tools)
    if name is None:
        return None
    if name == "apply_patch":
        added = "".join(f"+{line}\n" for line in wish.content.splitlines())
        where = PurePosixPath(wish.path).name
        return Call(name, f"*** Begin Patch\n*** Add File: {where}\n{added}*** End Patch\n")
    path = _first(("file_path", "absolute_path", "path"), _properties(tools[name]))
    return Call(name, {path or "file_path": wish.path, "content": wish.content})


def _shell(wish: Shell, tools: Mapping[str, Schema | None]) -> Call | None:
    name = _first(SHELLS, tools)
    if name is None:
        return None
    properties = _properties(tools[name])
    arguments: dict[str, Any] = {_first(("command", "cmd"), properties) or "command": wish.command}
    if "description" in properties:
        arguments["description"] = "Run a test command"
    if "is_background" in properties:
        arguments["is_background"] = False
    if "sandbox_permissions" in properties:
        # codex then asks, and needs no sandbox: not every machine lets it make one.
        arguments["sandbox_permissions"] = "require_escalated"
        arguments["justification"] = "May I run a test command?"
    return Call(name, arguments)


def _plan(wish: Plan, tools: Mapping[str, Schema | None]) -> Call | None:
    name = _first(PLANNERS, tools)
    if name is None:
        return None
    if name == "update_plan":
        return Call(name, {"plan": [{"step": what, "status": at} for what, at in wish.entries]})
    item = _properties((_properties(tools[name]).get("todos") or {}).get("items"))
    what_key = _first(("content", "description", "title"), item) or "content"
    statuses = {status for _, status in wish.entries}
    known = (item.get("status") or {}).get("enum") or statuses
    todos: list[dict[str, str]] = []
    for number, (what, status) in enumerate(wish.entries, start=1):
        todo = {what_key: what, "status": status if status in known else "done"}
        if "activeForm" in item:
            todo["activeForm"] = f"Doing: {what}"
        if "id" in item:
            todo["id"] = str(number)
        todos.append(todo)
    return Call(name, {"todos": todos})
