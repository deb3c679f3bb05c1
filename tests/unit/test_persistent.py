"""Entries and Rope behave like the list and the string they stand for, and never change."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from silo_nb.model import Entries, Rope

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "replace"]), st.integers(0, 10_000)), max_size=300
)


@given(STEPS, st.integers(0, 2_000))
def test_entries_behave_like_a_list(steps: list[tuple[str, int]], size: int) -> None:
    entries, expected = Entries(range(size)), list(range(size))
    for number, (what, at) in enumerate(steps):
        if what == "append" or not expected:
            entries = entries.append(number)
            expected.append(number)
        else:
            entries = entries.replace(at % len(expected), -number)
            expected[at % len(expected)] = -number

    assert list(entries) == expected
    assert len(entries) == len(expected)
    assert [entries[i] for i in range(len(entries))] == expected
    assert entries.last == (expected[-1] if expected else None)
    assert entries == Entries(expected)


def test_entries_grow_over_every_level_of_the_tree() -> None:
    entries: Entries[int] = Entries()
    for number in range(40_000):
        entries = entries.append(number)

    assert list(entries) == list(range(40_000))
    assert (entries[32_767], entries[32_768]) == (32_767, 32_768)
    assert entries[-3:] == (39_997, 39_998, 39_999)


def test_an_older_version_of_entries_is_not_touched() -> None:
    old = Entries(range(1_000))

    old.replace(5, "changed")
    old.append("more")

    assert list(old) == list(range(1_000))


@given(st.lists(st.text(max_size=5)), st.integers(0, 40))
def test_a_rope_is_its_pieces_joined(pieces: list[str], limit: int) -> None:
    rope = Rope()
    for piece in pieces:
        rope = rope.append(piece)

    assert rope.tail(limit) == ("".join(pieces)[-limit:] if limit else "")
    assert str(rope) == "".join(pieces)
    assert len(rope) == len("".join(pieces))
    assert rope.tail(limit) == ("".join(pieces)[-limit:] if limit else "")


@given(st.text(max_size=9), st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_two_branches_of_a_rope_do_not_see_each_other(
    start: str, left: list[str], right: list[str]
) -> None:
    root = Rope(start)
    one, two = root, root
    for piece in left:
        one = one.append(piece)
    for piece in right:
        two = two.append(piece)

    assert str(root) == start
    assert str(one) == start + "".join(left)
    assert str(two) == start + "".join(right)


def test_threads_that_extend_one_rope_get_what_each_of_them_wrote() -> None:
    root = Rope("start")
    texts: dict[int, str] = {}
    begin = threading.Barrier(4)

    def extend(name: int) -> None:
        begin.wait()
        rope = root
        for number in range(2_000):
            rope = rope.append(f"{name}.{number} ")
        texts[name] = str(rope)

    threads = [threading.Thread(target=extend, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for name in range(4):
        assert texts[name] == "start" + "".join(f"{name}.{n} " for n in range(2_000))
