"""Markdown to HTML made of our own elements, for what an agent says.

There is no way through for HTML of the agent's: the text is cut into blocks, each block becomes one
of a dozen elements with inline styles, and everything inside is escaped. What is not recognized
is shown as it was written, whitespace included. The subset is what agents write: headings,
paragraphs, fences, lists, quotes, tables, rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from silo_nb.ipython.record.escape import code_html, text_html
from silo_nb.ipython.record.inline import inline_html
from silo_nb.ipython.record.styles import style

__all__ = ["open_fence", "prose_html"]

_FENCE = re.compile(r"( *)(`{3,}|~{3,})[ \t]*([^`\n]*)")
_FENCE_LINES = re.compile(rf"^{_FENCE.pattern}$", re.MULTILINE)
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( +|$)(.*)")
_QUOTE = re.compile(r" {0,3}> ?(.*)")
_TABLE_RULE = re.compile(r" *\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_CELLS = re.compile(r"(?<!\\)\|")
_TASKS = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}

_DEEPEST = 8
"""Lists and quotes inside each other; what is nested deeper is shown as written."""

_WIDEST = 40
"""Columns of a table."""


def prose_html(text: str, depth: int = 0) -> str:
    """Return `text` as HTML.

    Args:
        text: markdown, as an agent wrote it; need not be complete.
        depth: how many lists and quotes this text stands in.

    >>> prose_html("# <i>Hi</i>")  # doctest: +ELLIPSIS
    '<p style="...">&lt;i&gt;Hi&lt;/i&gt;</p>'
    """
    if depth > _DEEPEST:
        return f"<p{style('p')}>{text_html(text)}</p>"
    return "".join(_blocks(text.expandtabs(4).split("\n"), depth))


def open_fence(text: str) -> str:
    r"""Return the line that opened the code fence `text` ends in, or an empty string.

    >>> open_fence("so:\n```python\nx = 1")
    '```python'
    """
    opened = ""
    for fence in _FENCE_LINES.finditer(text):
        line = fence[0]
        if not opened:
            opened = line.strip()
        elif _closes(line, opened):
            opened = ""
    return opened


def _closes(line: str, fence: str) -> bool:
    sign = fence[0]
    closing = line.strip()
    return set(closing) == {sign} and len(closing) >= len(fence) - len(fence.lstrip(sign))


def _blocks(lines: Sequence[str], depth: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif fence := _FENCE.fullmatch(line):
            at, html = _fence(lines, at, fence)
            yield html
        elif heading := _HEADING.fullmatch(line):
            look = "h1" if len(heading[1]) == 1 else "h"
            yield f"<p{style(look)}>{inline_html(heading[2].rstrip('# '))}</p>"
            at += 1
        elif _is_rule(line):
            yield f"<hr{style('rule')}>"
            at += 1
        elif _QUOTE.fullmatch(line):
            at, html = _quote(lines, at, depth)
            yield html
        elif item := _ITEM.fullmatch(line):
            at, html = _list(lines, at, depth, item)
            yield html
        elif _starts_table(lines, at):
            at, html = _table(lines, at)
            yield html
        else:
            at, html = _paragraph(lines, at)
            yield html


def _fence(lines: Sequence[str], at: int, opening: re.Match[str]) -> tuple[int, str]:
    indent, fence, language = len(opening[1]), opening[2], opening[3].strip()
    at += 1
    start = at
    while at < len(lines) and not _closes(lines[at], fence):
        at += 1
    body = [line[indent:] if line[:indent].isspace() else line for line in lines[start:at]]
    bar = f"<div{style('block-bar')}>{text_html(language)}</div>" if language else ""
    code = code_html("\n".join(body))
    html = f"<div{style('block')}>{bar}<pre{style('code')}>{code}</pre></div>"
    return at + 1, html


def _is_rule(line: str) -> bool:
    signs = line.replace(" ", "")
    return len(signs) > 2 and len(set(signs)) == 1 and signs[0] in "-*_"  # noqa: PLR2004 - three signs make a rule


def _quote(lines: Sequence[str], at: int, depth: int) -> tuple[int, str]:
    inner = []
    while at < len(lines) and (quoted := _QUOTE.fullmatch(lines[at])):
        inner.append(quoted[1])
        at += 1
    body = prose_html("\n".join(inner), depth + 1)
    return at, f"<blockquote{style('quote')}>{body}</blockquote>"


# -------------------------------------------------------------------------------------- lists


def _list(lines: Sequence[str], at: int, depth: int, first: re.Match[str]) -> tuple[int, str]:
    """Take items of one kind and one indentation, each with everything indented under it."""
    ordered = first[2][0].isdigit()
    items = []
    while at < len(lines) and (item := _ITEM.fullmatch(lines[at])):
        if item[2][0].isdigit() is not ordered or len(item[1]) != len(first[1]):
            break
        at, inner = _item_lines(lines, at, item)
        items.append(f"<li{style('li')}>{_item(inner, depth)}</li>")
    if not ordered:
        return at, f"<ul{style('list')}>{''.join(items)}</ul>"
    start = int(first[2][:-1])
    return at, f'<ol start="{start}"{style("list")}>{"".join(items)}</ol>'


def _item_lines(lines: Sequence[str], at: int, item: re.Match[str]) -> tuple[int, list[str]]:
    inner = [item[4]]
    content = len(item[1]) + len(item[2]) + 1
    # Two columns are enough: agents indent by two, however long the number is.
    least = len(item[1]) + 2
    at += 1
    while (end := _next_text(lines, at)) < len(lines) and _indent(lines[end]) >= least:
        inner += [""] * (end - at)
        inner.append(lines[end][min(content, _indent(lines[end])) :])
        at = end + 1
    return at, inner


def _next_text(lines: Sequence[str], at: int) -> int:
    """Return where the next line stands that is not blank."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _item(inner: list[str], depth: int) -> str:
    sign = _TASKS.get(inner[0][:4], "")
    if sign:
        inner = [inner[0][4:], *inner[1:]]
    own = 0
    while own < len(inner) and inner[own].strip() and (own == 0 or not _starts_block(inner, own)):
        own += 1
    text = "\n".join(line.strip() for line in inner[:own])
    rest = prose_html("\n".join(inner[own:]), depth + 1) if own < len(inner) else ""
    return f"<span{style('li-text')}>{sign}{inline_html(text)}</span>{rest}"


