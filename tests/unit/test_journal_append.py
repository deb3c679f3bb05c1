"""What is appended is what is read, in order, and streamed text costs little more than itself."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.errors import JournalError
from silo_nb.journal import (
    Journal,
    find_session,
    journal_directory,
    new_session_id,
    read_records,
    read_tail,
)
from silo_nb.journal.encoding import MAX_LINE_BYTES, Encoder
from silo_nb.journal.journal import RUN_CHARS

WITHIN = 10

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return journal_directory(tmp_path)


@pytest.fixture
def journal(directory: Path) -> Iterator[Journal]:
    journal = Journal.create(directory, {"profileId": "demo"}, durability="none")
    yield journal
    journal.close().result(WITHIN)


def path_of(journal: Journal) -> Path:
    assert journal.path is not None, journal.problem
    return journal.path


def records_of(journal: Journal) -> list[dict[str, Any]]:
    """Wait until everything is written, and read it as any other program would."""
    journal.sync().result(WITHIN)
    lines = path_of(journal).read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line) for line in lines]


def text_of(records: list[dict[str, Any]]) -> str:
    return "".join(each["u"]["content"]["text"] for each in records if each["k"] == "update")


def test_the_first_line_is_the_header(directory: Path) -> None:
    """FAULTS §3.3: version and kind first, then who, where and when."""
    given_header = {"profileId": "claude", "sessionId": "ses_1", "cwd": "/data", "v": 7, "k": "x"}
    journal = Journal.create(directory, given_header)
    journal.close().result(WITHIN)

    (line,) = path_of(journal).read_bytes().splitlines()
    header = json.loads(line)

    assert line.startswith(b'{"v":1,"k":"session","id":"claude-')
    assert path_of(journal).name == f"{journal.id}.jsonl"
    assert header == dict(journal.header)
    assert (header["sessionId"], header["cwd"]) == ("ses_1", "/data")
    assert header["createdAt"].endswith("+00:00")


def test_every_record_carries_version_number_time_and_kind(journal: Journal) -> None:
    numbers = [journal.append("user", {"blocks": []}), journal.append("new-kind", {"seq": 99})]

    first, second = records_of(journal)[1:]

    assert list(first) == ["v", "seq", "t", "k", "blocks"]
    assert (first["v"], first["k"], second["k"]) == (1, "user", "new-kind")
    assert [first["seq"], second["seq"]] == numbers == [1, 2]
    assert first["t"] <= second["t"] <= time.time() * 1000


def test_chunks_of_one_message_become_one_record(journal: Journal) -> None:
    """FAULTS §0.10: raw, one-word chunks would take 31 times the space of their text."""
    for word in ("It ", "was ", "a ", "dark ", "night"):
        journal.append_chunk("agent_message_chunk", "m1", word)

    (record,) = records_of(journal)[1:]

    assert record["k"] == "update"
    assert record["u"] == {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "It was a dark night"},
        "messageId": "m1",
    }


def test_an_id_the_agent_did_not_send_stays_out_of_its_update(journal: Journal) -> None:
    journal.append_chunk("agent_thought_chunk", "run-3", "hm", synthesized=True)

    (record,) = records_of(journal)[1:]

    assert record["m"] == "run-3"
    assert "messageId" not in record["u"]


def test_kinds_and_messages_that_alternate_are_kept_apart(journal: Journal) -> None:
    """FAULTS R20: agent, thought, agent are three runs."""
    spoken = [
        ("agent_message_chunk", "m1", "a"),
        ("agent_message_chunk", "m1", "b"),
        ("agent_thought_chunk", "m1", "c"),
        ("agent_message_chunk", "m1", "d"),
        ("agent_message_chunk", "m2", "e"),
    ]
    for kind, message, text in spoken:
        journal.append_chunk(kind, message, text)

    runs = [record["u"] for record in records_of(journal)[1:]]

    assert [run["content"]["text"] for run in runs] == ["ab", "c", "d", "e"]


def test_another_record_ends_the_run_before_it(journal: Journal) -> None:
    journal.append_chunk("agent_message_chunk", "m1", "before")
    number = journal.append("permission", {"id": "p1"})
    journal.append_chunk("agent_message_chunk", "m1", "after")

    records = records_of(journal)[1:]

    assert [each["k"] for each in records] == ["update", "permission", "update"]
    assert [each["seq"] for each in records] == [1, number, 3]


def test_long_runs_are_written_in_pieces(journal: Journal) -> None:
    for _ in range(3 * RUN_CHARS // 8):
        journal.append_chunk("agent_message_chunk", "m1", "12345678")

    runs = [record["u"]["content"]["text"] for record in records_of(journal)[1:]]

    assert [len(run) for run in runs] == [RUN_CHARS] * 3


def test_text_that_pauses_is_written_by_itself(journal: Journal) -> None:
    """FAULTS §3.3: at most 250 ms of streamed text are lost to SIGKILL."""
    written = threading.Event()
    put = journal._spool.outbox.put

    def noticing(line: Any) -> None:
        put(line)
        written.set()

    journal._spool.outbox.put = noticing  # type: ignore[method-assign]
    started = time.monotonic()
    journal.append_chunk("agent_message_chunk", "m1", "and then")

    assert written.wait(WITHIN)
    assert time.monotonic() - started < 5


def test_one_chunk_longer_than_any_record_loses_nothing(journal: Journal) -> None:
    text = "\x01\N{GRINNING FACE}" * 700_000
    journal.append_chunk("agent_message_chunk", "m1", text)

    lines = path_of(journal)
    records = records_of(journal)[1:]

    assert text_of(records) == text
    assert max(map(len, lines.read_bytes().splitlines(keepends=True))) <= MAX_LINE_BYTES


def test_coalesced_chunks_cost_what_the_text_weighs(journal: Journal) -> None:
    words = ["journal ", "of ", "a ", "session "] * 5_000
    for word in words:
        journal.append_chunk("agent_message_chunk", "m1", word)
    records_of(journal)

    assert path_of(journal).stat().st_size < 1.06 * len("".join(words))


@given(st.lists(st.tuples(st.text(), st.booleans())))
def test_where_chunks_are_cut_never_matters(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[str, bool]]
) -> None:
    """FAULTS §4.3: any split of any text reads back as the text, wherever the stream pauses."""
    directory = journal_directory(tmp_path_factory.mktemp("cut"))
    journal = Journal.create(directory, {}, durability="none")
    for chunk, pauses in chunks:
        journal.append_chunk("agent_message_chunk", "m1", chunk)
        if pauses:
            journal._flush_by_timer()  # what 250 ms of silence do
    journal.close().result(WITHIN)

    spoken = "".join(chunk for chunk, _ in chunks)
    assert text_of(list(read_records(path_of(journal)).records)) == spoken


@given(st.lists(st.tuples(st.text(max_size=8), st.dictionaries(st.text(max_size=6), JSON))))
def test_writing_what_was_read_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, dict[str, Any]]]
) -> None:
    """FAULTS §4.3: write, read, write is byte-stable, unknown kinds and fields included."""
    directory = journal_directory(tmp_path_factory.mktemp("stable"))
    journal = Journal.create(directory, {"note": "first"}, durability="none")
    for kind, fields in said:
        journal.append(kind, fields)
    journal.close().result(WITHIN)

    reading = read_records(path_of(journal))
    assert reading.header is not None
    encoder = Encoder()
    again = [encoder.line(dict(record)) for record in (reading.header, *reading.records)]

    assert reading.bad_lines == 0
    assert b"".join(again) == path_of(journal).read_bytes()


def test_a_session_goes_on_where_it_ended(directory: Path) -> None:
    journal = Journal.create(directory, {"sessionId": "ses_1"})
    journal.append("user", {"blocks": []})
    journal.close().result(WITHIN)

    again = Journal.open(directory, journal.id)
    number = again.append("meta", {"sessionId": "ses_2"})
    again.close().result(WITHIN)

    reading = read_records(path_of(journal))
    assert number == 2
    assert again.header == reading.header
    assert [record["seq"] for record in reading.records] == [1, 2]


def test_closing_writes_what_waits_and_is_idempotent(journal: Journal) -> None:
    journal.append_chunk("agent_message_chunk", "m1", "the end")

    journal.close().result(WITHIN)
    journal.close().result(WITHIN)

    assert text_of(list(read_records(path_of(journal)).records)) == "the end"


def test_after_closing_nothing_is_written(journal: Journal) -> None:
    journal.append("user", {})
    journal.close().result(WITHIN)
    size = path_of(journal).stat().st_size

    assert journal.append("update", {"late": True}) == 1
    journal.append_chunk("agent_message_chunk", "m1", "late" * RUN_CHARS)
    journal.sync().result(WITHIN)

    assert path_of(journal).stat().st_size == size


def writer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "silo-journal"]


def test_one_thread_serves_all_journals_and_ends_with_the_last(directory: Path) -> None:
    """ARCHITECTURE §3: the journal has its own writer thread; FAULTS P20: none is left."""
    for thread in writer_threads():  # of the test before, about to end
        thread.join(WITHIN)
    assert writer_threads() == []
    journals = [Journal.create(directory, {}) for _ in range(3)]
    (thread,) = writer_threads()

    for journal in journals:
        journal.close().result(WITHIN)
    thread.join(WITHIN)

    assert writer_threads() == []
    later = Journal.create(directory, {})
    assert len(writer_threads()) == 1
    later.close().result(WITHIN)


def test_descriptors_come_back(directory: Path) -> None:
    """FAULTS P20: 150 sessions leave no descriptor."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(150):
        journal = Journal.create(directory, {}, durability="none")
        journal.append("user", {})
        journal.close().result(WITHIN)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert list((directory / "locks").iterdir()) == []


