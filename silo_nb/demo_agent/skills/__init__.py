"""What the demo agent can do: one module a group, each with the words it listens to."""

from __future__ import annotations

import re

from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.skills import edit, files, help_, plan, poem, run, summary
from silo_nb.demo_agent.skills.skill import Skill

SKILLS: tuple[Skill, ...] = (
    help_.SKILL,
    files.SKILL,
    summary.SKILL,
    edit.SKILL,
    run.SKILL,
    plan.SKILL,
    poem.SKILL,
)
# The first whose words are in a prompt answers it: "write a poem" is no edit, "write a summary" is.
_LISTENING = (
    poem.SKILL,
    plan.SKILL,
    edit.SKILL,
    run.SKILL,
    files.SKILL,
    summary.SKILL,
    help_.SKILL,
)


def choose(prompt: Prompt) -> tuple[Skill, Prompt]:
    """Return who answers a prompt, and the prompt as that skill should read it.

    >>> choose(Prompt("/run ls -l"))[0].command, choose(Prompt("/run ls -l"))[1].text
    ('run', 'ls -l')
    >>> choose(Prompt("Which files are there?"))[0].command
    'files'
    >>> choose(Prompt("Good morning"))[0].command
    'help'
    """
    if prompt.command is not None:
        command, rest = prompt.command
        for skill in SKILLS:
            if skill.command == command:
                return skill, prompt._replace(text=rest)
        return help_.unknown_command(command), prompt
    if prompt.attachments and not prompt.text.strip():
        return summary.SKILL, prompt
    for skill in _LISTENING:
        if re.search(skill.words, prompt.text, re.IGNORECASE):
            return skill, prompt
    return help_.DEFAULT, prompt


def commands() -> list[dict[str, object]]:
    """Return the slash commands, as available_commands_update lists them."""
    return [
        {
            "name": skill.command,
            "description": skill.about,
            "input": {"hint": skill.hint} if skill.hint else None,
        }
        for skill in SKILLS
    ]
