"""What is live and what is on disk are one story: FAULTS §4.3.

Streams of updates in the wire's spelling go through the real connection, normalizer, reducer and
journal; the journal is read back. `reduce(apply_update, read) == live transcript`, whatever is
sent, wherever it is cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from silo_nb import EMPTY_TRANSCRIPT, Message, Transcript, Turn, Update, apply_update
from silo_nb.acp.normalize import Normalizer
from silo_nb.acp.permission import parse_permission
from silo_nb.journal import Journal, Reading, read_records
from silo_nb.model import (
    Compaction,
    CompactionRow,
    Permission,
    PromptCapabilities,
    ToolCallPatch,
)
from silo_nb.model.update_log import UpdateLog
from silo_nb.profiles import Profile
from silo_nb.session.live import LiveSession
from silo_nb.session.prompts import wire_prompt
from silo_nb.session.records import read_updates, user_updates, write_prompt
from tests.unit.wire_updates import IDS, PLAIN_CHUNKS, TEXT, TOOL_CALLS, UNKNOWN, UPDATES, Raw

# A thousand examples each, most with a file of their own.
pytestmark = pytest.mark.timeout(180)

SESSION_ID = "session-1"
AT = "2026-11-30T12:00:00.000+00:00"

# What happens in a session besides updates: each event is a method of Story, and its arguments.
Event = tuple[str, *tuple[Any, ...]]

WIRE = st.tuples(st.just("receive"), UPDATES)
HALVES = st.sampled_from("\udce9\ud83d\ude00")
"""Half characters: what a name of a file may contain, and no encoder takes."""
PROMPTS = st.lists(st.lists(TEXT | HALVES, max_size=4).map("".join), max_size=2).map(
    lambda texts: ["Look at", *texts]
)
EVENTS = st.lists(
    st.one_of(
        WIRE,
        WIRE,
        WIRE,
        st.tuples(st.just("pause")),
        st.tuples(st.just("prompt"), PROMPTS),
        st.tuples(st.just("end_turn"), st.sampled_from(["end_turn", "cancelled", "acme"])),
        st.tuples(st.just("ask"), TOOL_CALLS),
        st.tuples(st.just("answer"), st.sampled_from(["yes", "no", None])),
    ),
    max_size=20,
)

# The fixture gives a function; what each example makes with it is its own.
many = settings(max_examples=1_000)
on_disk = settings(many, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fold(updates: Iterable[Update]) -> Transcript:
    return reduce(apply_update, updates, EMPTY_TRANSCRIPT)


def folded(records: Iterable[dict[str, Any]]) -> Transcript:
    return fold(read_updates(records))


Tell = Callable[[Iterable[Event]], tuple[Transcript, Path]]


class Story:
    """A session without a process, that is told what happens, and the journal it writes."""

    def __init__(self, directory: Path) -> None:
        self._session = LiveSession(Profile(id="fake", label="Fake", command=("fake",)))
        header = {"profileId": "fake", "sessionId": SESSION_ID}
        self._journal = Journal.create(directory, header, durability="none")
        self._session.opened(SESSION_ID, self._journal)
        self._asked: Permission | None = None
        self._asks = 0

    @classmethod
    def tell(cls, directory: Path, events: Iterable[Event]) -> tuple[Transcript, Path]:
        """Return the transcript that these events make, and the closed journal of it."""
        story = cls(directory)
        for name, *arguments in events:
            getattr(story, name)(*arguments)
        path = story._journal.path
        story._journal.close().result(10)
        assert path is not None
        return story._session.transcript, path

    def receive(self, update: Raw) -> None:
        params = {"sessionId": SESSION_ID, "update": update}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        self._session.connection.feed(json.dumps(message).encode() + b"\n")

    def pause(self) -> None:
        """Streamed text has waited long enough."""
        self._journal._flush_by_timer()

    def prompt(self, texts: Sequence[str]) -> None:
        number = self._session.transcript.head.turns + 1
        blocks = wire_prompt(texts, PromptCapabilities())
        write_prompt(self._journal, blocks, number, AT)
        self._session.begin_turn("".join(block["text"] for block in blocks))
        for update in user_updates(blocks, number, AT):
            self._session.take(update)
        self._session.take(Update("turn_start", timestamp=AT, turn=Turn()))

    def end_turn(self, stop_reason: str) -> None:
        self._session.end_run()
        turn = Turn(stop_reason, usage={"totalTokens": 3})
        self._session.take(Update("turn_end", timestamp=AT, turn=turn))

    def ask(self, tool_call: Raw) -> None:
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        raw = {"toolCall": tool_call, "options": options}
        patch, offered = parse_permission(raw)
        self._asks += 1
        self._asked = Permission(f"permission-{self._asks}", patch.tool_call_id, offered)
        self._session.end_run()
        self._session.take(Update("permission", tool_call=patch, permission=self._asked, raw=raw))

    def answer(self, option_id: str | None) -> None:
        if self._asked is None:
            return
        asked, outcome = self._asked, "cancelled" if option_id is None else "selected"
        answered = Permission(
            asked.id, asked.tool_call_id, asked.options, outcome, option_id, "listener"
        )
        self._session.take(Update("permission", permission=answered))


@pytest.fixture
def told(tmp_path: Path) -> Tell:
    """Tell a story; every example has a journal of its own in one directory."""
    return lambda events: Story.tell(tmp_path, events)


def read(path: Path) -> Reading:
    reading = read_records(path)
    assert (reading.bad_lines, reading.duplicates, reading.torn_tail) == (0, 0, False)
    return reading


@on_disk
@given(EVENTS)
def test_the_journal_tells_what_was_live(told: Tell, events: list[Event]) -> None:
    """As a whole, and up to any record: a reader may come at any moment and loses nothing later."""
    live, path = told(events)
    records = read(path).records

    assert folded(records) == live
    lengths = [len(folded(records[:count]).entries) for count in range(len(records) + 1)]
    assert lengths == sorted(lengths)
    # What was read can be written again, to the byte.
    for line in path.read_bytes().splitlines():
        assert msgspec.json.encode(msgspec.json.decode(line)) == line


@on_disk
@given(EVENTS, st.data())
def test_a_record_that_is_there_twice_counts_once(
    told: Tell, events: list[Event], data: st.DataObject
) -> None:
    live, path = told(events)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    repeated = list(lines)
    for line in data.draw(st.lists(st.sampled_from(lines), max_size=3)) if lines else ():
        at = data.draw(st.integers(repeated.index(line) + 1, len(repeated)))
        repeated.insert(at, line)
    path.write_bytes(header + b"".join(repeated))

    reading = read_records(path)

    assert reading.duplicates == len(repeated) - len(lines)
    assert folded(reading.records) == live


@on_disk
@given(EVENTS, UNKNOWN, st.data())
def test_an_unknown_kind_anywhere_changes_nothing(
    told: Tell, events: list[Event], unknown: Raw, data: st.DataObject
) -> None:
    """Live and on disk; and it is on record, since a later version may know it."""
    at = data.draw(st.integers(0, len(events)))

    without, _ = told(events)
    live, path = told([*events[:at], ("receive", unknown), *events[at:]])

    records = read(path).records
    assert live == without
    assert folded(records) == without
    assert unknown in [record.get("u") for record in records]


# ------------------------------------------------------------------------------ chunk boundaries

Style = tuple[str, str | None]
STYLES = st.tuples(
    st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]), st.sampled_from([None, "m"])
)
MESSAGES = st.lists(
    st.tuples(STYLES, st.text(min_size=1, max_size=30), st.sampled_from([1, 1, 1, 400])), max_size=4
)
TRICKY = (
    "e\u0301\U0001f468\u200d\U0001f469\u200d\U0001f467 \x1b[31mred\x1b[0m\n```py\nx\n```\r\n\u202e"
)


def chunk(style: Style, text: str) -> Event:
    kind, message_id = style
    raw: Raw = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return "receive", raw if message_id is None else {**raw, "messageId": message_id}


def _says_something(raw: Raw) -> bool:
    return bool(raw["content"]["text"])


def cut(text: str, places: Iterable[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


@on_disk
@given(MESSAGES, st.lists(st.integers(0, 20_000), max_size=12), st.lists(st.integers(0, 30)))
@example([(("agent_message_chunk", None), TRICKY, 1)], list(range(len(TRICKY))), [3, 7])
def test_chunk_boundaries_never_matter(
    told: Tell,
    messages: list[tuple[Style, str, int]],
    places: list[int],
    pauses: list[int],
) -> None:
    """Any split of any text: inside a grapheme, an escape sequence, a fence; and any pause.

    400 times 30 characters exceed what the journal keeps waiting, so records end within messages.
    """
    whole = [chunk(style, text * times) for style, text, times in messages]
    pieces = [
        chunk(style, piece)
        for style, text, times in messages
        for piece in cut(text * times, places)
    ]
    for at in pauses:
        pieces.insert(at % (len(pieces) + 1), ("pause",))

    expected, _ = told(whole)
    live, path = told(pieces)

    assert live == expected
    assert folded(read(path).records) == expected


def test_a_message_longer_than_a_record_is_one_message(told: Tell) -> None:
    text = "0123456789" * 50_000
    live, path = told([chunk(("agent_message_chunk", None), text)])

    records = read(path).records
    assert len(records) > 1
    assert folded(records) == live
    assert [entry.text for entry in live.entries if isinstance(entry, Message)] == [text]


@on_disk
@given(st.lists(PLAIN_CHUNKS.filter(_says_something), max_size=20))
def test_text_of_one_message_takes_one_record(told: Tell, chunks: list[Raw]) -> None:
    """However it was streamed. An id that we made up is never recorded as the agent's."""
    _, path = told([("receive", raw) for raw in chunks])
    records = [record for record in read(path).records if record["k"] == "update"]

    runs = [(r["u"]["sessionUpdate"], r["u"].get("messageId"), r.get("m")) for r in records]
    assert all(run != following for run, following in pairwise(runs))
    assert said(record["u"] for record in records) == said(chunks)