def test_nothing_is_made_until_a_journal_is(tmp_path: Path) -> None:
    directory = journal_directory(tmp_path)

    assert directory == tmp_path / ".silo_nb"
    assert find_session(directory, "demo") is None
    assert read_records(directory / "sessions" / "x.jsonl").records == ()
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_wait_does_not_disturb_the_writer(journal: Journal) -> None:
    for _ in range(20):
        future: Future[None] = journal.sync()
        future.cancel()
    journal.append("user", {})

    assert len(records_of(journal)) == 2


# What callers should never send, and what becomes of it.


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("\ud800", "\ufffd"),
        ("\ud83d\ude00", "\N{GRINNING FACE}"),
        ({"\udfff": 1}, {"\ufffd": 1}),
        (float("nan"), None),
        (1 << 70, 1 << 70),
        (10**5_000, "[number too big]"),
        ({1: "a"}, {"1": "a"}),
        ({"a"}, ["a"]),
        (b"\xff", "/w=="),
        (object(), "[object]"),
    ],
    ids=["surrogate", "pair", "key", "nan", "big", "huge", "int-key", "set", "bytes", "object"],
)
def test_what_is_no_json_is_written_as_well_as_it_can_be(
    journal: Journal, value: object, written: object
) -> None:
    """FAULTS §0.6: one lone surrogate must not cost a record, let alone a turn."""
    journal.append("update", {"u": {"value": value}})

    assert records_of(journal)[1]["u"] == {"value": written}


