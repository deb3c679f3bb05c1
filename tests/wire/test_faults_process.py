"""FAULTS P1 to P22, T-1: whatever an agent's process does, a call ends and nothing is left of it.

Every scenario is played through the public session. The fixture ``play`` checks after each that
nothing waits any more, that the journal folds to the live transcript, that descriptors are closed
and that no exception went unnoticed; ``agent_processes``, that no process outlived it. What is
cheap is played five times, what takes seconds by five sessions at once where that is bearable.

P20, 150 sessions and nothing left of them, is in test_leaks.py (T-19).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import silo_nb
from silo_nb import PermissionRequest, Session
from silo_nb.model import TurnEnd
from silo_nb.session import turns
from silo_nb.session.manager import live_sessions
from silo_nb.testing import AgentProcesses, FakeAgent, write_profile
from tests.wire.conftest import eventually
from tests.wire.playing import Play, bubbles, counted, goes_on, no_stall, rows

pytestmark = pytest.mark.timeout(30)

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}

REPEATS = 5
AT_ONCE = 1.0
"""Seconds in which an answer that needs nobody else has to be there."""


@pytest.fixture(params=range(1, REPEATS + 1), ids="round-{}".format)
def each_round(request: pytest.FixtureRequest) -> int:
    """The number of the repetition."""
    round_number: int = request.param
    return round_number


five_times = pytest.mark.usefixtures("each_round")


async def all_at_once(once: Callable[[], Awaitable[None]]) -> None:
    """Do it five times side by side."""
    await asyncio.gather(*(once() for _ in range(REPEATS)))


def last_turn(session: Session) -> tuple[str | None, str | None]:
    """Return how the last turn ended, and the error on its record."""
    last = session.transcript.entries[-1]
    assert isinstance(last, TurnEnd)
    return last.turn.stop_reason, last.turn.error


async def is_over(session: Session, play: Play) -> None:
    """Check that an ended agent is known as one, at once, and that a new one can be had.

    That the same session gets another process at its next prompt is in test_restoring.
    """
    assert (session.status, session.pid) == ("exited", None)
    _, other = await play([])
    await goes_on(other)


# ---------------------------------------------------------------------------------- handshake


@five_times
async def test_p1_a_missing_program_is_named_at_once(play: Play, silo_config: Path) -> None:
    write_profile(
        silo_config, "ghost", command=["/no/such/agent", "--acp"], install_hint="pip install ghost"
    )

    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(silo_nb.AgentNotFound, match="/no/such/agent") as caught:
            await silo_nb.connect("ghost")

    assert "pip install ghost" in str(caught.value)
    assert (caught.value.profile, caught.value.phase) == ("ghost", "spawn")
    assert caught.value.command == "/no/such/agent"


@five_times
@pytest.mark.parametrize("cwd", ["missing", "file.txt"])
async def test_p2_a_directory_that_is_none_is_named_and_not_the_program(
    play: Play, notebook_dir: Path, cwd: str
) -> None:
    (notebook_dir / "file.txt").touch()
    agent = play.agent([])

    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(silo_nb.WorkspaceError, match=f"working directory '.*{cwd}'"):
            await silo_nb.connect(agent.profile, cwd=cwd)

    assert agent.pids == []


@five_times
async def test_p3_an_exit_without_an_answer_to_initialize(play: Play) -> None:
    with pytest.raises(silo_nb.AgentExited, match="code 0 before answering initialize") as caught:
        await play("exits_0_before_answering_initialize")

    assert (caught.value.exit_code, caught.value.phase) == (0, "initialize")
    assert live_sessions() == ()


@five_times
async def test_p4_of_much_stderr_the_end_is_shown(play: Play) -> None:
    with pytest.raises(silo_nb.AgentExited, match="code 1 before answering initialize") as caught:
        await play("exits_1_in_initialize_after_much_stderr")

    assert (caught.value.exit_code, caught.value.phase) == (1, "initialize")
    assert len(caught.value.stderr) == 20
    assert caught.value.stderr[-1] == "cannot open the database: permission denied"
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("scenario", "phase", "last_words"),
    [
        ("never_answers_initialize", "initialize", "waiting for the network"),
        ("never_answers_session_new", "session/new", "waiting for the license server"),
    ],
)
class TestSilence:
    async def test_p5_p6_it_is_stopped_at_the_deadline(
        self,
        play: Play,
        scenario: str,
        phase: str,
        last_words: str,
        agent_processes: AgentProcesses,
    ) -> None:
        agent = play.agent(scenario)

        async def once() -> None:
            with pytest.raises(silo_nb.HandshakeTimeout, match=f"no answer to {phase}") as caught:
                await silo_nb.connect(agent.profile, timeout=2)
            assert (caught.value.phase, caught.value.seconds) == (phase, 2)
            assert caught.value.stderr == (last_words,)

        async with asyncio.timeout(2 + AT_ONCE + 1):
            await all_at_once(once)

        assert len(agent.pids) == REPEATS
        assert agent_processes.alive() == []
        assert live_sessions() == ()

    @five_times
    async def test_p5_p6_calling_off_takes_effect_at_once(
        self,
        play: Play,
        scenario: str,
        phase: str,
        last_words: str,
        agent_processes: AgentProcesses,
    ) -> None:
        agent = play.agent(scenario)
        connecting = asyncio.ensure_future(silo_nb.connect(agent.profile))
        await agent.reached(phase)

        async with asyncio.timeout(AT_ONCE):
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting

        assert await agent_processes.gone(AT_ONCE) == []
        assert live_sessions() == ()


async def test_p22_a_slow_and_noisy_start_is_only_slow(play: Play) -> None:
    agent = play.agent("starts_slowly_and_noisily")

    async def once() -> None:
        _, session = await play(agent)
        assert counted(session, "not a message") == 49
        assert "npm warn deprecated" in session.log[0]
        await goes_on(session)

    await all_at_once(once)


# ---------------------------------------------------------------------------------- mid-turn


@five_times
async def test_p7_a_crash_in_mid_turn_keeps_what_was_said(play: Play) -> None:
    _, session = await play("exits_3_in_the_middle_of_a_turn")

    with pytest.raises(silo_nb.AgentExited, match="exited with code 3") as caught:
        await session.prompt("go")

    assert (caught.value.exit_code, caught.value.signal) == (3, None)
    assert (caught.value.phase, caught.value.stderr) == ("prompt", ("out of memory",))
    assert bubbles(session) == [("user", "go"), ("agent", "I was about to ")]
    assert rows(session) == {"t1": "unfinished"}
    assert last_turn(session) == ("agent-exited", caught.value.message)
    await is_over(session, play)


@five_times
async def test_p7_a_kill_in_mid_turn_is_told_from_an_exit(play: Play) -> None:
    _, session = await play("is_killed_in_the_middle_of_a_turn")

    with pytest.raises(silo_nb.AgentExited, match="was ended by SIGKILL") as caught:
        await session.prompt("go")

    assert (caught.value.exit_code, caught.value.signal) == (None, 9)
    assert bubbles(session) == [("user", "go"), ("agent", "I was about to ")]
    assert last_turn(session)[0] == "agent-exited"
    await is_over(session, play)


@pytest.mark.parametrize(
    ("end", "described"),
    [
        ({"exit": 1}, "exited with code 1"),
        ({"exit": 127}, "exited with code 127"),
        ({"exit": 255}, "exited with code 255"),
        ({"signal": "SIGSEGV"}, "was ended by SIGSEGV"),
        ({"signal": "SIGABRT"}, "was ended by SIGABRT"),
        ({"signal": "SIGTERM"}, "was ended by SIGTERM"),
    ],
)
async def test_p7_every_kind_of_death_is_named_and_nothing_said_before_is_lost(
    play: Play, end: dict[str, Any], described: str
) -> None:
    """However much was still in the pipe."""
    _, session = await play([PROMPT, {"flood": 20_000, "text": "word ${i} "}, end])

    with pytest.raises(silo_nb.AgentExited, match=described):
        await session.prompt("go")

    said = "".join(f"word {number} " for number in range(20_000))
    assert bubbles(session) == [("user", "go"), ("agent", said)]
    assert last_turn(session)[0] == "agent-exited"


async def test_p7_a_death_after_the_response_is_not_the_turns(play: Play) -> None:
    _, session = await play([PROMPT, {"say": "done"}, END, {"exit": 1}])

    assert (await session.prompt("go")).stop_reason == "end_turn"

    await eventually(lambda: session.status == "exited")
    await is_over(session, play)


async def test_p7_a_cancelled_turn_whose_agent_dies_is_a_cancelled_one(play: Play) -> None:
    agent, session = await play([PROMPT, {"mark": "on"}, {"expect": "session/cancel"}, {"exit": 1}])
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("on")

    session.cancel()
    result = await turn

    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)
    await eventually(lambda: session.status == "exited")
    await is_over(session, play)


@five_times
async def test_p7_a_death_settles_an_open_permission(play: Play) -> None:
    agent, session = await play("dies_while_a_permission_is_open")
    asked: list[PermissionRequest] = []
    session.on_permission(asked.append)
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("permission_open")
    await eventually(lambda: session.status == "waiting")

    agent.release("death")
    with pytest.raises(silo_nb.AgentExited, match="SIGKILL"):
        await turn

    (request,) = asked
    assert request.answered
    assert request.respond("allow") is False
    assert (request.permission.outcome, request.permission.answered_by) == (
        "cancelled",
        "agent-exited",
    )
    assert rows(session) == {"t1": "failed"}
    await is_over(session, play)


@five_times
async def test_p8_an_exit_between_turns_is_known_before_the_next_one(play: Play) -> None:
    agent, session = await play("exits_between_turns")
    await session.prompt("go")

    agent.release("exit")
    await eventually(lambda: session.status == "exited", within=AT_ONCE)

    await is_over(session, play)
    assert bubbles(session) == [("user", "go"), ("agent", "done")]


@five_times
async def test_p9_an_agent_without_a_stdout_is_gone(
    play: Play, agent_processes: AgentProcesses
) -> None:
    """It is deaf to the end of its stdin as well; nobody waits for it longer than that takes."""
    _, session = await play("closes_stdout_and_lives")

    async with asyncio.timeout(3):
        with pytest.raises(silo_nb.AgentExited, match="closed its stdout") as caught:
            await session.prompt("go")

    assert caught.value.phase == "prompt"
    assert bubbles(session) == [("user", "go"), ("agent", "and now for ")]
    assert agent_processes.alive() == []
    await is_over(session, play)


@five_times
async def test_p9_a_process_that_holds_its_stdout_does_not_hide_its_end(
    play: Play, agent_processes: AgentProcesses
) -> None:
    _, session = await play("exits_while_a_grandchild_holds_its_stdout")

    async with asyncio.timeout(3):
        with pytest.raises(silo_nb.AgentExited, match="exited with code 0"):
            await session.prompt("go")

    assert bubbles(session) == [("user", "go"), ("agent", "gone in ")]
    assert agent_processes.alive() == []
    await is_over(session, play)


async def test_p10_an_agent_that_hears_nothing_more_is_not_prompted_again(play: Play) -> None:
    """Its turn ends well; the next prompt goes to another process."""
    agent = play.agent("closes_stdin_and_lives")

    async def once() -> None:
        _, session = await play(agent)
        result = await session.prompt("go")
        assert (result.text, result.stop_reason) == ("talking to myself", "end_turn")

        first = session.pid
        await eventually(lambda: not can_hear(session))

        result = await session.prompt("anybody there?")
        assert (result.text, result.stop_reason) == ("talking to myself", "end_turn")
        assert session.pid not in (first, None)
        await session.dispose()

    await all_at_once(once)


def can_hear(session: Session) -> bool:
    """Whether the agent's stdin is open."""
    process = session._live.process
    return process is not None and process.accepts_input


