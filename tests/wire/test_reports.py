"""Reports from users of neighbouring tools, as they would happen here. (REPORTS 1 to 21, 30, 59…)

Proven elsewhere:

* case 12: test_faults_process.py, `test_p15_to_p18_case_12_what_it_started_ends_with_the_session`
* case 15: test_connecting.py, `test_two_sessions_have_two_processes_and_never_meet`, and
  test_faults_protocol.py, `test_r14_case_15_what_is_another_sessions_is_not_shown_here`
* case 16: test_connecting.py, `test_a_missing_interpreter_is_named_with_the_path_searched`
* case 17: test_connecting.py, `test_no_shell_is_involved`
* case 18: test_faults_protocol.py, `test_r35_case_18_a_list_of_logins_asks_for_none`
* case 20: test_faults_process.py, `TestSilence`
* case 60: tests/kernel/test_magics.py, `test_run_all_runs_all_in_order`
* case 61: tests/kernel/test_runtime_matrix.py and test_magics.py
* case 62: test_prompting.py, `test_text_is_sent_literally`; tests/kernel/test_magics.py
* case 63: test_prompting.py, `test_a_turn_returns_what_happened`; tests/kernel/test_magics.py
* case 72: test_connecting.py,
  `test_the_working_directory_is_the_notebooks_and_can_be_overridden`; tests/kernel/test_magics.py

The fixture ``play`` checks after each that nothing waits any more, that the journal folds to the
live transcript and that no exception went unnoticed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

import silo_nb
from silo_nb import PermissionRequest, Session
from silo_nb.model import PlanEntry, ToolCall, TurnEnd
from silo_nb.session import turns
from silo_nb.testing import AgentProcesses, FakeAgent
from tests.wire.conftest import eventually
from tests.wire.playing import Play, bubbles, counted, goes_on, no_stall, rows

pytestmark = pytest.mark.timeout(30)

AT_ONCE = 2.0
"""Seconds in which an answer that needs nobody else has to be there."""


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that ignores a cancel is given up soon."""
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.1)


async def begun(
    agent: FakeAgent, session: Session, mark: str
) -> asyncio.Task[silo_nb.PromptResult]:
    """Start a turn and wait until the agent has got to `mark` in it."""
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached(mark)
    return turn


def last_turn(session: Session) -> silo_nb.Turn:
    """Return the facts of the turn that ended last."""
    last = session.transcript.entries[-1]
    assert isinstance(last, TurnEnd)
    return last.turn


# ----------------------------------------------------------------- transport, process, lifecycle


async def test_case_1_a_line_of_any_usual_length_arrives_whole(play: Play) -> None:
    """200 kB, then 5 MB: the official SDK's reader dies above 64 KiB."""
    _, session = await play("lines_longer_than_64_kib")

    result = await session.prompt("go")

    assert result.text == "0123456789" * 520_000
    await goes_on(session)


async def test_case_2_a_tool_result_of_1_mb_is_a_row_like_any_other(play: Play) -> None:
    _, session = await play("a_tool_result_of_1_mb")

    result = await session.prompt("go")

    (row,) = result.tool_calls
    assert row.status == "completed"
    assert row.raw_output == {"output": "0123456789" * 100_000}
    assert result.text == "read it"
    await goes_on(session)


async def test_case_3_log_lines_on_stdout_go_to_the_log(play: Play) -> None:
    _, session = await play("log_lines_on_stdout")

    result = await session.prompt("go")

    assert bubbles(session) == [("user", "go"), ("agent", "before, after")]
    assert result.stop_reason == "end_turn"
    assert session.log == (
        "not a message: INFO migrating the database",
        "not a message: INFO migrated",
    )
    await goes_on(session)


async def test_case_4_a_turn_that_is_never_answered_ends_with_a_cancel(play: Play) -> None:
    agent, session = await play("streams_and_never_answers_the_prompt")
    turn = await begun(agent, session, "silent")
    assert session.status == "working"

    session.cancel()
    async with asyncio.timeout(AT_ONCE):
        result = await turn

    assert (result.stop_reason, result.text) == ("cancelled", "one two three")
    await goes_on(session)


async def test_case_4_a_turn_may_have_a_time_limit(play: Play) -> None:
    _, session = await play("streams_and_never_answers_the_prompt")

    async with asyncio.timeout(AT_ONCE):
        result = await session.prompt("go", timeout=0.3)

    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)
    await goes_on(session)


