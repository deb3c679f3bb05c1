"""Sessions: one conversation each, from connect to dispose.

Knows the wire (through :mod:`silo_nb.acp`), the journal and the profiles; knows nothing of
notebooks, cells or widgets. Everything but the public :class:`Session` lives on the agent thread.
"""

from silo_nb.session.agents import AgentInfo, Agents, agents
from silo_nb.session.asks import PermissionRequest
from silo_nb.session.listeners import Subscription
from silo_nb.session.listing import SessionSummary
from silo_nb.session.reading import read_journal
from silo_nb.session.restore import Restore
from silo_nb.session.session import Session, connect
from silo_nb.session.turn import PromptResult

__all__ = [
    "AgentInfo",
    "Agents",
    "PermissionRequest",
    "PromptResult",
    "Restore",
    "Session",
    "SessionSummary",
    "Subscription",
    "agents",
    "connect",
    "read_journal",
]
