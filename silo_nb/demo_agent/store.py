"""Sessions on disk, so that they can be listed, loaded and resumed by a later process."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SESSION_ID = re.compile(r"demo-[0-9a-f]{16}")
# The demo is no archive: the newest so many sessions are kept.
_KEPT = 200

Saved = dict[str, Any]


def new_session_id() -> str:
    """Return an id that no other session has."""
    return f"demo-{os.urandom(8).hex()}"


class Store:
    """One file a session, in a directory only the user can read.

    Args:
        directory: where; made when the first session is saved.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._complained = False

    @classmethod
    def of_user(cls) -> Store:
        """Return the store of whoever runs this process."""
        if named := os.environ.get("SILO_DEMO_STATE"):
            return cls(Path(named))
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return cls(Path(state) / "silo_nb" / "demo_agent")

    def save(self, session_id: str, session: Mapping[str, Any]) -> None:
        """Write a session. A directory that cannot be written costs only the resuming later."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(self._file(session_id), json.dumps(session).encode())
            self._forget_the_oldest()
        except OSError as error:
            if not self._complained:
                print(f"sessions are not kept: {error}", file=sys.stderr, flush=True)
                self._complained = True

    def load(self, session_id: str) -> Saved | None:
        """Read a session; None when there is none of that id, or it cannot be read."""
        if not _SESSION_ID.fullmatch(session_id):
            return None
        try:
            saved = json.loads(self._file(session_id).read_bytes())
        except (OSError, ValueError):
            return None
        return saved if isinstance(saved, dict) else None

    def delete(self, session_id: str) -> None:
        """Remove a session, if it is there."""
        if _SESSION_ID.fullmatch(session_id):
            self._file(session_id).unlink(missing_ok=True)

    def newest_first(self) -> list[Saved]:
        """Read every session."""
        saved = [self.load(file.stem) for file in self._files()]
        known = [session for session in saved if session is not None]
        return sorted(known, key=lambda session: str(session.get("updatedAt")), reverse=True)

    def _file(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.json"

    def _files(self) -> list[Path]:
        return list(self._directory.glob("demo-*.json"))

    def _replace(self, file: Path, data: bytes) -> None:
        """Replace a file as a whole, so that a process killed meanwhile leaves the old one."""
        draft = file.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as written:
            written.write(data)
        draft.replace(file)

    def _forget_the_oldest(self) -> None:
        files = sorted(self._files(), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[_KEPT:]:
            file.unlink(missing_ok=True)