def said(chunks: Iterable[Raw]) -> dict[str | None, str]:
    """Return the text of chunks by the message's id that the agent gave."""
    text: dict[str | None, str] = {}
    for raw in chunks:
        message_id = raw.get("messageId")
        text[message_id] = text.get(message_id, "") + raw["content"]["text"]
    return text


# ------------------------------------------------------------------------------------- in memory


@many
@given(st.lists(UPDATES, max_size=20))
def test_a_log_of_updates_is_the_list_of_them(raws: list[Raw]) -> None:
    """What it leaves out to save memory it puts together again, `raw` included."""
    normalizer = Normalizer()
    updates = [normalizer.normalize(raw) for raw in raws]
    log = UpdateLog()
    for update in updates:
        log.append(update)

    assert list(log) == updates
    assert [log[place] for place in range(-len(log), 0)] == updates
    assert log[1:-1] == tuple(updates[1:-1])
    assert [dict(update.raw) for update in log] == raws
    with pytest.raises(IndexError):
        log[len(updates)]


@given(st.lists(UPDATES, max_size=20), IDS)
def test_a_compaction_never_takes_the_place_of_a_tool_call(raws: list[Raw], row_id: str) -> None:
    """Agents choose both ids; a row that is there stays, whatever else goes by its name."""
    normalizer = Normalizer()
    opened = Update("tool_call", tool_call=ToolCallPatch(tool_call_id=row_id, opens=True))
    compaction = Update("compaction_update", compaction=Compaction(row_id, "completed"))

    transcript = fold([opened, *map(normalizer.normalize, raws), compaction])

    assert transcript.tool_call(row_id) is not None
    assert not any(
        isinstance(entry, CompactionRow) and entry.compaction_id == row_id
        for entry in transcript.entries
    )
