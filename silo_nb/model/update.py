"""Update: one thing that happened in a session, normalized.

An update is what listeners get and what the journal stores. Most come from an agent's
``session/update`` notification; three kinds are ours, because the wire has no word for them and a
transcript cannot be rebuilt without them: ``turn_start``, ``turn_end`` and ``permission``.

A consumer must tolerate kinds it does not know: agents send different subsets, vendors add their
own, and all of them are delivered. (Source: seed 004, AgentSessionUpdate.)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from silo_nb.model.content import ContentBlock, Location, ToolContent

__all__ = [
    "MESSAGE_ROLES",
    "Command",
    "Compaction",
    "ConfigChoice",
    "ConfigOption",
    "Notice",
    "Permission",
    "PermissionOption",
    "PlanEntry",
    "PromptCapabilities",
    "TerminalExit",
    "ToolCallPatch",
    "Turn",
    "Update",
    "Usage",
]

Role = Literal["user", "agent", "thought"]

MESSAGE_ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "user_message_chunk": "user",
        "agent_message_chunk": "agent",
        "agent_thought_chunk": "thought",
    }
)
"""The kinds of update that carry a piece of a message, and whose message it is."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class PlanEntry(Struct, frozen=True, repr_omit_defaults=True):
    """One step of the agent's plan; `status` and `priority` are the agent's own words."""

    content: str
    status: str = "pending"
    priority: str = "medium"


class Usage(Struct, frozen=True, repr_omit_defaults=True):
    """How full the context is, in tokens, and what the session has cost so far.

    None means the agent did not say, which is not zero. `used` above `size` has been seen:
    both are shown as they came.
    """

    used: int | None = None
    size: int | None = None
    cost: float | None = None
    currency: str | None = None


class TerminalExit(Struct, frozen=True, repr_omit_defaults=True):
    """How a command ended."""

    code: int | None = None
    signal: str | None = None


class ToolCallPatch(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What one update says about a tool call. None means unchanged, never empty.

    `content` and `locations` replace what was there; `output` is appended to it.
    """

    tool_call_id: str
    opens: bool = False
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[ToolContent, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None
    name: str | None = None
    parent_id: str | None = None
    output: str | None = None
    exit: TerminalExit | None = None


class PermissionOption(Struct, frozen=True, repr_omit_defaults=True):
    """One answer the agent offers; `kind` may be a vendor's own and says how to colour it."""

    option_id: str
    name: str
    kind: str


class Permission(Struct, frozen=True, repr_omit_defaults=True):
    """An agent's question whether it may go on, and what became of it.

    Attributes:
        id: ours, unique in the journal (JSON-RPC ids repeat after a restart).
        tool_call_id: the row it belongs to.
        outcome: None while open, then ``"selected"``, ``"cancelled"`` or ``"withdrawn"``.
        option_id: the chosen option when `outcome` is ``"selected"``.
        answered_by: ``"listener"``, ``"stdin"``, ``"policy"``, ``"cancel"`` …
    """

    id: str
    tool_call_id: str
    options: tuple[PermissionOption, ...]
    outcome: str | None = None
    option_id: str | None = None
    answered_by: str | None = None

    @property
    def allowed(self) -> bool | None:
        """Whether an allowing option was chosen; None while open or when the kind is unknown."""
        if self.outcome is None:
            return None
        if self.outcome != "selected":
            return False
        kind = next((o.kind for o in self.options if o.option_id == self.option_id), "")
        if kind.startswith("allow"):
            return True
        return False if kind.startswith("reject") else None


class Notice(Struct, frozen=True, repr_omit_defaults=True):
    """Something the agent wants seen once; `severity` is ``info``, ``warning`` or ``error``."""

    title: str
    severity: str = "info"
    description: str | None = None


class Compaction(Struct, frozen=True, repr_omit_defaults=True):
    """The agent summarizing its own context; `summary` is appended to."""

    compaction_id: str
    status: str | None = None
    summary: str | None = None
    error: str | None = None


class Command(Struct, frozen=True, repr_omit_defaults=True):
    """A slash command; `hint` describes its input, None when it takes none."""

    name: str
    description: str = ""
    hint: str | None = None


class ConfigChoice(Struct, frozen=True, repr_omit_defaults=True):
    """One value of a select; `group` is its heading, if the agent grouped them."""

    value: str
    name: str
    description: str | None = None
    group: str | None = None


class ConfigOption(Struct, frozen=True, repr_omit_defaults=True):
    """One control of a session.

    `type` is ``"select"`` (a string out of `choices`), ``"boolean"``, or one this version does
    not know, which is listed but not offered.
    """

    id: str
    name: str
    type: str
    current_value: Any = None
    choices: tuple[ConfigChoice, ...] = ()
    category: str | None = None
    description: str | None = None


class PromptCapabilities(Struct, frozen=True, repr_omit_defaults=True):
    """What a prompt may contain besides text and resource links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class Turn(Struct, frozen=True, repr_omit_defaults=True):
    """The beginning or the end of a turn, as we saw it.

    Attributes:
        stop_reason: the agent's own word; ``"error"`` or ``"agent-exited"`` when it gave none.
        error: what went wrong, in words, when the turn could not be completed.
        cancel_requested: whether we had asked the agent to stop.
        usage: token counts the agent gave with its response, as it gave them.
    """

    stop_reason: str | None = None
    error: str | None = None
    cancel_requested: bool = False
    usage: Mapping[str, Any] | None = None


# gc=False: an update holds JSON and nothing that could refer back to it. Tracking 50,000 of them
# made the collector a third of the whole path's cost (measured).
class Update(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One thing that happened in a session.

    Attributes:
        kind: the wire's ``sessionUpdate``, or ``turn_start``, ``turn_end``, ``permission``.
        text: the piece of text of a message kind; None when the block is not text.
        content: the whole block of a message kind.
        message_id: the run of chunks this one belongs to; made up (``syn-…``) when the agent
            gives none.
        timestamp: ISO 8601, only on what we recorded ourselves; ACP has none.
        tool_call: what ``tool_call``, ``tool_call_update`` or a permission request says of a row.
        plan: the whole plan, replacing the last one.
        usage: context and cost.
        info: changed session facts: ``title``, ``updated_at``; a key is there only when it
            changed, None clears it.
        commands: the whole command palette.
        config_options: the whole list of controls.
        mode_id: the session mode the agent moved to.
        notice: a message of the agent's own about the session.
        compaction: progress of the agent summarizing its context.
        permission: an asked or answered permission.
        turn: facts of a turn's start or end.
        raw: the wire's own object, read-only; the escape hatch for what is not modelled.
        plain: `raw` says nothing that `kind`, `text` and `message_id` do not. Plain updates of one
            message may be joined, or cut elsewhere, and nothing is lost.
    """

    kind: str
    text: str | None = None
    content: ContentBlock | None = None
    message_id: str | None = None
    timestamp: str | None = None
    tool_call: ToolCallPatch | None = None
    plan: tuple[PlanEntry, ...] | None = None
    usage: Usage | None = None
    info: Mapping[str, str | None] | None = None
    commands: tuple[Command, ...] | None = None
    config_options: tuple[ConfigOption, ...] | None = None
    mode_id: str | None = None
    notice: Notice | None = None
    compaction: Compaction | None = None
    permission: Permission | None = None
    turn: Turn | None = None
    raw: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    plain: bool = False
