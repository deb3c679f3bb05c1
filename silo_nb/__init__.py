"""silo_nb: coding agents in Jupyter notebooks.

``%load_ext silo_nb`` adds the ``%%agent`` magics; :func:`connect` is the same from Python. Any
program that speaks the Agent Client Protocol can be the agent; ``demo`` is built in.

Names are imported when they are first used, so that loading the extension costs next to nothing
and starts nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from silo_nb import sync
    from silo_nb.errors import (
        AgentError,
        AgentExited,
        AgentNotFound,
        AgentRefused,
        AuthRequired,
        HandshakeTimeout,
        JournalError,
        NotYet,
        PermissionDenied,
        ProfileError,
        SessionBusy,
        SessionClosed,
        SiloError,
        WorkspaceError,
    )
    from silo_nb.model import (
        EMPTY_TRANSCRIPT,
        Attachment,
        AudioBlock,
        Command,
        CompactionRow,
        ConfigChoice,
        ConfigOption,
        DiffContent,
        EmbeddedResource,
        ImageBlock,
        Location,
        Message,
        Notice,
        NoticeRow,
        Permission,
        PermissionOption,
        PlanEntry,
        PromptCapabilities,
        ResourceLink,
        TerminalContent,
        TextBlock,
        ToolCall,
        ToolCallPatch,
        Transcript,
        Turn,
        TurnEnd,
        UnknownBlock,
        Update,
        Usage,
        apply_update,
    )
    from silo_nb.runtime.kernel_compat import allow_nested_asyncio
    from silo_nb.session import (
        AgentInfo,
        PermissionRequest,
        PromptResult,
        Restore,
        Session,
        SessionSummary,
        Subscription,
        agents,
        connect,
        read_journal,
    )

_HOMES = {
    "silo_nb.errors": (
        "AgentError",
        "AgentExited",
        "AgentNotFound",
        "AgentRefused",
        "AuthRequired",
        "HandshakeTimeout",
        "JournalError",
        "NotYet",
        "PermissionDenied",
        "ProfileError",
        "SessionBusy",
        "SessionClosed",
        "SiloError",
        "WorkspaceError",
    ),
    "silo_nb.model": (
        "EMPTY_TRANSCRIPT",
        "Attachment",
        "AudioBlock",
        "Command",
        "CompactionRow",
        "ConfigChoice",
        "ConfigOption",
        "DiffContent",
        "EmbeddedResource",
        "ImageBlock",
        "Location",
        "Message",
        "Notice",
        "NoticeRow",
        "Permission",
        "PermissionOption",
        "PlanEntry",
        "PromptCapabilities",
        "ResourceLink",
        "TerminalContent",
        "TextBlock",
        "ToolCall",
        "ToolCallPatch",
        "Transcript",
        "Turn",
        "TurnEnd",
        "UnknownBlock",
        "Update",
        "Usage",
        "apply_update",
    ),
    "silo_nb.runtime.kernel_compat": ("allow_nested_asyncio",),
    "silo_nb.session": (
        "AgentInfo",
        "PermissionRequest",
        "PromptResult",
        "Restore",
        "Session",
        "SessionSummary",
        "Subscription",
        "agents",
        "connect",
        "read_journal",
    ),
}

__all__ = [
    "EMPTY_TRANSCRIPT",
    "AgentError",
    "AgentExited",
    "AgentInfo",
    "AgentNotFound",
    "AgentRefused",
    "Attachment",
    "AudioBlock",
    "AuthRequired",
    "Command",
    "CompactionRow",
    "ConfigChoice",
    "ConfigOption",
    "DiffContent",
    "EmbeddedResource",
    "HandshakeTimeout",
    "ImageBlock",
    "JournalError",
    "Location",
    "Message",
    "NotYet",
    "Notice",
    "NoticeRow",
    "Permission",
    "PermissionDenied",
    "PermissionOption",
    "PermissionRequest",
    "PlanEntry",
    "ProfileError",
    "PromptCapabilities",
    "PromptResult",
    "ResourceLink",
    "Restore",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionSummary",
    "SiloError",
    "Subscription",
    "TerminalContent",
    "TextBlock",
    "ToolCall",
    "ToolCallPatch",
    "Transcript",
    "Turn",
    "TurnEnd",
    "UnknownBlock",
    "Update",
    "Usage",
    "WorkspaceError",
    "agents",
    "allow_nested_asyncio",
    "apply_update",
    "connect",
    "read_journal",
    "sync",
]

_HOME = {name: module for module, names in _HOMES.items() for name in names}
_LATER = frozenset({"ask", "chat", "request_human_input", "request_tool_access"})


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("silo_nb.sync")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _LATER:
        raise AttributeError(f"silo_nb.{name} is planned, but not part of this version yet")
    raise AttributeError(f"module 'silo_nb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to `shell` (``%load_ext silo_nb``). Starts no process, thread or socket."""
    from silo_nb.ipython.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Dispose every session and remove the magics (``%unload_ext silo_nb``)."""
    from silo_nb.ipython.extension import unload

    unload(shell)
