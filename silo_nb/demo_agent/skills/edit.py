"""``/edit``: a change of a file, shown as a diff and made after asking."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from silo_nb.demo_agent.describe import fenced
from silo_nb.demo_agent.folder import OutOfBounds, inside, read_text, write_text
from silo_nb.demo_agent.prompt import Prompt
from silo_nb.demo_agent.skills.looking import look_into, relative
from silo_nb.demo_agent.skills.skill import Skill
from silo_nb.demo_agent.tool_row import ToolRow, diff_content
from silo_nb.demo_agent.turn import ALLOWED, REJECTED, Turn
from silo_nb.demo_agent.wishes import Wish, wish_of


class Edit(NamedTuple):
    """A change, worked out and not made yet.

    Attributes:
        path: the file.
        old_text: what is in it; None when it does not exist.
        new_text: what will be in it.
    """

    path: Path
    old_text: str | None
    new_text: str


def _answer(turn: Turn, prompt: Prompt) -> None:
    wish = wish_of(prompt)
    turn.think(
        f"Something in {wish.file} is to be changed.",
        "I work out what it will look like, and ask before I write.",
    )
    try:
        edit = _work_out(turn, wish)
    except OutOfBounds as reason:
        turn.say(f"I change nothing: {reason}.")
        return
    if edit.new_text == edit.old_text:
        turn.say(f"`{relative(turn, edit.path)}` is like that already.")
    elif turn.session.options.mode == "plan":
        turn.say(_would_be(turn, edit))
    else:
        turn.say(_make(turn, edit))


def _work_out(turn: Turn, wish: Wish) -> Edit:
    """Work out what a file will look like.

    Raises:
        OutOfBounds: it cannot, or should not, be changed so; the message says why.
    """
    path = inside(turn.cwd, wish.file)
    if path.suffix == ".ipynb":
        raise OutOfBounds(f"`{wish.file}` is a notebook, and an open notebook would overwrite it")
    try:
        old = read_text(path) if path.exists() else None
    except OSError as error:
        raise OutOfBounds(f"`{wish.file}` cannot be read: {error.strerror}") from error
    return Edit(path, old, _new_text(turn, wish, old))


def _new_text(turn: Turn, wish: Wish, old: str | None) -> str:
    match wish.kind:
        case "replace":
            if old is None:
                raise OutOfBounds(f"there is no `{wish.file}`")
            if wish.old not in old:
                raise OutOfBounds(f"`{wish.old}` does not occur in `{wish.file}`")
            return old.replace(wish.old, wish.new)
        case "append" | "note":
            gap = "" if not old or old.endswith("\n") else "\n"
            return f"{old or ''}{gap}{wish.new}\n"
        case "summary":
            source = inside(turn.cwd, wish.old)
            said = look_into(turn, source) if source.is_file() else None
            if said is None:
                raise OutOfBounds(f"there is no `{wish.old}` that I can read")
            return f"# Summary of {wish.old}\n\n{said.rstrip()}\n"
        case _:
            return f"{wish.new}\n"


def _make(turn: Turn, edit: Edit) -> str:
    """Ask, make the change, and return what to say about it."""
    name = relative(turn, edit.path)
    verb = "Create" if edit.old_text is None else "Edit"
    with ToolRow(
        turn,
        kind="edit",
        name="edit_file",
        title=f"{verb} {name}",
        raw_input={"path": str(edit.path), "newText": edit.new_text},
        path=edit.path,
        content=[diff_content(edit.path, edit.old_text, edit.new_text)],
    ) as row:
        answer = row.permission("edit", "Always allow edits in this session")
        if answer != ALLOWED:
            row.update(status="failed", rawOutput={"changed": False})
            refused = "You said no" if answer == REJECTED else "Nobody answered"
            return f"{refused}, so `{name}` is as it was."
        row.begin()
        turn.checkpoint()
        reason = _write(edit)
        if reason:
            row.fail(reason)
            return f"I did not change `{name}`: {reason}."
        row.complete(raw_output={"changed": True, "characters": len(edit.new_text)})
    lines = len(edit.new_text.splitlines())
    return f"Done: `{name}` now has {lines:,} line{'' if lines == 1 else 's'}."


def _write(edit: Edit) -> str:
    """Make the change, unless the file is not what it was; return why not."""
    try:
        now = read_text(edit.path) if edit.path.exists() else None
        if now != edit.old_text:
            return "it was changed by somebody else meanwhile"
        write_text(edit.path, edit.new_text)
    except OutOfBounds as reason:
        return str(reason)
    except OSError as error:
        return f"it cannot be written: {error.strerror}"
    return ""


def _would_be(turn: Turn, edit: Edit) -> str:
    from difflib import unified_diff

    name = relative(turn, edit.path)
    lines = unified_diff(
        (edit.old_text or "").splitlines(),
        edit.new_text.splitlines(),
        fromfile=name if edit.old_text is not None else "/dev/null",
        tofile=name,
        lineterm="",
    )
    diff = fenced("\n".join(lines), "diff")
    return f"I would make this change\n\n{diff}\n\nbut the mode is “Plan only”."


SKILL = Skill(
    command="edit",
    about="Change a file, after asking",
    hint="file: old text => new text",
    words=r"\b(edit|change|replace|write|save|create|add|append|insert|fix|modify|update)\b",
    answer=_answer,
)
