"""Gemini: ``POST …/models/<model>:streamGenerateContent`` and ``:generateContent``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .dialect import (
    TOKENS_IN,
    TOKENS_OUT,
    Conversation,
    Entry,
    Json,
    Sse,
    Writer,
    as_told,
    joined_text,
    new_id,
)
from .script import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = {
    "promptTokenCount": TOKENS_IN,
    "candidatesTokenCount": TOKENS_OUT,
    "totalTokenCount": TOKENS_IN + TOKENS_OUT,
}
# Before each turn gemini-cli has a small model pick the one to use, and wants JSON from it.
CHOICE_OF_MODEL = json.dumps(
    {"complexity_score": 1, "complexity_reasoning": "stub", "reasoning": "stub"}
    | {"model_choice": "flash", "next_speaker": "user"}
)


class GeminiDialect:
    """Speaks to gemini."""

    name = "gemini"

    def conversation(self, body: Json) -> Conversation:
        """Read a request."""
        entries: list[Entry] = []
        for message in body.get("contents", []):
            parts = message.get("parts", [])
            results = [part["functionResponse"] for part in parts if "functionResponse" in part]
            entries += [Entry("result", as_told(result.get("response"))) for result in results]
            role = "assistant" if message.get("role") == "model" else "user"
            text = joined_text(parts)
            if text or not results:
                entries.append(Entry(role, text))
        tools = {
            function["name"]: function.get("parametersJsonSchema") or function.get("parameters")
            for tool in body.get("tools") or []
            for function in tool.get("functionDeclarations", [])
        }
        return Conversation(tuple(entries), tools)

    def writer(self, sse: Sse, body: Json, model: str) -> Writer:
        """Begin the answer to a request."""
        del body
        return _GeminiWriter(sse, model)


def choice_of_model(model: str) -> Json:
    """Return the answer to ``:generateContent``, which gemini asks before each turn."""
    return _response(model, {"text": CHOICE_OF_MODEL}, "STOP")


def _response(model: str, part: Json, finish_reason: str | None = None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if finish_reason:
        candidate["finishReason"] = finish_reason
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": model}


class _GeminiWriter(Writer):
    def __init__(self, sse: Sse, model: str) -> None:
        self._sse = sse
        self._model = model

    def text(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            self._send({"text": piece})

    def thought(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            self._send({"text": piece, "thought": True})

    def call(self, call: Call) -> None:
        function = {"id": new_id("call_"), "name": call.name, "args": call.arguments}
        self._send({"functionCall": function})

    def ping(self) -> None:
        self._sse.comment()

    def finish(self, *, called: bool) -> None:
        del called
        self._send({"text": ""}, "STOP")

    def _send(self, part: Json, finish_reason: str | None = None) -> None:
        self._sse.event(_response(self._model, part, finish_reason))