def test_nesting_beyond_reason_is_cut(journal: Journal) -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    journal.append("update", {"u": deep})

    assert len(records_of(journal)) == 2


def test_a_chunk_with_half_a_character_is_still_text(journal: Journal) -> None:
    journal.append_chunk("agent_message_chunk", "m1", "half \ud83d")

    assert text_of(records_of(journal)) == "half \ufffd"


def test_a_huge_string_keeps_its_ends_and_says_what_is_missing(journal: Journal) -> None:
    """FAULTS §3.3: no record is longer than 1 MiB; length and hash of the whole are kept."""
    output = "begin " + "x" * 3_000_000 + " end"
    journal.append("update", {"u": {"rawOutput": {"text": output, "note": "short"}}})

    line = path_of(journal)
    (record,) = records_of(journal)[1:]
    kept = record["u"]["rawOutput"]["text"]

    assert len(line.read_bytes().splitlines()[1]) < MAX_LINE_BYTES
    assert kept.startswith("begin x")
    assert kept.endswith("x end")
    assert f"{len(output)} characters, sha256 " in kept
    assert record["u"]["rawOutput"]["note"] == "short"
    assert record["cut"] == ["/u/rawOutput/text"]


def test_a_record_of_countless_small_things_keeps_its_short_fields(journal: Journal) -> None:
    journal.append("update", {"u": list(range(300_000)), "turn": 3})

    (record,) = records_of(journal)[1:]

    assert (record["k"], record["seq"], record["turn"]) == ("update", 1, 3)
    assert record["cut"] == ["/u"]


