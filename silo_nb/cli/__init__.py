"""The command `silo-nb`: the tour, and the sessions that are kept beside notebooks."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from silo_nb.cli import demo, journal
from silo_nb.errors import SiloError
from silo_nb.model.text import inert

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse has no other name for it

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: the words after ``silo-nb``; None: those of this process.

    Returns:
        0 when it worked, 1 when it did not (what to do is on stderr), 2 for a misuse.
    """
    parser = argparse.ArgumentParser(
        prog="silo-nb", description="AI coding agents in Jupyter notebooks."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (demo, journal):
        command.add_to(commands)
    chosen = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know every character
    try:
        status: int = chosen.action(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except (SiloError, OSError) as error:
        print(f"silo-nb: {inert(str(error))}", file=sys.stderr)
        return 1
    return status
