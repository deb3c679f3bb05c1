"""A program that runs one turn and allows everything: stands in for a kernel that gets killed.

Usage: ``python long_turn.py PROFILE DIRECTORY PROMPT``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import silo_nb

if TYPE_CHECKING:
    from silo_nb import PermissionRequest


def allow(ask: PermissionRequest) -> None:
    """Choose the first option that allows this one call."""
    ask.respond(next(o.option_id for o in ask.options if o.kind == "allow_once"))


async def run(profile: str, directory: str, prompt: str) -> None:
    """Run the turn."""
    async with await silo_nb.connect(profile, cwd=directory) as session:
        session.on_permission(allow)
        await session.prompt(prompt)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
