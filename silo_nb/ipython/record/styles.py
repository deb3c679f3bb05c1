"""The look of a record, as inline styles: the one visual language of live and frozen output.

A record is seen in JupyterLab's light and dark themes, in nbconvert's page, on GitHub and in front
ends that know no style sheet of ours. So surfaces and lines are translucent grey, which fits any
background, and only accents use JupyterLab's variables, each with a fallback. Whatever a viewer
drops (JupyterLab drops ``var()`` in a notebook it does not trust, GitHub drops everything), the
text still reads well.
"""

from __future__ import annotations

__all__ = ["COLOURS", "style"]

_LINE = "rgba(127,127,127,.3)"
_HAIR = "rgba(127,127,127,.18)"
_SUNK = "rgba(127,127,127,.08)"

COLOURS = {
    "ok": "var(--jp-success-color1,#3a9a4a)",
    "bad": "var(--jp-error-color1,#d9534f)",
    "warn": "var(--jp-warn-color1,#c77700)",
    "brand": "var(--jp-brand-color1,#1976d2)",
    "muted": "inherit",
}
"""Inks for signs. Text itself keeps the colour of the page, so that its contrast is the page's."""

# JupyterLab knows only the first of the two where it does not trust a notebook.
_WRAP = "overflow-wrap:break-word;overflow-wrap:anywhere"
_MONO = "font-family:var(--jp-code-font-family,Menlo,Consolas,'DejaVu Sans Mono',monospace)"
_CODE_SIZE = "font-size:.93em;line-height:1.5"

_FONT = (
    "font-family:var(--jp-ui-font-family,system-ui,-apple-system,'Segoe UI',Helvetica,Arial,"
    "sans-serif);font-size:var(--jp-ui-font-size1,13px);line-height:1.55;text-align:left"
)

