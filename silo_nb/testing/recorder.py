"""A wire recorder: stands between a client and an agent, and writes down what they say.

::

    python -m silo_nb.testing.recorder OUT.jsonl -- COMMAND [ARGUMENT …]

It passes every byte on as it comes, in both directions and on stderr, hands on SIGTERM, SIGINT and
SIGHUP, and ends as the agent ended. The format is that of `silo_nb.testing.recording`; the file is
readable by its owner alone, for prompts and file contents are in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

USAGE = "usage: recorder OUT.jsonl -- COMMAND [ARGUMENT ...]"
_BAD_USAGE = 64
_NOT_FOUND = 127

_CHUNK = 64 * 1024
# A process the agent left behind can hold its stdout open for ever.
_AFTER_EXIT_SECONDS = 2.0
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Tape:
    """Writes the recording; each event is one line, from whichever thread it comes.

    Args:
        path: the file, replaced if it is there (0600).
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def event(self, name: str, /, **about: Any) -> None:
        """Record something that is no message."""
        self._write({"dir": "event", "event": name, **about})

    def line(self, direction: str, line: bytes) -> None:
        """Record one line of a stream: a message, or raw text when it is no JSON object."""
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            self._write({"dir": direction, "msg": message})
        elif line.strip():
            text = line.decode(errors="backslashreplace")
            raw = {"dir": "raw"} if direction == "in" else {"dir": "event", "event": "client-raw"}
            self._write({**raw, "text": text})

    def _write(self, about: dict[str, Any]) -> None:
        with self._lock:
            record = {"t": round(time.monotonic() - self._start, 3), **about}
            data = json.dumps(record).encode() + b"\n"
            while data:
                data = data[os.write(self._fd, data) :]


class Lines:
    """Cuts a stream into lines while it passes.

    Args:
        on_line: called with each line, without its newline.
    """

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._on_line(b"".join([*self._parts, line]))
            self._parts = []
        self._parts.append(rest)

    def end(self) -> None:
        """Give out what is left when the stream ends without a newline."""
        if rest := b"".join(self._parts):
            self._on_line(rest)


def record(path: Path, command: Sequence[str]) -> int:
    """Run a command between this process's own streams, recording what passes.

    Args:
        path: where the recording goes.
        command: argv of the agent.

    Returns:
        Its exit status; minus the number of the signal that ended it.

    Raises:
        OSError: the command cannot be started.
    """
    tape = Tape(path)
    pipe = subprocess.PIPE
    agent = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    tape.event("spawn", cmd=list(command))
    for number in _PASSED_ON:
        signal.signal(number, lambda caught, _frame: agent.send_signal(caught))
    outputs = [
        _thread(_pass_output, agent.stdout, 1, lambda line: tape.line("in", line), tape),
        _thread(_pass_output, agent.stderr, 2, lambda line: _stderr(tape, line), None),
    ]
    _thread(_pass_input, agent, tape)
    status = agent.wait()
    ended = time.monotonic()
    for output in outputs:
        output.join(max(0.0, ended + _AFTER_EXIT_SECONDS - time.monotonic()))
    tape.event("exit", rc=status)
    return status


def _thread(function: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def _stderr(tape: Tape, line: bytes) -> None:
    tape.event("stderr", text=line.decode(errors="backslashreplace"))


def _pass_input(agent: subprocess.Popen[bytes], tape: Tape) -> None:
    assert agent.stdin is not None  # noqa: S101 - it was started with a pipe
    lines = Lines(lambda line: tape.line("out", line))
    # An agent that is gone, or closed its stdin, is no reason to stop recording what it says.
    with contextlib.suppress(BrokenPipeError):
        while chunk := os.read(0, _CHUNK):
            lines.feed(chunk)
            _write_all(agent.stdin.fileno(), chunk)
    lines.end()
    tape.event("stop", how="eof")
    agent.stdin.close()


def _pass_output(
    stream: Any, target: int, on_line: Callable[[bytes], None], tape: Tape | None
) -> None:
    lines = Lines(on_line)
    while chunk := os.read(stream.fileno(), _CHUNK):
        # First recorded, then passed on: what the client knows is on the tape.
        lines.feed(chunk)
        with contextlib.suppress(BrokenPipeError):
            _write_all(target, chunk)
    lines.end()
    if tape is not None:
        tape.event("stdout-eof")
        with contextlib.suppress(OSError):
            os.close(target)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main(arguments: Sequence[str]) -> int:
    """Record what the command line asks for, and end as the agent did."""
    if len(arguments) < len(("OUT", "--", "COMMAND")) or arguments[1] != "--":
        sys.stderr.write(f"{USAGE}\n")
        return _BAD_USAGE
    try:
        status = record(Path(arguments[0]), arguments[2:])
    except OSError as error:
        sys.stderr.write(f"cannot record {arguments[2]!r}: {error}\n")
        return _NOT_FOUND
    if status < 0:
        # Not every signal can be given a handler; those need none taken away.
        with contextlib.suppress(OSError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