@pytest.mark.usefixtures("short_grace")
async def test_case_5_a_cancel_that_is_never_answered_is_over_after_the_grace(
    play: Play, agent_processes: AgentProcesses
) -> None:
    """That it was forced is in the log; the next prompt gets another process (test_restoring)."""
    agent, session = await play("never_answers_again_after_a_cancel")
    turn = await begun(agent, session, "streaming")

    session.cancel()
    async with asyncio.timeout(AT_ONCE):
        result = await turn

    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)
    assert (result.text, session.log) == ("on my way", ("cancel ignored",))
    async with asyncio.timeout(4):
        await session.dispose()
    assert agent_processes.alive() == []
    _, other = await play([])
    await goes_on(other)


async def test_case_6_a_second_answer_to_a_cancelled_turn_does_not_end_the_next(
    play: Play,
) -> None:
    agent, session = await play("a_cancelled_turn_answered_twice")
    first = await begun(agent, session, "streaming")
    session.cancel()
    assert (await first).stop_reason == "cancelled"

    second = await begun(agent, session, "answered_again")
    await eventually(lambda: counted(session, "response to no open request") == 1)
    assert session.status == "working"
    agent.release("end")
    result = await second

    assert (result.text, result.stop_reason) == ("two and more", "end_turn")
    assert result.cancel_requested is False
    await goes_on(session)


@pytest.mark.parametrize(
    ("scenario", "stop_reason"),
    [
        ("a_cancelled_turn_answered_end_turn", "end_turn"),
        ("a_cancelled_turn_answered_with_an_error", "cancelled"),
    ],
)
async def test_case_7_that_a_turn_was_cancelled_is_known_whatever_the_answer(
    play: Play, scenario: str, stop_reason: str
) -> None:
    """The agent's own word is kept; an error is no word for it (PROTOCOL §3.4)."""
    agent, session = await play(scenario)
    turn = await begun(agent, session, "streaming")

    session.cancel()
    result = await turn

    assert (result.stop_reason, result.cancel_requested) == (stop_reason, True)
    assert result.text == "as I was saying"
    facts = last_turn(session)
    assert (facts.stop_reason, facts.cancel_requested, facts.error) == (stop_reason, True, None)
    await goes_on(session)


async def test_case_8_a_row_left_open_by_a_cancel_is_cancelled_for_good(play: Play) -> None:
    agent, session = await play("a_tool_call_left_open_by_a_cancel")
    turn = await begun(agent, session, "running")
    session.cancel()
    result = await turn
    assert rows(session) == {"t1": "cancelled"}

    agent.release("late_update")
    await eventually(lambda: row(session).title == "Still running the tests")

    assert [call.status for call in result.tool_calls] == ["cancelled"]
    assert rows(session) == {"t1": "cancelled"}
    await goes_on(session)
    on_record = [u.tool_call for u in await silo_nb.read_journal(session.id) if u.tool_call]
    assert [patch.status for patch in on_record] == ["in_progress", "in_progress"]


def row(session: Session) -> ToolCall:
    """Return the only tool row."""
    (found,) = session.transcript.tool_calls
    return found


async def test_case_9_a_prompt_while_a_permission_is_open_is_refused_and_costs_nothing(
    play: Play,
) -> None:
    """It can still be answered afterwards."""
    agent, session = await play("a_prompt_while_a_permission_is_open")
    asks: list[PermissionRequest] = []
    session.on_permission(asks.append)
    turn = await begun(agent, session, "open")
    await eventually(lambda: session.status == "waiting")

    with pytest.raises(silo_nb.SessionBusy, match=r"wait for it, or cancel\(\) it"):
        await session.prompt("something else")

    assert len(agent.received("session/prompt")) == 1
    assert session.status == "waiting"
    assert not asks[0].answered
    assert asks[0].respond("allow")
    await eventually(lambda: agent.answers == ["allow"])
    session.cancel()
    assert (await turn).stop_reason == "cancelled"
    assert (await session.prompt("now")).text == "the new turn"
    await goes_on(session)


async def test_case_9_a_cancel_answers_it_and_the_next_prompt_is_taken(play: Play) -> None:
    agent, session = await play("a_prompt_while_a_permission_is_open")
    asks: list[PermissionRequest] = []
    session.on_permission(asks.append)
    turn = await begun(agent, session, "open")
    await eventually(lambda: session.status == "waiting")

    session.cancel()
    async with asyncio.timeout(AT_ONCE):
        assert (await turn).stop_reason == "cancelled"

    assert asks[0].respond("allow") is False
    assert agent.answers == ["cancelled"]
    assert row(session).permissions[0].answered_by == "cancel"
    assert rows(session) == {"t1": "cancelled"}
    assert (await session.prompt("something else")).text == "the new turn"
    await goes_on(session)


