"""The guard: a small process that stands between the kernel and one agent, and ends with either.

A kernel can die without running a line of Python (``kill -9``, the OOM killer, a restart), and an
agent is rarely one process (``npx`` is a wrapper, shells get sessions of their own). So the kernel
starts this file as a script, and the guard starts the agent:

* the **lifeline** is a socket between kernel and guard. When the kernel ends in any way, the guard
  reads end-of-file there and ends the agent with everything the agent started;
* the guard adopts orphans (Linux: "child subreaper"), so a daemon that the agent forked twice is
  still its descendant, and ``waitpid`` knows when the last one is gone;
* the agent keeps the pipes to the kernel, the guard closes its copies: no byte passes through it,
  and end-of-file travels as if nobody stood in between.

What is said on the lifeline::

    kernel → guard   the packed `Launch`, once; then one byte per command: T (ask to end), K (kill)
    guard → kernel   lines: "pid N", "failed STAGE ERRNO", "exit CODE", "signal NUMBER"

Every connect waits for this file to start, so it imports little and nothing of silo_nb; the kernel
imports it for the names below.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

if sys.platform == "linux":
    import ctypes

TYPE_CHECKING = False  # importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

    ProcessTable = Iterable[tuple[int, int, int]]

TERMINATE = b"T"
KILL = b"K"

TERM_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL for what an ended agent, or a dead kernel, leaves behind."""

KILL_LIMIT = 2.0
"""Seconds after which the guard gives up on a process that not even SIGKILL ends."""

KERNEL_CHECK = 1.0
"""Seconds between two looks at who our parent is (a forked child may keep the lifeline open)."""

LOOK_INTERVAL = 5.0
"""Seconds between two looks at the agent's tree where orphans cannot be adopted (macOS): who gets a
session of its own and loses its parent between two looks is not found again."""

POLL_INTERVAL = 0.02
"""Seconds between two looks at processes whose end nobody reports."""

ENDED_STATES = {b"Z", b"X"}  # of processes that only wait to be waited for

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def unpack_launch(packed: bytes) -> tuple[bytes, bytes, list[bytes], dict[bytes, bytes]]:
    r"""Decode the fields of `process_guard.pack_launch`, without its length prefix.

    >>> unpack_launch(b"/\0/bin/ls\0002\0ls\0-l\0A=1")
    (b'/', b'/bin/ls', [b'ls', b'-l'], {b'A': b'1'})
    """
    cwd, program, count, *rest = packed.split(b"\0")
    argv, variables = rest[: int(count)], rest[int(count) :]
    environment = {}
    for variable in variables:
        name, _, value = variable.partition(b"=")
        environment[name] = value
    return cwd, program, argv, environment


def process_table() -> list[tuple[int, int, int]]:
    """List every running process we can see, as (pid, pid of its parent, process group)."""
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - pathlib would cost us 8 ms at start-up
    except OSError:  # macOS, BSD
        return _process_table_of_ps()
    table = []
    for entry in entries:
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123 - as above
                stat = file.read()
        except OSError:  # it ended since the listing
            continue
        # The name stands in parentheses and may itself contain any of them: count from the last.
        state, parent, group = stat.rpartition(b")")[2].split(None, 3)[:3]
        if state not in ENDED_STATES:
            table.append((int(entry), int(parent), int(group)))
    return table


def _process_table_of_ps() -> list[tuple[int, int, int]]:
    import subprocess  # here, as it would double the start-up everywhere else

    command = ["/bin/ps", "-A", "-o", "stat=", "-o", "pid=", "-o", "ppid=", "-o", "pgid="]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as ps:
        listing = ps.communicate()[0]
    table = []
    for line in listing.splitlines():
        state, *numbers = line.split()
        pid, parent, group = map(int, numbers)
        if state[:1] not in ENDED_STATES and pid != ps.pid:
            table.append((pid, parent, group))
    return table


