"""``%agent WORD``: looking at sessions and acting on them, outside of a turn."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from IPython.core.error import UsageError

from silo_nb.errors import NotYet
from silo_nb.ipython.options import did_you_mean
from silo_nb.ipython.outputs import say, show
from silo_nb.ipython.paths import short_path
from silo_nb.ipython.record import table_html
from silo_nb.ipython.sessions import session_book
from silo_nb.model.text import one_line
from silo_nb.profiles import load_profiles
from silo_nb.runtime import kernel_compat
from silo_nb.session import Session, manager

__all__ = ["run_command"]


def run_command(line: str) -> None:
    """Do what ``%agent`` was asked for.

    Raises:
        UsageError: there is no such command, or it takes something else.
        NotYet: it is planned, but not part of this version.
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if word in _LATER:
        raise NotYet(f"%agent {word} is not part of this version yet")
    if word not in _COMMANDS:
        known = (*_COMMANDS, *_LATER)
        what = f"%agent has no command {word!r}." if word else "%agent needs a command."
        raise UsageError(
            f"{what}{did_you_mean(word, known)} There are: {', '.join(_COMMANDS)}. "
            "To ask an agent something, write %%agent over a cell, or %ask and the question"
        )
    _COMMANDS[word](rest)


def _profiles(rest: str) -> None:
    _takes_nothing("profiles", rest)
    profiles = load_profiles()
    rows = [(p.id, p.label, shlex.join(p.command)) for p in profiles.values()]
    _show_table(("profile", "agent", "command"), rows)
    for problem in profiles.problems:
        say(f"! {problem}")


def _sessions(rest: str) -> None:
    _takes_nothing("sessions", rest)
    book = session_book()
    rows = []
    for live in manager.live_sessions():
        session = Session(live)
        path, problem = session.journal_path, session.journal_problem
        journal = short_path(path) if path else f"none: {problem}"
        rows.append((session.id, book.name_of(live), session.status, session.agent_name, journal))
    if rows:
        _show_table(("session", "name", "status", "agent", "journal"), rows)
    else:
        say("No session is open; %%agent opens one.")


def _cancel(rest: str) -> None:
    working = [session for session in _meant(rest) if session.status in ("working", "waiting")]
    for session in working:
        session.cancel()
        say(f"{session.id}: asked to stop")
    if not working:
        say("No turn is running.")


def _log(rest: str) -> None:
    for session in _meant(rest):
        say(f"{session.id}, {session.status}:")
        for said in session.log or ("nothing unusual",):
            say(f"  {one_line(said, 400)}")


def _nest(rest: str) -> None:
    _takes_nothing("nest", rest)
    kernel_compat.allow_nested_asyncio()
    say(
        "asyncio.run() now works in cells, until the kernel is restarted. "
        "ipykernel 7 may drop queued cells of a Run All from now on."
    )


def _meant(name: str) -> list[Session]:
    """Return the session of that name, or all of them."""
    if name:
        return [session_book().named(name).handle]
    return [Session(live) for live in manager.live_sessions()]


def _takes_nothing(word: str, rest: str) -> None:
    if rest:
        raise UsageError(f"%agent {word} takes nothing after it, not {rest!r}")


_COMMANDS: dict[str, Callable[[str], None]] = {
    "profiles": _profiles,
    "sessions": _sessions,
    "cancel": _cancel,
    "log": _log,
    "nest": _nest,
}
_WIDTH = 300
_LATER = ("use", "config", "resume", "clear", "export", "doctor")


def _show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    cells = [[one_line(cell, _WIDTH) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *cells)
    )
    show({"text/html": table_html(heads, cells), "text/plain": "\n".join(lines)}, once=True)
