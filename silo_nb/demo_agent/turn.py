"""One turn: what a skill can do while it answers a prompt, all of it cancellable."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from silo_nb.demo_agent.session import CONTEXT_SIZE, Session
from silo_nb.demo_agent.wire import Wire

_WORDS = re.compile(r"\S+\s*|\s+")
_SECONDS_PER_WORD = 0.008
_SECONDS_PER_STEP = 0.01
_CHARACTERS_PER_TOKEN = 4

ALLOWED, REJECTED, UNANSWERED = "allowed", "rejected", "unanswered"


class Cancelled(Exception):
    """The client called the turn off."""


def _chunk(kind: str, message_id: str, text: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": kind, "content": content, "messageId": message_id}


def _speed() -> float:
    try:
        return max(0.0, float(os.environ.get("SILO_DEMO_SPEED", "1")))
    except ValueError:
        return 1.0


class Turn:
    """A turn in progress.

    Args:
        session: the conversation it belongs to.
        wire: where requests to the client go.
        terminal: how the client wants the output of commands: ``delta``, ``whole`` or ``text``.

    Attributes:
        cwd: the directory it works in.
    """

    def __init__(self, session: Session, wire: Wire, *, terminal: str) -> None:
        self.session = session
        self.terminal = terminal
        self.cwd = Path(session.cwd)
        self.called_off_by_id = False
        self._wire = wire
        self._speed = _speed()
        self._changed = threading.Condition()
        self._cancelled = False
        self._when_cancelled: list[Callable[[], None]] = []
        self._tokens = {"inputTokens": 0, "outputTokens": 0, "thoughtTokens": 0}

    # ---------------------------------------------------------------------- cancelling

    def cancel(self, *, by_id: bool = False) -> None:
        """Call the turn off, from any thread; `by_id`: with ``$/cancel_request``."""
        with self._changed:
            self._cancelled = True
            self.called_off_by_id = by_id
            self._changed.notify_all()
            hooks = list(self._when_cancelled)
        for hook in hooks:
            hook()

    def checkpoint(self) -> None:
        """Raise Cancelled when the turn was called off."""
        if self._cancelled:
            raise Cancelled

    @contextmanager
    def when_cancelled(self, hook: Callable[[], None]) -> Iterator[None]:
        """Have `hook` called at once when the turn is called off inside the block."""
        with self._changed:
            self.checkpoint()
            self._when_cancelled.append(hook)
        try:
            yield
        finally:
            with self._changed:
                self._when_cancelled.remove(hook)

    def pause(self, seconds: float) -> None:
        """Let a moment pass, at the pace that was set."""
        with self._changed:
            if self._speed:
                self._changed.wait_for(lambda: self._cancelled, seconds / self._speed)
            self.checkpoint()

    # ------------------------------------------------------------------------- talking

    def say(self, text: str) -> None:
        """Stream a paragraph, word by word; those without anything between are one message."""
        self._stream("agent_message_chunk", text)
        self._count("outputTokens", text)

    def think(self, thought: str, more: str = "") -> None:
        """Stream a thought, as far as the thinking level goes."""
        level = self.session.options.thinking
        if level == "off":
            return
        text = f"{thought} {more}".strip() if level == "long" else thought
        self._stream("agent_thought_chunk", text)
        self._count("thoughtTokens", text)

    def _stream(self, kind: str, text: str) -> None:
        last = self.session.sent_last
        if last.get("sessionUpdate") == kind:
            message_id, text = last["messageId"], f"\n\n{text}"
        else:
            message_id = f"{self.session.id}-m{self.session.number()}"
        said = ""
        try:
            for word in _WORDS.findall(text):
                self.checkpoint()
                self.session.send(_chunk(kind, message_id, word))
                said += word
                self.pause(_SECONDS_PER_WORD)
        finally:
            self.session.remember(_chunk(kind, message_id, said))

    def plan(self, steps: Sequence[str]) -> Iterator[str]:
        """Show a plan and yield each step when it begins; it is done when the next one does."""
        for current in range(len(steps) + 1):
            self._show_plan(steps, current)
            if current < len(steps):
                self.pause(_SECONDS_PER_STEP)
                yield steps[current]

    def _show_plan(self, steps: Sequence[str], current: int) -> None:
        def status(number: int) -> str:
            if number == current:
                return "in_progress"
            return "completed" if number < current else "pending"

        entries = [
            {"content": step, "priority": "medium", "status": status(number)}
            for number, step in enumerate(steps)
        ]
        self.session.tell({"sessionUpdate": "plan", "entries": entries})

    # -------------------------------------------------------------------------- asking

    def permission(self, tool: str, tool_call: Mapping[str, Any], always: str) -> str:
        """Ask whether a tool may be used, unless that is settled.

        Args:
            tool: what ``allow_always`` is remembered for.
            tool_call: the row it is about, as far as the client should see it with the question.
            always: label of the option that settles it for the session.

        Returns:
            ``allowed``, ``rejected`` or ``unanswered``.

        Raises:
            Cancelled: the turn was called off meanwhile.
        """
        if self.session.options.mode == "auto" or tool in self.session.allowed:
            return ALLOWED
        options = [
            {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "allow_always", "name": always, "kind": "allow_always"},
            {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
        ]
        chosen = self._chosen({"toolCall": tool_call, "options": options})
        if chosen == "allow_always":
            self.session.allowed.add(tool)
        if chosen is None:
            return UNANSWERED
        return ALLOWED if chosen in {"allow_once", "allow_always"} else REJECTED

    def _chosen(self, params: Mapping[str, Any]) -> str | None:
        """Ask for permission and return the id of the option, None when none was chosen."""
        replies: list[dict[str, Any]] = []

        def take(reply: dict[str, Any]) -> None:
            with self._changed:
                replies.append(reply)
                self._changed.notify_all()

        asked = {"sessionId": self.session.id, **params}
        request_id = self._wire.ask("session/request_permission", asked, take)
        with self._changed:
            self._changed.wait_for(lambda: replies or self._cancelled)
        if self._cancelled:
            self._wire.withdraw(request_id)
            raise Cancelled
        result = replies[0].get("result")
        outcome = result.get("outcome") if isinstance(result, dict) else None
        if isinstance(outcome, dict) and outcome.get("outcome") == "selected":
            return str(outcome.get("optionId"))
        return None

    # --------------------------------------------------------------------------- usage

    def count_input(self, text: str) -> None:
        """Count a text as something that was read."""
        self._count("inputTokens", text)

    def _count(self, what: str, text: str) -> None:
        self._tokens[what] += -(-len(text) // _CHARACTERS_PER_TOKEN)

    def report_usage(self) -> dict[str, int]:
        """Send the usage of the session, and return that of the turn: estimates, by length."""
        total = sum(self._tokens.values())
        self.session.tokens_used += total
        used = min(self.session.tokens_used, CONTEXT_SIZE)
        cost = {"amount": 0.0, "currency": "USD"}
        usage = {"sessionUpdate": "usage_update", "used": used, "size": CONTEXT_SIZE}
        self.session.send({**usage, "cost": cost})
        return {**self._tokens, "totalTokens": total}
