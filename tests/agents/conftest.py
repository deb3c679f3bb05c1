"""Fixtures for tests with real agents, the table of what they found, and what there was none of."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from silo_nb.testing import recorder
from silo_nb.testing.profile_file import write_profile
from tests.agents import table
from tests.agents.cache import InstallFailed, RegistryUnreachable
from tests.agents.install import PACKAGES, install
from tests.agents.processes import wait_until_gone
from tests.agents.recipes import profile_for
from tests.agents.stub_model import StubModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

NOT_TESTED = "this agent was NOT tested"
SECONDS_TO_VANISH = 5
FIXTURES = ("agent", "recorded_agent", "signed_out_agent")


@dataclass(frozen=True, slots=True)
class Agent:
    """A real agent, ready to be connected.

    Attributes:
        name: which one; also the id of its profile.
        home: its own home directory.
        cwd: the directory it works in, and where the notebook would be.
        model: the stub model it talks to.
        tape: where a recorder writes down what its last process and we say, if there is one.
    """

    name: str
    home: Path
    cwd: Path
    model: StubModel
    tape: Path

    def wire(self, direction: str) -> list[dict[str, Any]]:
        """Return the messages that went ``"in"`` (from the agent) or ``"out"`` so far."""
        events = [json.loads(line) for line in self.tape.read_text("utf-8").splitlines()]
        return [event["msg"] for event in events if event["dir"] == direction]


@dataclass(slots=True)
class Installs:
    """Why agents could not be installed, by name."""

    problems: dict[str, Exception] = field(default_factory=dict)


# The property of a test that says what its cell of the table shows.
CELL = "cell"
INSTALLS = pytest.StashKey[Installs]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what the selected tests need, before any test's clock runs."""
    installs = session.config.stash[INSTALLS] = Installs()
    if session.config.option.collectonly:
        return
    chosen = {name for item in session.items for name in _agents_of(item)}
    unreachable: RegistryUnreachable | None = None
    for name in sorted(chosen):
        if unreachable is not None and not PACKAGES[name].is_installed:
            # It takes a while to find out, and this one would find out the same.
            installs.problems[name] = unreachable
            continue
        try:
            install(name)
        except RegistryUnreachable as problem:
            unreachable = installs.problems[name] = problem
        except InstallFailed as problem:
            installs.problems[name] = problem


def _agents_of(item: pytest.Item) -> set[str]:
    # Other tests have a parameter of that name as well: the recordings, for one.
    is_ours = item.get_closest_marker("agents") is not None
    if is_ours and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        parameters: Mapping[str, Any] = item.callspec.params
        return {parameters[name] for name in FIXTURES if name in parameters}
    return set()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the table of agents and keep it, and name those that were not tested."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    found = dict(_cells(r for r in reports if isinstance(r, pytest.TestReport)))
    if found:
        programs = {name: _program(name) for name in table.AGENTS}
        terminalreporter.section("real agents")
        terminalreporter.line(table.plain(table.merged(table.EMPTY, programs, found)))
        cache = getattr(config, "cache", None)  # `-p no:cacheprovider` leaves it out
        if cache is not None:
            before = cache.get(table.CACHE_KEY, table.EMPTY)
            cache.set(table.CACHE_KEY, table.merged(before, programs, found))
    skipped = [
        report.nodeid.rpartition("::")[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and NOT_TESTED in report.longrepr[2]
    ]
    if skipped:
        terminalreporter.section("REAL AGENTS NOT TESTED, for want of a registry", red=True)
        for name in skipped:
            terminalreporter.line(f"not tested: {name}", red=True)


def _cells(reports: Iterator[pytest.TestReport]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield agent, scenario and what to show of each test that is a cell of the table."""
    failed: set[str] = set()
    for report in reports:
        name, _, scenario = report.nodeid.rpartition("[")[2].removesuffix("]").partition("-")
        if "agents" not in report.keywords or scenario not in table.SCENARIOS:
            continue
        if report.failed:
            failed.add(report.nodeid)
            yield (name, scenario), table.FAILED
        elif report.when == "call" and report.passed and report.nodeid not in failed:
            yield (name, scenario), str(dict(report.user_properties).get(CELL, table.PASSED))


def _program(name: str) -> dict[str, Any]:
    package = PACKAGES[name]
    return {"package": package.npm, "version": package.version, "beside": dict(package.beside)}


@pytest.fixture
def stub_model() -> Iterator[StubModel]:
    """A stub model server of the test's own; an agent that wants more than it serves is news."""
    with StubModel() as model:
        yield model
    assert model.unknown_paths == ()


@pytest.fixture
def cell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say in a word what this cell of the table shows; else it shows that the test passed."""
    return partial(record_property, CELL)


@pytest.fixture
def make_agent(
    stub_model: StubModel, tmp_path: Path, silo_config: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Agent]]:
    """Set up the real agent of a cell of the table; afterwards nothing of it may be left."""
    made: list[Agent] = []

    def make(
        request: pytest.FixtureRequest, *, signed_in: bool = True, recorded: bool = False
    ) -> Agent:
        agent, profile = _prepare(request, stub_model, tmp_path, signed_in=signed_in)
        if recorded:
            program = [sys.executable, recorder.__file__, str(agent.tape), "--"]
            profile["command"] = [*program, *profile["command"]]
        write_profile(silo_config, agent.name, **profile)
        monkeypatch.chdir(agent.cwd)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        _require_nothing_left(agent)


@pytest.fixture
def agent(request: pytest.FixtureRequest, make_agent: Callable[..., Agent]) -> Agent:
    """The real agent of this cell of the table."""
    return make_agent(request)


@pytest.fixture
def recorded_agent(request: pytest.FixtureRequest, make_agent: Callable[..., Agent]) -> Agent:
    """The same, with a recorder on the wire."""
    return make_agent(request, recorded=True)


@pytest.fixture
def signed_out_agent(request: pytest.FixtureRequest, make_agent: Callable[..., Agent]) -> Agent:
    """The same, with neither key nor login."""
    return make_agent(request, signed_in=False)


def _prepare(
    request: pytest.FixtureRequest, model: StubModel, directory: Path, *, signed_in: bool
) -> tuple[Agent, dict[str, Any]]:
    """Return an agent with a home of its own, and the profile that runs it."""
    problem = request.config.stash[INSTALLS].problems.get(request.param)
    if isinstance(problem, RegistryUnreachable):
        pytest.skip(f"{NOT_TESTED}: {problem}")
    if problem is not None:
        raise problem
    home, cwd = directory / "home", directory / "work"
    home.mkdir()
    cwd.mkdir()
    agent = Agent(request.param, home, cwd, model, directory / "tape.jsonl")
    return agent, profile_for(agent.name, home, model.url, signed_in=signed_in)


def _require_nothing_left(agent: Agent) -> None:
    left = wait_until_gone(agent.home, within=SECONDS_TO_VANISH)
    commands = [process.cmdline() for process in left]
    for process in left:
        process.kill()
    assert commands == [], "processes of the agent outlived its session"
