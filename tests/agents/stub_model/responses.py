"""OpenAI Responses: ``POST …/responses``."""

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
    from collections.abc import Iterator, Sequence

    from .tools import Schema

USAGE = {
    "input_tokens": TOKENS_IN,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": TOKENS_OUT,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": TOKENS_IN + TOKENS_OUT,
}


class ResponsesDialect:
    """Speaks to codex."""

    name = "responses"

    def conversation(self, body: Json) -> Conversation:
        """Read a request."""
        items = [_entry(item) for item in body.get("input", [])]
        tools = dict(_tool(tool) for tool in body.get("tools") or [])
        return Conversation(tuple(item for item in items if item), tools)

    def writer(self, sse: Sse, body: Json, model: str) -> Writer:
        """Begin the answer to a request."""
        del body
        return _ResponsesWriter(sse, model)


def _entry(item: Json) -> Entry | None:
    kind = item.get("type", "message")
    if kind.endswith("_output"):
        return Entry("result", as_told(item.get("output")))
    if kind == "message":
        return Entry(item["role"], joined_text(item.get("content")))
    return Entry("assistant", "") if kind.endswith("_call") else None


def _tool(tool: Json) -> tuple[str, Schema | None]:
    if tool.get("type") == "custom":
        return tool["name"], None
    return tool.get("name") or tool["type"], tool.get("parameters") or {}


def _message(identifier: str, text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": identifier,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _response(identifier: str, model: str, status: str, output: Sequence[Json]) -> Json:
    return {
        "id": identifier,
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": model,
        "output": list(output),
        "usage": USAGE,
        "error": None,
        "incomplete_details": None,
    }


class _ResponsesWriter(Writer):
    """Each block is an output item: added, filled by deltas, done."""

    def __init__(self, sse: Sse, model: str) -> None:
        self._sse = sse
        self._model = model
        self._id = new_id("resp_")
        self._events = 0
        self._output: list[Json] = []
        self._send("response.created", response=self._response("in_progress"))

    def text(self, pieces: Iterator[str]) -> None:
        message = _message(new_id("msg_"), "")
        part = {"type": "output_text", "text": "", "annotations": []}
        at = {"item_id": message["id"], "output_index": len(self._output), "content_index": 0}
        self._added({**message, "status": "in_progress", "content": []})
        self._send("response.content_part.added", part=part, **at)
        text = self._deltas("response.output_text.delta", pieces, at)
        self._send("response.output_text.done", text=text, **at)
        self._send("response.content_part.done", part={**part, "text": text}, **at)
        self._done(_message(message["id"], text))

    def thought(self, pieces: Iterator[str]) -> None:
        item = {"id": new_id("rs_"), "type": "reasoning", "summary": []}
        at = {"item_id": item["id"], "output_index": len(self._output), "summary_index": 0}
        part = {"type": "summary_text", "text": ""}
        self._added(item)
        self._send("response.reasoning_summary_part.added", part=part, **at)
        text = self._deltas("response.reasoning_summary_text.delta", pieces, at)
        part = {**part, "text": text}
        self._send("response.reasoning_summary_text.done", text=text, **at)
        self._send("response.reasoning_summary_part.done", part=part, **at)
        self._done({**item, "summary": [part]})

    def call(self, call: Call) -> None:
        # A tool that takes free text instead of JSON has events and a field of its own.
        if isinstance(call.arguments, str):
            kind, event, name = "custom_tool_call", "custom_tool_call_input", "input"
            content = call.arguments
        else:
            kind, event, name = "function_call", "function_call_arguments", "arguments"
            content = json.dumps(call.arguments)
        item = {"id": new_id("fc_"), "type": kind, "call_id": new_id("call_"), "name": call.name}
        at = {"item_id": item["id"], "output_index": len(self._output)}
        self._added({**item, name: "", "status": "in_progress"})
        self._deltas(f"response.{event}.delta", cut(content, ARGUMENT_PIECES), at)
        self._send(f"response.{event}.done", **{name: content}, **at)
        self._done({**item, name: content, "status": "completed"})

    def ping(self) -> None:
        self._sse.comment()

    def finish(self, *, called: bool) -> None:
        del called
        self._send("response.completed", response=self._response("completed"))

    def _response(self, status: str) -> Json:
        return _response(self._id, self._model, status, self._output)

    def _added(self, item: Json) -> None:
        self._send("response.output_item.added", output_index=len(self._output), item=item)

    def _deltas(self, event: str, pieces: Iterator[str], at: Json) -> str:
        sent: list[str] = []
        for piece in pieces:
            sent.append(piece)
            self._send(event, delta=piece, **at)
        return "".join(sent)

    def _done(self, item: Json) -> None:
        self._send("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)

    def _send(self, kind: str, **fields: object) -> None:
        self._events += 1
        self._sse.event({"type": kind, "sequence_number": self._events, **fields}, name=kind)
