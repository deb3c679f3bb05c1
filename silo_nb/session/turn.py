"""One turn: from a prompt to the response that ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from silo_nb.model import Message, PlanEntry, ToolCall, Transcript, Update, Usage
from silo_nb.model.update_log import UpdateLog

__all__ = ["PromptResult", "RunningTurn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResult:
    """How a turn went.

    Attributes:
        stop_reason: the agent's own word: ``end_turn``, ``cancelled``, ``max_tokens``, ``refusal``,
            ``max_turn_requests`` or a vendor's; ``unknown`` when it gave none.
        text: what the agent said, without its thoughts; separate messages stand apart by a blank
            line.
        updates: everything that happened, in order.
        tool_calls: the rows this turn opened.
        plan: the agent's plan at the end.
        usage: context and cost as last reported, None when the agent never does.
        tokens: token counts the agent gave with its response, in its own words.
        elapsed: seconds from prompt to end.
        cancel_requested: whether we asked the agent to stop; some answer ``end_turn`` all the same.
    """

    stop_reason: str
    text: str
    updates: Sequence[Update] = field(repr=False)
    tool_calls: tuple[ToolCall, ...] = field(repr=False)
    plan: tuple[PlanEntry, ...] = field(repr=False)
    usage: Usage | None
    tokens: Mapping[str, Any] | None
    elapsed: float
    cancel_requested: bool

    def __str__(self) -> str:
        return self.text


class RunningTurn:
    """A turn that has begun; lives on the agent thread."""

    def __init__(self, number: int, first_entry: int) -> None:
        self.number = number
        self.first_entry = first_entry
        self.updates = UpdateLog()
        self.cancel_requested = False
        self.sent = False
        """Whether the agent has the prompt; a turn cancelled before that never reaches it."""
        self.ended: asyncio.Future[PromptResult] = asyncio.get_running_loop().create_future()
        """Gets how the turn went; fails when it could not be completed."""
        self.grace: asyncio.TimerHandle | None = None
        self._started = time.monotonic()

    def result(
        self, stop_reason: str, transcript: Transcript, tokens: Mapping[str, Any] | None
    ) -> PromptResult:
        """Return how the turn went, with `transcript` as it stands at its end."""
        entries = transcript.entries[self.first_entry :]
        said = (e for e in entries if isinstance(e, Message) and e.role == "agent")
        return PromptResult(
            stop_reason=stop_reason,
            text="\n\n".join(_messages(said)),
            updates=self.updates,
            tool_calls=tuple(e for e in entries if isinstance(e, ToolCall)),
            plan=transcript.plan,
            usage=transcript.usage,
            tokens=tokens,
            elapsed=time.monotonic() - self._started,
            cancel_requested=self.cancel_requested,
        )


def _messages(said: Iterable[Message]) -> Iterator[str]:
    """Yield what was said, one text a message.

    claude-agent-acp 0.101 now and then shows a tool row in the middle of the message before it.
    """
    for _, parts in groupby(said, key=lambda part: part.message_id):
        yield "".join(part.text for part in parts)
