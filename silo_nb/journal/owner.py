"""Who holds a lock, as it is written into the lock file, and whether they still live."""

from __future__ import annotations

import functools
import json
import os
import re
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from silo_nb.errors import JournalError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TIME_FIELD = 19  # of /proc/<pid>/stat, counted after the command's closing parenthesis
_NOT_IN_A_NAME = re.compile(r"[^\w.:+-]")
_NAME_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that writes a journal.

    Attributes:
        pid: its process id, on its own host.
        host: that host's name.
        boot: what identifies one run of that host's kernel; empty where nothing does.
        started: the process's start in clock ticks after boot, so that a reused pid is told apart;
            0 where unknown.
        since: when it took the lock, ISO 8601.
        token: random; tells one lock of a process from its next.
    """

    pid: int
    host: str
    boot: str
    started: int
    since: str
    token: str

    @classmethod
    def current(cls) -> Owner:
        """Return this process, about to take a lock."""
        return cls(
            pid=os.getpid(),
            host=socket.gethostname(),
            boot=_boot_id(),
            started=_start_time(os.getpid()),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            token=os.urandom(8).hex(),
        )

    @classmethod
    def parse(cls, data: bytes) -> Owner | None:
        """Return the owner a lock file names, or None when it names nobody.

        The file may be planted, so names are reduced to what names are made of.
        """
        try:
            fields = json.loads(data)
            return cls(
                pid=int(fields["pid"]),
                started=int(fields["started"]),
                **{key: _name(fields[key]) for key in ("host", "boot", "since", "token")},
            )
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return None

    def to_bytes(self) -> bytes:
        """Return one line of JSON for the lock file."""
        return json.dumps(asdict(self)).encode() + b"\n"

    def is_local(self) -> bool:
        """Return whether it runs, or ran, under this very kernel: then its pid says something."""
        return (self.host, self.boot) == (_name(socket.gethostname()), _name(_boot_id()))

    def is_gone(self) -> bool:
        """Return whether it certainly does not run any more; False when nobody can tell."""
        if self.host != _name(socket.gethostname()):
            return False
        if self.boot != _name(_boot_id()):
            return True  # this host was restarted since
        return not _exists(self.pid) or _is_reused(self.pid, self.started)

    def __str__(self) -> str:
        """Say who and since when."""
        return f"process {self.pid} on {self.host} since {self.since}"


def taken(session_id: str, owner: Owner | None) -> JournalError:
    """Return the error for a session that somebody else writes."""
    who = "another process" if owner is None or owner.is_gone() else str(owner)
    msg = (
        f"session {session_id!r} is open in {who}; close it there, read it with read_journal(), "
        "or carry it into a new session with Restore(id, start_fresh=True)"
    )
    return JournalError(msg)


def _name(value: object) -> str:
    return _NOT_IN_A_NAME.sub("?", str(value)[:_NAME_CHARS])


@functools.cache
def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:  # not Linux
        return ""


def _start_time(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # not Linux, or no such process
        return 0
    return int(status.rpartition(b")")[2].split()[_START_TIME_FIELD])


def _exists(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _is_reused(pid: int, started: int) -> bool:
    now = _start_time(pid)
    return bool(now and started) and now != started
