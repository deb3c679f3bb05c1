"""``/help``, and the answer to everything nobody else answers."""

from __future__ import annotations

from silo_nb.demo_agent.folder import Entry
from silo_nb.demo_agent.prompt import Prompt, listed
from silo_nb.demo_agent.skills.looking import look_around, look_into, most_telling
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.turn import Turn

_WHO_I_AM = (
    "I am **silo_nb's demo agent**: a program without a language model. I do not understand what "
    "you write, I listen for a few words. What I then do is real: I read the files of this "
    "directory, and I edit one or run a command after asking you."
)


def _answer(turn: Turn, _: Prompt) -> None:
    turn.say(_WHO_I_AM)
    turn.say(_suggestions(None))


def _default(turn: Turn, _: Prompt) -> None:
    turn.think(
        "Nothing in this prompt is a word I listen for.",
        "So I say what I can do, and have a look around meanwhile.",
    )
    found = look_around(turn)
    telling = most_telling(found)
    said = look_into(turn, telling) if telling is not None else None
    if not turn.session.options.brief:
        turn.say(_WHO_I_AM)
    turn.say(f"In `{turn.cwd.name}/` I see {_counted(found)}.")
    if telling is not None and said is not None:
        turn.say(f"I had a look at **`{telling.name}`**: {said}")
    if not turn.session.options.brief:
        turn.say(_suggestions(telling.name if telling is not None else None))


def _counted(found: list[Entry]) -> str:
    folders = sum(entry.is_directory for entry in found)
    files = len(found) - folders
    parts = [
        f"{number:,} {word}{'' if number == 1 else 's'}"
        for number, word in ((files, "file"), (folders, "folder"))
        if number
    ]
    return listed(parts) or "nothing yet"


def _suggestions(name: str | None) -> str:
    file = name or "measurements.csv"
    return (
        "Try one of these:\n\n"
        "- `What files are here?`\n"
        f"- `Summarise {file}`\n"
        f"- `Write a summary of {file} to summary.md`, or `Replace this with that in notes.md`\n"
        "- `Run ls -l`\n"
        "- `Make a plan`, to see one worked off\n"
        "- `Write a poem`, to see a long answer stream\n\n"
        "The slash commands `/files`, `/summary`, `/edit`, `/run`, `/plan` and `/poem` do the same."
    )


def unknown_command(command: str) -> Skill:
    """Return who answers a slash command there is not."""

    def answer(turn: Turn, _: Prompt) -> None:
        turn.say(f"There is no command `/{command}`. {_suggestions(None)}")

    return SKILL._replace(answer=answer)


SKILL = Skill(
    command="help",
    about="Say what this agent can do",
    hint="",
    words=r"\bhelp\b|\bwhat can you do\b|\bwho are you\b",
    answer=_answer,
)
DEFAULT = SKILL._replace(answer=_default)
