"""A kit for testing against agents: a scripted one, a wire recorder, a replayer, pytest fixtures.

* `silo_nb.testing.fake_agent` is an agent that does what a scenario says, faults included; its
  docstring is the reference of the language.
* The pytest plugin (loaded by itself once silo_nb is installed) brings the fixtures ``fake_agent``,
  ``silo_config``, ``notebook_dir`` and ``agent_processes``::

      async def test_a_turn(fake_agent, notebook_dir):
          agent = fake_agent([{"expect": "session/prompt"}, {"say": "hi"}, {"reply": "end_turn"}])
          async with await silo_nb.connect(agent.profile) as session:
              assert (await session.prompt("hello")).text == "hi"
          assert agent.received("session/prompt")[0]["params"]["prompt"]

* ``python -m silo_nb.testing.recorder OUT.jsonl -- COMMAND …`` stands before a real agent and
  writes down what is said; `Recording` reads that, and ``python -m silo_nb.testing.replayer``
  plays the agent's part again.

* `RawClient` is the other end: the plainest client, for testing agents.

It may import any part of silo_nb; no part of silo_nb imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silo_nb.testing.agent import AgentLog as AgentLog
    from silo_nb.testing.agent import FakeAgent as FakeAgent
    from silo_nb.testing.agent import NotReached as NotReached
    from silo_nb.testing.processes import AgentProcesses as AgentProcesses
    from silo_nb.testing.profile_file import write_profile as write_profile
    from silo_nb.testing.raw_client import RawClient as RawClient
    from silo_nb.testing.raw_client import Silent as Silent
    from silo_nb.testing.recording import Recording as Recording
    from silo_nb.testing.scripted.scenario import BadScenario as BadScenario
    from silo_nb.testing.scripted.scenario import Scenario as Scenario

# Loaded when asked for: the fake agent's process passes through here and has no use for them.
_HOMES = {
    "AgentLog": "agent",
    "AgentProcesses": "processes",
    "BadScenario": "scripted.scenario",
    "FakeAgent": "agent",
    "NotReached": "agent",
    "RawClient": "raw_client",
    "Recording": "recording",
    "Scenario": "scripted.scenario",
    "Silent": "raw_client",
    "write_profile": "profile_file",
}

__all__ = [
    "AgentLog",
    "AgentProcesses",
    "BadScenario",
    "FakeAgent",
    "NotReached",
    "RawClient",
    "Recording",
    "Scenario",
    "Silent",
    "write_profile",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
