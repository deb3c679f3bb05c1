"""Framing: whatever bytes arrive, the next message is read. (PROTOCOL §7; FAULTS R1 to R6)"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.acp.diagnostics import Diagnostics
from silo_nb.acp.framing import Decoder, LineSplitter, encode


def read(data: bytes, *, piece: int = 0, limit: int = 1_000_000) -> list[dict[str, Any]]:
    """Read `data`, `piece` bytes at a time, as a connection does."""
    lines, decoder = LineSplitter(limit=limit), Decoder()
    step = piece or max(1, len(data))
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    found = [decoder.decode(line) for piece in pieces for line in lines.feed(piece)]
    found.append(decoder.decode(lines.rest()))
    return [message for message in found if message is not None]


@pytest.mark.parametrize(
    "noise",
    [
        b"INFO migrating\xe2\x80\xa6",
        b"42",
        b"[1, 2]",
        b'"text"',
        b"null",
        b"true",
        b"",
        b"   ",
        b"{broken",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"[" * 5_000,
        b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"\x00\x00\x00",
        b"\xff\xfe",
    ],
)
def test_noise_is_skipped_and_what_follows_is_read(noise: bytes) -> None:
    """FAULTS R1, R5; case 3; also scalar and array lines, which kill the official SDK's reader."""
    assert read(noise + b'\n{"id":1}\n') == [{"id": 1}]


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_messages_survive_any_cut(piece: int) -> None:
    data = '{"t":"é😀"}\r\n{"t":"日本"}\n{"last":1}'.encode()

    assert read(data, piece=piece) == [{"t": "é😀"}, {"t": "日本"}, {"last": 1}]


def test_bad_utf_8_is_mended_not_lost() -> None:
    """FAULTS R4."""
    assert read(b'{"t":"caf\xe9"}\n') == [{"t": "caf\ufffd"}]


def test_a_lone_surrogate_is_mended_before_anything_can_trip_over_it() -> None:
    """FAULTS §0.6."""
    assert read(b'{"t":"a\\ud800b", "\\udfff":1}\n') == [{"t": "a\ufffdb", "\ufffd": 1}]


def test_the_last_of_doubled_keys_wins() -> None:
    """FAULTS R6."""
    assert read(b'{"a":1,"a":2}\n') == [{"a": 2}]


def test_a_huge_number_is_kept() -> None:
    assert read(b'{"a":123456789012345678901234567890}\n')[0]["a"] == pytest.approx(1.2345678e29)


def test_nesting_is_taken_up_to_200_levels() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' * depth + b"1" + b"}" * depth

    assert len(read(nested(200) + b"\n")) == 1
    assert read(nested(201) + b"\n") == []


@pytest.mark.parametrize("size", [200_000, 5_000_000])
def test_a_long_line_arrives_whole(size: int) -> None:
    """Case 1."""
    assert read(json.dumps({"t": "x" * size}).encode() + b"\n", piece=65_536, limit=2**26) == [
        {"t": "x" * size}
    ]


def test_a_line_over_the_limit_is_skipped_in_constant_memory() -> None:
    """FAULTS R3: a line without an end does not grow us, and later lines work."""
    log = Diagnostics()
    lines = LineSplitter(log, limit=100_000)
    filler = b"x" * 65_536
    tracemalloc.start()
    for _ in range(3_000):
        assert list(lines.feed(filler)) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1_000_000
    assert list(lines.feed(b'x\n{"id":1}\n')) == [b'{"id":1}']
    assert log.counts["line too long"] == 1


@given(st.lists(st.binary(max_size=30)), st.integers(1, 9))
def test_no_bytes_raise_and_a_message_behind_them_is_read(noise: list[bytes], piece: int) -> None:
    """T-4."""
    data = b"\n".join(noise) + b'\n{"id":"end"}\n'

    assert {"id": "end"} in read(data, piece=piece)


def test_what_we_send_is_one_line_even_with_a_lone_surrogate() -> None:
    line = encode({"text": "a\nb\u2028c\ud800"})

    assert line.count(b"\n") == 1
    assert json.loads(line) == {"text": "a\nb\u2028c\ufffd"}
