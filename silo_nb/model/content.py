"""Content blocks: what messages, prompts and tool calls carry.

Source: Agent Client Protocol v1, "Content". A kind this version does not know stays available as
an :class:`UnknownBlock` with everything the agent sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

__all__ = [
    "AudioBlock",
    "ContentBlock",
    "DiffContent",
    "EmbeddedResource",
    "ImageBlock",
    "Location",
    "ResourceLink",
    "TerminalContent",
    "TextBlock",
    "ToolContent",
    "UnknownBlock",
    "block_text",
]


class TextBlock(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Plain or markdown text, literal: nothing in it is expanded."""

    text: str


class ImageBlock(Struct, frozen=True, repr_omit_defaults=True):
    """An image: base64 `data` of the type `mime_type`."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioBlock(Struct, frozen=True, repr_omit_defaults=True):
    """A sound: base64 `data` of the type `mime_type`."""

    data: str
    mime_type: str


class ResourceLink(Struct, frozen=True, repr_omit_defaults=True):
    """A pointer to something the agent may read itself; `size` in bytes."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class EmbeddedResource(Struct, frozen=True, repr_omit_defaults=True):
    """The content of a resource: `text`, or base64 `blob`."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class UnknownBlock(Struct, frozen=True, repr_omit_defaults=True):
    """A block of a `type` this version does not know, as the agent sent it."""

    type: str
    raw: Mapping[str, Any] = field(default_factory=dict)


ContentBlock = TextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource | UnknownBlock


class DiffContent(Struct, frozen=True, repr_omit_defaults=True):
    """A change to one file; `old_text` is None when the agent says the file is new."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalContent(Struct, frozen=True, repr_omit_defaults=True):
    """A pointer to a terminal whose text is the row's own `output`."""

    terminal_id: str


ToolContent = ContentBlock | DiffContent | TerminalContent


class Location(Struct, frozen=True, repr_omit_defaults=True):
    """A place in a file that a tool call touches; `line` counts from 1."""

    path: str
    line: int | None = None


def block_text(block: ToolContent) -> str:
    """Return what `block` says in words: its text, or what stands there instead.

    >>> block_text(ImageBlock(data="", mime_type="image/png"))
    '[image/png image]'
    """
    match block:
        case TextBlock(text):
            words = text
        case ImageBlock(mime_type=mime_type):
            words = f"[{mime_type} image]"
        case AudioBlock(mime_type=mime_type):
            words = f"[{mime_type} audio]"
        case ResourceLink(uri=uri, name=name):
            words = f"[{name or uri}]({uri})"
        case EmbeddedResource(uri=uri, text=embedded):
            words = f"[{uri}]" if embedded is None else embedded
        case DiffContent(path=path):
            words = f"[change to {path}]"
        case TerminalContent():
            words = ""
        case UnknownBlock(type=kind):
            words = f"[{kind or 'unknown'} block]"
    return words
