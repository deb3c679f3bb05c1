"""One cell, one turn: find the session, run the turn, show it live, leave a record."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.errors import SiloError
from silo_nb.ipython.answers import Answers
from silo_nb.ipython.asking import ask_person
from silo_nb.ipython.clearing import CLEAR, clear
from silo_nb.ipython.front_end import FrontEnd, front_end
from silo_nb.ipython.live import Output, Painter
from silo_nb.ipython.options import USAGE, CellOptions, did_you_mean
from silo_nb.ipython.paths import short_path
from silo_nb.ipython.record import Note, TurnRecord, plan_steps, rows_of, token_words
from silo_nb.ipython.sessions import CellSession, session_book
from silo_nb.model import Usage
from silo_nb.model.text import one_line
from silo_nb.profiles import load_profiles
from silo_nb.runtime import agent_thread
from silo_nb.session import PermissionRequest, PromptResult, Subscription
from silo_nb.session.live import LiveSession
from silo_nb.session.prompts import wire_prompt

__all__ = ["ask_last", "run_cell"]


def ask_last(shell: InteractiveShell, text: str) -> PromptResult | None:
    """Run one turn of the session that a cell prompted last; see :func:`run_cell`."""
    last = session_book().last
    name = None if last is None or last.is_disposed else last.live.id
    return run_cell(shell, CellOptions(session=name), text)


def run_cell(shell: InteractiveShell, options: CellOptions, text: str) -> PromptResult | None:
    """Run one turn in the running cell and return how it went; None if it cleared the session.

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
    if text.strip() == CLEAR and not options.files:
        _clear(shell, options)
        return None
    front = front_end(shell)
    output = Output(front)
    session = _find_or_open(options, output)
    session_book().prompted(session)
    session.remarks += _unknown_command(text, session)
    said = [text] if text.strip() else []
    try:
        blocks = wire_prompt([*said, *options.files], session.live.card.prompt)
    except ValueError as error:
        raise UsageError(str(error)) from None
    result = _Turn(session, options.policy, front, output).run(blocks)
    if options.output is not None:
        shell.user_ns[options.output] = result
    return result


def _unknown_command(text: str, session: CellSession) -> list[str]:
    """Tell a command that the agent does not list from one that does not work. Case 58."""
    name = text.strip().partition("\n")[0].partition(" ")[0]
    offered = [f"/{command.name}" for command in session.live.controls.commands]
    if not name.startswith("/") or "/" in name[1:] or not offered or name in offered:
        return []
    return [f"{name} is not among this agent's commands.{did_you_mean(name, offered)}"]


def _clear(shell: InteractiveShell, options: CellOptions) -> None:
    found = session_book().find(options.profile, options.session)
    if found is None or found.is_disposed or options.new:
        raise UsageError(f"{CLEAR}: there is no such session yet, so there is nothing to clear")
    clear(shell, found, is_sure=False)


def _find_or_open(options: CellOptions, output: Output) -> CellSession:
    """Return the session that is meant, connecting on first use."""
    book = session_book()
    found = None if options.new else book.find(options.profile, options.session)
    if found is not None and not found.is_disposed:
        found.require_agent()
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
        opened.remarks.append(
            "The session before this one was disposed. This is a new one, whose agent does not "
            f"know what was said in it; '%agent resume {found.live.id}' goes back to it."
        )
    return opened


class _Turn:
    """One turn of a session in one cell."""

    def __init__(self, session: CellSession, policy: str, front: FrontEnd, output: Output) -> None:
        self._session = session
        self._live = live = session.live
        self._process = live.process
        self._exit = live.exit
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
        if self._exit is not None:
            self._output.paint(replace(self._painter.record(), state="connecting"))
        watching = _watch(self._live)
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
            watching.dispose()
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

    def _restart(self) -> list[str]:
        """Say so if another process than before has answered: case 5, case 13."""
        if self._live.process is self._process:
            return []
        how = "no longer answered" if self._exit is None else self._exit.describe()
        return [f"The agent {how}, so it was started again."]

    def _record(self, state: str, remark: str, result: PromptResult | None) -> TurnRecord:
        live, handle = self._live, self._session.handle
        transcript = live.transcript
        remarks = [Note.of(words) for words in (*self._session.remarks, *self._restart())]
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


def _watch(live: LiveSession) -> Subscription:
    """Let nothing that happens raise attention while the cell is looking: R88."""
    watch = live.watched()
    agent_thread().call(watch.__enter__)
    return Subscription(lambda: agent_thread().call(watch.__exit__, None, None, None))


def _changed(usage: Usage | None, before: Usage | None) -> Usage | None:
    return None if usage is before else usage
