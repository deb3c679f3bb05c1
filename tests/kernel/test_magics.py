"""``%%agent`` in cells of real kernels: what is shown, what is asked, how it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from silo_nb.testing import AgentProcesses, FakeAgent
from silo_nb.testing.agent import write_scenario
from silo_nb.testing.plugin import FakeAgentFactory
from tests.kernel.conftest import MATRIX
from tests.kernel.front_ends import (
    ALLOW_AND_REJECT,
    FrontEnd,
    displayed,
    frozen,
    notebook,
    shown_error,
)
from tests.kernel.kernels import kernel_python

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
RESUMABLE = {
    "defaults": {
        "initialize": {
            "protocolVersion": 1,
            "agentCapabilities": {"sessionCapabilities": {"resume": {}}},
        }
    }
}
TURN = {"loop": "forever", "steps": [PROMPT, {"say": "turn ${i}"}, END]}
ASK_TO_EDIT: dict[str, Any] = {
    "ask": "session/request_permission",
    "params": {
        "toolCall": {
            "toolCallId": "t1",
            "title": "Edit notes.md",
            "kind": "edit",
            "content": [
                {"type": "diff", "path": "notes.md", "oldText": "old\n", "newText": "new\n"}
            ],
        },
        "options": ALLOW_AND_REJECT,
    },
    "answers": {"yes": [{"say": "edited"}], "no": [{"say": "left alone"}]},
}


@pytest.fixture
def kernel(
    notebook_dir: Path, silo_config: Path, agent_processes: AgentProcesses
) -> Iterator[FrontEnd]:
    """A notebook's kernel with the extension loaded."""
    with notebook(notebook_dir) as running:
        running.run("%load_ext silo_nb")
        yield running
        print(running.log[-4000:])  # noqa: T201 -- shown when the test fails


