"""What it costs to load the extension, and to connect.

::

    hatch run bench                              # every bench, with its table
    python -m tests.bench.startup load_ext       # CPU milliseconds of %load_ext, from the root
    python -m tests.bench.startup connect        # wall milliseconds of connecting, both ways
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 10


def load_extension() -> float:
    """Return the CPU milliseconds of ``%load_ext silo_nb`` once anywidget is imported."""
    import anywidget  # noqa: F401 - what the extension may count on
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    started = time.process_time()
    shell.run_line_magic("load_ext", "silo_nb")
    milliseconds = (time.process_time() - started) * 1_000
    assert "agent" in shell.magics_manager.magics["cell"]
    return milliseconds


def connecting() -> dict[str, list[float]]:
    """Return wall milliseconds up to an open session: a session's, and a bare pipe's."""
    from silo_nb import sync
    from tests.bench.ingest import streaming_agent

    found: dict[str, list[float]] = {"bare": [], "silo_nb": []}
    with (
        tempfile.TemporaryDirectory() as directory,
        streaming_agent(1, Path(directory, "agent")) as agent,
    ):
        # The first session of a process imports what later ones find there.
        sync.connect(agent.profile).dispose()
        for _ in range(ROUNDS):
            found["bare"].append(_bare(agent.command))
            started = time.perf_counter()
            session = sync.connect(agent.profile)
            found["silo_nb"].append((time.perf_counter() - started) * 1_000)
            session.dispose()
    return found


def _bare(command: tuple[str, ...]) -> float:
    started = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests: tuple[tuple[str, dict[str, Any]], ...] = (
            ("initialize", {"protocolVersion": 1}),
            ("session/new", {"cwd": str(Path.cwd()), "mcpServers": []}),
        )
        for number, (method, params) in enumerate(requests):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            json.loads(process.stdout.readline())
        return (time.perf_counter() - started) * 1_000


MEASURES = {"load_ext": load_extension, "connect": connecting}

if __name__ == "__main__":
    json.dump(MEASURES[sys.argv[1]](), sys.stdout)
