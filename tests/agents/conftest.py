"""Fixtures for tests with real agents; and what to say when there are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from silo_nb.testing.profile_file import write_profile
from tests.agents.install import PACKAGES, InstallFailed, NpmUnreachable, install
from tests.agents.processes import wait_until_gone
from tests.agents.recipes import profile_for
from tests.agents.stub_model import StubModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NOT_TESTED = "this agent was NOT tested"
SECONDS_TO_VANISH = 5


@dataclass(frozen=True, slots=True)
class Agent:
    """A real agent, ready to be connected.

    Attributes:
        name: which one; also the id of its profile.
        home: its own home directory.
        cwd: the directory it works in, and where the notebook would be.
        model: the stub model it talks to.
    """

    name: str
    home: Path
    cwd: Path
    model: StubModel


@dataclass(slots=True)
class Installs:
    """Why agents could not be installed, by name."""

    problems: dict[str, Exception] = field(default_factory=dict)


INSTALLS = pytest.StashKey[Installs]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what the selected tests need, before any test's clock runs."""
    installs = session.config.stash[INSTALLS] = Installs()
    if session.config.option.collectonly:
        return
    chosen = {name for item in session.items for name in _agents_of(item)}
    unreachable: NpmUnreachable | None = None
    for name in sorted(chosen):
        if unreachable is not None and not PACKAGES[name].is_installed:
            # It takes a while to find out, and this one would find out the same.
            installs.problems[name] = unreachable
            continue
        try:
            install(name)
        except NpmUnreachable as problem:
            unreachable = installs.problems[name] = problem
        except InstallFailed as problem:
            installs.problems[name] = problem


def _agents_of(item: pytest.Item) -> set[str]:
    # Other tests have a parameter of that name as well: the recordings, for one.
    is_ours = item.get_closest_marker("agents") is not None
    if is_ours and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        parameters: Mapping[str, Any] = item.callspec.params
        return {parameters[name] for name in ("agent", "signed_out_agent") if name in parameters}
    return set()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the agents that were not tested where nobody overlooks it."""
    skipped = [
        report.nodeid.rpartition("::")[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and NOT_TESTED in report.longrepr[2]
    ]
    if skipped:
        terminalreporter.section("REAL AGENTS NOT TESTED, for want of npm", red=True)
        for name in skipped:
            terminalreporter.line(f"not tested: {name}", red=True)


@pytest.fixture
def stub_model() -> Iterator[StubModel]:
    """A stub model server of the test's own; an agent that wants more than it serves is news."""
    with StubModel() as model:
        yield model
    assert model.unknown_paths == ()


@pytest.fixture
def agent(
    request: pytest.FixtureRequest,
    stub_model: StubModel,
    tmp_path: Path,
    silo_config: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Agent]:
    """The real agent of this cell of the matrix; afterwards nothing of it may be left running."""
    agent = _prepare(request, stub_model, tmp_path, silo_config, signed_in=True)
    monkeypatch.chdir(agent.cwd)
    yield agent
    _require_nothing_left(agent)


@pytest.fixture
def signed_out_agent(
    request: pytest.FixtureRequest,
    stub_model: StubModel,
    tmp_path: Path,
    silo_config: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Agent]:
    """The same, with neither key nor login."""
    agent = _prepare(request, stub_model, tmp_path, silo_config, signed_in=False)
    monkeypatch.chdir(agent.cwd)
    yield agent
    _require_nothing_left(agent)


def _prepare(
    request: pytest.FixtureRequest,
    model: StubModel,
    directory: Path,
    config: Path,
    *,
    signed_in: bool,
) -> Agent:
    problem = request.config.stash[INSTALLS].problems.get(request.param)
    if isinstance(problem, NpmUnreachable):
        pytest.skip(f"{NOT_TESTED}: {problem}")
    if problem is not None:
        raise problem
    agent = Agent(request.param, directory / "home", directory / "work", model)
    agent.home.mkdir()
    agent.cwd.mkdir()
    profile = profile_for(agent.name, agent.home, model.url, signed_in=signed_in)
    write_profile(config, agent.name, **profile)
    return agent


def _require_nothing_left(agent: Agent) -> None:
    left = wait_until_gone(agent.home, within=SECONDS_TO_VANISH)
    commands = [process.cmdline() for process in left]
    for process in left:
        process.kill()
    assert commands == [], "processes of the agent outlived its session"
