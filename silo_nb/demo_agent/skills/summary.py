"""``/summary``: reading files, and attachments, and saying what is in them."""

from __future__ import annotations

from pathlib import Path

from silo_nb.demo_agent.describe import describe
from silo_nb.demo_agent.folder import size_of
from silo_nb.demo_agent.prompt import Attachment, Prompt, listed
from silo_nb.demo_agent.skills.looking import (
    look_around,
    look_into,
    most_telling,
    named_files,
    relative,
)
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.turn import Turn

_MOST_FILES = 5


def _answer(turn: Turn, prompt: Prompt) -> None:
    paths, missing = named_files(turn, prompt)
    if missing:
        turn.think("A file is named that I do not find.")
        around = [f"`{entry.name}`" for entry in look_around(turn)[:_MOST_FILES]]
        names = listed([f"`{name}`" for name in missing])
        turn.say(f"There is no {names} here. There is {listed(around) or 'nothing at all'}.")
        return
    if not paths and not prompt.attachments:
        turn.think("No file is named, so I look for the most telling one.")
        telling = most_telling(look_around(turn))
        if telling is None:
            turn.say(f"I find nothing in `{turn.cwd.name}/` that I could summarise.")
            return
        paths = [telling]
    names = listed([path.name for path in paths[:_MOST_FILES]])
    turn.think(
        f"I read {names or 'what is attached'} and count what is in it.",
        "A program can count; understanding is for others.",
    )
    said = [_of_attachment(attachment) for attachment in prompt.attachments]
    said += [_of_file(turn, path) for path in paths[:_MOST_FILES]]
    for paragraph in said:
        turn.say(paragraph)
    if len(paths) > _MOST_FILES:
        turn.say(f"I left out {len(paths) - _MOST_FILES:,} more.")


def _of_file(turn: Turn, path: Path) -> str:
    said = look_into(turn, path)
    name = relative(turn, path)
    return f"**`{name}`**: {said}" if said else f"I could not read `{name}`."


def _of_attachment(attachment: Attachment) -> str:
    if attachment.text is not None:
        said, _ = describe(attachment.name, attachment.text)
        return f"Attached, **`{attachment.name}`**: {said}"
    size = f", {size_of(attachment.size)}" if attachment.size else ""
    return f"Attached: `{attachment.name}` ({attachment.kind}{size}), which I cannot look into."


SKILL = Skill(
    command="summary",
    about="Read a file and say what is in it",
    hint="file (the most telling one when left out)",
    words=r"\b(summar(y|ies|i[sz]e)|describe|read|open|look at|explain|analy[sz]e|columns?|mean"
    r"|average)\b",
    answer=_answer,
)
