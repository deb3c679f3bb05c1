"""OpenAI Chat Completions: ``POST …/chat/completions``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .dialect import (
    ARGUMENT_PIECES,
    TOKENS_IN,
    TOKENS_OUT,
    Conversation,
    Entry,
    Json,
    Sse,
    Writer,
    cut,
    joined_text,
    new_id,
)
from .script import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = {
    "prompt_tokens": TOKENS_IN,
    "completion_tokens": TOKENS_OUT,
    "total_tokens": TOKENS_IN + TOKENS_OUT,
}


class ChatDialect:
    """Speaks to qwen."""

    name = "chat"

    def conversation(self, body: Json) -> Conversation:
        """Read a request."""
        entries = tuple(
            Entry("result" if m["role"] == "tool" else m["role"], joined_text(m.get("content")))
            for m in body.get("messages", [])
        )
        functions = [tool["function"] for tool in body.get("tools") or []]
        return Conversation(entries, {f["name"]: f.get("parameters") for f in functions})

    def writer(self, sse: Sse, body: Json, model: str) -> Writer:
        """Begin the answer to a request."""
        del body
        return _ChatWriter(sse, model)


class _ChatWriter(Writer):
    def __init__(self, sse: Sse, model: str) -> None:
        self._sse = sse
        self._head = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
        }
        self._calls = 0
        self._delta({"role": "assistant", "content": ""})

    def text(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            self._delta({"content": piece})

    def thought(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            self._delta({"reasoning_content": piece})

    def call(self, call: Call) -> None:
        index = self._calls
        self._calls += 1
        opening = {
            "index": index,
            "id": new_id("call_"),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        self._delta({"tool_calls": [opening]})
        for piece in cut(json.dumps(call.arguments), ARGUMENT_PIECES):
            self._delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def ping(self) -> None:
        self._sse.comment()

    def finish(self, *, called: bool) -> None:
        self._delta({}, finish_reason="tool_calls" if called else "stop")
        self._sse.event({**self._head, "choices": [], "usage": USAGE})
        self._sse.event("[DONE]")

    def _delta(self, delta: Json, finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        self._sse.event({**self._head, "choices": [choice]})