_STYLES = {
    "root": f"border:1px solid {_LINE};border-radius:8px;overflow:hidden;margin:2px 0;{_FONT}",
    "bare": _FONT,
    "head": "padding:6px 14px;overflow-wrap:break-word",
    "state": "float:right;padding-left:12px;font-size:.92em",
    "body": f"border-top:1px solid {_HAIR};padding:12px 14px 1px",
    "foot": f"border-top:1px solid {_HAIR};padding:5px 14px;font-size:.9em;opacity:.72;{_WRAP}",
    "muted": "opacity:.72",
    "small": "opacity:.72;font-size:.92em",
    # --- what was said
    "prompt": f"background:{_SUNK};border:1px solid {_HAIR};border-radius:6px;padding:7px 12px;"
    f"margin:0 0 12px 0;white-space:pre-wrap;{_WRAP}",
    "chip": f"border:1px solid {_LINE};border-radius:4px;padding:1px 7px;margin:0 6px 4px 0;"
    "display:inline-block;font-size:.92em;white-space:normal",
    "said": f"margin:0 0 12px 0;{_WRAP}",
    "thought": "margin:0 0 12px 0",
    "thought-body": f"border-left:2px solid {_LINE};margin:4px 0 0 5px;padding:1px 0 1px 12px;"
    f"opacity:.8;{_WRAP}",
    "summary": "cursor:pointer;opacity:.72",
    "gap": "margin:0 0 12px 0;opacity:.72;font-style:italic",
    # --- tool rows
    "tools": f"border:1px solid {_HAIR};border-radius:6px;margin:0 0 12px 0;overflow:hidden",
    "tool": "margin:0",
    "tool-next": f"margin:0;border-top:1px solid {_HAIR}",
    "tool-head": f"cursor:pointer;padding:4px 12px;{_WRAP}",
    # As far to the right as a row that has a triangle in front.
    "tool-flat": f"padding:4px 12px 4px 26px;{_WRAP}",
    "tool-meta": "float:right;padding-left:12px;font-size:.92em",
    "tool-body": f"border-top:1px solid {_HAIR}",
    "tool-line": f"padding:4px 12px;font-size:.92em;opacity:.8;{_WRAP}",
    "code": f"{_MONO};{_CODE_SIZE};margin:0;padding:8px 12px;background:{_SUNK};color:inherit;"
    "border:0;white-space:pre;overflow-x:auto;tab-size:4",
    "text": f"{_MONO};{_CODE_SIZE};margin:0;padding:8px 12px;background:{_SUNK};color:inherit;"
    f"border:0;white-space:pre-wrap;{_WRAP};tab-size:4",
    "diff": f"{_MONO};{_CODE_SIZE};margin:0;padding:6px 0;background:transparent;color:inherit;"
    "border:0;white-space:pre;overflow-x:auto;tab-size:4",
    "diff-+": "display:block;padding:0 12px;background:rgba(46,160,67,.17)",
    "diff--": "display:block;padding:0 12px;background:rgba(248,81,73,.17)",
    "diff-@": "display:block;padding:2px 12px;opacity:.72",
    "diff- ": "display:block;padding:0 12px",
    # --- questions
    "question": f"border-top:1px solid {_HAIR};padding:8px 14px 6px;{_WRAP}",
    "options": f"border-top:1px solid {_HAIR};margin:0;padding:6px 14px 8px 36px",
    # --- plan and notes
    "plan": f"border:1px solid {_HAIR};border-radius:6px;margin:0 0 12px 0;padding:5px 12px 7px",
    "plan-step": f"margin:0;{_WRAP}",
    "plan-done": f"margin:0;opacity:.72;{_WRAP}",
    "plan-now": f"margin:0;font-weight:600;{_WRAP}",
    "note": f"background:{_SUNK};border-left:3px solid {_LINE};padding:5px 12px;margin:0 0 12px 0;"
    f"white-space:pre-wrap;{_WRAP}",
    # --- prose. JupyterLab styles bare elements of an output, hence all these zeros.
    "p": "margin:0 0 .6em 0;max-width:84ch;white-space:pre-wrap",
    "h": "margin:.9em 0 .4em 0;font-weight:600;white-space:pre-wrap",
    "h1": "margin:.9em 0 .4em 0;font-weight:600;font-size:1.15em;white-space:pre-wrap",
    "list": "margin:0 0 .6em 0;padding-left:1.7em;max-width:84ch",
    "li": "margin:.15em 0",
    "li-text": "white-space:pre-wrap",
    "quote": f"margin:0 0 .6em 0;border-left:3px solid {_LINE};padding:0 0 0 12px;opacity:.85",
    "rule": f"border:0;border-top:1px solid {_LINE};margin:.9em 0;height:0;background:none",
    "block": f"border:1px solid {_HAIR};border-radius:6px;margin:0 0 .7em 0;overflow:hidden",
    "block-bar": f"border-bottom:1px solid {_HAIR};padding:1px 12px;font-size:.88em;opacity:.72;"
    f"{_MONO}",
    "inline-code": f"{_MONO};font-size:.93em;background:{_SUNK};border:1px solid {_HAIR};"
    "border-radius:3px;padding:0 4px;color:inherit;white-space:pre-wrap",
    "table": "border-collapse:collapse;margin:0 0 .7em 0;font-size:.96em;display:block;"
    "overflow-x:auto",
    "tr": "background:none",
    "th": f"text-align:left;font-weight:600;padding:3px 16px 3px 0;border:0;"
    f"border-bottom:1px solid {_LINE};white-space:pre-wrap;background:none",
    "td": f"text-align:left;padding:3px 16px 3px 0;border:0;border-bottom:1px solid {_HAIR};"
    "vertical-align:top;white-space:pre-wrap;background:none",
    "link": "text-decoration:underline",
}


def style(name: str, extra: str = "") -> str:
    """Return the attribute ``style="…"`` of the look `name`, with a space before it.

    >>> style("muted")
    ' style="opacity:.72"'
    """
    rules = _STYLES[name]
    return f' style="{rules};{extra}"' if extra else f' style="{rules}"'
