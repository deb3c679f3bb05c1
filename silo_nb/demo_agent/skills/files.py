"""``/files``: what is in the directory."""

from __future__ import annotations

from silo_nb.demo_agent.folder import Entry
from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.skills.looking import look_around, most_telling, sized
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.table import markdown_table
from silo_nb.demo_agent.turn import Turn

_MOST_ROWS = 40


def _answer(turn: Turn, _: Prompt) -> None:
    turn.think(
        "I was asked about files, so I look into the directory.",
        "Hidden files and what tools made are left out.",
    )
    found = look_around(turn)
    if not found:
        turn.say(f"In `{turn.cwd.name}/` there is nothing yet, hidden files aside.")
        return
    turn.say(f"In `{turn.cwd.name}/` there is:\n\n{_table(found)}")
    telling = most_telling(found)
    if telling is not None and not turn.session.options.brief:
        turn.say(f"Ask me to summarise `{telling.name}` and I will read it.")


def _table(found: list[Entry]) -> str:
    rows = [[entry.name, sized(entry)] for entry in found[:_MOST_ROWS]]
    rest = len(found) - len(rows)
    table = markdown_table(["name", "size"], rows)
    return f"{table}\n\n… and {rest:,} more." if rest else table


SKILL = Skill(
    command="files",
    about="List the files of the directory",
    hint="",
    words=r"\b(what|which|list|show|any)\b.*\b(files?|folders?|director(y|ies))\b"
    r"|\bwhat('s| is) (in )?here\b",
    answer=_answer,
)
