"""Subscriptions: who is told what, in order, without being able to stop the others."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from typing import Generic, Self, TypeVarTuple

__all__ = ["Listeners", "Subscription"]

_log = logging.getLogger("silo_nb.session")

Ts = TypeVarTuple("Ts")
_Entry = tuple[contextvars.Context, Callable[[*Ts], object]]


class Subscription:
    """A registered listener; :meth:`dispose` ends it, as does leaving a ``with`` block."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def dispose(self) -> None:
        """End the subscription. Idempotent."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()


class Listeners(Generic[*Ts]):
    """An ordered set of callbacks.

    Each runs in a copy of the context it was registered in, so that what it prints appears in the
    cell that registered it. One that raises is logged and the others are still told. (K15)
    """

    def __init__(self) -> None:
        # A tuple, replaced as a whole: the agent thread reads while any thread subscribes.
        self._entries: tuple[_Entry[*Ts], ...] = ()

    def add(self, listener: Callable[[*Ts], object]) -> Subscription:
        """Register `listener` and return its subscription."""
        entry = (contextvars.copy_context(), listener)
        self._entries = (*self._entries, entry)

        def end() -> None:
            self._entries = tuple(e for e in self._entries if e is not entry)

        return Subscription(end)

    def tell(self, *args: *Ts) -> int:
        """Call every listener in order; return how many did not raise."""
        return self._tell(self._entries, *args)

    def tell_first(self, *args: *Ts) -> int:
        """Call the listener that was registered first; return how many did not raise."""
        return self._tell(self._entries[:1], *args)

    def _tell(self, entries: tuple[_Entry[*Ts], ...], *args: *Ts) -> int:
        told = 0
        for context, listener in entries:
            try:
                context.run(listener, *args)
                told += 1
            except BaseException:  # noqa: BLE001 - whatever it raises, sys.exit() too, is its affair
                _log.exception("listener %r raised; the session goes on", listener)
        return told

    def clear(self) -> None:
        """Forget every listener."""
        self._entries = ()

    def __len__(self) -> int:
        return len(self._entries)
