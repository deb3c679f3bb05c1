"""What can be said about a file without understanding it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from silo_nb.demo_agent.prompt import listed, shortened
from silo_nb.demo_agent.table import markdown_table, read_table

TABLES = {".csv", ".tsv"}
_SHOWN = 12
_VALUE_WIDTH = 60


def describe(name: str, text: str) -> tuple[str, dict[str, Any]]:
    r"""Describe a text by the kind of file it comes from.

    Args:
        name: the file's name.
        text: what is in it.

    Returns:
        The description in Markdown, and the same as JSON.

    >>> describe("a.txt", "one two\nthree\n")[1]
    {'lines': 2, 'words': 3, 'characters': 14}
    """
    special = _BY_SUFFIX.get(Path(name).suffix.lower())
    if special is not None:
        try:
            return special(text)
        except ValueError:
            # Not what its name says: it still is text.
            return _prose(text)
    return _prose(text)


def describe_table(lines: Any, checkpoint: Callable[[], None]) -> tuple[str, dict[str, Any]]:
    """Describe delimited text, line by line, so that its size does not matter.

    Raises:
        ValueError: this is no delimited text.
    """
    table = read_table(lines, checkpoint)
    rows = f"{table.rows:,} row{'' if table.rows == 1 else 's'}"
    head = f"{rows}{'' if table.complete else ', and more that I did not read'}, "
    head += f"{len(table.columns)} column{'' if len(table.columns) == 1 else 's'}."
    return f"{head}\n\n{table.as_markdown()}", dict(table.as_data())


def _table(text: str) -> tuple[str, dict[str, Any]]:
    return describe_table(text.splitlines(keepends=True), lambda: None)


def _prose(text: str) -> tuple[str, dict[str, Any]]:
    lines = text.splitlines()
    facts = {"lines": len(lines), "words": len(text.split()), "characters": len(text)}
    shown = listed([f"{number:,} {what}" for what, number in facts.items()])
    first = next((line for line in lines if line.strip()), "")
    headings = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
    said = [f"{shown}."]
    if headings:
        said.append("Its headings:\n\n" + _bullets(headings))
    elif first:
        said.append(f"It begins: “{shortened(first, _VALUE_WIDTH)}”")
    return "\n\n".join(said), facts


def _python(text: str) -> tuple[str, dict[str, Any]]:
    import ast

    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        reason = f"It is not valid Python: {error.msg}, line {error.lineno}."
        return reason, {"error": error.msg, "line": error.lineno}
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    about = ast.get_docstring(tree)
    said = [f"{len(text.splitlines()):,} lines of Python."]
    if about:
        said.append(f"It says of itself: “{shortened(about, _VALUE_WIDTH)}”")
    if classes or functions:
        said.append("It defines\n\n" + _bullets([f"`{name}`" for name in classes + functions]))
    return "\n\n".join(said), {"classes": classes, "functions": functions}


def _json(text: str) -> tuple[str, dict[str, Any]]:
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if isinstance(value, dict):
        rows = [[key, _kind(inner)] for key, inner in list(value.items())[:_SHOWN]]
        table = markdown_table(["key", "value"], rows)
        return f"An object with {len(value):,} keys.\n\n{table}", {"keys": list(value)}
    if isinstance(value, list):
        kinds = Counter(map(_kind, value))
        shown = listed([f"{number:,} × {kind}" for kind, number in kinds.most_common(_SHOWN)])
        return f"A list of {len(value):,}: {shown or 'nothing'}.", {"items": len(value)}
    return f"A single value: {_kind(value)}.", {"type": _kind(value)}


def _notebook(text: str) -> tuple[str, dict[str, Any]]:
    document = json.loads(text)
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise ValueError("no notebook")  # noqa: TRY004 - the text is wrong, not its type
    cells = [cell for cell in cells if isinstance(cell, dict)]
    kinds = Counter(str(cell.get("cell_type")) for cell in cells)
    sources = ("".join(c.get("source") or "") for c in cells if c.get("cell_type") == "markdown")
    headings = [
        line.lstrip("#").strip() for s in sources for line in s.splitlines() if line.startswith("#")
    ]
    shown = listed([f"{number:,} {kind}" for kind, number in kinds.most_common()])
    said = f"A notebook with {shown or 'no'} cells."
    if headings:
        said += "\n\nIts headings:\n\n" + _bullets(headings)
    return said, {"cells": dict(kinds)}


def _kind(value: Any) -> str:
    match value:
        case dict():
            return f"object with {len(value):,} keys"
        case list():
            return f"list of {len(value):,}"
        case str():
            return f"text “{shortened(value, _VALUE_WIDTH // 2)}”"
        case None:
            return "null"
        case bool():
            return "true or false"
        case _:
            return "number"


def _bullets(items: list[str]) -> str:
    rest = len(items) - _SHOWN
    more = [f"- … and {rest:,} more"] if rest > 0 else []
    return "\n".join([*(f"- {item}" for item in items[:_SHOWN]), *more])


def fenced(text: str, language: str = "") -> str:
    """Put a text into a Markdown fence that it cannot close.

    >>> print(fenced("a```b"))
    ````
    a```b
    ````
    """
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


_BY_SUFFIX: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    **dict.fromkeys(TABLES, _table),
    ".py": _python,
    ".json": _json,
    ".ipynb": _notebook,
}