def tree_of(root: int, group: int, table: Iterable[tuple[int, int, int]]) -> set[int]:
    """Return the descendants of `root`, and the members of process group `group` with theirs.

    Args:
        root: pid whose descendants are wanted; itself not part of the answer.
        group: process group whose members belong to the tree whoever their parent is by now;
            0 for none.
        table: rows of `process_table`.

    >>> sorted(tree_of(1, 7, [(2, 1, 2), (3, 2, 3), (4, 99, 7), (5, 4, 5), (6, 99, 6)]))
    [2, 3, 4, 5]
    """
    children: dict[int, list[int]] = {}
    members: list[int] = []
    for pid, parent, pgid in table:
        children.setdefault(parent, []).append(pid)
        if group and pgid == group:
            members.append(pid)
    found: set[int] = set()
    todo = [*children.get(root, ()), *members]
    while todo:
        pid = todo.pop()
        if pid not in found and pid != root:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found


def send_signal(pids: Iterable[int], number: int) -> None:
    """Send a signal to each process; one that is gone, or not ours, is passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


class Guard:
    """Starts one agent, waits for the end of agent or kernel, and leaves nothing behind."""

    def __init__(self, lifeline: int, kernel: int) -> None:
        """Take over signals and orphans; `run` does the rest.

        Args:
            lifeline: descriptor of our end of the socket to the kernel.
            kernel: pid of the kernel, our parent.
        """
        self._lifeline = lifeline
        self._kernel = kernel
        self._agent = 0
        self._status: int | None = None
        self._status_told = False
        self._in_a_hurry = False
        self._remembered: set[int] = set()
        self._look_at = 0.0
        os.set_inheritable(lifeline, False)  # noqa: FBT003 - takes no keyword
        self._wakeup = _take_signals()
        self._adopts_orphans = _adopt_orphans()

    def run(self) -> None:
        """Start the agent, watch over it, and end what is left when either side is gone."""
        try:
            if self._start_agent():
                self._watch()
        finally:
            self._tell_status()
            self._end_tree()
            self._tell_status()

    def _start_agent(self) -> bool:
        packed = _read_launch(self._lifeline)
        if packed is None:
            return False
        self._agent, failure = _fork_agent(*unpack_launch(packed))
        _let_go_of_standard_streams()
        self._tell(f"failed {failure}" if failure else f"pid {self._agent}")
        return not failure

    def _watch(self) -> None:
        """Return when the agent has ended, the kernel is gone, or it told us to kill."""
        poll = select.poll()
        poll.register(self._lifeline, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while self._status is None and os.getppid() == self._kernel:
            ready = [descriptor for descriptor, _ in poll.poll(KERNEL_CHECK * 1000)]
            if self._wakeup in ready:
                self._reap()
            if self._lifeline in ready and not self._obey():
                return
            self._remember_tree()

    def _obey(self) -> bool:
        """Carry out the commands that arrived; return whether to go on watching."""
        try:
            commands = os.read(self._lifeline, 64)
        except ConnectionError:
            commands = b""
        if TERMINATE in commands:
            send_signal(self._tree(), signal.SIGTERM)
        self._in_a_hurry = KILL in commands
        return bool(commands) and not self._in_a_hurry

    def _reap(self) -> bool:
        """Collect every child that has ended; return whether there are any others."""
        _drain(self._wakeup)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._agent:
                self._status = status

    def _tree(self) -> set[int]:
        """Find what is left of the agent and all it started, in whatever session."""
        table = process_table()
        if self._adopts_orphans:
            return tree_of(os.getpid(), 0, table)
        tree = tree_of(os.getpid(), self._agent, table)
        tree |= self._remembered.intersection(pid for pid, _, _ in table)
        self._remembered = tree
        return tree

    def _remember_tree(self) -> None:
        """Note who belongs to the tree while it hangs together, where orphans cannot be adopted."""
        if not self._adopts_orphans and time.monotonic() >= self._look_at:
            self._tree()
            self._look_at = time.monotonic() + LOOK_INTERVAL

    def _anyone_left(self) -> bool:
        if self._reap():
            return True
        # Whoever descends from a subreaper hangs on one of its children: no children, no tree.
        # The process table alone proves nothing, it misses what is forked while it is read.
        return not self._adopts_orphans and bool(self._tree())

    def _end_tree(self) -> None:
        if not self._agent:
            return
        if not self._in_a_hurry and self._anyone_left():
            send_signal(self._tree(), signal.SIGTERM)
            self._await_end(TERM_GRACE)
        give_up = time.monotonic() + KILL_LIMIT
        while self._anyone_left() and time.monotonic() < give_up:
            send_signal(self._tree(), signal.SIGKILL)
            self._await_end(POLL_INTERVAL)

    def _await_end(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        while self._anyone_left() and (rest := limit - time.monotonic()) > 0:
            poll.poll(1000 * (rest if self._adopts_orphans else min(rest, POLL_INTERVAL)))

    def _tell_status(self) -> None:
        if self._status is None or self._status_told:
            return
        self._status_told = True
        code = os.waitstatus_to_exitcode(self._status)
        self._tell(f"signal {-code}" if code < 0 else f"exit {code}")

    def _tell(self, line: str) -> None:
        try:
            os.write(self._lifeline, f"{line}\n".encode())
        except OSError:  # the kernel is gone; the watch finds out by itself
            return


def _take_signals() -> int:
    """Outlive what is meant for agent or kernel; return a descriptor that wakes a poll up."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    wakeup, waker = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wakeup


