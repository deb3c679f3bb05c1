"""Install the real agents that these tests drive, each at exactly one version.

Each agent gets a prefix of its own in a cache directory, ``<cache>/<name>-<version>``, filled by
npm from the lock file in ``locks/``: its dependencies are pinned and their hashes checked.
The cache is ``$SILO_NB_TEST_CACHE/agents``, or ``~/.cache/silo_nb-tests/agents``.

Two installs at once wait for each other, and one that was cut short leaves nothing that looks
installed: npm works in a staging directory, which becomes the prefix by one rename at the end.

Run ``python -m tests.agents.install`` to fill the cache by hand.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCKS = Path(__file__).parent / "locks"
OLDEST_NODE = 20
INSTALL_SECONDS = 900
MARKER = "installed.json"

# npm's own names for "the registry did not answer": everything else is a failure to look into.
UNREACHABLE = {
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "ERR_SOCKET_TIMEOUT",
    "ETIMEDOUT",
}


class NpmUnreachable(Exception):
    """There is no Node or npm here, or npm cannot reach its registry: the only reason to skip."""


class InstallFailed(Exception):
    """npm was reached, and the agent could not be installed all the same."""


@dataclass(frozen=True, slots=True)
class Package:
    """One agent on npm: what to install, and which file Node runs."""

    name: str
    npm: str
    version: str
    entry: str

    @property
    def script(self) -> Path:
        """The file to run, in the prefix of a finished install."""
        return self.prefix / "node_modules" / self.npm / self.entry

    @property
    def prefix(self) -> Path:
        """Where a finished install lies."""
        return cache_directory() / f"{self.name}-{self.version}"

    @property
    def is_installed(self) -> bool:
        """Whether an install went through to its end."""
        return (self.prefix / MARKER).is_file()


PACKAGES = {
    package.name: package
    for package in (
        Package("claude", "@agentclientprotocol/claude-agent-acp", "0.101.0", "dist/index.js"),
        Package("codex", "@agentclientprotocol/codex-acp", "2.6.0", "dist/index.js"),
        Package("gemini", "@google/gemini-cli", "0.61.0", "bundle/gemini.js"),
        Package("qwen", "@qwen-code/qwen-code", "0.24.4", "cli-entry.js"),
    )
}


def cache_directory() -> Path:
    """Return the directory that holds one prefix per agent and version."""
    root = os.environ.get("SILO_NB_TEST_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "silo_nb-tests") / "agents"


def install(name: str) -> Package:
    """Install an agent unless it is there already.

    Args:
        name: a key of `PACKAGES`.

    Raises:
        NpmUnreachable: Node or npm is missing, or npm's registry does not answer.
        InstallFailed: anything else that went wrong; the message ends with npm's own words.
    """
    package = PACKAGES[name]
    node()
    if package.is_installed:
        return package
    package.prefix.parent.mkdir(parents=True, exist_ok=True)
    with _locked(package.prefix.with_name(f"{package.prefix.name}.lock")):
        if not package.is_installed:
            _install_locked(package)
    return package


def node() -> str:
    """Return the Node to run agents with.

    Raises:
        NpmUnreachable: there is none.
        InstallFailed: it is older than the agents can bear.
    """
    found = shutil.which("node")
    if found is None:
        message = "there is no 'node' on PATH"
        raise NpmUnreachable(message)
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    version = answer.stdout.strip()
    if int(version.lstrip("v").partition(".")[0]) < OLDEST_NODE:
        message = f"the agents need Node {OLDEST_NODE} or newer, {found!r} is {version}"
        raise InstallFailed(message)
    return found


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock; a process that dies lets go of it."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install_locked(package: Package) -> None:
    staging = package.prefix.with_name(f"{package.prefix.name}.staging")
    # Both can only be the remains of an install that was cut short: we hold the lock.
    for remains in (staging, package.prefix):
        shutil.rmtree(remains, ignore_errors=True)
    staging.mkdir()
    manifest = {"private": True, "dependencies": {package.npm: package.version}}
    lock = json.loads((LOCKS / f"{package.name}.json").read_text("utf-8"))
    manifest["name"] = lock["name"]
    (staging / "package.json").write_text(json.dumps(manifest), "utf-8")
    (staging / "package-lock.json").write_text(json.dumps(lock), "utf-8")
    _npm_install(package, staging)
    if not (staging / "node_modules" / package.npm / package.entry).is_file():
        message = f"{package.npm}@{package.version} has no file {package.entry!r}"
        raise InstallFailed(message)
    (staging / MARKER).write_text(json.dumps({package.npm: package.version}), "utf-8")
    staging.rename(package.prefix)


def _npm_install(package: Package, directory: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        message = "there is no 'npm' on PATH"
        raise NpmUnreachable(message)
    # Not `npm ci`: it refuses qwen's lock, as some optional dependencies were never published.
    # No agent needs an install script, so none is let run.
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    retries = ["--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=4000"]
    done = subprocess.run(
        command + retries,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return
    codes = set(re.findall(r"^npm (?:error|ERR!) (?:code|errno) (\S+)", done.stderr, re.MULTILINE))
    if codes & UNREACHABLE:
        message = f"npm does not reach its registry ({', '.join(sorted(codes & UNREACHABLE))})"
        raise NpmUnreachable(message)
    errors = "\n".join(re.findall(r"^npm (?:error|ERR!) .+", done.stderr, re.MULTILINE)[:20])
    message = f"npm install of {package.npm}@{package.version} failed:\n{errors or done.stderr}"
    raise InstallFailed(message)


def main() -> None:
    """Install all agents and say where they are."""
    for name in PACKAGES:
        sys.stdout.write(f"{name}: {install(name).script}\n")


if __name__ == "__main__":
    main()
