"""How to run each real agent offline: configuration files, environment, command, session meta.

Every recipe keeps the agent in a home directory of its own, points it at the stub model, and turns
off what would make a turn depend on anything else: telemetry, retries, deferred tools, permission
modes that let a model decide instead of the user.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.agents.install import PACKAGES
from tests.agents.node import node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

KEY = "stub-key"
CODEX_MODEL = "gpt-5.5"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One agent's recipe.

    Attributes:
        environment: variables, from the agent's home and the address of the stub model.
        files: contents by path below the home, from the same.
        key_variable: the variable that holds the API key.
        login_file: a file whose content makes a login needless; it goes with the key.
        arguments: command line arguments behind the script.
        session_meta: ``_meta`` of session/new.
    """

    environment: Callable[[Path, str], dict[str, str]]
    files: Callable[[Path, str], dict[str, str]]
    key_variable: str
    arguments: tuple[str, ...] = ()
    session_meta: Mapping[str, Any] | None = None
    login_file: str | None = None


def profile_for(name: str, home: Path, url: str, *, signed_in: bool = True) -> dict[str, Any]:
    """Write an agent's configuration and return the profile that runs it.

    Args:
        name: which agent, one of `RECIPES`.
        home: an empty directory for it to live in.
        url: address of the stub model.
        signed_in: False for an agent that has neither key nor login.
    """
    recipe, package = RECIPES[name], PACKAGES[name]
    program = node(package.oldest_node)
    files = recipe.files(home, url)
    environment = {
        **_environment(home),
        # Some start themselves again, as a script that asks for "node".
        "PATH": os.pathsep.join((str(program.parent), os.environ["PATH"])),
        recipe.key_variable: KEY,
        **recipe.environment(home, url),
    }
    if not signed_in:
        del environment[recipe.key_variable]
        if recipe.login_file:
            files[recipe.login_file] = ""
    (home / "tmp").mkdir()
    for path, content in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(content, "utf-8")
    profile: dict[str, Any] = {
        "label": f"Real {name}",
        "command": [str(program), str(package.script), *recipe.arguments],
        "inherit_env": False,
        "env": environment,
        "kernel_tools": False,
    }
    if recipe.session_meta:
        profile["session_meta"] = recipe.session_meta
    return profile


def _environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "NO_COLOR": "1",
        "NO_PROXY": "127.0.0.1",
        "TERM": "dumb",
        "TMPDIR": str(home / "tmp"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
    }


def _claude_environment(home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Otherwise a cut stream is retried for more than a minute without a word on the wire.
        "CLAUDE_CODE_MAX_RETRIES": "0",
        # Otherwise the model is offered no tool for plans, and has to search for tools.
        "CLAUDE_CODE_ENABLE_TASKS": "0",
        "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }


def _claude_files(home: Path, url: str) -> dict[str, str]:
    # The mode of its own choice is `auto`, in which a classifier answers permission requests.
    return {".claude/settings.json": json.dumps({"permissions": {"defaultMode": "default"}})}


def _codex_environment(home: Path, url: str) -> dict[str, str]:
    return {
        "CODEX_HOME": str(home / ".codex"),
        "NO_BROWSER": "1",
        # The mode that asks before it writes.
        "INITIAL_AGENT_MODE": "read-only",
    }


def _codex_files(home: Path, url: str) -> dict[str, str]:
    # Newer models get no list of tools in the request; unknown ones make it warn in the answer.
    config = f"""
model = "{CODEX_MODEL}"
model_provider = "stub"

[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[tools.update_plan]
enabled = true
"""
    return {".codex/config.toml": config}


def _gemini_environment(home: Path, url: str) -> dict[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": url}


def _gemini_files(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {
            "auth": {"selectedType": "gemini-api-key"},
            "folderTrust": {"enabled": False},
        },
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _qwen_environment(home: Path, url: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "stub-model"}


def _qwen_files(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        # The mode of its own choice is `auto`, in which a model answers permission requests.
        "tools": {"approvalMode": "default"},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return {".qwen/settings.json": json.dumps(settings)}


def _kimi_environment(home: Path, url: str) -> dict[str, str]:
    return {"KIMI_CODE_HOME": str(home / ".kimi-code"), "KIMI_DISABLE_TELEMETRY": "1"}


def _kimi_files(home: Path, url: str) -> dict[str, str]:
    config = f"""
default_model = "stub"

[providers.stub]
type = "openai"
base_url = "{url}/v1"
api_key = "{KEY}"

[models.stub]
provider = "stub"
model = "stub-model"
max_context_size = 100000
"""
    return {".kimi-code/config.toml": config}


def _pi_environment(home: Path, url: str) -> dict[str, str]:
    return {
        "PI_ACP_PI_COMMAND": str(PACKAGES["pi"].prefix / "node_modules" / ".bin" / "pi"),
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
    }


def _pi_files(home: Path, url: str) -> dict[str, str]:
    models = {
        "providers": {
            "stub": {
                "baseUrl": f"{url}/v1",
                "api": "openai-completions",
                "apiKey": "$STUB_KEY",
                "models": [{"id": "stub-model", "name": "Stub Model"}],
            }
        }
    }
    settings = {"defaultProvider": "stub", "defaultModel": "stub-model", "quietStartup": True}
    return {
        ".pi/agent/models.json": json.dumps(models),
        ".pi/agent/settings.json": json.dumps(settings),
    }


RECIPES = {
    "claude": Recipe(
        _claude_environment,
        _claude_files,
        "ANTHROPIC_API_KEY",
        # Root may not skip permissions, and claude refuses a session to root that says nothing.
        session_meta={"claudeCode": {"options": {"allowDangerouslySkipPermissions": False}}},
    ),
    "codex": Recipe(
        _codex_environment,
        _codex_files,
        "OPENAI_API_KEY",
        # It names a provider of its own, and such a one is never asked for a login.
        login_file=".codex/config.toml",
    ),
    "gemini": Recipe(_gemini_environment, _gemini_files, "GEMINI_API_KEY", ("--acp",)),
    "qwen": Recipe(_qwen_environment, _qwen_files, "OPENAI_API_KEY", ("--acp",)),
    "kimi": Recipe(
        _kimi_environment,
        _kimi_files,
        "KIMI_API_KEY",
        ("acp",),
        login_file=".kimi-code/config.toml",
    ),
    "pi": Recipe(_pi_environment, _pi_files, "STUB_KEY"),
}
