"""The steps that are not about messages: bytes, streams, signals and other processes."""

from __future__ import annotations

import base64
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from silo_nb.testing.scripted.log import encode
from silo_nb.testing.scripted.wire import STREAMS

# A process that stays for an hour, and says on descriptor 3 when it is set up.
_LINGER = """
import os, signal, sys, time
if sys.argv[1] == "term_immune":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
os.write(3, b"%d" % os.getpid())
os.close(3)
time.sleep(3600)
"""

# Lines in one write of a flood, and how long a paced flood gathers them.
_BULK = 256
_TICK = 0.005

_SIGNALS = {"sigterm": signal.SIGTERM, "sigint": signal.SIGINT, "sighup": signal.SIGHUP}


def raw_bytes(part: Any, text: Callable[[str], str]) -> Iterator[tuple[bytes, int]]:
    r"""Yield (bytes, how often) of a ``garbage`` value; `text` replaces names in its texts.

    >>> list(raw_bytes(["a", {"base64": "/w==", "repeat": 3}], str))
    [(b'a', 1), (b'\xff', 3)]
    """
    if isinstance(part, list):
        for inner in part:
            yield from raw_bytes(inner, text)
    elif isinstance(part, str):
        yield text(part).encode(), 1
    else:
        data = base64.b64decode(part["base64"]) if "base64" in part else text(part["text"]).encode()
        yield data, part.get("repeat", 1)


def chunks_of_flood(step: Mapping[str, Any], session: str) -> Iterator[bytes]:
    """Yield the lines of a flood one by one."""
    mark = "${i}"
    update: dict[str, Any] = {
        "sessionUpdate": step.get("kind", "agent_message_chunk"),
        "content": {"type": "text", "text": step.get("text", "x")},
    }
    if "id" in step:
        update["messageId"] = step["id"]
    params = {"sessionId": session, "update": update}
    line = encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"
    numbered = mark.encode() in line
    for number in range(step["flood"]):
        yield line.replace(mark.encode(), b"%d" % number) if numbered else line


def in_bulk(lines: Iterator[bytes], rate: float | None) -> Iterator[bytes]:
    r"""Join lines into large writes; with a `rate` (lines a second), each when it is due.

    >>> list(in_bulk(iter([b"a\n", b"b\n"]), None))
    [b'a\nb\n']
    """
    at_once = _BULK if rate is None else max(1, min(_BULK, int(rate * _TICK)))
    start = time.monotonic()
    done = 0
    while batch := list(islice(lines, at_once)):
        if rate is not None:
            time.sleep(max(0.0, done / rate - (time.monotonic() - start)))
        done += len(batch)
        yield b"".join(batch)


def ignore_signal(name: str) -> None:
    """Make a signal do nothing from now on."""
    signal.signal(_SIGNALS[name], signal.SIG_IGN)


def raise_signal(name: str) -> None:
    """Send this very process a signal."""
    os.kill(os.getpid(), signal.Signals[name])


def leave_behind(kind: str, *, keeps: Sequence[str], tag: str) -> int:
    """Start a process that outlives its purpose, and return its id once it is set up.

    Args:
        kind: see `silo_nb.testing.fake_agent`.
        keeps: which of our streams it holds open.
        tag: what its command line can be found by.
    """
    if kind == "zombie":
        return _zombie()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        if kind in {"setsid", "daemon"}:
            os.setsid()
        if kind == "daemon" and os.fork():
            os._exit(0)
        _become_lingerer(kind, keeps, tag, tell)
    os.close(tell)
    if kind == "daemon":
        os.waitpid(child, 0)
    with os.fdopen(told, "rb") as pipe:
        return int(pipe.read())


def _zombie() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    if sys.platform != "darwin":
        # Dead, but deliberately not reaped. (On macOS there is no waiting without reaping.)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child


def _become_lingerer(kind: str, keeps: Sequence[str], tag: str, tell: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for name, fd in STREAMS.items():
        if name not in keeps:
            os.dup2(null, fd)
    # The log's descriptor and the like stay ours: they close on exec, 3 does not.
    os.dup2(tell, 3)
    os.set_inheritable(3, True)  # noqa: FBT003 - positional only
    # After a fork only exec is safe here: the reading thread is not in the child.
    os.execv(  # noqa: S606 - never a shell
        sys.executable, [sys.executable, "-I", "-S", "-c", _LINGER, kind, tag]
    )
