"""An agent's process, behind its guard, as the agent thread sees it.

The agent's stdout arrives through a callback in the moment it is read, its stdin takes any amount
without blocking, its stderr is drained into a ring. Its end is reported once, after its last word,
and by then nothing that it started is alive: see `guard`.

Everything here runs on one event loop and asks no thread for help. asyncio's own subprocess support
would start one per agent to wait for it (Python 3.11), and would make the agent's stdin a socket,
which a shell cannot open again as ``/dev/stdin``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from silo_nb.acp import guard
from silo_nb.acp.process_guard import pack_launch, spawn_guard
from silo_nb.acp.process_pipes import Lifeline, Output, StderrRing
from silo_nb.acp.process_program import Launch, check_directory, explain_failure, find_program
from silo_nb.errors import STDERR_LINES_SHOWN, AgentError, NotYet, SiloError

__all__ = ["AgentProcess", "ExitReport", "Launch"]

MUTE_GRACE = 0.5
"""Seconds an agent may live on without a stdout: a process's end comes after that of its pipes."""

DRAIN_LIMIT = 0.5
"""Seconds to wait for the end of a pipe when every process that we know of is gone."""

GUARD_LIMIT = guard.KILL_LIMIT + 1.0
"""Seconds a guard may take to kill; then it is done from here."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How an agent's process ended.

    Attributes:
        code: its exit status; None when a signal ended it, or nobody knows.
        signal: number of the signal that ended it, if any.
        stderr: the last lines (at most 20) it wrote to stderr, made inert.
        closed_stdout: it closed its stdout and went on running, so it was stopped.
    """

    code: int | None
    signal: int | None
    stderr: tuple[str, ...]
    closed_stdout: bool = False

    def describe(self) -> str:
        """Return how it ended, as the rest of a sentence about it.

        >>> ExitReport(3, None, ()).describe()
        'exited with code 3'
        >>> ExitReport(None, 9, ()).describe()
        'was ended by SIGKILL'
        """
        if self.closed_stdout:
            return "closed its stdout, so it was stopped"
        if self.code is not None:
            return f"exited with code {self.code}"
        if self.signal is None:
            return "ended, and its exit status was lost"
        return f"was ended by {_signal_name(self.signal)}"