async def test_p10_nor_is_one_that_never_heard_anything(play: Play) -> None:
    agent, session = await play(
        [
            {"expect": "session/new"},
            {"close": "stdin"},
            {"reply": "$default"},
            {"mark": "deaf"},
            {"sleep": "forever"},
        ]
    )
    await agent.reached("deaf")
    await eventually(lambda: not can_hear(session))

    agent.scenario.write_text("")  # the next process is in good health

    await goes_on(session)
    assert len(agent.pids) == 2


@five_times
async def test_p11_an_agent_without_a_stderr_is_an_agent(play: Play) -> None:
    _, session = await play("closes_stderr")

    result = await session.prompt("go")

    assert (result.text, result.stop_reason) == ("still here", "end_turn")
    assert session.log == ("the last of it",)
    await goes_on(session)


async def test_p12_what_nobody_reads_holds_nobody_up(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 MB for a pipe of 64 KiB; T-1. Neither cell nor cancel nor dispose has to wait for it."""
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.1)
    agent, session = await play("never_reads_its_stdin", cut_on_record=True)
    await agent.reached("deaf")
    prompt = "0123456789" * 1_000_000

    async with no_stall():
        turn = asyncio.ensure_future(session.prompt(prompt))
        await eventually(lambda: session._live.turns.running is not None)
        await eventually(lambda: unwritten(session) > len(prompt) - 1_000_000)
        session.cancel()
        async with asyncio.timeout(3):
            result = await turn

        assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)
        async with asyncio.timeout(4):
            await session.dispose()


def unwritten(session: Session) -> int:
    """Return how many bytes wait for the agent to read them."""
    process = session._live.process
    return 0 if process is None else process.unwritten


async def test_p13_a_flood_of_stderr_is_not_kept(play: Play) -> None:
    """500 MB of it: memory grows by less than 5 MB and the turn goes on."""
    _, session = await play("floods_stderr")
    memory = psutil.Process().memory_info
    before = memory().rss

    async with no_stall():
        result = await session.prompt("go")

    assert (result.text, result.stop_reason) == ("quiet here, loud there", "end_turn")
    assert memory().rss - before < 5_000_000
    assert len(session.log) == 20
    await goes_on(session)


@five_times
async def test_p14_an_ignored_cancel_is_over_after_the_grace(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the response that was due has come, the session goes on with the same process."""
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.1)
    agent, session = await play("ignores_a_cancel_and_answers_late")
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("streaming")

    session.cancel()
    async with asyncio.timeout(AT_ONCE):
        result = await turn

    assert (result.stop_reason, result.cancel_requested) == ("cancelled", True)
    assert result.text == "on and on"
    assert "cancel ignored" in session.log
    agent.release("late_response")
    await eventually(lambda: not session._live.turns._overdue)
    await goes_on(session)
    assert last_turn(session) == ("end_turn", None)


