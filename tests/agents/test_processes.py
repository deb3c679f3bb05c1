"""Whatever ends a session, nothing of a real agent lives on: no binary, no shell, no grandchild.

claude, gemini and qwen start their shells in sessions of their own, and each of the four is a
wrapper around at least one more process; killing what was started would leave the rest behind.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from typing import TYPE_CHECKING

import psutil
import pytest

import silo_nb
from silo_nb import AgentExited
from tests.agents import long_turn
from tests.agents.driving import (
    SECONDS_TO_ACT,
    answer_all,
    each_agent,
    has_exited,
    shell_runs,
    turn,
)
from tests.agents.expected import EXPECTED
from tests.agents.processes import processes_of, wait_until_gone
from tests.agents.stub_model import prompt_for, script

if TYPE_CHECKING:
    from tests.agents.conftest import Agent

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

# Time for the guard to look, and for the system to clean up; there is nothing to wait for politely.
SECONDS_TO_DIE = 5


@each_agent("dispose-idle")
async def test_disposing_an_idle_session_leaves_nothing(agent: Agent) -> None:
    """R15, case 12."""
    session = await silo_nb.connect(agent.name, cwd=agent.cwd)
    await session.prompt(prompt_for("text"))
    assert processes_of(agent.home) != []

    await session.dispose()

    assert wait_until_gone(agent.home, within=0) == []
    assert session.status == "closed"


@each_agent("dispose-mid-shell")
async def test_disposing_in_the_middle_of_a_command_leaves_nothing(agent: Agent) -> None:
    """R15, R17, case 12; gemini ends at no EOF while a turn runs."""
    tag = uuid.uuid4().hex
    session = await silo_nb.connect(agent.name, cwd=agent.cwd)
    answer_all(session, "allow_once")
    async with turn(session, prompt_for("slow-shell", tag=tag)) as running:
        await shell_runs(agent, tag)

        await session.dispose()
        result = await asyncio.wait_for(running, SECONDS_TO_ACT)

    assert result.stop_reason == "cancelled"
    assert wait_until_gone(agent.home, within=0) == []


@each_agent("kill-mid-shell")
async def test_a_killed_agent_takes_its_shell_along_and_the_turn_says_so(agent: Agent) -> None:
    """R15, R18, case 13, FAULTS P7, P8 and P17."""
    tag = uuid.uuid4().hex
    async with await silo_nb.connect(agent.name, cwd=agent.cwd) as session:
        answer_all(session, "allow_once")
        async with turn(session, prompt_for("slow-shell", tag=tag)) as running:
            await shell_runs(agent, tag)

            psutil.Process(session.pid).kill()
            await asyncio.wait([running], timeout=SECONDS_TO_ACT)
            error = running.exception()

        if error is None:
            assert EXPECTED[agent.name].is_launched
        else:
            assert isinstance(error, AgentExited)
            assert error.signal == signal.SIGKILL
        await has_exited(session)
        assert wait_until_gone(agent.home, within=SECONDS_TO_DIE) == []

        following = await session.prompt(prompt_for("text"))
        assert following.text == script.TEXT


@each_agent("kernel-kill-mid-shell")
async def test_a_killed_kernel_takes_agent_and_shell_along(agent: Agent) -> None:
    """R15, FAULTS K1, T-2."""
    tag = uuid.uuid4().hex
    prompt = prompt_for("slow-shell", tag=tag)
    program = [sys.executable, long_turn.__file__, agent.name, str(agent.cwd), prompt]
    kernel = psutil.Popen(program)
    try:
        await shell_runs(agent, tag)
    finally:
        kernel.kill()
        kernel.wait()

    assert wait_until_gone(agent.home, within=SECONDS_TO_DIE) == []
