"""What the journal costs while an agent streams, and when a long one is opened. (`hatch run bench`)

Measured (CPython 3.11): a chunk takes the agent's thread 0.2 to 0.3 us, a record 3 us; a journal is
read in 0.5 to 0.8 of the time of a ``json.loads`` loop, its last 256 KiB in 1 to 3 ms.
The last screen of 1 GB is there after 1 ms, all of it takes as much memory as the file has bytes.
100 MB are carried in 0.5 s, of which the agent's thread waits 1 ms; a session is listed in 0.8 ms.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.measuring import run_module, show

pytestmark = [pytest.mark.bench, pytest.mark.timeout(180)]

SLOWER_THAN_JSON = 1.3


@pytest.fixture(scope="module")
def figures() -> Any:
    return run_module("tests.bench.journal_bench")


def test_a_streamed_chunk_costs_a_fraction_of_parsing_it(figures: Any) -> None:
    """An agent may send 100,000 a second, and FAULTS §0.10: a file weighs what its text does."""
    appending = figures["appending"]
    rows = [
        ("append_chunk", f"{appending['chunk']:6.2f} us"),
        ("append", f"{appending['record']:6.2f} us"),
        ("json.loads of the chunk", f"{appending['json.loads']:6.2f} us"),
        ("bytes by bytes of text", f"{appending['bytes']:6.3f}"),
    ]

    show("appending, the agent thread's CPU", rows)
    assert appending["chunk"] <= 0.5 * appending["json.loads"]
    assert appending["bytes"] <= 1.05


@pytest.mark.parametrize("kind", ["100 MB, coalesced", "32 MB, one chunk a record"])
def test_a_long_journal_opens_as_fast_as_json_can_be_read(figures: Any, kind: str) -> None:
    """ARCHITECTURE §12: at most 1.3 times a json.loads loop that keeps its objects."""
    opening = figures[kind]
    bare = opening["json.loads, objects kept"]
    rows = [(name, f"{took:6.3f} s  x {took / bare:.2f}") for name, took in opening.items()]

    show(f"opening {kind}", rows)
    assert opening["read_records"] <= SLOWER_THAN_JSON * bare
    assert opening["read_tail"] <= 0.1 * bare


def show_whole(title: str, figures: Any) -> None:
    rows = [
        ("last screen", f"{figures['last screen']:7.3f} s"),
        ("the whole conversation", f"{figures['all of it']:7.3f} s"),
        ("memory, bytes by byte of the file", f"{figures['memory']:7.3f}"),
    ]
    show(title, rows)


def test_a_long_conversation_takes_its_size_in_memory(figures: Any) -> None:
    """T-8: at most twice the text and 50 MB."""
    show_whole("all of 100 MB", figures["whole"])

    assert figures["whole"]["memory"] <= 2.5


def test_a_long_journal_is_carried_without_waiting_for_it(figures: Any) -> None:
    """R61: the agent's thread goes on at once; R59: what did not change is not read again."""
    keeping = figures["keeping"]
    rows = [
        ("carry of 100 MB returns", f"{keeping['carry returns'] * 1e3:7.1f} ms"),
        ("it is carried", f"{keeping['carried'] * 1e3:7.1f} ms"),
        ("list, a session of 1 MB", f"{keeping['list, per session'] * 1e3:7.2f} ms"),
        ("list, again", f"{keeping['list, again'] * 1e3:7.2f} ms"),
    ]

    show("keeping", rows)
    assert keeping["carry returns"] <= 0.1 * keeping["carried"]
    assert keeping["list, again"] <= 0.5 * keeping["list, per session"]


@pytest.mark.slow
def test_the_last_screen_of_a_gigabyte_is_there_at_once() -> None:
    """FAULTS D16, T-8: 0.2 s, and memory for at most twice the text and 50 MB."""
    figures = run_module("tests.bench.journal_bench", "gigabyte")

    show_whole("1 GB", figures)
    assert figures["last screen"] <= 0.2
    assert figures["memory"] <= 2.05
