"""``python -m silo_nb.demo_agent``: serve one client until standard input ends."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from silo_nb.demo_agent.server import Server
from silo_nb.demo_agent.store import Store
from silo_nb.demo_agent.wire import Wire

_USAGE = "usage: python -m silo_nb.demo_agent  (speaks ACP on stdin and stdout)"


def main() -> int:
    """Serve, and leave nothing running behind."""
    if len(sys.argv) > 1:
        print(_USAGE, file=sys.stderr)
        return 0 if sys.argv[1] in {"-h", "--help"} else 2
    signal.signal(signal.SIGTERM, _end)
    server = Server(Wire(), Store.of_user())
    try:
        server.run()
    finally:
        server.close()
    return 0


def _end(number: int, _: FrameType | None) -> None:
    """End as a program ended by a signal does, but through the `finally` above."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