class AgentProcess:
    """One running agent: `start` makes it, `stop` or `kill` ends it. For use on its own loop."""

    def __init__(
        self,
        launch: Launch,
        program: Path,
        *,
        on_stdout: Callable[[bytes], None],
        on_exit: Callable[[ExitReport], None],
    ) -> None:
        self._launch = launch
        self._program = program
        self._on_stdout = on_stdout
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._pid = 0
        self._code: int | None = None
        self._signal: int | None = None
        self._closed_stdout = False
        self._stderr_ring = StderrRing()
        self._open_pipes = {"stdout", "stderr"}
        self._is_paused = True
        self._is_ending = False
        self._guard_is_reaped = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._running: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[ExitReport] = self._loop.create_future()
        self._stopping: asyncio.Task[ExitReport] | None = None

    # ------------------------------------------------------------------------------ beginning

    @classmethod
    async def start(
        cls,
        launch: Launch,
        *,
        on_stdout: Callable[[bytes], None],
        on_exit: Callable[[ExitReport], None],
    ) -> Self:
        """Start an agent; return once its program runs.

        Cancelling this leaves no process behind.

        Args:
            launch: what to start.
            on_stdout: takes what the agent wrote, as soon as it is read. It must not wait.
            on_exit: called once, after the last `on_stdout`, when the agent and all it started are
                gone. Neither is called before this has returned.

        Raises:
            WorkspaceError: the directory is no place to start in; nothing was started.
            AgentNotFound: there is no such program, or no interpreter for it.
            AgentError: the system refused to start it.
            NotYet: on Windows.
        """
        if sys.platform == "win32":
            raise NotYet("agents cannot be started on Windows yet; run Jupyter inside WSL")
        check_directory(launch.cwd)
        program = find_program(launch)
        packed = _pack(launch, program)
        process = cls(launch, program, on_stdout=on_stdout, on_exit=on_exit)
        starting = asyncio.create_task(process._start(packed))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            giving_up = asyncio.create_task(process._give_up(starting))
            await asyncio.wait({giving_up})
            raise
        process.resume_reading()
        return process

    async def _start(self, packed: bytes) -> None:
        self._guard = spawn_guard()
        await self._connect()
        self._lifeline.write(packed)
        try:
            await self._running
        except SiloError as error:
            self._disregard_callbacks()
            report = await self._ended
            if isinstance(error, AgentError):
                error.stderr = report.stderr
            raise

    async def _connect(self) -> None:
        loop, spawned = self._loop, self._guard
        self._lifeline, _ = await loop.connect_accepted_socket(
            lambda: Lifeline(self._on_line, self._on_guard_end), spawned.lifeline
        )
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, spawned.stdin)
        self._stderr, _ = await loop.connect_read_pipe(
            lambda: Output(self._stderr_ring.add, lambda: self._on_pipe_end("stderr")),
            spawned.stderr,
        )
        self._stdout, _ = await loop.connect_read_pipe(
            lambda: Output(self._deliver, lambda: self._on_pipe_end("stdout"), paused=True),
            spawned.stdout,
        )

    async def _give_up(self, starting: asyncio.Task[None]) -> None:
        """End what nobody waits for any more."""
        await asyncio.wait({starting})
        if starting.exception() is None:
            self._disregard_callbacks()
            self.kill()
            await self._ended

    def _disregard_callbacks(self) -> None:
        self._on_stdout = lambda _data: None
        self._on_exit = lambda _report: None
        self.resume_reading()

    # -------------------------------------------------------------------------------- running

    @property
    def pid(self) -> int:
        """The agent's own process id, which is that of its session and process group as well."""
        return self._pid

    @property
    def exited(self) -> ExitReport | None:
        """How it ended; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    @property
    def accepts_input(self) -> bool:
        """Whether what is written can still be read: an agent may close its stdin and live on."""
        return not self._stdin.is_closing()

    @property
    def unwritten(self) -> int:
        """How many bytes of what was written the agent's pipe has not taken yet."""
        return self._stdin.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Queue `data` for the agent's stdin. Never blocks; dropped when nobody can read it."""
        if self.accepts_input:
            self._stdin.write(data)

    def stderr_tail(self, lines: int = STDERR_LINES_SHOWN) -> tuple[str, ...]:
        """Return the last `lines` that the agent wrote to stderr, made inert."""
        return self._stderr_ring.tail(lines)

    def pause_reading(self) -> None:
        """Leave what the agent writes in its pipe, so that it has to wait. Ignored while ending."""
        if self._is_ending:
            return
        self._is_paused = True
        self._stdout.pause_reading()
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._is_paused = False
        self._stdout.resume_reading()
        self._settle()

    # --------------------------------------------------------------------------------- ending

    async def stop(self, *, eof_grace: float = 2.5, term_grace: float = 2.0) -> ExitReport:
        """End the agent as gently as it lets us; return how it ended.

        First its stdin ends, then it and all it started get SIGTERM, then SIGKILL. Whoever calls
        while it is ending waits for the same end. Cancelling the call does not cancel the end.

        Args:
            eof_grace: seconds it has after the end of its stdin.
            term_grace: seconds it has after SIGTERM.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(eof_grace, term_grace))
        return await asyncio.shield(self._stopping)

    async def _stop(self, eof_grace: float, term_grace: float) -> ExitReport:
        self._begin_to_end()
        self._stdin.close()
        if not await self._ends_within(eof_grace):
            self._command(guard.TERMINATE)
            if not await self._ends_within(term_grace):
                self.kill()
        return await self._ended

    def kill(self) -> None:
        """End the agent and all it started at once, with SIGKILL."""
        if self._ended.done():
            return
        self._begin_to_end()
        self._command(guard.KILL)
        self._timers.append(self._loop.call_later(GUARD_LIMIT, self._kill_without_guard))

    def _begin_to_end(self) -> None:
        self._is_ending = True
        # An agent that waits for us to read its stdout does not look at its stdin.
        self.resume_reading()

    async def _ends_within(self, seconds: float) -> bool:
        ended, _ = await asyncio.wait({self._ended}, timeout=seconds)
        return bool(ended)

    def _command(self, command: bytes) -> None:
        if not self._lifeline.is_closing():
            self._lifeline.write(command)

    def _kill_without_guard(self) -> None:
        """Do the guard's work as well as that can be done from here."""
        tree = guard.tree_of(self._guard.process.pid, self._pid, guard.process_table())
        self._guard.process.kill()
        guard.send_signal(tree, signal.SIGKILL)

    # ----------------------------------------------------------------------- what it does itself

    def _on_line(self, line: str) -> None:
        match line.split():
            case ["pid", pid]:
                self._pid = int(pid)
                self._running.set_result(None)
            case ["failed", step, number]:
                self._running.set_exception(
                    explain_failure(self._launch, self._program, step, int(number))
                )
            case ["exit", code]:
                self._code = int(code)
            case ["signal", number]:
                self._signal = int(number)

    @property
    def _end_is_known(self) -> bool:
        return self._code is not None or self._signal is not None

    def _on_guard_end(self) -> None:
        if not self._running.done():
            self._running.set_exception(
                AgentError("its guard process ended before it could start it", phase="spawn")
            )
        elif self._pid and not self._end_is_known:
            self._kill_without_guard()
        self._reap_guard()

    def _reap_guard(self, again_in: float = 0.001) -> None:
        # A process's descriptors are closed a moment before it can be waited for. Looking again
        # needs no thread and no signal handler, and bears user code that waits for any child.
        if self._guard.process.poll() is None:
            self._loop.call_later(again_in, self._reap_guard, min(2 * again_in, 0.05))
            return
        self._guard_is_reaped = True
        self._settle()

    def _deliver(self, data: bytes) -> None:
        self._on_stdout(data)

    def _on_pipe_end(self, name: str) -> None:
        self._open_pipes.discard(name)
        self._settle()
        if name == "stdout" and not self._ended.done():
            self._timers.append(self._loop.call_later(MUTE_GRACE, self._stop_if_mute))

    def _stop_if_mute(self) -> None:
        if not self._end_is_known and not self._is_ending:
            self._closed_stdout = True
            self._stopping = asyncio.create_task(self._stop(MUTE_GRACE, MUTE_GRACE))

    def _settle(self) -> None:
        """Finish when guard and pipes have ended, or soon after the guard has."""
        if self._ended.done() or not self._guard_is_reaped:
            return
        if not self._open_pipes:
            self._finish()
        elif not self._is_paused and self._drain_timer is None:
            # Somebody we know nothing of holds a pipe: it was passed on, or its holder is not ours.
            self._drain_timer = self._loop.call_later(DRAIN_LIMIT, self._finish)

    def _finish(self) -> None:
        if self._ended.done():
            return
        for timer in (*self._timers, self._drain_timer):
            if timer is not None:
                timer.cancel()
        if self.unwritten:
            self._stdin.abort()  # which asyncio cannot do to a pipe that is closed already
        for transport in (self._stdin, self._stdout, self._stderr, self._lifeline):
            transport.close()
        self._guard.forget()
        report = ExitReport(self._code, self._signal, self.stderr_tail(), self._closed_stdout)
        self._ended.set_result(report)
        self._on_exit(report)


def _pack(launch: Launch, program: Path) -> bytes:
    try:
        return pack_launch(
            os.fsencode(launch.cwd.absolute()),
            os.fsencode(program.absolute()),
            [os.fsencode(argument) for argument in launch.argv],
            {os.fsencode(name): os.fsencode(value) for name, value in launch.env.items()},
        )
    except ValueError as error:
        raise AgentError(f"it cannot be started: {error}", phase="spawn") from error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
