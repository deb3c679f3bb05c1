"""Putting an agent's permission request to the person at the cell, with ``input()``."""

from __future__ import annotations

from IPython.core.error import StdinNotImplementedError

from silo_nb.ipython.outputs import say, show
from silo_nb.ipython.record import (
    answer_words,
    answered_html,
    details_plain,
    question_html,
    tool_row,
)
from silo_nb.model import PermissionOption
from silo_nb.model.text import one_line
from silo_nb.session import PermissionRequest

__all__ = ["ask_person"]


def ask_person(ask: PermissionRequest, *, agent: str, cwd: str, updates: bool) -> None:
    """Show what the agent wants to do, in full, and give it the answer. Blocks the main thread.

    Somebody else may settle the request meanwhile; the answer then counts for nothing, and the
    person is told.

    Args:
        ask: the request.
        agent: who asks.
        cwd: the directory it works in.
        updates: whether the front end can replace the request by its outcome.

    Raises:
        KeyboardInterrupt: the person interrupted.
    """
    row = tool_row(ask.tool_call, cwd, details="all")
    options = [one_line(option.name) for option in ask.options]
    lines = [
        f"{one_line(agent)} asks for your permission: {row.title}",
        *details_plain(row.details),
        *(f"  {number}. {name}" for number, name in enumerate(options, start=1)),
    ]
    html = question_html(one_line(agent), row, options)
    bundle = {"text/html": html, "text/plain": "\n".join(lines)}
    shown = show(bundle)
    _take_answer(ask)
    outcome = answer_words(ask.permission)
    if updates:
        plain = f"{row.title}: {outcome}"
        shown.replace({"text/html": answered_html(row, outcome), "text/plain": plain})


def _take_answer(ask: PermissionRequest) -> None:
    count = len(ask.options)
    while not ask.answered:
        try:
            said = input(f"Answer [1-{count}]: ")
        except (EOFError, StdinNotImplementedError):
            ask.cancel(by="no-answer")
            return
        option = _chosen(said, ask.options)
        if option is not None and ask.respond(option.option_id, by="stdin"):
            return
        if option is None:
            say(f"Type a number from 1 to {count}. Interrupting stops the turn.")
    say("Too late: the request was settled before you answered.")


def _chosen(said: str, options: tuple[PermissionOption, ...]) -> PermissionOption | None:
    """Return the option of that number or name."""
    said = said.strip().casefold()
    for number, option in enumerate(options, start=1):
        if said and said in (str(number), option.name.strip().casefold()):
            return option
    return None
