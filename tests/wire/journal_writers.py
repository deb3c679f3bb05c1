"""Processes that write journals, to be killed: started within milliseconds by a server that forks.

Run as a program it is the server. It has loaded what a writer needs and never opened a journal
itself, so each fork is what a kernel is: a process of its own that opens a journal.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from silo_nb.errors import JournalError
from silo_nb.journal import Journal, carry, discard, finish_discards

ROOT = Path(__file__).parents[2]
WITHIN = 30
ACK = struct.Struct("<qqq")


class Ack(NamedTuple):
    """What a writer reports: a number, what it stands for, and when (nanoseconds)."""

    seq: int
    marker: int
    at: int


# In the writers.


class Task(NamedTuple):
    """What a writer is told."""

    role: str
    directory: str
    session_id: str
    seed: int
    durability: str
    without_flock: bool
    source_id: str
    dies_at: int


def _report(pipe: int, seq: int, marker: int) -> None:
    os.write(pipe, ACK.pack(seq, marker, time.monotonic_ns()))


def _opened(task: Task) -> Journal:
    options: Any = {"durability": task.durability}
    path = Path(task.directory) / "sessions" / f"{task.session_id}.jsonl"
    if path.exists():
        return Journal.open(Path(task.directory), task.session_id, **options)
    return Journal.create(Path(task.directory), {"id": task.session_id}, **options)


def write_small(task: Task, pipe: int, gate: int) -> None:
    """Append records of 20 to 300 bytes; report those that a sync acknowledged."""
    _write(task, pipe, (20, 300))


def write_big(task: Task, pipe: int, gate: int) -> None:
    """Append records up to the longest there are."""
    _write(task, pipe, (200_000, 1_040_000))


def _write(task: Task, pipe: int, sizes: tuple[int, int]) -> None:
    chance = random.Random(task.seed)
    journal = _opened(task)
    marker = task.seed * 1_000_000
    while True:
        batch = []
        for _ in range(chance.randint(1, 5)):
            marker += 1
            filler = "x" * chance.randint(*sizes)
            batch.append((journal.append("update", {"n": marker, "filler": filler}), marker))
            journal.append_chunk("agent_message_chunk", "m1", "and some words ")
        journal.sync().result(WITHIN)
        for seq, n in batch:
            _report(pipe, seq, n)


def stream(task: Task, pipe: int, gate: int) -> None:
    """Stream words as an agent does, a thousand a second; report each as it is handed over."""
    journal = _opened(task)
    marker = 0
    while True:
        marker += 1
        journal.append_chunk("agent_message_chunk", "m1", f"{marker} ")
        _report(pipe, 0, marker)
        time.sleep(0.001)


def race(task: Task, pipe: int, gate: int) -> None:
    """Wait at the gate, try to open the journal, write to it if that works, and stay."""
    os.read(gate, 1)
    try:
        journal = _opened(task)
    except JournalError as error:
        _report(pipe, -1, " is open in " in str(error))
        return
    for number in range(20):
        journal.append("update", {"n": task.seed * 1_000 + number})
    journal.sync().result(WITHIN)
    _report(pipe, 1, task.seed)
    signal.pause()


def carry_on(task: Task, pipe: int, gate: int) -> None:
    """Begin a session with another's records, write a record of its own, report, and stay."""
    journal = carry(Path(task.directory), task.source_id, {"id": task.session_id})
    _settle(journal, pipe, gate)


def take_the_place(task: Task, pipe: int, gate: int) -> None:
    """Begin a session in the place of another, discard that, report, and stay."""
    journal = Journal.create(Path(task.directory), {"id": task.session_id}, discards=task.source_id)
    discard(journal, task.source_id).result(WITHIN)
    _settle(journal, pipe, gate)


def finish_for_others(task: Task, pipe: int, gate: int) -> None:
    """Finish what others left undone, report, and stay."""
    finish_discards(Path(task.directory))
    _report(pipe, 0, 0)
    os.read(gate, 1)


