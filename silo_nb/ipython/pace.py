"""How often a live output may be painted, so that an answer costs what it weighs.

Each painting sends the whole visible part again. At a fixed rate, a slow answer would cost many
times its size; so paintings are paid for out of what the agent sends.
"""

from __future__ import annotations

__all__ = ["Pace"]

INTERVAL = 0.1
"""Seconds between two paintings at least: ten a second look continuous."""

_START = 256 * 1024
_PER_BYTE = 2
# An agent that sends little must not look stuck: this much is free.
_PER_SECOND = 8 * 1024


class Pace:
    """Says when the next painting is due. All times in seconds of one clock, sizes in bytes.

    >>> pace = Pace(now=0.0)
    >>> pace.spend(now=0.0, size=1000)
    >>> pace.wait(now=0.02)
    0.08
    """

    def __init__(self, now: float) -> None:
        self._budget = float(_START)
        self._counted = now
        self._last = float("-inf")

    def earn(self, size: int) -> None:
        """Count what the agent sent."""
        self._budget += _PER_BYTE * size

    def spend(self, now: float, size: int) -> None:
        """Count a painting."""
        self._budget += (now - self._counted) * _PER_SECOND - size
        self._counted = now
        self._last = now

    def wait(self, now: float) -> float:
        """Return how long to wait until the next painting may be made."""
        left = self._budget + (now - self._counted) * _PER_SECOND
        wait = max(self._last + INTERVAL - now, -left / _PER_SECOND, 0.0)
        return round(wait, 3)
