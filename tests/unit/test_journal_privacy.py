"""T-17 and FAULTS T14, T22: nobody else reads a journal, and nobody else's file is written to."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.errors import JournalError
from silo_nb.journal import Journal, find_session, journal_directory, read_records

WITHIN = 10
NOBODY = 65534
SECRET = 'sk-"quoted"\\n\t-0123456789'


def give_away(path: Path) -> None:
    try:
        os.chown(path, NOBODY, NOBODY)
    except PermissionError:
        pytest.skip("NOT TESTED: only root can give a file to another user")


def modes(top: Path) -> dict[str, str]:
    return {
        path.name if path.is_dir() or path.name.startswith(".") else path.suffix: oct(
            stat.S_IMODE(path.stat().st_mode)
        )
        for path in (top, *top.rglob("*"))
    }


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777], ids=oct)
def test_files_are_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    """FAULTS T14, D20: directories 0700, files 0600, and nothing of it goes into a repository."""
    before = os.umask(mask)
    try:
        journal = Journal.create(journal_directory(tmp_path), {"profileId": "demo"})
    finally:
        os.umask(before)
    journal.append("user", {})
    journal.sync().result(WITHIN)

    assert journal.problem is None
    assert modes(tmp_path / ".silo_nb") == {
        ".silo_nb": "0o700",
        ".gitignore": "0o600",
        "sessions": "0o700",
        "locks": "0o700",
        ".jsonl": "0o600",
        ".lock": "0o600",
    }
    assert (tmp_path / ".silo_nb" / ".gitignore").read_text() == "*\n"
    journal.close().result(WITHIN)


def test_what_was_open_to_others_is_closed(tmp_path: Path) -> None:
    """A directory unpacked from an archive may have any mode."""
    journal = Journal.create(journal_directory(tmp_path), {})
    journal.close().result(WITHIN)
    assert journal.path is not None
    journal.path.chmod(0o644)
    journal.path.parent.chmod(0o777)

    again = Journal.open(journal_directory(tmp_path), journal.id)
    again.close().result(WITHIN)

    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.path.parent.stat().st_mode) == 0o700


# Things planted in a directory that came from a stranger.


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a notebook directory with one finished journal."""
    place = tmp_path / "repository"
    place.mkdir()
    journal = Journal.create(journal_directory(place), {"id": "demo-1", "sessionId": "ses_1"})
    journal.append("user", {})
    journal.close().result(WITHIN)
    return place


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """Return a file that must stay as it is."""
    file = tmp_path / "id_ed25519"
    file.write_text("PRIVATE KEY\n")
    yield file
    assert file.read_text() == "PRIVATE KEY\n"


def session_file(place: Path) -> Path:
    return journal_directory(place) / "sessions" / "demo-1.jsonl"


def link_the_file(place: Path, victim: Path) -> None:
    session_file(place).unlink()
    session_file(place).symlink_to(victim)


def link_into_nothing(place: Path, victim: Path) -> None:
    session_file(place).unlink()
    session_file(place).symlink_to(victim.parent / "made-by-us")


def fifo(place: Path, victim: Path) -> None:
    session_file(place).unlink()
    os.mkfifo(session_file(place))


def directory(place: Path, victim: Path) -> None:
    session_file(place).unlink()
    session_file(place).mkdir()


@pytest.mark.parametrize("plant", [link_the_file, link_into_nothing, fifo, directory])
def test_what_is_no_journal_is_neither_read_nor_written(
    planted: Path, victim: Path, plant: Callable[[Path, Path], None]
) -> None:
    """FAULTS T22, D19: a link to a key, a pipe that would hang, a directory."""
    plant(planted, victim)

    with pytest.raises(JournalError, match=r"cannot be read|there is no journal"):
        Journal.open(journal_directory(planted), "demo-1")
    with pytest.raises(JournalError, match="cannot be read"):
        read_records(session_file(planted))
    assert find_session(journal_directory(planted), "demo-1") is None
    assert find_session(journal_directory(planted), "ses_1") is None
    assert not (victim.parent / "made-by-us").exists()


def link_the_top(place: Path, outside: Path) -> None:
    journal_directory(place).rename(outside)
    journal_directory(place).symlink_to(outside)


def link_the_sessions(place: Path, outside: Path) -> None:
    (journal_directory(place) / "sessions").rename(outside)
    (journal_directory(place) / "sessions").symlink_to(outside)


def link_the_locks(place: Path, outside: Path) -> None:
    (journal_directory(place) / "locks").rename(outside)
    (journal_directory(place) / "locks").symlink_to(outside)


def a_file_for_a_directory(place: Path, outside: Path) -> None:
    journal_directory(place).rename(outside)
    journal_directory(place).write_text("")