def _settle(journal: Journal, pipe: int, gate: int) -> None:
    seq = journal.append("user", {"n": -1})
    journal.sync().result(WITHIN)
    _report(pipe, seq, -1)
    os.read(gate, 1)


ROLES: dict[str, Callable[[Task, int, int], None]] = {
    role.__name__: role
    for role in (write_small, write_big, stream, race, carry_on, take_the_place, finish_for_others)
}

CHANGES = (
    "open",
    "mkdir",
    "write",
    "pwrite",
    "ftruncate",
    "fchmod",
    "fdatasync",
    "fsync",
    "link",
    "rename",
    "unlink",
    "close",
)
"""The system calls between which a process may die, by their names in `os`."""


def _die_at(step: int) -> None:
    """Get killed right before the step-th call that could change anything on the disk."""
    steps = itertools.count(1)

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counted

    for name in CHANGES:
        setattr(os, name, counting(getattr(os, name)))


def _no_locks_available(fd: Any, operation: int) -> None:
    raise OSError(37, "No locks available")


def serve(commands: socket.socket) -> None:
    """Fork a writer for every task that comes, until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries them
    while True:
        message, descriptors, _, _ = socket.recv_fds(commands, 4096, 2)
        if not message:
            return
        task = Task(*json.loads(message))
        pid = os.fork()
        if pid == 0:
            commands.close()
            if task.without_flock:
                setattr(fcntl, "flock", _no_locks_available)  # noqa: B010 - its type names more
            if task.dies_at:
                _die_at(task.dies_at)
            ROLES[task.role](task, *descriptors)
            os._exit(0)
        for fd in descriptors:
            os.close(fd)
        commands.send(str(pid).encode())


# In the tests.


class Writer:
    """One running writer."""

    def __init__(self, pid: int, pipe: int, gate: int) -> None:
        self.pid = pid
        self._pipe = os.fdopen(pipe, "rb")
        self._gate = gate

    def let_in(self) -> None:
        """Open the gate it waits at."""
        os.write(self._gate, b"!")

    def ack(self) -> Ack | None:
        """Wait for its next report; None when it is gone."""
        data = self._pipe.read(ACK.size)
        return Ack(*ACK.unpack(data)) if len(data) == ACK.size else None

    def kill(self, *, after: float) -> list[Ack]:
        """Send SIGKILL after some seconds; return the reports it had sent, once it is dead."""
        threading.Timer(after, os.kill, (self.pid, signal.SIGKILL)).start()
        return self.rest()

    def rest(self) -> list[Ack]:
        """Wait for its end; return the reports it had sent by then."""
        acks = list(iter(self.ack, None))
        self._pipe.close()
        os.close(self._gate)
        return acks


class WriterServer:
    """Starts writers."""

    def __init__(self, commands: socket.socket) -> None:
        self._commands = commands

    def start(self, role: Callable[[Task, int, int], None], directory: Path, **task: Any) -> Writer:
        """Start a writer; keywords as in `Task`."""
        unless_told: dict[str, Any] = {
            "seed": 0,
            "durability": "turn",
            "without_flock": False,
            "source_id": "",
            "dies_at": 0,
        }
        fields = {**unless_told, **task}
        message = Task(role=role.__name__, directory=str(directory), **fields)
        read_end, write_end = os.pipe()
        gate, gate_opener = os.pipe()
        socket.send_fds(self._commands, [json.dumps(message).encode()], [write_end, gate])
        os.close(write_end)
        os.close(gate)
        return Writer(int(self._commands.recv(32)), read_end, gate_opener)


@contextmanager
def writer_server() -> Iterator[WriterServer]:
    """Run a server of writers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, "-m", "tests.wire.journal_writers", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        yield WriterServer(ours)
        ours.shutdown(socket.SHUT_RDWR)
        process.wait(WITHIN)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
