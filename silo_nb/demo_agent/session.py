"""One conversation: where it is held, what was set and said, and keeping that on disk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import count
from typing import Any

from silo_nb.demo_agent.options import Options
from silo_nb.demo_agent.store import Store
from silo_nb.demo_agent.wire import Wire

Update = dict[str, Any]

CONTEXT_SIZE = 32_000
_TITLE_LENGTH = 60
# What is remembered for a later load; older entries go first.
_REMEMBERED = 500


def now() -> str:
    """Return the time, as the protocol writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Session:
    """A session and its wire.

    Args:
        session_id: its id.
        cwd: absolute path of the directory it works in.
        wire: where its updates go.
        options: what the user set.
        saved: what `Store` has of it, for a session of an earlier process.
    """

    def __init__(
        self,
        session_id: str,
        cwd: str,
        *,
        wire: Wire,
        options: Options,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        saved = saved or {}
        self.id = session_id
        self.cwd = cwd
        self.options = options
        self.title: str | None = saved.get("title")
        self.updated_at: str = saved.get("updatedAt") or now()
        # Tools the user allowed for the rest of the session.
        self.allowed: set[str] = set(saved.get("allowed", ()))
        self.tokens_used: int = saved.get("tokensUsed", 0)
        # The update that went out last: a message goes on while nothing came between.
        self.sent_last: Update = {}
        self._wire = wire
        self._history: list[Update] = list(saved.get("history", ()))
        self._numbers = count(int(saved.get("numbered", 0)) + 1)
        self._numbered = int(saved.get("numbered", 0))

    def number(self) -> int:
        """Return a number that was not used in this session, for ids of messages and tool calls."""
        self._numbered = next(self._numbers)
        return self._numbered

    # ------------------------------------------------------------------------- updates

    def send(self, update: Update) -> None:
        """Send an update that is about now."""
        self.sent_last = update
        self._wire.notify("session/update", {"sessionId": self.id, "update": update})

    def tell(self, update: Update) -> None:
        """Send an update that belongs to the conversation."""
        self.send(update)
        self.remember(update)

    def remember(self, update: Update) -> None:
        """Note an update for a later load: what was sent in parts is kept as it ended."""
        kind = update["sessionUpdate"]
        if kind == "tool_call_update":
            self._patch(update)
        elif self._goes_on(update):
            text = self._history[-1]["content"]["text"] + update["content"]["text"]
            self._history[-1] = {**update, "content": {"type": "text", "text": text}}
        elif kind == "plan" and self._last_kind() == "plan":
            self._history[-1] = update
        else:
            self._history.append(dict(update))
        del self._history[:-_REMEMBERED]

    def replay(self) -> None:
        """Send the conversation so far again."""
        for update in self._history:
            self.send(update)

    def _goes_on(self, update: Update) -> bool:
        message_id = update.get("messageId")
        last = self._history[-1] if self._history else {}
        return message_id is not None and message_id == last.get("messageId")

    def _last_kind(self) -> str | None:
        return self._history[-1]["sessionUpdate"] if self._history else None

    def _patch(self, update: Update) -> None:
        for entry in reversed(self._history):
            if entry.get("toolCallId") == update["toolCallId"]:
                meta = _joined(entry.get("_meta", {}), update.get("_meta", {}))
                entry.update({k: v for k, v in update.items() if k != "sessionUpdate"})
                entry.update({"_meta": meta} if meta else {})
                return

    # --------------------------------------------------------------------------- facts

    def begin_turn(self, text: str) -> None:
        """Take the time, and the title from the first prompt."""
        self.updated_at = now()
        if self.title is None and (line := " ".join(text.split())):
            self.title = line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"
            info = {"title": self.title, "updatedAt": self.updated_at}
            self.send({"sessionUpdate": "session_info_update", **info})

    def summary(self) -> dict[str, Any]:
        """Return its row in session/list."""
        return {
            "sessionId": self.id,
            "cwd": self.cwd,
            "title": self.title,
            "updatedAt": self.updated_at,
        }

    def save(self, store: Store) -> None:
        """Keep it for a later process."""
        store.save(
            self.id,
            {
                **self.summary(),
                "options": self.options.values,
                "allowed": sorted(self.allowed),
                "tokensUsed": self.tokens_used,
                "numbered": self._numbered,
                "history": self._history,
            },
        )


def _joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the vendor data of a tool call; what a terminal printed is strung together."""
    key = "terminal_output_delta"
    joined = {**old, **new}
    if key in old and key in new:
        joined[key] = {**new[key], "data": old[key]["data"] + new[key]["data"]}
    return joined
