"""Install the real agents that these tests drive, each at exactly one version.

npm fills a prefix in the cache (see `cache`) from the lock file in ``locks/``: an agent's
dependencies are pinned and their hashes checked.

Run ``python -m tests.agents.install`` to fill the cache by hand.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.agents.cache import (
    InstallFailed,
    RegistryUnreachable,
    cache_directory,
    filling,
    is_installed,
)
from tests.agents.node import node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.agents.node import Version

LOCKS = Path(__file__).parent / "locks"
INSTALL_SECONDS = 900

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


@dataclass(frozen=True, slots=True)
class Package:
    """One agent on npm.

    Attributes:
        name: what we call it.
        npm: the package to install.
        version: of it.
        entry: the file in it that Node runs.
        beside: versions of what has to be installed with it, by package.
        oldest_node: the oldest Node it runs on, whatever it says of itself.
    """

    name: str
    npm: str
    version: str
    entry: str
    beside: Mapping[str, str] = field(default_factory=dict)
    oldest_node: Version = (20,)

    @property
    def script(self) -> Path:
        """The file to run, in the prefix of a finished install."""
        return self.prefix / "node_modules" / self.npm / self.entry

    @property
    def prefix(self) -> Path:
        """Where a finished install lies."""
        return cache_directory() / "-".join((self.name, self.version, *self.beside.values()))

    @property
    def is_installed(self) -> bool:
        """Whether an install went through to its end."""
        return is_installed(self.prefix)

    @property
    def dependencies(self) -> dict[str, str]:
        """All that npm is asked for."""
        return {self.npm: self.version, **self.beside}


PACKAGES = {
    package.name: package
    for package in (
        Package("claude", "@agentclientprotocol/claude-agent-acp", "0.101.0", "dist/index.js"),
        Package("codex", "@agentclientprotocol/codex-acp", "2.6.0", "dist/index.js"),
        Package("gemini", "@google/gemini-cli", "0.61.0", "bundle/gemini.js"),
        Package("qwen", "@qwen-code/qwen-code", "0.24.4", "cli-entry.js"),
        Package("kimi", "@moonshot-ai/kimi-code", "2.1.0", "dist/main.mjs", oldest_node=(22, 19)),
        Package(
            "pi",
            "pi-acp",
            "0.0.34",
            "dist/index.js",
            beside={"@earendil-works/pi-coding-agent": "1.6.0"},
            oldest_node=(22, 19),
        ),
    )
}


def install(name: str) -> Package:
    """Install an agent and the Node it needs, unless they are there already.

    Args:
        name: a key of `PACKAGES`.

    Raises:
        RegistryUnreachable: npm is missing, or a registry does not answer.
        InstallFailed: anything else that went wrong; the message ends with npm's own words.
    """
    package = PACKAGES[name]
    with filling(package.prefix) as staging:
        if staging is not None:
            _install_into(staging, package)
    node(package.oldest_node)
    return package


def _install_into(staging: Path, package: Package) -> None:
    lock = json.loads((LOCKS / f"{package.name}.json").read_text("utf-8"))
    manifest = {"private": True, "name": lock["name"], "dependencies": package.dependencies}
    (staging / "package.json").write_text(json.dumps(manifest), "utf-8")
    (staging / "package-lock.json").write_text(json.dumps(lock), "utf-8")
    _npm_install(package, staging)
    if not (staging / "node_modules" / package.npm / package.entry).is_file():
        message = f"{package.npm}@{package.version} has no file {package.entry!r}"
        raise InstallFailed(message)


def _npm_install(package: Package, directory: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        message = "there is no 'npm' on PATH"
        raise RegistryUnreachable(message)
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
        raise RegistryUnreachable(message)
    errors = "\n".join(re.findall(r"^npm (?:error|ERR!) .+", done.stderr, re.MULTILINE)[:20])
    message = f"npm install of {package.npm}@{package.version} failed:\n{errors or done.stderr}"
    raise InstallFailed(message)


def main() -> None:
    """Install all agents and say where they are."""
    for name in PACKAGES:
        sys.stdout.write(f"{name}: {install(name).script}\n")


if __name__ == "__main__":
    main()
