"""The whole process dies, or another has the session: nothing known is lost. (K1, D8, D11)"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import silo_nb
from silo_nb.testing import AgentProcesses, FakeAgent
from silo_nb.testing.plugin import FakeAgentFactory
from tests.wire.conftest import Connect

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
RESUMABLE = {
    "defaults": {
        "initialize": {
            "protocolVersion": 1,
            "agentCapabilities": {"sessionCapabilities": {"resume": {}, "close": {}}},
        }
    }
}
ASK = {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}}

# A process of its own that has one session and says what it knows to be safe.
OWNER = """
import sys
import silo_nb.sync

session = silo_nb.sync.connect(sys.argv[1])
session.on_permission(lambda ask: print("asked", flush=True))
print("connected", session.id, flush=True)
for number in range(int(sys.argv[2])):
    session.prompt(f"question {number}")
    print("answered", number, flush=True)
session.dispose()
print("disposed", flush=True)
sys.stdin.read()
"""


class Owner:
    """Another process with a session."""

    def __init__(self, agent: FakeAgent, prompts: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, agent.profile, str(prompts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []

    def says(self, word: str) -> str:
        """Wait until it says `word`; return the line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.strip())
            if line.startswith(word):
                return line.strip()
        raise AssertionError(f"it ended before it said {word!r}: {self.said}")

    def kill(self) -> None:
        """End it as an out-of-memory killer does."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def owner(notebook_dir: Path) -> Iterator[Callable[..., Owner]]:
    owners: list[Owner] = []

    def start(agent: FakeAgent, prompts: int = 1) -> Owner:
        owners.append(Owner(agent, prompts))
        return owners[-1]

    yield start
    for one in owners:
        one.kill()


def until(condition: Callable[[], bool], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0)


def on_record(directory: Path) -> str:
    """Return everything that lies in the journals, as text."""
    files = (directory / ".silo_nb" / "sessions").glob("*.jsonl")
    return "".join(file.read_text(errors="replace") for file in files)


STREAMING: list[dict[str, Any]] = [
    PROMPT,
    {"say": "answer 0"},
    END,
    PROMPT,
    {"say": "streamed words"},
    {"mark": "here"},
    {"loop": "forever", "steps": [{"say": " and more"}, {"sleep": 0.001}]},
]
WAITING: list[dict[str, Any]] = [
    PROMPT,
    {"say": "answer 0"},
    END,
    PROMPT,
    {"say": "may I?"},
    ASK,
]


async def test_a_kernel_killed_while_text_streams_loses_a_quarter_of_a_second_at_most(
    fake_agent: FakeAgentFactory,
    connect: Connect,
    owner: Callable[..., Owner],
    notebook_dir: Path,
    agent_processes: AgentProcesses,
) -> None:
    """K1, T-6: prompts and finished turns are there whole; the agent is gone with the kernel."""
    agent = fake_agent([RESUMABLE, *STREAMING])
    one = owner(agent, 2)
    session_id = one.says("connected").split()[1]
    one.says("answered 0")
    agent.wait_reached("here")
    until(lambda: "streamed words" in on_record(notebook_dir), within=5)

    one.kill()

    assert agent_processes.wait_gone() == []
    back = await connect(fake_agent([RESUMABLE]), resume=session_id)
    texts = [message.text for message in back.transcript.messages]
    assert texts[:3] == ["question 0", "answer 0", "question 1"]
    assert texts[3].startswith("streamed words")
    assert back.resume_outcome == "resumed"
    assert not back.transcript.turn_running
    assert (await back.prompt("go on")).text == "ok"


async def test_a_kernel_killed_while_an_ask_is_open_shows_it_as_unanswered(
    fake_agent: FakeAgentFactory, connect: Connect, owner: Callable[..., Owner], notebook_dir: Path
) -> None:
    """K1, T-14: never as allowed."""
    agent = fake_agent([RESUMABLE, *WAITING])
    one = owner(agent, 2)
    session_id = one.says("connected").split()[1]
    one.says("asked")
    until(lambda: '"k":"permission"' in on_record(notebook_dir), within=5)

    one.kill()

    back = await connect(fake_agent([RESUMABLE]), resume=session_id)
    (row,) = back.transcript.tool_calls
    assert (row.is_open, row.permissions[0].outcome, row.permissions[0].allowed) == (
        False,
        "lost",
        False,
    )


def test_a_kernel_killed_in_the_handshake_leaves_no_session(
    fake_agent: FakeAgentFactory,
    owner: Callable[..., Owner],
    notebook_dir: Path,
    agent_processes: AgentProcesses,
) -> None:
    """K1."""
    agent = fake_agent([{"expect": "session/new"}, {"mark": "here"}, {"sleep": "forever"}])
    one = owner(agent)
    agent.wait_reached("here", within=10)

    one.kill()

    assert agent_processes.wait_gone() == []
    assert on_record(notebook_dir) == ""


async def test_a_kernel_killed_while_it_disposes_has_lost_nothing(
    fake_agent: FakeAgentFactory, connect: Connect, owner: Callable[..., Owner]
) -> None:
    """K1: an agent that takes its time with session/close."""
    closing = [{"expect": "session/close"}, {"mark": "here"}, {"sleep": "forever"}]
    agent = fake_agent([RESUMABLE, PROMPT, {"say": "answer 0"}, END, *closing])
    one = owner(agent)
    session_id = one.says("connected").split()[1]
    one.says("answered 0")
    agent.wait_reached("here")

    one.kill()

    back = await connect(fake_agent([RESUMABLE]), resume=session_id)
    assert [m.text for m in back.transcript.messages] == ["question 0", "answer 0"]


async def test_of_two_kernels_one_has_the_session_and_the_other_is_told_which(
    fake_agent: FakeAgentFactory, connect: Connect, owner: Callable[..., Owner]
) -> None:
    """FAULTS D11, T-9: the other may read it or carry it on; when the owner is gone, resume it."""
    agent = fake_agent([RESUMABLE, PROMPT, {"say": "answer 0"}, END, PROMPT, {"sleep": 99}])
    one = owner(agent, 2)
    session_id = one.says("connected").split()[1]
    one.says("answered 0")
    mine = fake_agent([RESUMABLE])

    with pytest.raises(silo_nb.JournalError, match=str(one.process.pid)):
        await connect(mine, resume=session_id)
    assert mine.pids == []
    (listed,) = silo_nb.agents.get_state()
    assert f"process {one.process.pid} " in str(listed.owner)
    texts = [u.text for u in await silo_nb.read_journal(session_id) if u.text]
    assert texts[:2] == ["question 0", "answer 0"]
    carried = await connect(mine, resume=silo_nb.Restore(session_id, start_fresh=True))
    assert [m.text for m in carried.transcript.messages][:2] == ["question 0", "answer 0"]
    clear = silo_nb.Restore(session_id, start_fresh=True, transcript="discard")
    with pytest.raises(silo_nb.JournalError, match=str(one.process.pid)):
        await connect(mine, resume=clear)

    one.kill()
    assert (await connect(mine, resume=session_id)).id == session_id


async def test_a_journal_deleted_under_us_is_written_again_whole(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """FAULTS D8."""
    ask = {**ASK, "answers": {"*": []}}
    agent = fake_agent([PROMPT, {"say": "answer 0"}, ask, END, PROMPT, {"say": "answer 1"}, END])
    session = await connect(agent)
    session.on_permission(lambda request: request.respond(request.options[0].option_id))
    await session.prompt("question 0")
    assert session.journal_path is not None
    session.journal_path.unlink()

    await session.prompt("question 1")

    folded = silo_nb.EMPTY_TRANSCRIPT
    for update in await silo_nb.read_journal(session.id):
        folded = silo_nb.apply_update(folded, update)
    assert folded == session.transcript
    header = json.loads(session.journal_path.read_text().splitlines()[0])
    assert header["sessionId"] == session.session_id


async def test_a_title_that_comes_a_turn_late_is_the_sessions_all_the_same(
    fake_agent: FakeAgentFactory, connect: Connect
) -> None:
    """claude-agent-acp 0.101 sends the last turn's title during the next (REAL_AGENTS §4.3)."""
    title = {"update": {"sessionUpdate": "session_info_update", "title": "Of turn one"}}
    agent = fake_agent([PROMPT, END, PROMPT, title, {"say": "two"}, END])
    session = await connect(agent)
    await session.prompt("1")

    result = await session.prompt("2")

    assert (session.title, result.text) == ("Of turn one", "two")


def test_the_interpreter_ends_with_a_session_open(
    fake_agent: FakeAgentFactory, notebook_dir: Path, agent_processes: AgentProcesses
) -> None:
    """FAULTS K16: no traceback, the agent told and gone, the journal closed."""
    agent = fake_agent([RESUMABLE])
    code = (
        "import sys, silo_nb.sync\n"
        "session = silo_nb.sync.connect(sys.argv[1])\n"
        "session.prompt('hello')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, agent.profile],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("", "")
    assert agent_processes.wait_gone() == []
    assert [m["method"] for m in agent.received()][-1] == "session/close"
    assert '"k":"turn_end"' in on_record(notebook_dir)
