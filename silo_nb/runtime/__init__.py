"""How cells, comm handlers, subshells and scripts enter the agent thread, and wait for it.

Job: one thread with one loop for all session state, and ways in and back that never block it,
never deadlock the kernel and never lose an interrupt. ``kernel_compat`` alone knows IPython and
ipykernel.

Must not know: agents, sessions, the wire. It moves coroutines and futures, whatever they do.
"""

from __future__ import annotations

from silo_nb.runtime import kernel_compat
from silo_nb.runtime.agent_thread import AgentThread, agent_thread
from silo_nb.runtime.main_jobs import JobInterrupted, run_on_main
from silo_nb.runtime.waiting import wait_async, wait_sync

__all__ = [
    "AgentThread",
    "JobInterrupted",
    "agent_thread",
    "kernel_compat",
    "run_on_main",
    "wait_async",
    "wait_sync",
]
