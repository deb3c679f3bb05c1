"""Installing agents: only a registry that cannot be reached is a reason to skip them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.agents.cache import RegistryUnreachable
from tests.agents.install import LOCKS, PACKAGES, install
from tests.agents.node import node

if TYPE_CHECKING:
    from pathlib import Path


def test_every_agent_is_pinned_with_all_it_depends_on() -> None:
    for package in PACKAGES.values():
        lock = json.loads((LOCKS / f"{package.name}.json").read_text("utf-8"))["packages"]
        assert lock[""]["dependencies"] == package.dependencies
        pinned = [entry for path, entry in lock.items() if path]
        assert all("version" in entry and "integrity" in entry for entry in pinned)
        assert "resolved" not in json.dumps(lock)


def test_a_registry_that_does_not_answer_is_told_from_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILO_NB_TEST_CACHE", str(tmp_path / "agents"))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
    package = PACKAGES["gemini"]
    # What an install leaves that was cut short before there were markers, or by hand.
    package.script.parent.mkdir(parents=True)
    package.script.touch()

    with pytest.raises(RegistryUnreachable):
        install("gemini")

    assert not package.is_installed
    assert not package.prefix.exists()


def test_an_index_that_does_not_answer_is_told_from_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILO_NB_TEST_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")

    with pytest.raises(RegistryUnreachable):
        node(at_least=(999,))
