"""What sessions have journals in a directory, told from a part of each file.

Reading the first and the last 256 KiB of a journal costs a millisecond or two however long it is,
and a file that did not change is not read again. What lies between them, a title or an adopted id,
is known only to who asks for the whole.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

from silo_nb.errors import JournalError
from silo_nb.journal.header import CARRIED_FROM, agent_session_ids
from silo_nb.journal.ids import is_session_id
from silo_nb.journal.layout import SESSIONS, SUFFIX, no_journal, session_path
from silo_nb.journal.lock import owner_of
from silo_nb.journal.reader import TAIL_BYTES, RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from silo_nb.journal.owner import Owner

_OPENING_CHARS = 200
_LATEST = datetime.max.replace(tzinfo=UTC).timestamp() - 1  # file systems know later times


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """One session on the disk. All text in it is of foreign origin: show it inert.

    Attributes:
        id: our own id, which names the file.
        path: the file.
        size: in bytes, without backups.
        updated: when it was written last.
        created: when the session began; None when the header does not say.
        session_ids: every id its agent gave it, the present one last; those in the middle of a long
            file only when the whole was read.
        profile_id: the profile it was connected from; empty when unknown, like all text here.
        agent_id: the agent the profile says it starts.
        agent_name: what the agent called itself.
        cwd: the directory the agent worked in.
        carried_from: the session whose records it began with.
        title: the last title the agent gave it.
        opening: how the first prompt begins, for sessions without a title.
        turns: number of prompts; None when what was read does not tell.
        in_turn: whether it ends in the middle of a turn; None when what was read does not tell.
        owner: the living process that writes it, as far as can be told.
    """

    id: str
    path: Path
    size: int
    updated: datetime
    created: datetime | None = None
    session_ids: tuple[str, ...] = ()
    profile_id: str = ""
    agent_id: str | None = None
    agent_name: str = ""
    cwd: str = ""
    carried_from: str | None = None
    title: str | None = None
    opening: str | None = None
    turns: int | None = None
    in_turn: bool | None = None
    owner: Owner | None = None

    @property
    def session_id(self) -> str:
        """The id the agent knows the session by; empty when there is none on record."""
        return self.session_ids[-1] if self.session_ids else ""


@dataclass(frozen=True, slots=True)
class Listing(Sequence[SessionFile]):
    """The sessions of a directory, the one written last first.

    Attributes:
        sessions: those whose journals can be read.
        problems: the others, each with the reason, for people to read.
    """

    sessions: tuple[SessionFile, ...] = ()
    problems: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> SessionFile: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SessionFile, ...]: ...
    def __getitem__(self, index: int | slice) -> SessionFile | tuple[SessionFile, ...]:
        return self.sessions[index]

    def __len__(self) -> int:
        return len(self.sessions)


def list_sessions(directory: Path, *, whole: bool = False) -> Listing:
    """Return what sessions have journals in a directory; nothing is written and no lock taken.

    Args:
        directory: the ``.silo_nb`` to look in; a missing one has none.
        whole: read all of every file, not only its beginning and end.
    """
    sessions: list[SessionFile] = []
    problems: list[str] = []
    try:
        names = sorted(entry.name for entry in os.scandir(directory / SESSIONS))
    except FileNotFoundError:
        return Listing()
    except OSError as error:
        where = str(directory / SESSIONS)
        return Listing(problems=(f"{where!r} cannot be read: {error.strerror or error}",))
    for name in names:
        session_id = name.removesuffix(SUFFIX)
        if session_id == name or not is_session_id(session_id):
            continue
        try:
            sessions.append(describe_session(directory, session_id, whole=whole))
        except JournalError as error:
            if os.path.lexists(session_path(directory, session_id)):  # not deleted meanwhile
                problems.append(str(error))
    sessions.sort(key=lambda file: file.updated, reverse=True)
    return Listing(tuple(sessions), tuple(problems))


def describe_session(directory: Path, session_id: str, *, whole: bool = False) -> SessionFile:
    """Return what is known of one session; arguments as for `list_sessions`.

    Raises:
        JournalError: its journal is missing, or is none: a symbolic link, another user's, damaged
            from beginning to end.
    """
    path = session_path(directory, session_id)
    status = _checked_status(path)
    facts = _read(path, _Version.of(status), whole=whole)
    header = facts.header
    if not header and not facts.records_read:
        msg = f"{str(path)!r} is no journal, or nothing of it can be read"
        raise JournalError(msg)
    return SessionFile(
        id=session_id,
        path=path,
        size=status.st_size,
        updated=datetime.fromtimestamp(min(status.st_mtime, _LATEST), UTC),
        created=_time(header.get("createdAt")),
        session_ids=agent_session_ids(header, facts.metas),
        profile_id=_text(header, "profileId") or "",
        agent_id=_text(header, "agentId"),
        agent_name=_text(header, "agentName") or "",
        cwd=_text(header, "cwd") or "",
        carried_from=_text(header, CARRIED_FROM),
        title=facts.title,
        opening=facts.opening,
        turns=facts.turns if facts.turns or facts.is_whole else None,
        in_turn=facts.in_turn if facts.in_turn is not None or not facts.is_whole else False,
        owner=owner_of(directory, session_id),
    )


def _checked_status(path: Path) -> os.stat_result:
    try:
        status = path.lstat()
        # On mounts that show one fixed owner for everything, the directory shows the same.
        ours = {os.geteuid(), path.parent.stat().st_uid}
    except FileNotFoundError:
        raise no_journal(path) from None
    except OSError as error:
        msg = f"{str(path)!r} cannot be read: {error.strerror or error}"
        raise JournalError(msg) from error
    if status.st_uid not in ours:
        msg = f"{str(path)!r} belongs to another user (uid {status.st_uid})"
        raise JournalError(msg)
    return status


class _Facts:
    """What was gathered from the records that were read, in their order."""

    def __init__(self, *, is_whole: bool) -> None:
        self.header: Mapping[str, Any] = {}
        self.is_whole = is_whole
        self.records_read = 0
        self.metas: list[Mapping[str, Any]] = []
        self.title: str | None = None
        self.opening: str | None = None
        self.turns = 0
        self.in_turn: bool | None = None

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            self.records_read += 1
            match record["k"]:
                case "meta":
                    self.metas.append(record)
                    self._note_title(record)
                case "update":
                    self._note_title(record.get("u"), "session_info_update")
                case "user":
                    self._note_prompt(record)
                    self.in_turn = True
                case "turn_start":
                    self.in_turn = True
                case "turn_end":
                    self.in_turn = False

    def skip(self) -> None:
        """Go on with records from further down: what was counted until here means nothing."""
        self.turns = 0
        self.in_turn = None

    def _note_title(self, update: object, kind: str | None = None) -> None:
        # The one place of this package that looks into an update.
        if not isinstance(update, dict) or "title" not in update:
            return
        if kind is None or update.get("sessionUpdate") == kind:
            self.title = _text(update, "title")

    def _note_prompt(self, record: Mapping[str, Any]) -> None:
        number = record.get("turn")
        self.turns = max(self.turns + self.is_whole, number if type(number) is int else 0)
        if self.opening is None:
            blocks = record.get("prompt")
            texts = [_text(block, "text") for block in blocks] if isinstance(blocks, list) else []
            self.opening = " ".join(filter(None, texts))[:_OPENING_CHARS] or None


class _Version(NamedTuple):
    """What tells one state of a file from the next."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1_024)
def _read(path: Path, version: _Version, *, whole: bool) -> _Facts:
    is_whole = whole or version.size <= 2 * TAIL_BYTES
    facts = _Facts(is_whole=is_whole)
    beginning = RecordReader(path, end=None if is_whole else TAIL_BYTES)
    facts.add(beginning)
    facts.header = beginning.header or {}
    if not is_whole:
        facts.skip()
        facts.add(RecordReader(path, tail=TAIL_BYTES))
    return facts


def _text(fields: object, key: str) -> str | None:
    value = fields.get(key) if isinstance(fields, dict) else None
    return value if isinstance(value, str) and value else None


def _time(value: object) -> datetime | None:
    try:
        when = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return when if when is None or when.tzinfo else when.replace(tzinfo=UTC)
