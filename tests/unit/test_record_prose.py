"""Markdown of an agent's as HTML of ours: it looks like what was meant, and nothing gets lost."""

from __future__ import annotations

import re
import time

import pytest

from silo_nb.ipython.record.prose import open_fence, prose_html


def bare(html: str) -> str:
    """Return HTML without its styles."""
    return re.sub(r' style="[^"]*"', "", html)


CASES = {
    "a\nb": "<p>a\nb</p>",
    "a\n\nb": "<p>a</p><p>b</p>",
    "  keeps   its\n    spaces": "<p>  keeps   its\n    spaces</p>",
    "# Title #": "<p>Title</p>",
    "#hashtag": "<p>#hashtag</p>",
    "**a** _b_ ~~c~~": "<p><strong>a</strong> <em>b</em> <s>c</s></p>",
    "**a *b* c**": "<p><strong>a <em>b</em> c</strong></p>",
    "**a *b** c*": "<p><strong>a *b</strong> c*</p>",
    "snake_case_name 2 * 3 * 4": "<p>snake_case_name 2 * 3 * 4</p>",
    "**open": "<p>**open</p>",
    "``a`b`` `c": "<p><code>a`b</code> `c</p>",
    r"\*not\* emphasis": "<p>*not* emphasis</p>",
    "```py\nx = '<b>'\n```\nafter": (
        "<div><div>py</div><pre>x = &#x27;&lt;b&gt;&#x27;</pre></div><p>after</p>"
    ),
    "````\n```\n````": "<div><pre>```</pre></div>",
    "```\nnever closed": "<div><pre>never closed</pre></div>",
    "- a\n- b\n  - c": (
        "<ul><li><span>a</span></li><li><span>b</span><ul><li><span>c</span></li></ul></li></ul>"
    ),
    "3. a\n4. b": '<ol start="3"><li><span>a</span></li><li><span>b</span></li></ol>',
    "- [ ] a\n- [x] b": "<ul><li><span>☐ a</span></li><li><span>☑ b</span></li></ul>",
    "1. a\n\n   ```\n   x\n     y\n   ```\n2. b": (
        '<ol start="1"><li><span>a</span><div><pre>x\n  y</pre></div></li>'
        "<li><span>b</span></li></ol>"
    ),
    "> a\n> b": "<blockquote><p>a\nb</p></blockquote>",
    "|a|b|\n|-|-:|\n|1|x\\|y|": (
        "<table><tbody><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x|y</td></tr></tbody></table>"
    ),
    "a | b": "<p>a | b</p>",
    "a\n***\nb": "<p>a</p><hr><p>b</p>",
    "![alt](https://a.b/c.png)": (
        '<p>!<a href="https://a.b/c.png" rel="noopener noreferrer nofollow" target="_blank">'
        "alt (https://a.b/c.png)</a></p>"
    ),
    "costs $5, \\(x\\)": "<p>costs <span>$</span>5, <span>\\</span>(x<span>\\</span>)</p>",
    "`$HOME` `\\(`": "<p><code>$HOME</code> <code>\\(</code></p>",
}


@pytest.mark.parametrize("markdown", CASES)
def test_markdown_becomes_elements(markdown: str) -> None:
    assert bare(prose_html(markdown)) == CASES[markdown]


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil.invalid"),
        *(
            "https://user:pw@evil.invalid/",
            "https://xn--80ak6aa92e.com/",
            "https://ex\u00e4mple.org",
        ),
        *("https:///nohost", "https://[::1", "https://a.b\\@evil.invalid"),
    ],
)
def test_a_doubtful_address_stays_text(address: str) -> None:
    html = prose_html(f"[click]({address}) {address}")

    assert "href" not in html or f'href="{address}"' not in html
    assert address.replace("\\", "<span>\\</span>") in html or address in html


def test_a_link_says_where_it_goes() -> None:
    html = bare(prose_html("See [the docs](https://docs.python.org/3/)."))

    assert ">the docs (https://docs.python.org/3/)</a>." in html


def test_the_fence_that_a_text_ends_in_is_known() -> None:
    assert open_fence("a\n```python\nx") == "```python"
    assert open_fence("a\n```python\nx\n```\nb") == ""
    assert open_fence("````\n```\nx") == "````"


@pytest.mark.parametrize(
    "hostile",
    [
        *("`" * 30_000, "`a" * 30_000, "*a " * 30_000, "**a" * 20_000, "[" * 60_000),
        *("> " * 30_000, "- " * 30_000, "1. " * 20_000, "https://" * 8_000, "[a" * 30_000),
        *("|" * 30_000 + "\n" + "|-" * 15_000, "-\n" * 30_000, "```\n" * 15_000),
        *("- a\n\n" * 15_000, "- a\n" + "\n" * 60_000 + "- b", "\\" * 60_000, "_a_" * 20_000),
        "\n".join("  " * depth + "- x" for depth in range(300)),
    ],
    ids=lambda text: repr(text[:8]),
)
def test_no_text_costs_more_than_its_length(hostile: str) -> None:
    """Linear time: half the text takes well over a quarter of the time, or next to none."""
    started = time.process_time()
    prose_html(hostile)

    # A quadratic pass over 60,000 signs takes many seconds.
    assert time.process_time() - started < 2
