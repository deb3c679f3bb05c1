"""Three readers of one agent that streams, each charged in CPU time of its own process.

::

    hatch run bench                          # every bench, with its table
    python -m tests.bench.ingest [ROUNDS]    # this one alone, figures as JSON, from the root

* ``silo_nb``: the whole path, wire to Update to Transcript, a journal on disk, one listener.
* ``bare``: a loop of ``readline`` and ``json.loads`` that keeps nothing.
* ``sdk``: the client of the official Python SDK, with a callback that appends.

The agent is the scripted one, so it is the same child for all, and its CPU is not counted. It runs
in a process of its own, so that no test runner's heap and no collector's mood is measured too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from silo_nb import sync
from silo_nb.testing import FakeAgent, write_profile
from silo_nb.testing.agent import write_scenario

CHUNKS = 50_000
SDK_CHUNKS = 10_000
"""Fewer, since it takes eight times as long; the rate is the same."""

TEXT = "Forty characters of an answer, no more. "
ROUNDS = 5

Reader = Callable[[FakeAgent, int], float]


@contextmanager
def streaming_agent(chunks: int, directory: Path) -> Iterator[FakeAgent]:
    """An agent that answers a prompt with so many chunks, in a profile of its own."""
    config, notebook = directory / "config", directory / "notebook"
    notebook.mkdir(parents=True)
    steps: list[dict[str, Any]] = [
        {"expect": "session/prompt"},
        {"flood": chunks, "text": TEXT},
        {"reply": "end_turn"},
    ]
    scenario = write_scenario(directory / "scenario.jsonl", steps)
    agent = FakeAgent(scenario, directory=directory, profile="streaming", tag="ingest")
    write_profile(config, agent.profile, command=agent.command)
    os.environ["SILO_NB_CONFIG_DIR"] = str(config)
    with contextlib.chdir(notebook):
        yield agent


def silo_nb_reader(agent: FakeAgent, chunks: int) -> float:
    """Return updates per CPU-second of a session."""
    with sync.connect(agent.profile) as session:
        session.on_update(lambda _update: None)
        started = time.process_time()
        result = session.prompt("go")
        seconds = time.process_time() - started
        _require(len(result.text), chunks * len(TEXT))
        _require(session.journal_problem, None)
    return chunks / seconds


def bare_reader(agent: FakeAgent, chunks: int) -> float:
    """Return lines per CPU-second of the least that can be done."""
    requests: Sequence[tuple[str, dict[str, Any]]] = (
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(Path.cwd()), "mcpServers": []}),
        ("session/prompt", {"sessionId": "session-1", "prompt": [{"type": "text", "text": "go"}]}),
    )
    with subprocess.Popen(
        agent.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (method, params) in enumerate(requests):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if number < len(requests) - 1:
                json.loads(process.stdout.readline())
        lines = 0
        started = time.process_time()
        while json.loads(process.stdout.readline()).get("id") != number:
            lines += 1
        seconds = time.process_time() - started
        process.stdin.close()
    _require(lines, chunks)
    return chunks / seconds


def sdk_reader(agent: FakeAgent, chunks: int) -> float:
    """Return updates per CPU-second of the official SDK's client."""
    return asyncio.run(_sdk(agent, chunks))


async def _sdk(agent: FakeAgent, chunks: int) -> float:
    import acp

    updates: list[Any] = []

    class Collector:
        def on_connect(self, conn: Any) -> None:
            pass

        async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
            updates.append(update)

    # Of the client's many methods, this agent calls one.
    client: Any = Collector()
    program, *arguments = agent.command
    async with acp.spawn_agent_process(client, program, *arguments) as (connection, _):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=str(Path.cwd()), mcp_servers=[])
        prompt: list[Any] = [acp.text_block("go")]
        started = time.process_time()
        await connection.prompt(session_id=session.session_id, prompt=prompt)
        seconds = time.process_time() - started
    _require(len(updates), chunks)
    return chunks / seconds


READERS: dict[str, tuple[Reader, int]] = {
    "bare": (bare_reader, CHUNKS),
    "silo_nb": (silo_nb_reader, CHUNKS),
    "sdk": (sdk_reader, SDK_CHUNKS),
}


def measure(rounds: int, names: Sequence[str] = tuple(READERS)) -> dict[str, list[float]]:
    """Return updates per CPU-second by reader; rounds interleave, so that drift hits all alike."""
    figures: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            for name in names:
                reader, chunks = READERS[name]
                with streaming_agent(chunks, Path(directory, name, str(number))) as agent:
                    figures[name].append(reader(agent, chunks))
    return figures


def _require(found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"the reader got {found!r}, not {expected!r}: its figure is worth nothing")


if __name__ == "__main__":
    json.dump(measure(int(sys.argv[1]) if sys.argv[1:] else ROUNDS), sys.stdout)