@pytest.mark.usefixtures("short_grace")
async def test_case_10_an_agent_that_stops_reading_holds_nobody_up(play: Play) -> None:
    agent, session = await play("stops_reading_during_a_turn")
    turn = await begun(agent, session, "deaf")

    async with no_stall(), asyncio.timeout(AT_ONCE):
        session.cancel()
        result = await turn

    assert (result.stop_reason, result.text) == ("cancelled", "thinking it over")
    async with asyncio.timeout(4):
        await session.dispose()


async def test_case_11_after_an_error_the_next_prompt_is_tried_and_can_be_cancelled(
    play: Play,
) -> None:
    agent, session = await play("an_error_and_then_silence")

    with pytest.raises(silo_nb.AgentRefused, match="Usage limit reached, try again at 5 pm"):
        await session.prompt("go")
    assert last_turn(session).error == "Usage limit reached, try again at 5 pm"
    assert session.status == "idle"

    turn = await begun(agent, session, "silent")
    assert session.status == "working"
    session.cancel()
    async with asyncio.timeout(AT_ONCE):
        assert (await turn).stop_reason == "cancelled"
    await goes_on(session)


async def test_case_13_a_kill_between_turns_is_seen_and_the_next_prompt_goes_on(
    play: Play,
) -> None:
    agent, session = await play([])
    await goes_on(session)

    os.kill(agent.pid, signal.SIGKILL)
    await eventually(lambda: session.status == "exited", within=AT_ONCE)

    await goes_on(session)
    assert len(set(agent.pids)) == 2


async def test_case_14_only_connect_starts_anything(
    play: Play, notebook_dir: Path, agent_processes: AgentProcesses
) -> None:
    """Not a profile, a session that was refused, or a look into a journal."""
    agent = play.agent([])
    before = psutil.Process().children(recursive=True)

    with pytest.raises(silo_nb.ProfileError):
        await silo_nb.connect("no-such-profile", resume="fake-1")
    with pytest.raises(silo_nb.WorkspaceError):
        await silo_nb.connect(agent.profile, cwd="nowhere")
    assert await silo_nb.read_journal("fake-1") == ()

    assert agent.pids == []
    assert agent_processes.alive() == []
    assert psutil.Process().children(recursive=True) == before
    assert names_in(notebook_dir) == []


def names_in(directory: Path) -> list[str]:
    """Return the names of what lies in a directory."""
    return [path.name for path in directory.iterdir()]


async def test_case_19_nothing_listens_for_the_browser_or_anybody_else(play: Play) -> None:
    """The agent is on the kernel's side, behind pipes: no port, no address."""
    before = connections()
    _, session = await play([])
    await goes_on(session)

    assert connections() == before
    assert session.pid is not None
    assert psutil.Process(session.pid).net_connections() == []


def connections() -> list[str]:
    """Return the sockets of this process that others could reach."""
    return [str(c) for c in psutil.Process().net_connections("inet")]


# ---------------------------------------------------------------------- update model and rendering


async def test_case_21_an_echo_of_the_prompt_is_shown_once(play: Play) -> None:
    _, session = await play("echoes_the_prompt")

    await session.prompt("hi")

    assert bubbles(session) == [("user", "hi"), ("agent", "you said that")]
    await goes_on(session)


async def test_case_30_a_plan_may_have_any_status_and_may_be_emptied(play: Play) -> None:
    agent, session = await play("plan_statuses_outside_the_set")
    turn = await begun(agent, session, "odd plan")
    await eventually(lambda: bool(session.transcript.plan))

    assert session.transcript.plan == (
        PlanEntry("Look", "cancelled", "high"),
        PlanEntry("Leap", "pending", "urgent"),
    )
    agent.release("empty_plan")
    assert not (await turn).plan
    assert not session.transcript.head.plan
    await goes_on(session)


async def test_case_59_commands_before_the_session_has_a_name_are_the_sessions(
    play: Play,
) -> None:
    agent, session = await play("commands_before_the_session_is_named")
    await agent.reached("open")

    assert [(c.name, c.description, c.hint) for c in session.commands] == [
        ("review", "Review the changes", None)
    ]
    await goes_on(session)


# -------------------------------------------------------------------------------- the scenarios

HERE = Path(__file__)
SCENARIOS = sorted((HERE.parents[1] / "scenarios").glob("*.jsonl"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda file: file.stem)
def test_every_scenario_is_played_through_a_session(scenario: Path) -> None:
    tests = [HERE, *(HERE.with_name(f"test_faults_{what}.py") for what in ("process", "protocol"))]

    assert any(f'"{scenario.stem}"' in file.read_text(encoding="utf-8") for file in tests)
