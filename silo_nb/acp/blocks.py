"""Content blocks between the wire's spelling and the model's, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from silo_nb.acp.fields import count, mapping, string
from silo_nb.model import (
    AudioBlock,
    ContentBlock,
    DiffContent,
    EmbeddedResource,
    ImageBlock,
    ResourceLink,
    TerminalContent,
    TextBlock,
    ToolContent,
    UnknownBlock,
)

__all__ = ["parse_block", "parse_tool_content", "wire_block", "wire_tool_content"]


def parse_block(raw: Any) -> ContentBlock | None:
    """Return the content block `raw` describes; None when it is no object at all."""
    if not isinstance(raw, Mapping):
        return None
    kind = string(raw, "type") or ""
    parse = _BLOCKS.get(kind)
    block = None if parse is None else parse(raw)
    return UnknownBlock(kind, raw) if block is None else block


def _text(raw: Mapping[str, Any]) -> TextBlock | None:
    text = string(raw, "text")
    return None if text is None else TextBlock(text)


def _image(raw: Mapping[str, Any]) -> ImageBlock:
    mime_type = string(raw, "mimeType") or "image"
    return ImageBlock(string(raw, "data") or "", mime_type, string(raw, "uri"))


def _audio(raw: Mapping[str, Any]) -> AudioBlock:
    return AudioBlock(string(raw, "data") or "", string(raw, "mimeType") or "audio")


def _resource_link(raw: Mapping[str, Any]) -> ResourceLink | None:
    uri = string(raw, "uri")
    if uri is None:
        return None
    return ResourceLink(
        uri=uri,
        name=string(raw, "name") or _basename(uri),
        title=string(raw, "title"),
        description=string(raw, "description"),
        mime_type=string(raw, "mimeType"),
        size=count(raw, "size"),
    )


def _resource(raw: Mapping[str, Any]) -> EmbeddedResource | None:
    inner = mapping(raw, "resource")
    uri = string(inner, "uri")
    if uri is None:
        return None
    text, blob = string(inner, "text"), string(inner, "blob")
    return EmbeddedResource(uri, text, blob, string(inner, "mimeType"))


_BLOCKS: dict[str, Callable[[Mapping[str, Any]], ContentBlock | None]] = {
    "text": _text,
    "image": _image,
    "audio": _audio,
    "resource_link": _resource_link,
    "resource": _resource,
}


def parse_tool_content(raw: Any) -> ToolContent | None:
    """Return what one item of a tool call's content shows; None when it is no object."""
    if not isinstance(raw, Mapping):
        return None
    match string(raw, "type"):
        case "content":
            return parse_block(raw.get("content")) or UnknownBlock("content", raw)
        case "diff" if isinstance(raw.get("path"), str):
            return DiffContent(raw["path"], string(raw, "newText") or "", string(raw, "oldText"))
        case "terminal" if isinstance(raw.get("terminalId"), str):
            return TerminalContent(raw["terminalId"])
        case kind:
            return UnknownBlock(kind or "", raw)


def wire_block(block: ContentBlock) -> dict[str, Any]:
    """Return `block` as the wire spells it.

    >>> wire_block(ResourceLink(uri="file:///data/my%20table.csv"))
    {'type': 'resource_link', 'uri': 'file:///data/my%20table.csv', 'name': 'my table.csv'}
    """
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ImageBlock(data, mime_type, uri):
            return _present(type="image", data=data, mimeType=mime_type, uri=uri)
        case AudioBlock(data, mime_type):
            return {"type": "audio", "data": data, "mimeType": mime_type}
        case ResourceLink():
            return _present(
                type="resource_link",
                uri=block.uri,
                name=block.name or _basename(block.uri),
                title=block.title,
                description=block.description,
                mimeType=block.mime_type,
                size=block.size,
            )
        case EmbeddedResource():
            inner = _present(
                uri=block.uri, text=block.text, blob=block.blob, mimeType=block.mime_type
            )
            return {"type": "resource", "resource": inner}
        case UnknownBlock(raw=raw):
            return dict(raw)


def wire_tool_content(content: ToolContent) -> dict[str, Any]:
    """Return one item of a tool call's content as the wire spells it.

    >>> wire_tool_content(TextBlock("done"))
    {'type': 'content', 'content': {'type': 'text', 'text': 'done'}}
    """
    match content:
        case DiffContent(path, new_text, old_text):
            return {"type": "diff", "path": path, "newText": new_text, "oldText": old_text}
        case TerminalContent(terminal_id):
            return {"type": "terminal", "terminalId": terminal_id}
        case UnknownBlock(raw=raw):
            return dict(raw)
        case block:
            return {"type": "content", "content": wire_block(block)}


def _present(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _basename(uri: str) -> str:
    return unquote(PurePosixPath(urlsplit(uri).path).name) or uri
