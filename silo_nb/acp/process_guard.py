"""Starting a guard and its launch, and keeping our ends of its pipes out of forked children."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple, cast

from silo_nb.acp import guard
from silo_nb.errors import AgentError

__all__ = ["SpawnedGuard", "pack_launch", "spawn_guard"]

_hidden: set[IO[bytes] | socket.socket] = set()
_fork_hook: list[Callable[[], None]] = []  # it cannot be taken back: registered once, on first use


class SpawnedGuard(NamedTuple):
    """A running guard and our ends of what connects us with it and with its agent."""

    process: subprocess.Popen[bytes]
    lifeline: socket.socket
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def hide_from_forks(self) -> None:
        """Have our ends closed in every child that is forked off the kernel from now on.

        Such a child (multiprocessing) may outlive the kernel, and as long as it holds them, neither
        agent nor guard sees them end.
        """
        if not _fork_hook:
            os.register_at_fork(after_in_child=_close_hidden)
            _fork_hook.append(_close_hidden)
        _hidden.update(self[1:])

    def forget(self) -> None:
        """Undo `hide_from_forks`: they are closed here as well."""
        _hidden.difference_update(self[1:])


def spawn_guard() -> SpawnedGuard:
    """Start a guard; it waits for its launch.

    Raises:
        AgentError: the system refuses, for want of memory, processes or descriptors.
    """
    try:
        near, far = socket.socketpair()
        with far:
            try:
                process = _run_guard(far.fileno())
            except OSError:
                near.close()
                raise
    except OSError as error:
        raise AgentError(
            f"its guard process could not be started: {error}", phase="spawn"
        ) from error
    pipes = cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
    spawned = SpawnedGuard(process, near, *pipes)
    spawned.hide_from_forks()
    return spawned


def pack_launch(
    cwd: bytes, program: bytes, argv: Sequence[bytes], environment: Mapping[bytes, bytes]
) -> bytes:
    r"""Encode what to start, for `guard.unpack_launch`.

    Args:
        cwd: directory to start in.
        program: path of the program to execute.
        argv: its arguments, the first one included.
        environment: its whole environment.

    Returns:
        Length-prefixed bytes. NUL separates the fields, as none of them can contain it.

    Raises:
        ValueError: a field contains NUL, or a variable's name is empty or contains ``=``.

    >>> pack_launch(b"/", b"/bin/ls", [b"ls", b"-l"], {b"A": b"1"})
    b'21\n/\x00/bin/ls\x002\x00ls\x00-l\x00A=1'
    """
    for name in environment:
        if not name or b"=" in name:
            raise ValueError(f"illegal name of an environment variable: {name!r}")
    variables = [name + b"=" + value for name, value in environment.items()]
    fields = [cwd, program, str(len(argv)).encode(), *argv, *variables]
    if any(b"\0" in field for field in fields):
        raise ValueError("command, directory and environment cannot contain a NUL character")
    packed = b"\0".join(fields)
    return b"%d\n%b" % (len(packed), packed)


def _run_guard(lifeline: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # Isolated and without site: no PYTHON* variable, directory or site-packages of the user's
        # can make the guard run anything else.
        [sys.executable, "-I", "-S", guard.__file__, str(lifeline), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd="/",
        pass_fds=(lifeline,),
        start_new_session=True,
    )


def _close_hidden() -> None:
    ends = list(_hidden)
    _hidden.clear()
    for end in ends:
        end.close()
