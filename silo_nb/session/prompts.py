"""What may be given to ``prompt``, and what the wire makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from silo_nb.acp.blocks import parse_block, wire_block
from silo_nb.acp.framing import mend
from silo_nb.model import (
    AudioBlock,
    ContentBlock,
    EmbeddedResource,
    ImageBlock,
    PromptCapabilities,
    ResourceLink,
    TextBlock,
    UnknownBlock,
)

__all__ = ["Prompt", "wire_prompt"]

PromptPart = str | Path | ContentBlock | Mapping[str, Any]
Prompt = PromptPart | Iterable[PromptPart]
"""Text, a path to link to, a block, a block as the seeds spell it, or several of these."""


def wire_prompt(prompt: Prompt, capabilities: PromptCapabilities) -> list[dict[str, Any]]:
    """Return `prompt` as the wire spells it. Text stays literal: nothing is expanded; see R20.

    >>> wire_prompt("cost: $HOME {x}", PromptCapabilities())
    [{'type': 'text', 'text': 'cost: $HOME {x}'}]

    Raises:
        ValueError: the prompt is empty, or has content the agent does not take.
        TypeError: a part is of no known kind.
    """
    several = isinstance(prompt, Iterable) and not isinstance(prompt, str | Mapping)
    parts: Iterable[Any] = prompt if several else [prompt]  # type: ignore[assignment]
    blocks = [_block(part) for part in parts]
    if not any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks):
        raise ValueError("the prompt is empty; say what the agent should do")
    for block in blocks:
        _require(block, capabilities)
    # As it can be sent, so that record and transcript show what the agent was told.
    return [mend(wire_block(block)) for block in blocks]


def _block(part: Any) -> ContentBlock:
    match part:
        case str():
            return TextBlock(part)
        case Path():
            path = part.expanduser().absolute()
            return ResourceLink(uri=path.as_uri(), name=path.name)
        case TextBlock() | ImageBlock() | AudioBlock() | ResourceLink() | EmbeddedResource():
            return part
        case Mapping():
            block = parse_block(_nested(part))
            if block is not None and not isinstance(block, UnknownBlock):
                return block
            raise ValueError(
                f"a prompt block of type {part.get('type')!r} is incomplete or unknown; "
                "use text, image, audio, resource_link or resource"
            )
    raise TypeError(f"a prompt is made of str, Path and content blocks, not {type(part).__name__}")


def _nested(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Accept a resource in the seeds' flat form, ``{type, uri, text, mimeType}``."""
    if part.get("type") == "resource" and "resource" not in part:
        return {"type": "resource", "resource": part}
    return part


def _require(block: ContentBlock, capabilities: PromptCapabilities) -> None:
    needs = {
        ImageBlock: ("image", capabilities.image),
        AudioBlock: ("audio", capabilities.audio),
        EmbeddedResource: ("embedded context", capabilities.embedded_context),
    }
    what, accepted = needs.get(type(block), ("", True))
    if not accepted:
        hint = "; link to it with a Path instead" if what == "embedded context" else ""
        raise ValueError(f"this agent takes no {what} in a prompt{hint}")