class TestATurn:
    def test_streams_into_one_output_and_freezes(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """Case 73; ARCHITECTURE §9: at turn end nothing in the file needs a kernel."""
        fake_agent([PROMPT, {"say": "Hello **you**"}, END])

        cell = kernel.run("%%agent fake\nhi")

        kinds = [kind for kind, _ in displayed(cell)]
        assert kinds[0] == "display_data"
        assert set(kinds[1:]) == {"update_display_data"}
        assert set(frozen(cell)) == {"text/html", "text/markdown", "text/plain"}
        assert "<strong>you</strong>" in frozen(cell)["text/html"]
        assert "Hello **you**" in frozen(cell)["text/plain"]
        assert not cell.text
        assert not cell.stderr

    def test_is_seen_while_it_runs(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
        agent = fake_agent(
            [PROMPT, {"say": "so far"}, {"wait_for": "go"}, {"say": " so good"}, END]
        )

        cell = kernel.submit("%%agent fake\nhi")
        kernel.wait_until(
            lambda: cell.outputs and "so far" in cell.outputs[-1]["data"]["text/html"], "the words"
        )
        assert "Working" in cell.outputs[-1]["data"]["text/html"]
        agent.release("go")
        kernel.finish(cell)

        assert "so far so good" in frozen(cell)["text/plain"]

    def test_the_body_goes_to_the_agent_as_it_is_written(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """Case 62: braces, dollars and backticks in a prompt are not IPython's."""
        agent = fake_agent([PROMPT, END])
        body = (
            "x = {kernel.nothing} {{}} $HOME ${x} `ls` %time !ls\n\n  if (a) { return `${b}`; }\n#?"
        )

        kernel.run(f"%%agent fake\n{body}")

        (message,) = agent.received("session/prompt")
        assert message["params"]["prompt"] == [{"type": "text", "text": body}]

    def test_its_result_goes_into_a_variable(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """Case 63."""
        call = {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "Look",
            "status": "failed",
        }
        fake_agent([PROMPT, {"say": "42"}, {"update": call}, END])

        cell = kernel.run("%%agent fake -o answer\nhi")
        assert cell.outputs[-1].get("execution_count") is None

        facts = "answer.text, answer.stop_reason, len(answer.tool_calls), type(answer).__name__"
        assert kernel.run(f"print({facts})").text == "42 end_turn 1 PromptResult\n"

    def test_goes_on_in_the_next_cell_and_in_ask(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([TURN])

        kernel.run("%%agent\nfirst")
        second = kernel.run("%%agent\nsecond")
        third = kernel.run("%ask what's {this}, $HOME?")

        assert "turn 1" in frozen(second)["text/plain"]
        assert "turn 0" not in frozen(second)["text/plain"]
        assert "turn 2" in frozen(third)["text/plain"]
        assert len(agent.pids) == 1
        prompts = [m["params"]["prompt"][0]["text"] for m in agent.received("session/prompt")]
        assert prompts == ["first", "second", "what's {this}, $HOME?"]

    def test_a_file_is_linked_to(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, notebook_dir: Path
    ) -> None:
        agent = fake_agent([PROMPT, END])
        file = notebook_dir / "my data.csv"
        file.touch()

        cell = kernel.run("%%agent fake --file 'my data.csv'\nlook")

        (message,) = agent.received("session/prompt")
        text, link = message["params"]["prompt"]
        assert text == {"type": "text", "text": "look"}
        assert (link["type"], link["uri"]) == ("resource_link", file.as_uri())
        assert "[my data.csv]" in frozen(cell)["text/plain"]

    def test_the_agent_works_beside_the_notebook_and_the_output_says_where(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, notebook_dir: Path, tmp_path: Path
    ) -> None:
        """Case 72: not in whatever directory the kernel happens to be."""
        agent = fake_agent([TURN])
        kernel.run(f"import os; os.chdir({str(tmp_path)!r})")

        first = kernel.run("%%agent fake\nhi")
        second = kernel.run("%%agent fake\nhi")

        (message,) = agent.received("session/new")
        assert message["params"]["cwd"] == str(notebook_dir)
        assert str(notebook_dir) in frozen(first)["text/plain"]
        assert str(notebook_dir) not in frozen(second)["text/plain"]
        assert ".silo_nb/sessions/fake-" in frozen(first)["text/plain"]

    def test_a_long_answer_costs_what_it_weighs(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """ARCHITECTURE §9, done-when 8: a bounded tail, at most ten updates a second."""
        chunks, size = 4_000, 100
        flood = {"flood": chunks, "text": "x" * (size - 1) + "\n", "id": "m", "rate": 2_000}
        fake_agent([PROMPT, flood, END])

        started = time.monotonic()
        cell = kernel.run("%%agent fake -o answer\nhi")
        seconds = time.monotonic() - started

        sizes = [size for _, size in displayed(cell)]
        allowance = 300_000 + 8_192 * seconds
        assert sum(sizes) <= 3 * chunks * size + allowance
        assert max(sizes[:-1]) < 20_000
        assert len(sizes) <= 10 * seconds + 3
        assert kernel.run("print(len(answer.text))").text == f"{chunks * size}\n"

    def test_the_output_of_nothing_but_updates_stays_small(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """FAULTS T7: 64 KiB of each mimetype, then a cut that names the journal."""
        flood = {"flood": 3_000, "text": "<b>&\"'</b>\n" * 10, "id": "m"}
        fake_agent([PROMPT, flood, END])

        cell = kernel.run("%%agent fake\nhi")

        assert all(len(text.encode()) <= 64 * 1024 for text in frozen(cell).values())
        assert "All of it is in .silo_nb/sessions/" in frozen(cell)["text/plain"]


class TestSessions:
    def test_a_name_makes_a_session_of_its_own(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([TURN])

        kernel.run("%%agent fake\na")
        kernel.run("%%agent fake -s review\nb")
        again = kernel.run("%%agent -s review\nc")

        assert len(agent.pids) == 2
        assert "turn 1" in frozen(again)["text/plain"]
        table = kernel.run("%agent sessions").outputs[0]["data"]["text/plain"]
        assert "review" in table
        assert "idle" in table

    def test_new_starts_afresh(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
        agent = fake_agent([TURN])

        kernel.run("%%agent fake\na")
        new = kernel.run("%%agent fake --new\nb")
        after = kernel.run("%%agent fake\nc")

        assert len(agent.pids) == 2
        assert "turn 0" in frozen(new)["text/plain"]
        assert "turn 1" in frozen(after)["text/plain"]

    def dies(self, kernel: FrontEnd, agent: FakeAgent) -> None:
        agent.release("die")
        kernel.wait_until(
            lambda: "ended" in kernel.run("%agent sessions").outputs[0]["data"]["text/plain"],
            "the end of the agent",
        )

    def test_an_agent_that_exited_is_started_again_in_the_same_session(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, notebook_dir: Path
    ) -> None:
        """Case 13, FAULTS P8: it is seen at once, and the next cell goes on."""
        agent = fake_agent([RESUMABLE, PROMPT, END, {"wait_for": "die"}, {"exit": 3}])
        kernel.run("%%agent fake\na")
        self.dies(kernel, agent)
        write_scenario(agent.scenario, [RESUMABLE, TURN])

        cell = kernel.run("%%agent fake\nb")
        after = kernel.run("%agent sessions").outputs[0]["data"]["text/plain"]

        said = frozen(cell)["text/plain"]
        assert "The agent exited with code 3, so it was started again." in said
        assert "could not bring" not in said
        assert "Done" in said
        assert "idle" in after
        assert len(agent.pids) == 2
        assert len(agent.received("session/resume")) == 1
        assert len(list((notebook_dir / ".silo_nb" / "sessions").glob("*.jsonl"))) == 1

    def test_one_that_cannot_remember_says_so(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, END, {"wait_for": "die"}, {"exit": 3}])
        kernel.run("%%agent fake\na")
        self.dies(kernel, agent)

        said = frozen(kernel.run("%%agent fake\nb"))["text/plain"]

        assert "The agent exited with code 3, so it was started again." in said
        assert "could not bring the conversation back. It does not know what was said" in said

    def test_while_it_is_being_started_that_is_seen(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([RESUMABLE, PROMPT, END, {"wait_for": "die"}, {"exit": 3}])
        kernel.run("%%agent fake\na")
        self.dies(kernel, agent)
        held = [{"expect": "initialize"}, {"wait_for": "go"}, {"reply": "$default"}]
        write_scenario(agent.scenario, [RESUMABLE, *held, TURN])

        cell = kernel.submit("%%agent fake\nb")
        kernel.wait_until(lambda: cell.outputs, "the output")
        assert "Connecting" in cell.outputs[0]["data"]["text/html"]
        agent.release("go")
        kernel.finish(cell)

        assert "turn 0" in frozen(cell)["text/plain"]

    def test_when_it_does_not_start_the_cell_fails_and_the_next_one_tries_again(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([RESUMABLE, PROMPT, END, {"wait_for": "die"}, {"exit": 3}])
        kernel.run("%%agent fake\na")
        self.dies(kernel, agent)
        write_scenario(agent.scenario, [{"expect": "initialize"}, {"exit": 5}])

        cell = kernel.run("%%agent fake\nb", check=False)
        assert "exited with code 5 before answering initialize" in shown_error(cell)[0]

        write_scenario(agent.scenario, [RESUMABLE, TURN])
        assert "turn 0" in frozen(kernel.run("%%agent fake\nc"))["text/plain"]

    def test_a_deaf_agent_is_replaced_and_the_output_says_so(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """Case 5, FAULTS P14: the turn is ended for it, the next cell has another process."""
        kernel.run("from silo_nb.session import turns; turns.CANCEL_GRACE = 0.05")
        deaf = [{"ignore": "cancel"}, PROMPT, {"mark": "deaf"}, {"sleep": "forever"}]
        agent = fake_agent([RESUMABLE, *deaf])
        cell = kernel.submit("%%agent fake\na")
        agent.wait_reached("deaf")
        kernel.interrupt()
        kernel.finish(cell, timeout=5)
        assert "Cancelled" in frozen(cell)["text/plain"]
        write_scenario(agent.scenario, [RESUMABLE, TURN])

        said = frozen(kernel.run("%%agent fake\nb"))["text/plain"]

        assert "The agent no longer answered, so it was started again." in said
        assert "turn 0" in said
        assert len(agent.pids) == 2

    def test_a_disposed_session_is_followed_by_a_new_one_and_the_output_says_so(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([TURN])
        kernel.run("%%agent fake\na")
        kernel.run("import silo_nb\nsession, = silo_nb.agents.sessions\nawait session.dispose()")

        said = frozen(kernel.run("%%agent fake\nb"))["text/plain"]

        assert "The session before this one was disposed." in said
        assert "'%agent resume fake-" in said
        assert len(agent.pids) == 2

    def test_without_a_profile_the_demo_answers_and_says_so(self, kernel: FrontEnd) -> None:
        cell = kernel.run("%%agent\nhello")

        assert "this is the built-in demo, offline" in frozen(cell)["text/plain"]

    def test_profiles_are_listed(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
        fake_agent([TURN], label="The fake one")

        table = kernel.run("%agent profiles").outputs[0]["data"]["text/plain"]

        assert "The fake one" in table
        assert "demo" in table

    def test_sessions_survive_reset(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
        """FAULTS K8: `%reset -f` empties the namespace, not the conversation."""
        agent = fake_agent([TURN])
        kernel.run("%%agent fake -o answer\na")

        kernel.run("%reset -f")
        cell = kernel.run("%%agent fake\nb")

        assert "turn 1" in frozen(cell)["text/plain"]
        assert len(agent.pids) == 1


class TestCommands:
    def test_cancel_stops_a_turn_that_another_thread_waits_for(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, {"mark": "working"}, {"sleep": "forever"}])
        kernel.run(
            "import silo_nb.sync, threading\nsession = silo_nb.sync.connect('fake')\nended = []\n"
            "turn = lambda: ended.append(session.prompt('hi').stop_reason)\n"
            "thread = threading.Thread(target=turn); thread.start()"
        )
        agent.wait_reached("working")

        said = kernel.run("%agent cancel").text

        assert "asked to stop" in said
        assert kernel.run("thread.join(); print(ended)").text == "['cancelled']\n"
        assert kernel.run("%agent cancel").text == "No turn is running.\n"

    def test_log_shows_what_an_agent_wrote_to_stderr(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        fake_agent([PROMPT, {"stderr": "careful \x1b[31mnow\x1b[0m\n"}, END])
        kernel.run("%%agent fake\nhi")

        kernel.wait_until(
            lambda: "careful now" in kernel.run("%agent log fake").text, "the words on stderr"
        )

    def test_nest_lets_cells_run_a_loop(self, kernel: FrontEnd) -> None:
        """ARCHITECTURE §3: only when asked for."""
        code = "import asyncio\nasyncio.run(asyncio.sleep(0, 42))"
        assert kernel.run(code, check=False).error == "RuntimeError"

        kernel.run("%agent nest")

        assert kernel.run(f"print({code.splitlines()[1]})").text == "42\n"


class TestPermission:
    def test_is_asked_for_on_stdin_with_everything_in_view(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """Case 61, R38: a cell that blocks can still be answered."""
        agent = fake_agent([PROMPT, ASK_TO_EDIT, END])

        cell = kernel.submit("%%agent fake\nhi")
        kernel.wait_for_question()
        question = cell.outputs[-1]["data"]
        kernel.answer("1")
        kernel.finish(cell)

        for word in ("Edit notes.md", "-old", "+new", "1. Allow once", "2. Reject"):
            assert word in question["text/plain"]
        assert "+new</span>" in question["text/html"]
        assert agent.answers == ["yes"]
        assert "edited" in frozen(cell)["text/plain"]
        assert "allowed: Allow once" in frozen(cell)["text/plain"]

    def test_can_be_refused(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
        agent = fake_agent([PROMPT, ASK_TO_EDIT, END])

        cell = kernel.run("%%agent fake\nhi", answers=["reject"])

        assert agent.answers == ["no"]
        assert "left alone" in frozen(cell)["text/plain"]
        assert "rejected: Reject" in frozen(cell)["text/plain"]

    def test_nonsense_is_asked_about_again(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, ASK_TO_EDIT, END])

        cell = kernel.run("%%agent fake\nhi", answers=["", "9", "yes please", "2"])

        assert agent.answers == ["no"]
        assert cell.text.count("Type a number from 1 to 2.") == 3

    def test_a_policy_answers_without_asking(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, ASK_TO_EDIT, END])

        cell = kernel.run("%%agent fake --policy allow\nhi")

        assert agent.answers == ["yes"]
        assert kernel.prompts == []
        assert "allowed by policy: Allow once" in frozen(cell)["text/plain"]

    def test_the_policy_reject_asks_nobody_even_without_a_clear_no(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        noes = [{"optionId": n, "name": n, "kind": "reject_once"} for n in ("no", "not now")]
        params = {**ASK_TO_EDIT["params"], "options": noes}
        agent = fake_agent([PROMPT, {**ASK_TO_EDIT, "params": params, "answers": {"*": []}}, END])

        kernel.run("%%agent fake --policy reject\nhi")

        assert agent.answers == ["cancelled"]
        assert kernel.prompts == []

    def test_two_at_once_are_asked_one_after_the_other(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """FAULTS R27."""
        asks = []
        for name in ("t1", "t2"):
            call = {
                **ASK_TO_EDIT["params"]["toolCall"],
                "toolCallId": name,
                "title": f"Edit {name}",
            }
            params = {"toolCall": call, "options": ALLOW_AND_REJECT}
            asks.append({"ask": ASK_TO_EDIT["ask"], "params": params, "wait": False, "as": name})
        agent = fake_agent([PROMPT, *asks, {"answered": "t1"}, {"answered": "t2"}, END])

        cell = kernel.run("%%agent fake\nhi", answers=["1", "2"])

        assert agent.answers == ["yes", "no"]
        assert len(kernel.prompts) == 2
        assert "[●] Edit" not in frozen(cell)["text/plain"]

    def test_a_script_that_listens_goes_first(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """ARCHITECTURE §7: a registered listener, then the person, then the policy."""
        agent = fake_agent([PROMPT, END, PROMPT, ASK_TO_EDIT, END])
        kernel.run("%%agent fake\nhi")
        kernel.run(
            "from silo_nb import Session\nfrom silo_nb.session import manager\n"
            "session = Session(manager.live_sessions()[0])\n"
            "listening = session.on_permission(lambda ask: ask.respond('no'))"
        )

        kernel.run("%%agent fake\nhi")

        assert agent.answers == ["no"]
        assert kernel.prompts == []

    def test_so_does_one_that_listens_to_every_session(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """ARCHITECTURE §10: silo_nb.agents.on_ask."""
        agent = fake_agent([PROMPT, ASK_TO_EDIT, END])
        kernel.run("import silo_nb\nsilo_nb.agents.on_ask(lambda ask: ask.respond('no'))")

        kernel.run("%%agent fake\nhi")

        assert agent.answers == ["no"]
        assert kernel.prompts == []

    def test_withdrawn_while_the_person_thinks_the_answer_counts_for_nothing(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        withdraw = {
            "send": {
                "jsonrpc": "2.0",
                "method": "$/cancel_request",
                "params": {"requestId": "$ask"},
            }
        }
        asked = {**ASK_TO_EDIT, "wait": False, "as": "ask"}
        del asked["answers"]
        agent = fake_agent(
            [PROMPT, asked, {"wait_for": "go"}, withdraw, {"mark": "withdrawn"}, END]
        )

        cell = kernel.submit("%%agent fake\nhi")
        kernel.wait_for_question()
        agent.release("go")
        agent.wait_reached("withdrawn")
        kernel.wait_until(
            lambda: any("withdrawn" in output["data"]["text/html"] for output in cell.outputs),
            "the withdrawal to be shown",
        )
        kernel.answer("1")
        kernel.finish(cell)

        assert "Too late" in cell.text
        assert "yes" not in agent.answers


class TestOnEveryIpykernel:
    """FAULTS K2, K3, T-3: the cell back within 2 s, the agent alive. Cases 60 and 61."""

    @pytest.fixture(params=MATRIX)
    def kernel(
        self,
        request: pytest.FixtureRequest,
        notebook_dir: Path,
        silo_config: Path,
        agent_processes: AgentProcesses,
    ) -> Iterator[FrontEnd]:
        with notebook(notebook_dir, python=kernel_python(request.param)) as running:
            running.run("%load_ext silo_nb")
            yield running
            print(running.log[-4000:])  # noqa: T201 -- shown when the test fails

    def test_run_all_runs_all_in_order(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """Case 60: five queued turns and plain cells, none dropped, none out of order."""
        fake_agent([TURN])
        codes = ["ran = []"]
        for number in range(5):
            codes += [f"%%agent fake -o answer\nquestion {number}", "ran.append(answer.text)"]

        cells = kernel.run_all(codes)

        assert [cell.status for cell in cells] == ["ok"] * 11
        assert kernel.reply_order[-11:] == [cell.msg_id for cell in cells]
        assert kernel.run("print(ran)").text == f"{[f'turn {n}' for n in range(5)]}\n"
        assert "enter context" not in kernel.log

    def test_an_async_cell_can_await_a_turn(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        fake_agent([TURN])

        cell = kernel.run(
            "import silo_nb\nsession = await silo_nb.connect('fake')\n"
            "print((await session.prompt('hi')).text)"
        )

        assert cell.text == "turn 0\n"
        assert "turn 1" in frozen(kernel.run("%%agent -s {session.id}\nhi"))["text/plain"]

    def test_an_interrupt_while_idle_harms_nothing(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([TURN])
        kernel.run("%%agent fake\nhi")

        kernel.interrupt()
        kernel.run("pass", check=False)

        assert "turn 1" in frozen(kernel.run("%%agent fake\nhi"))["text/plain"]
        assert len(agent.pids) == 1

    def test_an_interrupt_while_streaming_ends_the_turn_not_the_session(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent(
            [PROMPT, {"say": "so far"}, {"mark": "said"}, {"sleep": "forever"}, TURN]
        )

        cell = kernel.submit("%%agent fake -o answer\nhi")
        agent.wait_reached("said")
        kernel.interrupt()
        kernel.finish(cell, timeout=2)

        assert "Cancelled" in frozen(cell)["text/plain"]
        assert "so far" in frozen(cell)["text/plain"]
        assert kernel.run("print(answer.stop_reason)").text == "cancelled\n"
        assert "turn 0" in frozen(kernel.run("%%agent fake\ngo on"))["text/plain"]
        assert len(agent.pids) == 1

    def test_an_interrupt_at_the_question_cancels_the_turn(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, {**ASK_TO_EDIT, "answers": {}}, TURN])

        cell = kernel.submit("%%agent fake -o answer\nhi")
        kernel.wait_for_question()
        kernel.interrupt()
        kernel.finish(cell, timeout=2)

        assert agent.answers == ["cancelled"]
        assert kernel.run("print(answer.stop_reason)").text == "cancelled\n"
        assert "turn 0" in frozen(kernel.run("%%agent fake\ngo on"))["text/plain"]

    def test_an_interrupt_while_connecting_leaves_nothing_running(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, agent_processes: AgentProcesses
    ) -> None:
        """K3."""
        agent = fake_agent([{"expect": "initialize"}, {"mark": "starting"}, {"sleep": "forever"}])

        cell = kernel.submit("%%agent fake\nhi")
        agent.wait_reached("starting")
        kernel.interrupt()
        kernel.finish(cell, check=False, timeout=2)

        assert cell.error == "KeyboardInterrupt"
        assert shown_error(cell) == [
            "KeyboardInterrupt: interrupted while connecting; what was started is being ended"
        ]
        assert agent_processes.wait_gone(3) == []
        assert "Not connected" in frozen(cell)["text/plain"]

    def test_a_second_interrupt_ends_the_cell_at_once(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, {"ignore": "cancel"}, {"mark": "deaf"}, {"sleep": "forever"}])

        cell = kernel.submit("%%agent fake\nhi")
        agent.wait_reached("deaf")
        kernel.interrupt()
        agent.wait_heard("session/cancel")
        kernel.interrupt()
        kernel.finish(cell, check=False, timeout=2)

        assert cell.error == "KeyboardInterrupt"
        assert len(shown_error(cell)) == 1
        assert "the agent may still be working" in frozen(cell)["text/plain"]


def test_an_interrupt_of_another_cell_is_not_the_agents(
    kernel: FrontEnd, fake_agent: FakeAgentFactory
) -> None:
    """FAULTS K4."""
    agent = fake_agent([TURN])
    kernel.run("%%agent fake\nhi")

    cell = kernel.submit("import time\nprint('sleeping', flush=True)\ntime.sleep(20)")
    kernel.wait_for(cell, "sleeping")
    kernel.interrupt()
    kernel.finish(cell, check=False)

    assert "turn 1" in frozen(kernel.run("%%agent fake\nhi"))["text/plain"]
    assert len(agent.pids) == 1


def test_autoreload_is_no_harm(kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
    """FAULTS K9."""
    agent = fake_agent([TURN])
    kernel.run("%load_ext autoreload\n%autoreload 2")
    kernel.run("%%agent fake\nhi")

    assert "turn 1" in frozen(kernel.run("%%agent fake\nhi"))["text/plain"]
    assert len(agent.pids) == 1


def test_a_console_that_ignores_updates_gets_the_record_too(
    notebook_dir: Path,
    silo_config: Path,
    agent_processes: AgentProcesses,
    fake_agent: FakeAgentFactory,
) -> None:
    """jupyter-console prints text/plain of what is displayed, and knows no display_id."""
    agent = fake_agent([PROMPT, ASK_TO_EDIT, END])
    with FrontEnd(cwd=notebook_dir) as kernel:
        kernel.run("%load_ext silo_nb")
        cell = kernel.run("%%agent fake\nhi", answers=["1"])

    printed = [
        message["content"]["data"]["text/plain"]
        for message in cell.iopub
        if message["msg_type"] == "display_data"
    ]
    assert agent.answers == ["yes"]
    assert printed[0] == "fake is working …"
    assert "fake asks for your permission: Edit notes.md" in printed[1]
    assert "edited" in printed[2]
    assert len(printed) == 3


class TestErrors:
    """The cell fails, so that Run All stops, in at most 12 lines and without our traceback."""

    def test_an_agent_that_dies_is_told_with_its_last_words(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """FAULTS P7."""
        fake_agent([PROMPT, {"say": "so far"}, {"stderr": "line\n", "repeat": 50}, {"exit": 7}])

        cell = kernel.run("%%agent fake\nhi", check=False)

        assert (cell.status, cell.error) == ("error", "AgentExited")
        lines = shown_error(cell)
        assert len(lines) <= 12
        assert "exited with code 7" in lines[0]
        assert "Failed" in frozen(cell)["text/plain"]
        assert "so far" in frozen(cell)["text/plain"]
        assert kernel.run("1 + 1").status == "ok"

    def test_a_missing_program_is_told_with_what_to_do(
        self, kernel: FrontEnd, silo_config: Path
    ) -> None:
        """FAULTS P1."""
        from silo_nb.testing import write_profile

        write_profile(silo_config, "gone", command=["no-such-agent"], install_hint="Get it.")

        cell = kernel.run("%%agent gone\nhi", check=False)

        assert cell.error == "AgentNotFound"
        assert len(shown_error(cell)) <= 12
        assert any("Get it." in line for line in shown_error(cell))

    @pytest.mark.parametrize(
        ("code", "hint"),
        [
            ("%%agent dem\nhi", "demo"),
            ("%%agent demo --polcy allow\nhi", "--policy"),
            ("%%agent demo --policy alow\nhi", "allow"),
            ("%agent sesions", "sessions"),
            ("%%agent demo --with df\nhi", "not part of this version"),
            ("%agent doctor", "not part of this version"),
            ("%%agent demo\n \n", "nothing to ask"),
        ],
    )
    def test_a_typo_is_told_what_was_meant(self, kernel: FrontEnd, code: str, hint: str) -> None:
        cell = kernel.run(code, check=False)

        shown = "\n".join((cell.stderr, *shown_error(cell)))
        assert cell.status == "error"
        assert hint in shown
        assert len(shown.splitlines()) <= 12
        assert "Traceback" not in shown

    def test_the_permission_deny_is_told_before_anything_starts(
        self, kernel: FrontEnd, silo_config: Path, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([TURN])
        file = silo_config / "profiles.toml"
        file.write_text(file.read_text() + '\n[agents]\npermission = "deny"\n')

        cell = kernel.run("%%agent fake\nhi", check=False)

        assert cell.error == "PermissionDenied"
        assert agent.pids == []