@given(st.dictionaries(st.text(max_size=3), JSON | st.just("long " * 50_000), max_size=8))
def test_every_record_is_one_line_within_the_limit(fields: dict[str, Any]) -> None:
    line = Encoder().line({"v": 1, "seq": 1, "k": "x", "many": [fields] * 3, **fields})

    assert len(line) <= MAX_LINE_BYTES
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    json.loads(line)


# Finding and naming.


def test_ids_sort_by_time_and_are_fit_for_file_names() -> None:
    early, late = (new_session_id("Claude Code!", now_ms=ms) for ms in (1_000, 2_000_000_000_000))

    assert early < late
    assert early.startswith("claude-code-")
    assert len(early) == len("claude-code-") + 26
    assert new_session_id("demo") != new_session_id("demo")
    assert new_session_id("../../etc/passwd").startswith("etc-passwd-")
    assert new_session_id("").startswith("session-")


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "a/b", "", ".", "..", "a\0b", "A", "x" * 200, "con\n", "\u202e", 7],
)
def test_a_session_id_never_leads_out_of_the_directory(directory: Path, name: Any) -> None:
    """FAULTS D18: the file's name is ours."""
    with pytest.raises(JournalError, match="not a session id"):
        Journal.open(directory, name)
    if name:
        with pytest.raises(JournalError, match="not a session id"):
            Journal.create(directory, {"id": name})
    assert find_session(directory, str(name)) is None


def test_a_session_is_found_by_every_id_it_ever_had(directory: Path) -> None:
    """FAULTS §3.3: our id, the agent's first one, and those adopted later."""
    other = Journal.create(directory, {"sessionId": "ses_0"})
    journal = Journal.create(directory, {"sessionId": 'ses/"1"'})
    journal.append("update", {"u": {"sessionId": "ses_3"}})
    journal.append("meta", {"sessionId": "ses_2"})
    for each in (other, journal):
        each.close().result(WITHIN)

    found = [find_session(directory, name) for name in (journal.id, 'ses/"1"', "ses_2", "ses_0")]

    assert found == [journal.path, journal.path, journal.path, other.path]
    assert find_session(directory, "ses_3") is None
    assert find_session(directory, "ses") is None


def test_a_new_journal_never_continues_an_old_one(directory: Path) -> None:
    journal = Journal.create(directory, {})
    journal.close().result(WITHIN)

    with pytest.raises(
        JournalError, match=r"has a journal already; continue it with Journal\.open"
    ):
        Journal.create(directory, {"id": journal.id})
    Journal.open(directory, journal.id).close().result(WITHIN)


def test_a_missing_journal_cannot_be_continued(directory: Path) -> None:
    with pytest.raises(JournalError, match="no journal of session 'demo-1' in"):
        Journal.open(directory, "demo-1")


def test_the_end_of_a_long_journal_is_read_at_once(journal: Journal) -> None:
    """FAULTS D16: the last 256 KiB first."""
    for number in range(3_000):
        journal.append("update", {"u": {"number": number, "filler": "x" * 200}})
    records_of(journal)

    tail = read_tail(path_of(journal), size=64 * 1024)

    assert tail.header == journal.header
    assert tail.bad_lines == 0
    assert 200 < len(tail.records) < 300
    assert [record["u"]["number"] for record in tail.records][-1] == 2_999


def test_a_clock_that_goes_backwards_changes_no_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS D14: order comes from the numbers; the time is what people may want to know."""
    now = iter(range(9_000_000_000_000_000, 0, -1_000_000_000_000_000))
    monkeypatch.setattr(time, "time_ns", lambda: next(now))
    for number in range(5):
        journal.append("user", {"n": number})
    monkeypatch.undo()

    journal.sync().result(WITHIN)

    records = read_records(path_of(journal)).records
    assert [record["n"] for record in records] == list(range(5))
    assert [record["t"] for record in records] == sorted((r["t"] for r in records), reverse=True)


def test_the_checkpoint_is_asked_for_at_sync_points_only(directory: Path) -> None:
    asked: list[int] = []

    def checkpoint() -> list[tuple[str, dict[str, Any]]]:
        asked.append(1)
        raise RuntimeError

    journal = Journal.create(directory, {}, checkpoint=checkpoint)
    journal.append("user", {})
    assert asked == []
    journal.sync().result(WITHIN)
    journal.close().result(WITHIN)

    assert asked == [1, 1]
    assert len(read_records(path_of(journal)).records) == 1
