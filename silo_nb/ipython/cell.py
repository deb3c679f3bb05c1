"""One cell, one turn: find the session, run the turn, show it live, leave a record."""

from __future__ import annotations

import time
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.errors import SiloError
from silo_nb.ipython.answers import Answers
from silo_nb.ipython.asking import ask_person
from silo_nb.ipython.front_end import FrontEnd, front_end
from silo_nb.ipython.live import Output, Painter
from silo_nb.ipython.options import USAGE, CellOptions
from silo_nb.ipython.paths import short_path
from silo_nb.ipython.record import Note, TurnRecord, plan_steps, rows_of, token_words
from silo_nb.ipython.sessions import CellSession, session_book
from silo_nb.model import Usage
from silo_nb.model.text import one_line
from silo_nb.profiles import load_profiles
from silo_nb.runtime import agent_thread
from silo_nb.session import PermissionRequest, PromptResult
from silo_nb.session.prompts import wire_prompt

__all__ = ["run_cell"]


def run_cell(shell: InteractiveShell, options: CellOptions, text: str) -> PromptResult:
    """Run one turn in the running cell and return how it went.

    Args:
        shell: the shell the cell runs in.
        options: what its option line says.
        text: the prompt, literally.

    Raises:
        UsageError: there is nothing to ask, or it has content this agent does not take.
        SiloError: there is no session, or the turn could not be completed.
        KeyboardInterrupt: interrupted while connecting, or twice while the turn ran.
    """
    if not text.strip() and not options.files:
        raise UsageError(f"There is nothing to ask: write it below the line. Usage: {USAGE}")
    front = front_end(shell)
    output = Output(front)
    session = _find_or_open(options, output)
    session_book().last = session
    said = [text] if text.strip() else []
    try:
        blocks = wire_prompt([*said, *options.files], session.live.card.prompt)
    except ValueError as error:
        raise UsageError(str(error)) from None
    result = _Turn(session, options.policy, front, output).run(blocks)
    if options.output is not None:
        shell.user_ns[options.output] = result
    return result


def _find_or_open(options: CellOptions, output: Output) -> CellSession:
    """Return the session that is meant, connecting on first use."""
    book = session_book()
    found = None if options.new else book.find(options.profile, options.session)
    if found is not None and found.is_usable:
        return found
    meant = found.live.profile.id if found is not None else options.profile
    profile, remark = book.choose_profile(meant)
    label = load_profiles().get(profile).label
    output.paint(TurnRecord(agent=one_line(label), state="connecting", rows=()))
    try:
        opened = book.open(profile, options.session)
    except (SiloError, KeyboardInterrupt) as error:
        output.give_up(TurnRecord(agent=one_line(label), state="not-connected", rows=()))
        if isinstance(error, KeyboardInterrupt):
            error.args = ("interrupted while connecting; what was started is being ended",)
        raise
    if remark:
        opened.remarks.append(remark)
    if found is not None:
        opened.remarks.append(_epitaph(found))
        agent_thread().run(found.live.dispose())
    return opened


def _epitaph(gone: CellSession) -> str:
    how = gone.live.exit.describe() if gone.live.exit is not None else "was disposed"
    return (
        f"The session before this one is over: its agent {how}. "
        "This is a new session, whose agent does not know what was said in it."
    )


class _Turn:
    """One turn of a session in one cell."""

    def __init__(self, session: CellSession, policy: str, front: FrontEnd, output: Output) -> None:
        self._session = session
        self._live = live = session.live
        self._output = output
        self._started = time.monotonic()
        self._before = live.transcript
        self._where = "" if session.is_introduced else short_path(Path(live.cwd))
        self._painter = Painter(live, output, session.shown, self._where)
        self._updates = front.shows == "live"
        self._answers = Answers(live, policy=policy, ask_person=self._ask if front.asks else None)

    def run(self, blocks: list[dict[str, object]]) -> PromptResult:
        """Run the turn; whatever becomes of it, its output is frozen."""
        subscription = self._live.desk.on_permission.add(self._answers.take)
        self._painter.start()
        state, remark = "failed", ""
        result = None
        try:
            turn = agent_thread().run(self._live.prompt(blocks))
            result = self._answers.wait_for(turn, self._cancel)
            state = "done" if result.stop_reason == "end_turn" else result.stop_reason
        except KeyboardInterrupt as error:
            state, remark = "cancelled", "Interrupted twice: the agent may still be working."
            error.args = ("interrupted twice, so this cell no longer waits for the agent",)
            raise
        finally:
            self._painter.stop()
            subscription.dispose()
            self._freeze(state, remark, result)
        return result

    def _ask(self, ask: PermissionRequest) -> None:
        # Not by the name the agent gives itself: who asks is nothing it can lie about.
        label = self._live.profile.label
        ask_person(ask, agent=label, cwd=self._live.cwd, updates=self._updates)

    def _cancel(self) -> None:
        agent_thread().call(self._live.cancel)

    def _freeze(self, state: str, remark: str, result: PromptResult | None) -> None:
        record = self._record(state, remark, result)
        began = self._live.transcript.head.turns > self._before.head.turns
        if not began and state == "failed":
            # Not this cell's turn that was going on: it has nothing to record.
            self._output.give_up(record.without_rows())
            return
        self._output.freeze(record)
        self._session.shown = len(self._live.transcript.entries)
        self._session.is_introduced = True
        self._session.remarks.clear()

    def _record(self, state: str, remark: str, result: PromptResult | None) -> TurnRecord:
        live, handle = self._live, self._session.handle
        transcript = live.transcript
        remarks = [Note.of(words) for words in self._session.remarks]
        after = [*self._answers.remarks, remark]
        rows = rows_of(transcript.entries[self._session.shown :], live.cwd)
        problem = handle.journal_problem
        footnotes = [token_words(result.tokens or {})] if result is not None else []
        footnotes.append(f"Not journaled: {one_line(problem)}" if problem else "")
        return TurnRecord(
            agent=one_line(handle.agent_name),
            state=state,
            rows=(*remarks, *rows, *(Note.of(words, "warning") for words in after if words)),
            elapsed=time.monotonic() - self._started,
            plan=() if transcript.plan is self._before.plan else plan_steps(transcript.plan),
            usage=_changed(transcript.usage, self._before.usage),
            where=self._where,
            journal=short_path(handle.journal_path) if handle.journal_path else "",
            footnotes=tuple(filter(None, footnotes)),
        )


def _changed(usage: Usage | None, before: Usage | None) -> Usage | None:
    return None if usage is before else usage