async def test_p14_a_late_error_lets_go_of_the_turn_as_well(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "CANCEL_GRACE", 0.1)
    error = {"code": -32603, "message": "too late to matter"}
    agent, session = await play(
        [{"ignore": "cancel"}, PROMPT, {"mark": "on"}, {"wait_for": "end"}, {"error": error}]
    )
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("on")
    session.cancel()
    assert (await turn).stop_reason == "cancelled"

    agent.release("end")
    await eventually(lambda: not session._live.turns._overdue)

    await goes_on(session)


# -------------------------------------------------------------------------- what is left behind


async def test_p15_an_agent_deaf_to_everything_is_killed(
    play: Play, agent_processes: AgentProcesses
) -> None:
    """End of stdin, 2.5 s, SIGTERM, 2 s, SIGKILL: ARCHITECTURE §5."""
    agent = play.agent("is_immune_to_sigterm")

    async def once() -> None:
        _, session = await play(agent)
        turn = asyncio.ensure_future(session.prompt("go"))
        await eventually(lambda: bool(bubbles(session)[1:]))
        async with asyncio.timeout(4.5 + 1.5):
            await session.dispose()
        result = await turn
        assert (result.text, result.stop_reason) == ("here to stay", "cancelled")
        assert session.status == "closed"
        assert session._live.exit is not None
        assert session._live.exit.signal == 9

    await all_at_once(once)
    assert agent_processes.alive() == []


