"""The output of a cell while its turn runs: a bounded tail, painted from the agent thread.

Only through a display handle: what a thread prints or displays would land in whatever cell ran last
(JUPYTER §2.5).
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

from silo_nb.ipython.front_end import FrontEnd
from silo_nb.ipython.outputs import ShownBundle, show
from silo_nb.ipython.pace import Pace
from silo_nb.ipython.record import (
    Excerpt,
    Gap,
    Limits,
    Row,
    Said,
    Thought,
    TurnRecord,
    frozen_bundle,
    open_fence,
    plan_steps,
    record_html,
    rows_of,
    tool_row,
)
from silo_nb.model import Message, ToolCall, Transcript, Update
from silo_nb.model.text import inert, one_line
from silo_nb.session.listeners import Subscription
from silo_nb.session.live import LiveSession

__all__ = ["Output", "Painter", "live_record"]

_ROWS = 12
_TAIL = 4_000
_REMINDER = 200
_LINE = 300
_LIMITS = Limits(said=_TAIL, detail=600, rows=_ROWS + 2)
_UPDATE_SIZE = 300
"""Bytes an update counts for besides its text."""

_SOON = 0.01
_HEARTBEAT = 5.0
"""Seconds after which a silent agent's clock is set again."""


class Output:
    """The one output of a cell: live while the turn runs, then frozen.

    Args:
        front: what the front end can do.
    """

    def __init__(self, front: FrontEnd) -> None:
        self._front = front
        self._shown: ShownBundle | None = None
        self._lock = threading.Lock()
        self._frozen = False

    @property
    def is_live(self) -> bool:
        """Whether anything is shown before the end."""
        return self._front.shows != "once"

    def paint(self, record: TurnRecord) -> int:
        """Show `record` as it is now; return how many bytes that took. Nothing once frozen."""
        html = record_html(record, fold=False)
        plain = f"{one_line(record.agent)} is working …"
        bundle = {"text/html": html, "text/plain": plain}
        with self._lock:
            if self._frozen or not self.is_live:
                return 0
            if self._shown is None:
                self._shown = show(bundle)
            else:
                self._shown.replace(bundle)
        return len(html.encode())

    def give_up(self, record: TurnRecord) -> None:
        """Freeze what is shown, if anything is; the cell's error tells the rest."""
        if self._shown is not None:
            self.freeze(record)

    def freeze(self, record: TurnRecord) -> None:
        """Put what stays of `record` in the place of what was live."""
        bundle = frozen_bundle(record)
        with self._lock:
            self._frozen = True
        if self._shown is None:
            show(bundle, once=True)
        elif self._front.shows == "live":
            self._shown.replace(bundle)
        else:
            # A console ignores updates; a notebook we do not know would show it twice.
            self._shown.show_again(bundle)


class Painter:
    """Keeps an output up to date with a session. Paints on the agent thread.

    Args:
        live: the session.
        output: where to paint.
        first_entry: where in the transcript the turn begins.
        where: the directory to state, if it is to be stated.
    """

    def __init__(self, live: LiveSession, output: Output, first_entry: int, where: str) -> None:
        self._live = live
        self._output = output
        self._old_plan = live.transcript.plan
        self._first_entry = first_entry
        self._where = where
        self._started = time.monotonic()
        self._pace = Pace(self._started)
        self._timer: asyncio.TimerHandle | None = None
        self._subscription: Subscription | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to paint; call it on the cell's own thread."""
        if self._output.is_live:
            self._subscription = self._live.on_update.add(self._on_update)

    def stop(self) -> None:
        """Paint no more. What is being painted right now is held back by the output itself."""
        self._stopped = True
        if self._subscription is not None:
            self._subscription.dispose()

    def record(self) -> TurnRecord:
        """Return what is to be seen now."""
        elapsed = time.monotonic() - self._started
        record = live_record(self._live, self._first_entry, elapsed, self._where)
        if self._live.transcript.plan is self._old_plan:
            # That of an earlier turn.
            return replace(record, plan=())
        return record

    def _on_update(self, update: Update) -> None:
        self._pace.earn(_UPDATE_SIZE + len(update.text or ""))
        self._paint_in(self._pace.wait(time.monotonic()))

    def _paint_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds + _SOON:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._paint)

    def _paint(self) -> None:
        self._timer = None
        if self._stopped:
            return
        now = time.monotonic()
        wait = self._pace.wait(now)
        if wait > 0:
            self._paint_in(wait)
            return
        self._pace.spend(now, self._output.paint(self.record()))
        if self._live.status == "working":
            self._paint_in(_HEARTBEAT)


QUIET = 30.0
"""Seconds without a sign of the agent after which the output says so."""


def live_record(live: LiveSession, first_entry: int, elapsed: float, where: str) -> TurnRecord:
    """Return the visible tail of a running turn."""
    transcript = live.transcript
    card = live.card
    return TurnRecord(
        agent=one_line(card.title or card.name or live.profile.label),
        state="waiting" if live.desk.open else "working",
        rows=tuple(_tail_rows(transcript, first_entry, live.cwd)),
        elapsed=elapsed,
        plan=plan_steps(transcript.plan),
        where=where,
        footnotes=_quiet(live),
    ).within(_LIMITS)


def _quiet(live: LiveSession) -> tuple[str, ...]:
    """Say so when nothing is heard of an agent that nobody keeps waiting. Case 4."""
    if live.desk.open or live.quiet_for < QUIET:
        return ()
    return (f"Nothing heard for {live.quiet_for:.0f} s. Interrupt the cell to stop the turn.",)


def _tail_rows(transcript: Transcript, first_entry: int, cwd: str) -> list[Row]:
    entries = transcript.entries
    start = max(first_entry, len(entries) - _ROWS)
    rows: list[Row] = []
    room = _TAIL
    for entry in reversed(entries[start:]):
        if isinstance(entry, ToolCall):
            rows.append(tool_row(entry, cwd, details="none"))
        elif isinstance(entry, Message) and entry.role != "user":
            # The newest words matter most; what came before them shrinks to a reminder.
            shown = min(len(entry.body), max(room, _REMINDER))
            room -= shown
            rows.append(_said(entry, shown, fresh=not rows))
        else:
            rows += rows_of([entry], cwd)
    if start > first_entry:
        rows.append(Gap(start - first_entry))
    return rows[::-1]


def _said(message: Message, shown: int, *, fresh: bool) -> Said | Thought:
    text = Excerpt.of(message.text) if shown == len(message.body) else _tail(message.text, shown)
    return Said(text) if message.role == "agent" else Thought(text, fresh)


def _tail(text: str, shown: int) -> Excerpt:
    """Return the end of `text`, from the start of a line and in the fence it stands in."""
    start = len(text) - shown
    line = text.find("\n", start, start + _LINE) + 1
    start = line or start
    fence = open_fence(text[:start])
    tail = inert(text[start:])
    return Excerpt("", start, f"{fence}\n{tail}" if fence else tail)
