"""The frozen output of a turn: one bundle of mimetypes, each complete as far as there is room."""

from __future__ import annotations

from collections.abc import Callable

from silo_nb.ipython.record.html import record_html
from silo_nb.ipython.record.markdown import record_markdown
from silo_nb.ipython.record.plain import record_plain
from silo_nb.ipython.record.turn import Limits, TurnRecord

__all__ = ["ROOM", "frozen_bundle"]

ROOM = 64 * 1024
"""Bytes of each mimetype (FAULTS T7). A notebook keeps them for good; the journal has the rest."""

# What the agent said goes last: details can be looked up.
_STEPS = (
    Limits(said=ROOM, detail=ROOM, rows=500),
    Limits(said=ROOM, detail=4_000, rows=500),
    Limits(said=ROOM, detail=1_000, rows=200),
    Limits(said=24_000, detail=500, rows=100),
    Limits(said=8_000, detail=250, rows=60),
    Limits(said=2_000, detail=100, rows=40),
    Limits(said=500, detail=50, rows=20),
    Limits(said=100, detail=20, rows=8),
)


def frozen_bundle(record: TurnRecord) -> dict[str, str]:
    """Return `record` as text/html, text/markdown and text/plain, each of at most `ROOM` bytes."""
    return {
        "text/html": _fit(record_html, record),
        "text/markdown": _fit(record_markdown, record),
        "text/plain": _fit(record_plain, record),
    }


def _fit(render: Callable[[TurnRecord], str], record: TurnRecord) -> str:
    for limits in _STEPS:
        shown = record.within(limits)
        if len(shown) > ROOM:
            continue
        text = render(shown)
        if len(text.encode()) <= ROOM:
            return text
    # Cannot happen as long as the last step is as tight as it is; a record must not fail a turn.
    return render(record.within(Limits(said=0, detail=0, rows=2)))
