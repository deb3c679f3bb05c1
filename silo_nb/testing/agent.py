"""The test's side of a scripted agent: what it got, where it is, and letting it go on."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from silo_nb.testing.scripted.scenario import case_of

T = TypeVar("T")

FAKE_AGENT = Path(__file__).with_name("fake_agent.py")
_LOOK = 0.005
_SHOWN = 12


class NotReached(AssertionError):
    """The agent did not get somewhere in time; the message ends with what it did last."""


class AgentLog:
    """The log of a scripted agent, readable while it grows.

    Args:
        path: the file; one that does not exist yet is empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: list[dict[str, Any]] = []
        self._offset = 0

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every record so far, in order; each has ``n``, ``t`` (seconds), ``pid``."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                complete, _, _ = file.read().rpartition(b"\n")
            if complete:
                self._offset += len(complete) + 1
                self._records += [json.loads(line) for line in complete.split(b"\n")]
        return self._records

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return the events of one name: start, mark, answer, forked, eof, exit or finished."""
        return [record for record in self.records if record.get("event") == event]

    def tail(self) -> str:
        """Show the last records, one a line, shortened."""
        width = 160
        lines = [json.dumps(record, ensure_ascii=False) for record in self.records[-_SHOWN:]]
        return "\n".join(line if len(line) <= width else line[:width] + "…" for line in lines)


class FakeAgent:
    """A scripted agent that a test can start by its profile, watch and steer.

    Nothing runs until somebody starts `command`; it may be started several times, also at once, and
    all its processes share the log.

    Args:
        scenario: the scenario file it plays.
        directory: where its log and its markers go; made by the caller, empty.
        profile: id of the profile that starts it.
        tag: a text in the command lines of all its processes.
    """

    def __init__(self, scenario: Path, *, directory: Path, profile: str, tag: str) -> None:
        self.scenario = scenario
        self.profile = profile
        self.tag = tag
        self.log = AgentLog(directory / "log.jsonl")
        self._directory = directory

    @property
    def command(self) -> tuple[str, ...]:
        """The argv of its process, which depends on no working directory or environment."""
        return (
            *(sys.executable, "-I", "-S", str(FAKE_AGENT), str(self.scenario)),
            *("--log", str(self.log.path), "--control", str(self._directory), "--tag", self.tag),
        )

    # ------------------------------------------------------------------------- what it got

    def received(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the messages it got, in order of arrival; only those of a method when named."""
        messages = [r["received"] for r in self.log.records if "received" in r]
        return [m for m in messages if method is None or m.get("method") == method]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The messages it sent, floods and garbage aside."""
        return [record["sent"] for record in self.log.records if "sent" in record]

    @property
    def answers(self) -> list[str]:
        """What its own requests were answered: option ids, actions, ``cancelled``, ``error``."""
        return [case_of(message) for message in self.received() if "method" not in message]

    @property
    def pids(self) -> list[int]:
        """Its processes, in the order they were started, the dead ones too."""
        return [event["pid"] for event in self.log.events("start")]

    @property
    def pid(self) -> int:
        """The process that was started last."""
        if not self.pids:
            raise NotReached(f"the agent of profile {self.profile!r} was never started")
        return self.pids[-1]

    # ----------------------------------------------------------------------- where it is

    async def reached(self, mark: str, *, within: float = 5.0, times: int = 1) -> Any:
        """Wait until it passed ``{"mark": mark}`` so many times; return that mark's value.

        Args:
            mark: name of the mark.
            within: seconds to wait.
            times: which passing of it.

        Raises:
            NotReached: it did not in time.
        """
        return await self._until(lambda: self._mark(mark, times), f"mark {mark!r}", within)

    def wait_reached(self, mark: str, *, within: float = 5.0, times: int = 1) -> Any:
        """Do as `reached`, blocking."""
        return self._until_blocking(lambda: self._mark(mark, times), f"mark {mark!r}", within)

    async def heard(self, method: str, *, within: float = 5.0, times: int = 1) -> dict[str, Any]:
        """Wait until it got a message of that method (so many of them); return that message."""
        return await self._until(lambda: self._message(method, times), method, within)

    def wait_heard(self, method: str, *, within: float = 5.0, times: int = 1) -> dict[str, Any]:
        """Do as `heard`, blocking."""
        return self._until_blocking(lambda: self._message(method, times), method, within)

    async def logged(self, event: str, *, within: float = 5.0) -> dict[str, Any]:
        """Wait for an event of the log other than a mark, ``eof`` say; return its record."""
        return await self._until(lambda: self._event(event), f"event {event!r}", within)

    def wait_logged(self, event: str, *, within: float = 5.0) -> dict[str, Any]:
        """Do as `logged`, blocking."""
        return self._until_blocking(lambda: self._event(event), f"event {event!r}", within)

    def release(self, marker: str) -> None:
        """Let it go on past ``{"wait_for": marker}``, now or whenever it gets there."""
        (self._directory / marker).touch()

    def _mark(self, mark: str, times: int) -> tuple[Any] | None:
        passed = [event for event in self.log.events("mark") if event["name"] == mark]
        return (passed[times - 1]["value"],) if len(passed) >= times else None

    def _event(self, event: str) -> tuple[dict[str, Any]] | None:
        found = self.log.events(event)
        return (found[-1],) if found else None

    def _message(self, method: str, times: int) -> tuple[dict[str, Any]] | None:
        messages = self.received(method)
        return (messages[times - 1],) if len(messages) >= times else None

    async def _until(self, look: Callable[[], tuple[T] | None], what: str, within: float) -> T:
        deadline = time.monotonic() + within
        while (found := look()) is None:
            if time.monotonic() >= deadline:
                raise self._not_reached(what, within)
            await asyncio.sleep(_LOOK)
        return found[0]

    def _until_blocking(self, look: Callable[[], tuple[T] | None], what: str, within: float) -> T:
        deadline = time.monotonic() + within
        while (found := look()) is None:
            if time.monotonic() >= deadline:
                raise self._not_reached(what, within)
            time.sleep(_LOOK)
        return found[0]

    def _not_reached(self, what: str, within: float) -> NotReached:
        return NotReached(
            f"the agent of profile {self.profile!r} did not get to {what} within {within} s; "
            f"the end of its log:\n{self.log.tail()}"
        )


def write_scenario(path: Path, steps: Sequence[dict[str, Any]]) -> Path:
    """Write steps as a scenario file (JSON Lines) and return its path."""
    path.write_text("".join(json.dumps(step) + "\n" for step in steps), "utf-8")
    return path
