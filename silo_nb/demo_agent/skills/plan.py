"""``/plan``: a small piece of work in steps, with a plan that is kept up to date."""

from __future__ import annotations

from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.skills.looking import look_around, look_into, most_telling, relative
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.turn import Turn

_LOOK, _READ, _REPORT = _STEPS = (
    "List the files of the directory",
    "Read the most telling one",
    "Report what was found",
)


def _answer(turn: Turn, _: Prompt) -> None:
    turn.think(
        "Three steps will do: look around, read one file, report.",
        "Each is small, but the plan shows where I am.",
    )
    findings = ""
    telling = None
    for step in turn.plan(_STEPS):
        if step == _LOOK:
            found = look_around(turn)
            telling = most_telling(found)
            findings = f"I found {len(found):,} entries in `{turn.cwd.name}/`. "
        elif step == _READ and telling is not None:
            said = look_into(turn, telling)
            findings += f"The most telling one is **`{relative(turn, telling)}`**: {said}"
        elif step == _REPORT:
            nothing = "None of them is something I can read."
            turn.say(findings if telling is not None else findings + nothing)


SKILL = Skill(
    command="plan",
    about="Survey the directory in steps, with a plan",
    hint="",
    words=r"\b(a|the|your) plan\b(?!\.\w)|^\s*plan\b|\bstep by step\b|\bsurvey\b",
    answer=_answer,
)
