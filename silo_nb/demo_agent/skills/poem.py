"""``/poem``: a long answer, for watching it stream."""

from __future__ import annotations

import re

from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.turn import Turn

_LINES = 24
_MOST_LINES = 10_000
_LINES_PER_STANZA = 4

_WHO = ("The kernel", "A notebook", "Some agent", "The cursor", "My cell")
_DOES = ("waits for", "streams out", "counts up", "remembers", "forgives", "interrupts")
_WHAT = (
    "a prompt",
    "one more chunk",
    "the journal",
    "every token",
    "its own plan",
    "a comma",
    "us",
)
_HOW = ("at dawn", "in order", "without a model", "again")


def _answer(turn: Turn, prompt: Prompt) -> None:
    wanted = re.search(r"\d+", prompt.text)
    lines = min(int(wanted[0]), _MOST_LINES) if wanted else _LINES
    turn.think(f"A poem of {lines:,} lines, made by counting through lists of words.")
    turn.say(_poem(lines))


def _poem(lines: int) -> str:
    """Make a poem. The lists have lengths without a common factor, so it repeats itself late."""
    poem = []
    for number in range(lines):
        words = (some[number % len(some)] for some in (_WHO, _DOES, _WHAT, _HOW))
        ends = number % 2 == 1 or number == lines - 1
        poem.append(" ".join(words) + ("." if ends else ","))
    stanzas = (
        "  \n".join(poem[start : start + _LINES_PER_STANZA])
        for start in range(0, lines, _LINES_PER_STANZA)
    )
    return "\n\n".join(stanzas)


SKILL = Skill(
    command="poem",
    about="Stream a long answer",
    hint="number of lines",
    words=r"\bpoems?\b|\bpoetry\b|\blong (answer|stream|text)\b",
    answer=_answer,
)
