"""``%agent clear``, and ``/clear`` typed into a cell: a conversation deleted for good: R62, R63.

It is ours for every agent, and no agent is ever sent it: what an agent's own ``/clear`` forgets,
the journal would still have.
"""

from __future__ import annotations

from pathlib import Path

from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.errors import SessionBusy, SiloError
from silo_nb.ipython.front_end import FrontEnd, front_end
from silo_nb.ipython.live import Output
from silo_nb.ipython.outputs import say
from silo_nb.ipython.record import Note, TurnRecord
from silo_nb.ipython.sessions import CellSession, connect, session_book
from silo_nb.ipython.words import parse_words
from silo_nb.model import Message
from silo_nb.model.text import one_line
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session import Restore
from silo_nb.session.live import LiveSession

__all__ = ["CLEAR", "clear", "clear_command"]

CLEAR = "/clear"
"""A prompt that is not sent, but clears the session."""

USAGE = "%agent clear [--yes] [-s NAME]"


def clear_command(shell: InteractiveShell, line: str) -> None:
    """Clear a session when it is confirmed."""
    words = parse_words(line, USAGE, flags=("--yes",))
    clear(shell, session_book().meant(words.session), is_sure="--yes" in words.flags)


def clear(shell: InteractiveShell, session: CellSession, *, is_sure: bool) -> None:
    """Delete a session's journal, and go on with a new session of the same agent in its place.

    Args:
        shell: the shell the cell runs in.
        session: what to clear.
        is_sure: whether it was confirmed already; otherwise the person is asked.

    Raises:
        UsageError: nobody can be asked.
        SessionBusy: a turn is running.
        SiloError: there is no new session; the message says whether the old journal is still there.
    """
    old = session.live
    if old.status in ("working", "waiting"):
        raise SessionBusy(
            f"session {old.id!r} is in the middle of a turn; '%agent cancel' stops it"
        )
    front = front_end(shell)
    if not is_sure and not _is_confirmed(old, front):
        say("Nothing was cleared.")
        return
    output = Output(front)
    agent = one_line(old.card.title or old.card.name or old.profile.label)
    output.paint(TurnRecord(agent=agent, state="connecting", rows=()))
    try:
        new = _replaced(old)
    except (SiloError, KeyboardInterrupt) as error:
        output.give_up(TurnRecord(agent=agent, state="not-connected", rows=()))
        if isinstance(error, KeyboardInterrupt):
            error.args = ("interrupted while clearing",)
        error.add_note(f"'%agent resume {old.id}' goes on with what is still on record.")
        raise
    session.begin_with(new)
    words = f"The journal {old.id} was deleted. The agent begins anew, in session {new.id}."
    output.freeze(TurnRecord(agent=agent, state="cleared", rows=(Note.of(words),)))


def _replaced(old: LiveSession) -> LiveSession:
    # The old journal has to be given back first: only who has it may delete it.
    wait_sync(agent_thread().run(old.dispose()))
    return connect(
        old.profile.id,
        restore=Restore(old.id, start_fresh=True, transcript="discard"),
        cwd=Path(old.cwd),
        mcp_servers=old.surroundings.mcp_servers,
    )


def _is_confirmed(session: LiveSession, front: FrontEnd) -> bool:
    if not front.asks:
        raise UsageError(
            "Clearing deletes a conversation's journal for good, and nobody can be asked here "
            f"whether that is meant: '%agent clear -s {session.id} --yes' does it"
        )
    asked = sum(
        isinstance(entry, Message) and entry.role == "user" for entry in session.transcript.entries
    )
    about = f" about {one_line(session.title, 80)!r}" if session.title else ""
    say(
        f"This deletes the journal of the conversation{about} for good: {asked} "
        f"prompt{'s' * (asked != 1)} and what came of them. Outputs of cells stay as they are, "
        "and so does what the agent may keep by itself."
    )
    try:
        said = input("Type yes to delete it: ")
    except (EOFError, StdinNotImplementedError):
        return False
    return said.strip().casefold() in ("yes", "y")
