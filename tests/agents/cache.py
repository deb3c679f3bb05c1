"""The cache that agents are installed into, one prefix per program and version.

It is ``$SILO_NB_TEST_CACHE/agents``, or ``~/.cache/silo_nb-tests/agents``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = "installed.json"


class RegistryUnreachable(Exception):
    """What would install is missing here, or its registry does not answer: the reason to skip."""


class InstallFailed(Exception):
    """The registry was reached, and the program could not be installed all the same."""


def cache_directory() -> Path:
    """Return the directory that holds the prefixes."""
    root = os.environ.get("SILO_NB_TEST_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "silo_nb-tests") / "agents"


def is_installed(prefix: Path) -> bool:
    """Whether an install went through to its end."""
    return (prefix / MARKER).is_file()


@contextlib.contextmanager
def filling(prefix: Path) -> Iterator[Path | None]:
    """Give a staging directory, which becomes the prefix by one rename when all went well.

    Two installs at once wait for each other, and one that was cut short leaves nothing that looks
    installed. Gives None when there is nothing to do, maybe because somebody else just did it.
    """
    if is_installed(prefix):
        yield None
        return
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with _locked(prefix.with_name(f"{prefix.name}.lock")):
        if is_installed(prefix):
            yield None
            return
        staging = prefix.with_name(f"{prefix.name}.staging")
        # Both can only be the remains of an install that was cut short: we hold the lock.
        for remains in (staging, prefix):
            shutil.rmtree(remains, ignore_errors=True)
        staging.mkdir()
        yield staging
        (staging / MARKER).touch()
        staging.rename(prefix)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock; a process that dies lets go of it."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
