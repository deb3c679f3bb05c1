"""Listing the sessions of a directory, deleting one, and writing one anew. (R59, FAULTS §3.3)"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from silo_nb.errors import JournalError
from silo_nb.journal import (
    Journal,
    SessionFile,
    carry,
    compact,
    describe_session,
    find_session,
    journal_directory,
    list_sessions,
    purge,
    read_records,
)
from silo_nb.journal.owner import Owner
from silo_nb.model import EMPTY_TRANSCRIPT, Transcript, apply_update
from silo_nb.session.records import read_updates

WITHIN = 10
ID = "demo-1"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return journal_directory(tmp_path)


def close(*journals: Journal) -> None:
    for journal in journals:
        journal.close().result(WITHIN)


def file_of(directory: Path, session_id: str = ID) -> Path:
    return directory / "sessions" / f"{session_id}.jsonl"


def titled(title: str | None) -> dict[str, Any]:
    return {"u": {"sessionUpdate": "session_info_update", "title": title}}


def prompted(turn: int, text: str = "What files are here?") -> dict[str, Any]:
    return {"turn": turn, "prompt": [{"type": "text", "text": text}]}


def write(
    directory: Path, *records: tuple[str, dict[str, Any]], session_id: str = ID, **header: Any
) -> Path:
    """Write the journal of a session that nobody writes any more."""
    journal = Journal.create(directory, {"id": session_id, **header}, durability="none")
    for kind, fields in records:
        journal.append(kind, fields)
    close(journal)
    return file_of(directory, session_id)


def only(directory: Path, **options: Any) -> SessionFile:
    listing = list_sessions(directory, **options)
    assert listing.problems == ()
    (session,) = listing
    return session


# What a listing says.


def test_a_session_is_listed_with_what_its_header_says(directory: Path) -> None:
    """R59: everything a list of dormant sessions shows, with nothing running."""
    path = write(
        directory,
        profileId="claude",
        agentId="claude-code",
        agentName="Claude Code",
        sessionId="agent-1",
        cwd="/home/ada",
        createdAt="2026-11-30T12:00:00.000+00:00",
    )
    os.utime(path, (1_000, 1_000))

    session = only(directory)

    assert (session.id, session.path, session.size) == (ID, path, path.stat().st_size)
    assert (session.profile_id, session.agent_id) == ("claude", "claude-code")
    assert (session.agent_name, session.cwd) == ("Claude Code", "/home/ada")
    assert session.created == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert session.updated == datetime.fromtimestamp(1_000, UTC)
    assert (session.session_id, session.carried_from, session.owner) == ("agent-1", None, None)


def test_a_directory_without_journals_has_no_sessions(directory: Path) -> None:
    assert list(list_sessions(directory)) == []
    assert not directory.exists()


def test_the_one_written_last_comes_first(directory: Path) -> None:
    for number, when in enumerate((2_000, 3_000, 1_000)):
        os.utime(write(directory, session_id=f"demo-{number}"), (when, when))

    listing = list_sessions(directory)

    assert [session.id for session in listing] == ["demo-1", "demo-0", "demo-2"]
    assert listing[0].id == listing[:2][0].id == "demo-1"


def test_the_title_is_the_last_one_the_agent_gave(directory: Path) -> None:
    write(directory, ("update", titled("first")), ("user", {}), ("update", titled("second")))
    write(directory, ("update", titled("first")), ("meta", {"title": "ours"}), session_id="demo-2")
    write(directory, ("update", titled("first")), ("update", titled(None)), session_id="demo-3")
    write(directory, ("update", {"u": {"sessionUpdate": "x", "title": "no"}}), session_id="demo-4")

    titles = {session.id: session.title for session in list_sessions(directory)}

    assert titles == {ID: "second", "demo-2": "ours", "demo-3": None, "demo-4": None}


def test_a_session_without_title_has_its_first_words(directory: Path) -> None:
    write(directory, ("user", prompted(1, "Fit a line")), ("user", prompted(2, "and now?")))

    assert only(directory).opening == "Fit a line"


def test_every_id_the_agent_gave_is_listed(directory: Path) -> None:
    """R53: the present one last."""
    write(
        directory,
        ("meta", {"sessionId": "b"}),
        ("meta", {"sessionId": "a"}),
        ("meta", {"sessionId": "c"}),
        sessionId="a",
    )
    close(carry(directory, ID, {"id": "demo-2", "sessionId": "d"}))

    sessions = {session.id: session for session in list_sessions(directory)}

    assert sessions[ID].session_ids == ("b", "a", "c")
    assert sessions["demo-2"].session_ids == ("d",)
    assert sessions["demo-2"].carried_from == ID


@pytest.mark.parametrize(
    ("kinds", "in_turn"),
    [
        ([], False),
        (["turn_start", "update", "turn_end"], False),
        (["turn_start", "turn_end", "update"], False),
        (["turn_start", "turn_end", "user"], True),
        (["turn_start", "update"], True),
    ],
)
def test_a_turn_that_never_ended_shows(directory: Path, kinds: list[str], in_turn: bool) -> None:
    write(directory, *((kind, {}) for kind in kinds))

    assert only(directory).in_turn is in_turn


FILLER = ("update", {"u": {"sessionUpdate": "x", "text": "x" * 100_000}})


def test_a_long_journal_is_told_from_its_ends(directory: Path) -> None:
    """Cheap: what lies in the middle is known only to who asks for the whole."""
    write(
        directory,
        ("user", prompted(1, "first words")),
        ("turn_start", {}),
        *[FILLER] * 5,
        ("update", titled("in the middle")),
        ("meta", {"sessionId": "b"}),
        *[FILLER] * 5,
        ("turn_end", {}),
        ("user", prompted(7)),
        sessionId="a",
    )

    quick, whole = only(directory), only(directory, whole=True)

    assert (quick.opening, quick.turns, quick.in_turn) == ("first words", 7, True)
    assert (quick.title, quick.session_ids) == (None, ("a",))
    assert (whole.title, whole.session_ids) == ("in the middle", ("a", "b"))
    assert (whole.opening, whole.turns, whole.in_turn) == ("first words", 7, True)


def test_a_title_is_looked_for_at_the_end_then_at_the_beginning(directory: Path) -> None:
    write(directory, ("update", titled("early")), *[FILLER] * 9)
    assert only(directory).title == "early"
    purge(directory, ID)

    write(directory, ("update", titled("early")), *[FILLER] * 9, ("update", titled("late")))
    assert only(directory).title == "late"


def test_what_the_ends_do_not_tell_is_unknown_not_wrong(directory: Path) -> None:
    """A turn of many megabytes: its beginning is far from the end of the file."""
    write(directory, ("user", prompted(1)), ("turn_end", {}), ("user", {}), *[FILLER] * 9)

    quick, whole = only(directory), only(directory, whole=True)

    assert (quick.turns, quick.in_turn) == (None, None)
    assert (whole.turns, whole.in_turn) == (2, True)


def test_listing_reads_only_the_ends(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(directory, *[FILLER] * 50)
    read = 0
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = pread(fd, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)

    assert only(directory).size > 5_000_000
    assert 500_000 < read <= 600_000
    read = 0
    assert only(directory).size > 5_000_000
    assert read == 0


def test_a_session_that_goes_on_is_read_again(directory: Path) -> None:
    write(directory, ("update", titled("first")))
    assert only(directory).title == "first"

    journal = Journal.open(directory, ID)
    journal.append("update", titled("second"))
    close(journal)

    assert only(directory).title == "second"


# Who writes a session.


def test_the_living_owner_is_named(directory: Path) -> None:
    """FAULTS D11: without touching the lock, so that nobody is kept out by a look."""
    journal = Journal.create(directory, {"id": ID})
    journal.sync().result(WITHIN)

    owner = only(directory).owner

    assert owner is not None
    assert (owner.pid, owner.host) == (os.getpid(), socket.gethostname())
    close(journal)
    assert only(directory).owner is None


def forge_lock(directory: Path, suffix: str, **changed: Any) -> None:
    fields = json.loads(Owner.current().to_bytes())
    (directory / "locks" / f"{ID}{suffix}").write_text(json.dumps({**fields, **changed}))


@pytest.mark.parametrize("suffix", [".lock", ".lease"])
def test_a_dead_owner_is_none(directory: Path, suffix: str) -> None:
    """FAULTS D12."""
    write(directory)
    forge_lock(directory, suffix, boot="before the restart")
    assert only(directory).owner is None

    forge_lock(directory, suffix, host="node-7")
    owner = only(directory).owner
    assert owner is not None
    assert owner.host == "node-7"


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, Path.touch])
def test_a_planted_lock_is_nobodys(directory: Path, plant: Callable[[Path], None]) -> None:
    """FAULTS D19: and nothing waits for it."""
    write(directory)
    plant(directory / "locks" / f"{ID}.lock")

    assert only(directory).owner is None


# What is no journal.


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b""), "is no journal"),
        (lambda path: path.write_bytes(b"\0" * 10_000), "is no journal"),
        (lambda path: path.write_bytes(os.urandom(10_000)), "is no journal"),
        (lambda path: path.write_bytes(b"[1]\n" * 100), "is no journal"),
        (link, "cannot be read"),
        (pipe, "not a regular file"),
        (folder, "not a regular file"),
    ],
    ids=["empty", "zeros", "noise", "other JSON", "link", "pipe", "directory"],
)
def test_what_is_no_journal_is_named_and_skipped(
    directory: Path, spoil: Callable[[Path], None], why: str
) -> None:
    """FAULTS T22, D19."""
    write(directory, session_id="demo-2")
    path = write(directory)
    spoil(path)

    listing = list_sessions(directory)

    assert [session.id for session in listing] == ["demo-2"]
    (problem,) = listing.problems
    assert str(path) in problem
    assert why in problem


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_journal_is_named_and_skipped(directory: Path) -> None:
    path = write(directory)
    os.chown(path, 12_345, -1)

    listing = list_sessions(directory)

    assert len(listing) == 0
    assert "belongs to another user" in listing.problems[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_journal_one_must_not_read_is_named_and_skipped(directory: Path) -> None:
    write(directory).chmod(0)

    assert "Permission denied" in list_sessions(directory).problems[0]


def test_a_damaged_journal_is_listed_with_what_is_left(directory: Path) -> None:
    """FAULTS D3, D4: no header, a torn tail."""
    path = write(directory, ("user", prompted(1, "hello")), ("turn_end", {}), profileId="demo")
    path.write_bytes(b"\0" * 30 + path.read_bytes()[30:-20])

    session = only(directory)

    assert (session.profile_id, session.created, session.session_id) == ("", None, "")
    assert (session.turns, session.opening) == (1, "hello")


@pytest.mark.parametrize("value", [None, 7, ["x"], {"x": 1}, "\ud800", "9999-99-99", "x" * 100_000])
def test_a_header_of_any_shape_is_tolerated(directory: Path, value: Any) -> None:
    fields = dict.fromkeys(
        ("sessionId", "profileId", "agentId", "agentName", "cwd", "createdAt", "carriedFrom"), value
    )
    write(directory, ("user", {"turn": value, "prompt": value}), ("meta", {"title": value}))
    path = file_of(directory)
    header, *rest = path.read_bytes().splitlines(keepends=True)
    forged = {**json.loads(header), **fields}
    path.write_bytes(json.dumps(forged).encode() + b"\n" + b"".join(rest))

    assert only(directory).created is None


def test_a_file_from_the_far_future_is_tolerated(directory: Path) -> None:
    os.utime(write(directory), (10**11, 10**11))

    assert only(directory).updated.year > 2_026


def test_other_files_are_none_of_its_business(directory: Path) -> None:
    path = write(directory)
    for name in (f"{path.name}.bak1", f"{path.name}.tmp", "notes.txt", "UPPER.jsonl"):
        (path.parent / name).write_text("x")

    assert only(directory).id == ID


def test_a_session_that_is_missing_cannot_be_described(directory: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal of session 'demo-1'"):
        describe_session(directory, ID)
    with pytest.raises(JournalError, match="is not a session id of silo_nb"):
        describe_session(directory, "../x")


# Deleting.


def names(directory: Path) -> set[str]:
    return {path.name for path in (directory / "sessions").iterdir()}


def test_a_purged_session_is_gone_with_its_backups(directory: Path) -> None:
    """FAULTS T14."""
    path = write(directory)
    write(directory, session_id="demo-10")
    for name in (f"{path.name}.bak1", f"{path.name}.bak12", f"{path.name}.tmp"):
        (path.parent / name).write_text("x")

    purge(directory, ID)

    assert names(directory) == {"demo-10.jsonl"}
    assert list((directory / "locks").iterdir()) == []


def test_a_session_somebody_writes_is_not_purged(directory: Path) -> None:
    journal = Journal.create(directory, {"id": ID})

    with pytest.raises(JournalError, match=f"is open in process {os.getpid()} on"):
        purge(directory, ID)

    assert file_of(directory).exists()
    close(journal)


def test_purging_what_is_missing_makes_nothing(directory: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal of session 'demo-1'"):
        purge(directory, ID)

    assert not directory.exists()


def test_what_cannot_be_purged_is_an_error_of_ours(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(directory)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "unlink", refuse)

    with pytest.raises(JournalError, match="cannot be deleted: Read-only file system"):
        purge(directory, ID)


# Compaction.


def chunk(text: str, message_id: str | None = "m1", **more: Any) -> tuple[str, dict[str, Any]]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    if message_id is not None:
        update["messageId"] = message_id
    return "update", {"u": {**update, **more}}


def told(path: Path) -> Transcript:
    return reduce(apply_update, read_updates(read_records(path).records), EMPTY_TRANSCRIPT)


CONVERSATION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("user", prompted(1)),
    ("turn_start", {}),
    *(chunk(f"word {number} ") for number in range(500)),
    *(chunk(f"more {number} ", "m2") for number in range(5)),
    chunk("with an annotation", "m2", _meta={"x": 1}),
    chunk("and on", "m2"),
    ("update", {"u": {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read"}}),
    *(chunk(f"nameless {number} ", None) for number in range(3)),
    ("turn_end", {"stopReason": "end_turn"}),
)


def test_compaction_joins_what_was_streamed_and_changes_nothing(directory: Path) -> None:
    """FAULTS §0.10: a journal of one-word records; same conversation, a fraction of the size."""
    path = write(directory, *CONVERSATION, profileId="demo")
    before, conversation = path.read_bytes(), told(path)
    last = read_records(path).records[-1]

    compact(directory, ID)

    after = read_records(path)
    assert told(path) == conversation
    assert path.stat().st_size < len(before) / 5
    assert after.header == json.loads(before.splitlines()[0])
    assert after.records[-1] == last
    assert [r["seq"] for r in after.records] == sorted(r["seq"] for r in after.records)
    assert [r["k"] for r in after.records].count("update") == 8
    assert path.with_name(f"{path.name}.bak1").read_bytes() == before
    assert list((directory / "locks").iterdir()) == []


def test_a_compacted_journal_goes_on(directory: Path) -> None:
    path = write(directory, *CONVERSATION)
    last = read_records(path).records[-1]["seq"]
    compact(directory, ID)

    journal = Journal.open(directory, ID)
    assert journal.append("user", prompted(2)) == last + 1
    close(journal)
    compact(directory, ID)

    assert names(directory) == {path.name, f"{path.name}.bak1", f"{path.name}.bak2"}
    assert find_session(directory, ID) == path


def test_no_joined_record_is_too_long(directory: Path) -> None:
    path = write(directory, *(chunk("x" * 50_000) for _ in range(40)))
    conversation = told(path)

    compact(directory, ID)

    assert told(path) == conversation
    assert max(map(len, path.read_bytes().splitlines())) < 1 << 20
    assert b"cut by silo_nb" not in path.read_bytes()


def test_compaction_leaves_damage_behind(directory: Path) -> None:
    path = write(directory, ("user", {"n": 1}), ("user", {"n": 2}))
    path.write_bytes(path.read_bytes() + b"\0\0\0\n" + b'{"v":1,')

    compact(directory, ID)

    reading = read_records(path)
    assert [record["n"] for record in reading.records] == [1, 2]
    assert (reading.bad_lines, reading.torn_tail) == (0, False)


def test_a_session_somebody_writes_is_not_compacted(directory: Path) -> None:
    journal = Journal.create(directory, {"id": ID})

    with pytest.raises(JournalError, match=f"is open in process {os.getpid()} on"):
        compact(directory, ID)

    assert names(directory) == {f"{ID}.jsonl"}
    close(journal)


def test_what_must_not_be_rewritten_is_refused(directory: Path) -> None:
    """FAULTS D7."""
    with pytest.raises(JournalError, match="there is no journal of session 'demo-1'"):
        compact(directory, ID)
    path = write(directory)
    path.write_bytes(path.read_bytes().replace(b'{"v":1', b'{"v":2'))
    before = path.read_bytes()

    with pytest.raises(JournalError, match="newer silo_nb"):
        compact(directory, ID)

    assert path.read_bytes() == before
    assert names(directory) == {path.name}


def test_a_disk_that_refuses_leaves_the_old_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(directory, *CONVERSATION)
    before = path.read_bytes()

    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(JournalError, match=re.escape("cannot be compacted: No space left")):
        compact(directory, ID)

    assert path.read_bytes() == before
    assert names(directory) == {path.name}


@pytest.fixture
def without_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


def test_backups_are_kept_without_hard_links(directory: Path, without_hard_links: None) -> None:
    path = write(directory, *CONVERSATION)
    before = path.read_bytes()

    compact(directory, ID)

    assert path.with_name(f"{path.name}.bak1").read_bytes() == before
    assert describe_session(directory, ID).turns == 1
