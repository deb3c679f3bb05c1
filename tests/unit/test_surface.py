"""The public surface is a decision: complete, small, and importing it starts nothing."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import silo_nb
import silo_nb.sync

STARTS_NOTHING = """
import sys
seen = []
def watch(event, args):
    if event in {
        "subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system",
        "socket.bind", "socket.connect", "socket.__new__",
    }:
        seen.append(event)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        seen.append(f"open {args[0]} {args[1]}")
sys.dont_write_bytecode = True
sys.addaudithook(watch)
import threading
import silo_nb
for name in silo_nb.__all__:
    getattr(silo_nb, name)
import silo_nb.sync
assert threading.active_count() == 1, threading.enumerate()
assert not seen, seen
"""


def test_every_name_exists_once() -> None:
    assert len(silo_nb.__all__) == len(set(silo_nb.__all__))
    for name in silo_nb.__all__:
        assert getattr(silo_nb, name) is not None
    assert set(silo_nb.__all__) <= set(dir(silo_nb))


@pytest.mark.parametrize(
    "package", ["model", "session", "journal", "profiles", "runtime", "testing", "sync"]
)
def test_every_package_exports_what_it_says(package: str) -> None:
    module = importlib.import_module(f"silo_nb.{package}")

    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_a_planned_name_says_so_and_a_wrong_one_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="planned"):
        silo_nb.chat  # noqa: B018 - looking it up is the point
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        silo_nb.conect  # noqa: B018


def test_importing_every_name_starts_no_process_thread_or_socket_and_writes_no_file() -> None:
    """FAULTS T1, T-13."""
    subprocess.run([sys.executable, "-W", "error", "-c", STARTS_NOTHING], check=True, timeout=60)


def test_the_errors_are_one_tree() -> None:
    errors = importlib.import_module("silo_nb.errors")

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), silo_nb.SiloError)
        assert name in str(errors.__doc__)


def test_an_agents_error_says_who_when_and_what_and_ends_with_its_own_words() -> None:
    error = silo_nb.AgentExited(
        "the process exited with code 3",
        exit_code=3,
        profile="claude",
        phase="initialize",
        stderr=[f"line {n}" for n in range(50)],
    )

    head, _, *lines = str(error).splitlines()
    assert head == "agent 'claude', initialize: the process exited with code 3"
    assert lines == [f"  line {n}" for n in range(30, 50)]