@pytest.mark.parametrize(
    "plant", [link_the_top, link_the_sessions, link_the_locks, a_file_for_a_directory]
)
def test_a_directory_that_leads_elsewhere_is_not_written_to(
    planted: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    """FAULTS T22: the session goes on without a journal and says why."""
    outside = tmp_path / "outside"
    plant(planted, outside)
    before = sorted(outside.rglob("*"))

    journal = Journal.create(journal_directory(planted), {"profileId": "demo"})
    journal.append("user", {})
    journal.close().result(WITHIN)

    assert journal.path is None
    assert "symbolic link or not a directory" in (journal.problem or "")
    assert sorted(outside.rglob("*")) == before


@pytest.mark.parametrize("which", [".", "sessions", "locks"])
def test_a_directory_of_another_user_is_not_written_to(planted: Path, which: str) -> None:
    """FAULTS T22, A5: other users of the machine."""
    give_away(journal_directory(planted) / which)

    journal = Journal.create(journal_directory(planted), {})
    journal.close().result(WITHIN)

    assert journal.path is None
    assert f"belongs to another user (uid {NOBODY})" in (journal.problem or "")


def test_a_journal_of_another_user_is_read_as_what_it_is(planted: Path) -> None:
    """FAULTS T22: its content is shown as untrusted as any; nothing is added to it."""
    give_away(session_file(planted))
    before = session_file(planted).read_bytes()

    reading = read_records(session_file(planted))
    journal = Journal.open(journal_directory(planted), "demo-1")
    journal.append("user", {})
    journal.close().result(WITHIN)

    assert reading.foreign
    assert len(reading.records) == 1
    assert "belongs to another user" in (journal.problem or "")
    assert session_file(planted).read_bytes() == before


def test_a_mount_that_shows_one_owner_for_all_is_ours(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CIFS, FUSE, NFS for root: what we create there has the same foreign owner."""
    give_away(session_file(planted).parent)
    monkeypatch.setattr("silo_nb.journal.layout._uid_given_here", lambda _: NOBODY)

    journal = Journal.create(journal_directory(planted), {})
    journal.close().result(WITHIN)

    assert journal.problem is None


# Secrets.


def everything_written(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())


def test_secrets_are_withheld_wherever_they_occur(tmp_path: Path) -> None:
    """T-17: no canary among all bytes written, escaped or not."""
    canaries = [SECRET, "0123456789", "pass phrase with \N{SNOWMAN}", "short"]
    header = {"profileId": "demo", "cwd": f"/home/{canaries[2]}/x"}
    journal = Journal.create(journal_directory(tmp_path), header, redact=canaries)
    journal.append("user", {"prompt": [{"type": "text", "text": f"my key is {SECRET}, ok?"}]})
    journal.append("update", {"u": {SECRET: [123456789, {"deep": f"{canaries[2]}{SECRET}"}]}})
    journal.append("update", {"u": {"number": 1_234_567_890, "text": "short"}})
    journal.append("update", {"u": {"long": "x" * 262_100 + SECRET + "y" * 2_000_000}})
    journal.append_chunk("agent_message_chunk", "m1", f"I read {SECRET} and {canaries[1]}.")
    journal.close().result(WITHIN)

    written = everything_written(tmp_path)
    first, second, third, _, said = read_records(session_path(journal)).records

    for canary in (SECRET, canaries[1], canaries[2]):
        assert canary.encode() not in written
    for piece in (b"0123456789", b"SNOWMAN", b'quoted\\"'):
        assert piece not in written
    assert first["prompt"][0]["text"] == "my key is [redacted], ok?"
    assert second["u"] == {"[redacted]": [123456789, {"deep": "[redacted][redacted]"}]}
    assert third["u"] == {"number": 1_234_567_890, "text": "short"}
    assert said["u"]["content"]["text"] == "I read [redacted] and [redacted]."


def session_path(journal: Journal) -> Path:
    assert journal.path is not None
    return journal.path


def test_a_secret_that_is_a_number_is_withheld_too(tmp_path: Path) -> None:
    journal = Journal.create(journal_directory(tmp_path), {}, redact=["31415926"])
    journal.append("update", {"u": {"pin": 31415926, "near": 131415926}})
    journal.close().result(WITHIN)

    (record,) = read_records(session_path(journal)).records
    assert record["u"] == {"pin": "[redacted]", "near": 131415926}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hunter2!hunter3", "hunt", "er2!h", "unter3", "h", " ", "hunter2!"]),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_no_split_of_the_stream_gives_a_secret_away(
    tmp_path_factory: pytest.TempPathFactory, stream: list[tuple[str, bool]]
) -> None:
    """T-17: halves of a secret in two records would not be found by a search, but by a reader."""
    secret = "hunter2!hunter3"
    place = tmp_path_factory.mktemp("split")
    journal = Journal.create(journal_directory(place), {}, redact=[secret], durability="none")
    for chunk, pauses in stream:
        journal.append_chunk("agent_message_chunk", "m1", chunk)
        if pauses:
            journal._flush_by_timer()
    journal.close().result(WITHIN)

    texts: list[Any] = [
        record["u"]["content"]["text"] for record in read_records(session_path(journal)).records
    ]
    spoken = "".join(chunk for chunk, _ in stream)
    assert "".join(texts) == spoken.replace(secret, "[redacted]")


def test_text_that_was_held_back_is_not_lost(tmp_path: Path) -> None:
    journal = Journal.create(journal_directory(tmp_path), {}, redact=["hunter2!hunter3"])
    journal.append_chunk("agent_message_chunk", "m1", "we hunt")
    journal._flush_by_timer()
    journal.append("turn_end", {})
    journal.close().result(WITHIN)

    texts = [r["u"]["content"]["text"] for r in read_records(session_path(journal)).records[:-1]]
    assert texts == ["we ", "hunt"]


def test_the_lock_says_who_but_no_secrets(tmp_path: Path) -> None:
    journal = Journal.create(journal_directory(tmp_path), {"env": SECRET}, redact=[SECRET])
    (lock,) = (tmp_path / ".silo_nb" / "locks").iterdir()

    assert f'"pid": {os.getpid()}' in lock.read_text()
    assert "0123456789" not in lock.read_text()
    journal.close().result(WITHIN)
