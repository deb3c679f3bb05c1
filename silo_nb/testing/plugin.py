"""The pytest plugin: fixtures for tests that talk to agents.

Loaded through the ``pytest11`` entry point, so it is imported by every test run of an environment
that has silo_nb: it must be cheap, and bring nothing but fixtures.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from silo_nb.testing.agent import FakeAgent
    from silo_nb.testing.processes import AgentProcesses


# What a test ended may still be on its way out.
_GRACE_SECONDS = 3.0


class FakeAgentFactory(Protocol):
    """What the ``fake_agent`` fixture gives: a scenario in, an agent with a profile out."""

    def __call__(
        self,
        scenario: str | Path | Sequence[Mapping[str, Any]],
        *,
        profile: str | None = None,
        **keys: Any,
    ) -> FakeAgent:
        """Make an agent; see the fixture ``fake_agent``."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option that says where scenario files lie."""
    parser.addini(
        "silo_scenarios",
        "directory of the scenario files that fake_agent finds by name",
        default="tests/scenarios",
    )


@pytest.fixture
def silo_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty config directory of one's own; profiles come from nowhere else."""
    directory = tmp_path / "silo_config"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("SILO_NB_CONFIG_DIR", str(directory))
    return directory


@pytest.fixture
def notebook_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is the working directory, as a notebook's kernel has it."""
    directory = tmp_path / "notebook"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def agent_processes() -> Iterator[AgentProcesses]:
    """The agent processes of this test. One that outlives the test makes it fail, and is killed."""
    from silo_nb.testing.processes import AgentProcesses

    processes = AgentProcesses(f"silo-nb-test-{secrets.token_hex(8)}")
    yield processes
    left = processes.wait_gone(_GRACE_SECONDS)
    processes.kill()
    if left:
        shown = "\n".join(f"  {found.pid}: {found.command}" for found in left)
        pytest.fail(f"{len(left)} process(es) outlived the test:\n{shown}", pytrace=False)


def _by_name(directory: Path, name: str) -> Path:
    file = directory / f"{name}.jsonl"
    if not file.exists():
        known = [path.stem for path in directory.glob("*.jsonl")]
        near = ", ".join(map(repr, get_close_matches(name, known))) or "none like it"
        raise FileNotFoundError(f"no scenario {name!r} in {str(directory)!r}; there is {near}")
    return file


@pytest.fixture
def fake_agent(
    request: pytest.FixtureRequest,
    silo_config: Path,
    agent_processes: AgentProcesses,
    tmp_path: Path,
) -> FakeAgentFactory:
    """A factory of scripted agents, each with a profile in ``silo_config``.

    ``fake_agent(scenario, profile=None, **keys)`` takes the name of a file in the directory
    ``silo_scenarios`` (with or without ``.jsonl``), a path, or the steps themselves; ``keys`` are
    other keys of the profile, ``env`` for example. The profiles are named ``fake``, ``fake-2`` …
    """
    from silo_nb.testing.agent import FakeAgent, write_scenario
    from silo_nb.testing.profile_file import write_profile
    from silo_nb.testing.scripted.scenario import Scenario

    scenarios = request.config.rootpath / request.config.getini("silo_scenarios")
    made = 0

    def make(
        scenario: str | Path | Sequence[Mapping[str, Any]],
        *,
        profile: str | None = None,
        **keys: Any,
    ) -> FakeAgent:
        nonlocal made
        made += 1
        directory = tmp_path / f"fake_agent_{made}"
        directory.mkdir()
        if isinstance(scenario, str):
            file = _by_name(scenarios, scenario.removesuffix(".jsonl"))
        elif isinstance(scenario, Path):
            file = scenario
        else:
            file = write_scenario(directory / "scenario.jsonl", [dict(step) for step in scenario])
        Scenario.read(file)
        name = profile or ("fake" if made == 1 else f"fake-{made}")
        agent = FakeAgent(file, directory=directory, profile=name, tag=agent_processes.tag)
        write_profile(silo_config, name, command=agent.command, **keys)
        return agent

    return make
