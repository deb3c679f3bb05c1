"""What went over the wire and was none of our business: counted, and the last of it kept."""

from __future__ import annotations

from collections import Counter, deque

from silo_nb.model.text import one_line

__all__ = ["Diagnostics"]


class Diagnostics:
    """A bounded log of oddities on one connection.

    >>> log = Diagnostics()
    >>> log.note("not a message", "INFO migrating…")
    >>> log.counts["not a message"], list(log.recent)
    (1, ['not a message: INFO migrating…'])
    """

    def __init__(self, keep: int = 200) -> None:
        self.counts: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=keep)

    def note(self, kind: str, detail: str = "") -> None:
        """Count one oddity of `kind`; the log keeps the latest with their `detail`."""
        self.counts[kind] += 1
        self.recent.append(f"{kind}: {one_line(detail)}" if detail else kind)