async def test_p15_so_is_one_that_was_stopped(play: Play, agent_processes: AgentProcesses) -> None:
    """A stopped process takes no signal but SIGKILL."""
    agent, session = await play([PROMPT, {"mark": "on"}, {"signal": "SIGSTOP"}])
    turn = asyncio.ensure_future(session.prompt("go"))
    await agent.reached("on")

    async with asyncio.timeout(4.5 + 1.5):
        await session.dispose()

    assert (await turn).stop_reason == "cancelled"
    assert agent_processes.alive() == []


@five_times
@pytest.mark.parametrize(
    "scenario",
    [
        "leaves_a_grandchild_behind",
        "leaves_a_grandchild_immune_to_sigterm",
        "leaves_a_grandchild_in_another_session",
        "leaves_a_daemon_behind",
    ],
)
async def test_p15_to_p18_case_12_what_it_started_ends_with_the_session(
    play: Play, scenario: str, agent_processes: AgentProcesses
) -> None:
    agent, session = await play(scenario)
    await session.prompt("go")
    (forked,) = agent.log.events("forked")
    assert forked["child"] in [process.pid for process in agent_processes.alive()]
    await goes_on(session)

    async with asyncio.timeout(2):
        await session.dispose()

    assert agent_processes.alive() == []


@five_times
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a guard adopt an orphan")
async def test_p19_a_zombie_is_reaped(play: Play) -> None:
    agent, session = await play("leaves_a_zombie_behind")
    await session.prompt("go")
    (forked,) = agent.log.events("forked")
    assert psutil.Process(forked["child"]).status() == psutil.STATUS_ZOMBIE

    agent.release("exit")
    await eventually(lambda: session.status == "exited")

    assert not psutil.pid_exists(forked["child"])
    assert not psutil.pid_exists(agent.pid)
    children = psutil.Process().children(recursive=True)
    assert [child for child in children if child.status() == psutil.STATUS_ZOMBIE] == []
    await is_over(session, play)


@five_times
async def test_p21_of_two_sessions_one_crashes_and_the_other_does_not_notice(play: Play) -> None:
    """In mid-turn, both of them."""
    steady: FakeAgent = play.agent(
        [
            PROMPT,
            {"say": "one, "},
            {"mark": "streaming"},
            {"wait_for": "go on"},
            {"say": "two"},
            END,
        ]
    )
    _, calm = await play(steady)
    turn = asyncio.ensure_future(calm.prompt("count"))
    await steady.reached("streaming")
    _, crashing = await play("exits_3_in_the_middle_of_a_turn")

    with pytest.raises(silo_nb.AgentExited):
        await crashing.prompt("go")
    assert (calm.status, crashing.status) == ("working", "exited")
    steady.release("go on")

    assert (await turn).text == "one, two"
    assert bubbles(calm) == [("user", "count"), ("agent", "one, two")]
    await goes_on(calm)
