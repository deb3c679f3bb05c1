"""What the journal costs while an agent streams, and when a long one is opened. (`hatch run bench`)

Measured (CPython 3.11): a chunk takes the agent's thread 0.2 to 0.3 us, a record 3 us; a journal is
read in 0.5 to 0.8 of the time of a ``json.loads`` loop, its last 256 KiB in 1 to 3 ms.
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
