r"""Agent text to HTML text: inert, escaped, and no mathematics.

JupyterLab and nbconvert typeset ``$…$``, ``\(…\)`` and ``\begin…`` wherever they find them in an
HTML output, and TeX has ``\href`` and ``\style``. They look for a formula within one text node, and
not at all in ``<pre>`` and ``<code>``; so outside of those, every sign that could open or close one
gets an element of its own.
"""

from __future__ import annotations

import re
from html import escape

from silo_nb.model.text import inert

__all__ = ["code_html", "text_html"]

_TEX = re.compile(r"[$\\]")


def text_html(text: str) -> str:
    r"""Return `text` as HTML for anywhere but ``<pre>`` and ``<code>``.

    >>> text_html("<b> costs $5")
    '&lt;b&gt; costs <span>$</span>5'
    """
    escaped = escape(inert(text))
    if "$" not in escaped and "\\" not in escaped:
        return escaped
    return _TEX.sub(lambda sign: f"<span>{sign[0]}</span>", escaped)


def code_html(text: str) -> str:
    """Return `text` as HTML for inside ``<pre>`` and ``<code>``, where TeX is left alone.

    >>> code_html("echo $HOME && ls")
    'echo $HOME &amp;&amp; ls'
    """
    return escape(inert(text))
