"""What a skill is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.turn import Turn


class Skill(NamedTuple):
    """Something the demo agent can do.

    Attributes:
        command: its slash command, without the slash.
        about: what it does, in a few words.
        hint: what can follow the command, or nothing.
        words: a regular expression for what people say when they want it.
        answer: does it; all it says and does goes through the turn.
    """

    command: str
    about: str
    hint: str
    words: str
    answer: Callable[[Turn, Prompt], None]