def _adopt_orphans() -> bool:
    """Become the parent of descendants that lose theirs; return whether this system can."""
    if sys.platform != "linux":
        return False
    prctl = ctypes.CDLL(None).prctl
    # The signal only wakes us up: it also comes when merely the thread that started us has ended,
    # so `Guard` looks at who its parent is.
    prctl(PR_SET_PDEATHSIG, int(signal.SIGUSR1), 0, 0, 0)
    return bool(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _read_launch(lifeline: int) -> bytes | None:
    """Read a packed launch; None when the kernel is gone before it is complete."""
    received = bytearray()
    while True:
        try:
            more = os.read(lifeline, 1 << 16)
        except ConnectionError:
            return None
        if not more:
            return None
        received += more
        start = received.find(b"\n") + 1
        if start and len(received) - start >= int(received[:start]):
            return bytes(received[start:])


def _fork_agent(
    cwd: bytes, program: bytes, argv: list[bytes], environment: dict[bytes, bytes]
) -> tuple[int, str]:
    """Start the agent; return its pid, and which step failed with which errno ("" when none)."""
    # Close-on-exec, so end-of-file without a word means that the program runs.
    verdict, failed = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        return 0, f"fork {error.errno}"
    if pid == 0:
        _become_agent(failed, cwd, program, argv, environment)
    os.close(failed)
    failure = os.read(verdict, 64).decode()
    os.close(verdict)
    return pid, failure


def _become_agent(
    failed: int, cwd: bytes, program: bytes, argv: list[bytes], environment: dict[bytes, bytes]
) -> NoReturn:
    step = "setsid"
    try:
        os.setsid()
        _restore_signals()
        step = "chdir"
        os.chdir(cwd)
        step = "exec"
        os.execve(program, argv, environment)  # noqa: S606 - no shell is what we want
    except OSError as error:
        os.write(failed, f"{step} {error.errno}".encode())
    finally:
        os._exit(127)


def _restore_signals() -> None:
    """Give the agent what a shell would: every signal at its default, none blocked."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # KILL, STOP, and those the C library keeps to itself
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _let_go_of_standard_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _drain(wakeup: int) -> None:
    try:
        while os.read(wakeup, 512):
            pass
    except BlockingIOError:
        return


def main() -> None:
    """Run as a script: the arguments are the descriptor of the lifeline and the kernel's pid."""
    Guard(lifeline=int(sys.argv[1]), kernel=int(sys.argv[2])).run()


if __name__ == "__main__":
    main()
