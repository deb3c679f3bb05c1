"""Anthropic Messages: ``POST /v1/messages``."""

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
    as_told,
    cut,
    joined_text,
    new_id,
)
from .script import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT}
# Signatures of thoughts are opaque to clients; this one is base64, as they expect.
SIGNATURE = "c3R1Yg=="


class AnthropicDialect:
    """Speaks to claude."""

    name = "anthropic"

    def conversation(self, body: Json) -> Conversation:
        """Read a request."""
        entries: list[Entry] = []
        for message in body.get("messages", []):
            content = message.get("content")
            parts = content if isinstance(content, list) else []
            results = [part for part in parts if part.get("type") == "tool_result"]
            entries += [Entry("result", as_told(part.get("content"))) for part in results]
            text = joined_text(content)
            # Tool results and reminders share one message; only the rest is the user's.
            if text or not results:
                entries.append(Entry(message["role"], text))
        tools = {tool["name"]: tool.get("input_schema") for tool in body.get("tools") or []}
        wanted = (body.get("output_config") or {}).get("format") or {}
        properties = (wanted.get("schema") or {}).get("properties") or {}
        return Conversation(tuple(entries), tools, tuple(properties))

    def writer(self, sse: Sse, body: Json, model: str) -> Writer:
        """Begin the answer to a request."""
        del body
        return _AnthropicWriter(sse, model)


def _message(model: str, **fields: object) -> Json:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_sequence": None,
        **fields,
    }


class _AnthropicWriter(Writer):
    def __init__(self, sse: Sse, model: str) -> None:
        self._sse = sse
        self._blocks = 0
        self._send("message_start", message=_message(model, content=[], usage=USAGE))

    def text(self, pieces: Iterator[str]) -> None:
        self._open({"type": "text", "text": ""})
        for piece in pieces:
            self._delta({"type": "text_delta", "text": piece})
        self._close()

    def thought(self, pieces: Iterator[str]) -> None:
        self._open({"type": "thinking", "thinking": "", "signature": ""})
        for piece in pieces:
            self._delta({"type": "thinking_delta", "thinking": piece})
        self._delta({"type": "signature_delta", "signature": SIGNATURE})
        self._close()

    def call(self, call: Call) -> None:
        block = {"type": "tool_use", "id": new_id("toolu_"), "name": call.name, "input": {}}
        self._open(block)
        for piece in cut(json.dumps(call.arguments), ARGUMENT_PIECES):
            self._delta({"type": "input_json_delta", "partial_json": piece})
        self._close()

    def ping(self) -> None:
        self._send("ping")

    def finish(self, *, called: bool) -> None:
        stop = {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
        self._send("message_delta", delta=stop, usage=USAGE)
        self._send("message_stop")

    def _open(self, block: Json) -> None:
        self._send("content_block_start", index=self._blocks, content_block=block)

    def _delta(self, delta: Json) -> None:
        self._send("content_block_delta", index=self._blocks, delta=delta)

    def _close(self) -> None:
        self._send("content_block_stop", index=self._blocks)
        self._blocks += 1

    def _send(self, kind: str, **fields: object) -> None:
        self._sse.event({"type": kind, **fields}, name=kind)