# ------------------------------------------------------------------------- tables, paragraphs


def _starts_table(lines: Sequence[str], at: int) -> bool:
    return (
        "|" in lines[at]
        and at + 1 < len(lines)
        and "-" in lines[at + 1]
        and _TABLE_RULE.fullmatch(lines[at + 1]) is not None
    )


def _table(lines: Sequence[str], at: int) -> tuple[int, str]:
    aligns = [_align(rule) for rule in _cells(lines[at + 1])]
    rows = [_table_row(lines[at], "th", aligns)]
    at += 2
    while at < len(lines) and "|" in lines[at]:
        rows.append(_table_row(lines[at], "td", aligns))
        at += 1
    return at, f"<table{style('table')}><tbody>{''.join(rows)}</tbody></table>"


def _table_row(line: str, element: str, aligns: Sequence[str]) -> str:
    cells = []
    for number, cell in enumerate(_cells(line)):
        align = aligns[number] if number < len(aligns) else ""
        cells.append(f"<{element}{style(element, align)}>{inline_html(cell)}</{element}>")
    return f"<tr{style('tr')}>{''.join(cells)}</tr>"


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    # What is too much for a table stays together in its last column.
    return [cell.strip() for cell in _CELLS.split(line, maxsplit=_WIDEST - 1)]


def _align(rule: str) -> str:
    if rule.endswith(":"):
        return "text-align:center" if rule.startswith(":") else "text-align:right"
    return ""


def _starts_block(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    return bool(
        _FENCE.fullmatch(line)
        or _HEADING.fullmatch(line)
        or _ITEM.fullmatch(line)
        or _QUOTE.fullmatch(line)
        or _is_rule(line)
        or _starts_table(lines, at)
    )


def _paragraph(lines: Sequence[str], at: int) -> tuple[int, str]:
    start = at
    at += 1
    while at < len(lines) and lines[at].strip() and not _starts_block(lines, at):
        at += 1
    text = "\n".join(lines[start:at])
    return at, f"<p{style('p')}>{inline_html(text)}</p>"
