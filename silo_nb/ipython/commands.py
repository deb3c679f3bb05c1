"""``%agent WORD``: looking at agents and sessions and acting on them, outside of a turn."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.errors import NotYet
from silo_nb.ipython.clearing import clear_command
from silo_nb.ipython.config import config_command
from silo_nb.ipython.export import export_command
from silo_nb.ipython.options import did_you_mean
from silo_nb.ipython.outputs import say
from silo_nb.ipython.overview import sessions_command
from silo_nb.ipython.resuming import resume_command
from silo_nb.ipython.sessions import session_book
from silo_nb.ipython.tables import show_table
from silo_nb.ipython.words import parse_words
from silo_nb.journal import find_session, journal_directory
from silo_nb.model.text import one_line
from silo_nb.profiles import load_profiles
from silo_nb.runtime import kernel_compat
from silo_nb.session import Session, manager
from silo_nb.session.workspace import notebook_home

__all__ = ["run_command"]


def run_command(shell: InteractiveShell, line: str) -> None:
    """Do what ``%agent`` was asked for.

    Raises:
        UsageError: there is no such command, or it takes something else.
        NotYet: it is planned, but not part of this version.
        SiloError: it could not be done.
    """
    word, _, rest = line.strip().partition(" ")
    if word in _LATER:
        raise NotYet(f"%agent {word} is not part of this version yet")
    if word not in _COMMANDS:
        known = (*_COMMANDS, *_LATER)
        what = f"%agent has no command {word!r}." if word else "%agent needs a command."
        raise UsageError(
            f"{what}{did_you_mean(word, known)} There are: {', '.join(_COMMANDS)}. "
            "To ask an agent something, write %%agent over a cell, or %ask and the question"
        )
    _COMMANDS[word](shell, rest)


def _profiles(_shell: InteractiveShell, line: str) -> None:
    parse_words(line, "%agent profiles")
    profiles = load_profiles()
    rows = [(p.id, p.label, shlex.join(p.command)) for p in profiles.values()]
    show_table(("profile", "agent", "command"), rows)
    for problem in profiles.problems:
        say(f"! {problem}")


def _use(_shell: InteractiveShell, line: str) -> None:
    usage = "%agent use NAME|PROFILE|ID"
    word = parse_words(line, usage, most=1).get(0)
    if word is None:
        raise UsageError(f"%agent use needs a session or a profile after it. Usage: {usage}")
    book = session_book()
    found = book.look_up(word)
    if found is not None:
        book.keep(found, None)
        handle = found.handle
        say(f"%%agent goes on with session {handle.id}, with {one_line(handle.agent_name)}.")
        return
    if word in load_profiles():
        book.use_profile(word)
        say(f"%%agent opens a session with {word!r}.")
        return
    if find_session(journal_directory(notebook_home()), word) is not None:
        raise UsageError(f"Session {word!r} is not open; '%agent resume {word}' opens it")
    known = (*book.names(), *load_profiles())
    raise UsageError(f"There is no session or profile {word!r}.{did_you_mean(word, known)}")


def _cancel(_shell: InteractiveShell, line: str) -> None:
    meant = _meant(line, "%agent cancel [NAME] [-s NAME]")
    working = [session for session in meant if session.status in ("working", "waiting")]
    for session in working:
        session.cancel()
        say(f"{session.id}: asked to stop")
    if not working:
        say("No turn is running.")


def _log(_shell: InteractiveShell, line: str) -> None:
    for session in _meant(line, "%agent log [NAME] [-s NAME]"):
        say(f"{session.id}, {session.status}:")
        for said in session.log or ("nothing unusual",):
            say(f"  {one_line(said, 400)}")


def _nest(_shell: InteractiveShell, line: str) -> None:
    parse_words(line, "%agent nest")
    kernel_compat.allow_nested_asyncio()
    say(
        "asyncio.run() now works in cells, until the kernel is restarted. "
        "ipykernel 7 may drop queued cells of a Run All from now on."
    )


def _meant(line: str, usage: str) -> list[Session]:
    """Return the session that is named, or all of them."""
    words = parse_words(line, usage, most=1)
    name = words.session or words.get(0)
    if name:
        return [session_book().named(name).handle]
    return [Session(live) for live in manager.live_sessions()]


_COMMANDS: dict[str, Callable[[InteractiveShell, str], None]] = {
    "profiles": _profiles,
    "sessions": sessions_command,
    "use": _use,
    "config": config_command,
    "resume": resume_command,
    "clear": clear_command,
    "export": export_command,
    "cancel": _cancel,
    "log": _log,
    "nest": _nest,
}
_LATER = ("doctor",)
