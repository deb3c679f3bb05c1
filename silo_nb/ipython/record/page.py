"""A session as a web page that stands alone: one file, light or dark as the reader's system is.

The turns are the same HTML as in a notebook's outputs. A content security policy keeps the page
from loading or running anything, should what is escaped ever not be enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from silo_nb.ipython.record.escape import code_html, text_html
from silo_nb.ipython.record.html import record_html
from silo_nb.ipython.record.past import SessionRecord

__all__ = ["session_page"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

# The variables are those of JupyterLab that a record's own styles ask for.
_STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1c2024;
  --jp-success-color1: #2c7a3a; --jp-error-color1: #c62f2b;
  --jp-warn-color1: #9a5b00; --jp-brand-color1: #1565c0;
  --jp-ui-font-size1: 14px;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15181c; --ink: #e3e6ea;
    --jp-success-color1: #63c174; --jp-error-color1: #ff7b72;
    --jp-warn-color1: #e0a33e; --jp-brand-color1: #6cb2f5;
  }
}
body {
  margin: 0; padding: 2rem 1rem 4rem; background: var(--page); color: var(--ink);
  font: 14px/1.55 system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif;
}
main { max-width: 60rem; margin: 0 auto; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 .6rem; overflow-wrap: anywhere; }
dl {
  display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0 0 1.6rem;
}
dt { opacity: .72; }
dd { margin: 0; overflow-wrap: anywhere; }
section { margin: 0 0 1.2rem; }
a { color: inherit; }
@media print { body { padding: 0; } section { break-inside: auto; } }
"""


def session_page(session: SessionRecord) -> Iterator[str]:
    """Yield the parts of `session` as an HTML document."""
    facts = "".join(
        f"<dt>{text_html(name)}</dt><dd>{text_html(value)}</dd>" for name, value in session.facts
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{code_html(session.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{text_html(session.title)}</h1>\n<dl>{facts}</dl>\n"
    )
    for turn in session.turns:
        yield f"<section>{record_html(turn.record)}</section>\n"
    yield "</main>\n</body>\n</html>\n"
