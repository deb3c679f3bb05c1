"""``%agent config|sessions|use|resume|clear|export`` in cells of real kernels."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import nbformat
import pytest
from nbclient import NotebookClient

from silo_nb.testing import AgentProcesses, FakeAgent
from silo_nb.testing.agent import write_scenario
from silo_nb.testing.plugin import FakeAgentFactory
from tests.kernel.front_ends import FrontEnd, frozen, headless, notebook, shown_error
from tests.kernel.kernels import Cell

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}
TURN = {"loop": "forever", "steps": [PROMPT, {"say": "turn ${i}"}, END]}
TITLE = {"update": {"sessionUpdate": "session_info_update", "title": "Quarterly report"}}


@pytest.fixture(autouse=True)
def _demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the demo agent remembers out of the user's home, and let it hurry."""
    monkeypatch.setenv("SILO_DEMO_STATE", str(tmp_path / "demo"))
    monkeypatch.setenv("SILO_DEMO_SPEED", "0")


@contextmanager
def loaded(directory: Path) -> Iterator[FrontEnd]:
    """A notebook's kernel with the extension loaded."""
    with notebook(directory) as running:
        running.run("%load_ext silo_nb")
        yield running
        print(running.log[-4000:])  # noqa: T201 -- shown when the test fails


@pytest.fixture
def kernel(
    notebook_dir: Path, silo_config: Path, agent_processes: AgentProcesses
) -> Iterator[FrontEnd]:
    with loaded(notebook_dir) as running:
        yield running


def offers(*ways: str, **defaults: Any) -> dict[str, Any]:
    """Return the step that says what an agent can do: resume, load, list."""
    sessions: dict[str, Any] = {way: {} for way in ways if way != "load"}
    capabilities = {"loadSession": "load" in ways, "sessionCapabilities": sessions}
    initialize = {"protocolVersion": 1, "agentCapabilities": capabilities}
    return {"defaults": {"initialize": initialize, **defaults}}


def shown(cell: Cell) -> str:
    """Return all that a cell says, as text."""
    parts = [output["data"].get("text/plain", "") for output in cell.outputs]
    return "\n".join((*parts, cell.text, cell.stderr, *shown_error(cell)))


def fails(kernel: FrontEnd, code: str, **options: Any) -> str:
    """Run a cell that has to fail, and return what it says, which has to be brief."""
    cell = kernel.run(code, check=False, **options)
    assert cell.status == "error"
    said = shown(cell)
    assert "Traceback" not in said
    assert len(shown_error(cell)) <= 12
    return said


def only_session(kernel: FrontEnd) -> str:
    """Return the id of the one session there is."""
    code = "import silo_nb; print(*[info.id for info in silo_nb.agents.get_state()])"
    (session_id,) = kernel.run(code).text.split()
    return session_id


def journals(directory: Path) -> list[Path]:
    return sorted((directory / ".silo_nb" / "sessions").glob("*.jsonl"))


def plays(agent: FakeAgent, *steps: dict[str, Any]) -> None:
    """Let the next process of an agent play something else."""
    write_scenario(agent.scenario, list(steps))


class TestConfig:
    """R41 to R45 from a cell."""

    MODELS = (
        {"group": "g1", "name": "Small ones", "options": [{"value": "mini", "name": "Mini"}]},
        {"group": "g2", "name": "Large ones", "options": [{"value": "maxi", "name": "Maxi 2"}]},
    )
    OPTIONS = (
        {
            "id": "model",
            "name": "Model",
            "type": "select",
            "category": "model",
            "currentValue": "mini",
            "options": MODELS,
        },
        {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False},
        {"id": "dial", "name": "Dial", "type": "slider", "currentValue": 3},
    )

    @pytest.fixture
    def agent(self, fake_agent: FakeAgentFactory, kernel: FrontEnd) -> FakeAgent:
        opened = {"sessionId": "$session", "configOptions": self.OPTIONS}
        agent = fake_agent([offers(**{"session/new": opened}), TURN])
        kernel.run("%%agent fake\nhi")
        return agent

    def sent(self, agent: FakeAgent) -> list[tuple[str, Any]]:
        asked = agent.received("session/set_config_option")
        return [(m["params"]["configId"], m["params"]["value"]) for m in asked]

    def test_lists_the_controls(self, kernel: FrontEnd, agent: FakeAgent) -> None:
        table = shown(kernel.run("%agent config"))

        lines = [line.split() for line in table.splitlines()]
        assert lines[0] == ["option", "name", "now", "choices", "category"]
        assert "Small ones: mini; Large ones: maxi" in table
        assert lines[2][:3] == ["fast", "Fast", "off"]
        assert "of the type 'slider', which cannot be set here" in table

    def test_shows_one_with_what_its_values_mean(self, kernel: FrontEnd, agent: FakeAgent) -> None:
        table = shown(kernel.run("%agent config model"))

        assert "▸  mini   Mini    Small ones" in table
        assert "maxi   Maxi 2  Large ones" in table
        assert "fast is off; it can be on, off" in shown(kernel.run("%agent config fast"))

    def test_sets_a_choice_and_a_switch(self, kernel: FrontEnd, agent: FakeAgent) -> None:
        assert "model is maxi, was mini" in shown(kernel.run("%agent config model 'Maxi 2'"))
        assert "fast is on, was off" in shown(kernel.run("%agent config Fast on"))
        assert "fast is on, as it was" in shown(kernel.run("%agent config fast true"))

        assert self.sent(agent) == [("model", "maxi"), ("fast", True), ("fast", True)]
        assert agent.received("session/set_config_option")[1]["params"]["type"] == "boolean"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("modle maxi", "no control 'modle'. Did you mean 'model'?"),
            ("model maxy", "no 'maxy'. Did you mean 'maxi'?"),
            ("fast perhaps", "say on or off"),
            ("dial 4", "cannot set a control of the type 'slider'"),
            ("model maxi more", "at most 2 words"),
            ("-s nobody", "no open session 'nobody'"),
        ],
    )
    def test_what_is_not_offered_is_not_sent(
        self, kernel: FrontEnd, agent: FakeAgent, words: str, said: str
    ) -> None:
        """R43."""
        assert said in fails(kernel, f"%agent config {words}")
        assert self.sent(agent) == []

    def test_tells_what_else_moved(self, kernel: FrontEnd, agent: FakeAgent) -> None:
        """R45: one control may take others away, or bring new ones."""
        model = {**self.OPTIONS[0], "currentValue": "maxi"}
        depth = {**self.OPTIONS[1], "id": "deep", "name": "Deep"}
        answer = {"session/set_config_option": {"configOptions": [model, depth]}}
        opened = {"sessionId": "$session", "configOptions": self.OPTIONS}
        plays(agent, offers(**{"session/new": opened, **answer}), TURN)
        kernel.run("%%agent fake --new\nhi")

        said = shown(kernel.run("%agent config model maxi"))

        assert "model is maxi, was mini" in said
        assert "deep is offered now, and is off" in said
        assert "fast is no longer offered" in said

    def test_a_refusal_is_in_the_agents_words(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """R44, and the control is offered no longer."""
        refuses = {"error": {"code": -32602, "message": "Not on a \x1b[31mFriday"}}
        opened = {"sessionId": "$session", "configOptions": self.OPTIONS}
        answers = {"session/new": opened, "session/set_config_option": refuses}
        fake_agent([offers(**answers), TURN])
        kernel.run("%%agent fake\nhi")

        assert "Not on a Friday" in fails(kernel, "%agent config fast on")
        assert "fast" not in shown(kernel.run("%agent config"))

    def test_is_about_the_session_in_use_or_the_named_one(
        self, kernel: FrontEnd, agent: FakeAgent
    ) -> None:
        kernel.run("%%agent fake -s other\nhi")

        kernel.run("%agent config fast on -s other")

        assert "off" in shown(kernel.run("%agent config fast"))
        assert "is on" in shown(kernel.run("%agent config fast -s other"))

    def test_without_a_session_says_how_to_get_one(self, kernel: FrontEnd) -> None:
        assert "%%agent opens one" in fails(kernel, "%agent config")

    def test_what_was_set_is_set_again_when_the_session_is_resumed(
        self, kernel: FrontEnd, notebook_dir: Path
    ) -> None:
        """Case 56, with the demo agent."""
        kernel.run("%%agent demo\nhello")
        kernel.run("%agent config thinking long")
        session_id = only_session(kernel)
        kernel.run("%unload_ext silo_nb")
        with loaded(notebook_dir) as second:
            second.run(f"%agent resume {session_id}")

            assert "▸  long" in shown(second.run("%agent config thinking"))


class TestSessions:
    def test_shows_who_is_there_and_who_was_with_nothing_started(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, notebook_dir: Path
    ) -> None:
        """R10, R59."""
        agent = fake_agent([offers("resume"), PROMPT, TITLE, END, TURN])
        kernel.run("%%agent fake\nhi")
        kernel.run("%unload_ext silo_nb")
        kernel.run("%load_ext silo_nb")
        dormant = only_session(kernel)
        kernel.run("%%agent fake -s review\nhi")

        table = shown(kernel.run("%agent sessions"))

        rows = {line.split()[0]: line for line in table.splitlines() if line}
        assert "dormant" in rows[dormant]
        assert "Quarterly report" in rows[dormant]
        assert "idle" in next(row for row in rows.values() if "review" in row)
        assert "%agent resume ID" in table
        assert len(agent.pids) == 2

    def test_many_on_record_are_cut_unless_all_are_wanted(
        self, kernel: FrontEnd, notebook_dir: Path
    ) -> None:
        kernel.run(
            "from pathlib import Path\nfrom silo_nb.journal import Journal, journal_directory\n"
            "for n in range(25):\n"
            "    journal = Journal.create(journal_directory(Path.cwd()), {'profileId': 'demo'})\n"
            "    journal.close().result(5)"
        )

        assert "… and 5 more on record" in shown(kernel.run("%agent sessions"))
        assert shown(kernel.run("%agent sessions --all")).count("dormant\n") == 25

    def test_none_says_how_to_begin(self, kernel: FrontEnd) -> None:
        assert "%%agent opens one" in shown(kernel.run("%agent sessions"))

    def test_a_cell_that_looks_raises_no_attention(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """R88: what a script does unwatched does."""
        fake_agent([TURN])
        kernel.run("%%agent fake\nhi")
        assert "look" not in shown(kernel.run("%agent sessions"))

        kernel.run(
            "import silo_nb.sync\nfrom silo_nb.session import manager\n"
            "silo_nb.sync.Session(manager.live_sessions()[0]).prompt('hi')"
        )
        assert "◆ look" in shown(kernel.run("%agent sessions"))

        kernel.run("%%agent fake\nhi")
        assert "look" not in shown(kernel.run("%agent sessions"))

    def test_nor_does_it_look_any_longer_than_it_runs(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """R88: a cell that was interrupted twice sees nothing of how its turn ends."""
        agent = fake_agent(
            [PROMPT, {"ignore": "cancel"}, {"mark": "deaf"}, {"wait_for": "end"}, END]
        )
        cell = kernel.submit("%%agent fake\nhi")
        agent.wait_reached("deaf")
        kernel.interrupt()
        agent.wait_heard("session/cancel")
        kernel.interrupt()
        kernel.finish(cell, check=False)
        agent.release("end")

        kernel.wait_until(
            lambda: "◆ look" in shown(kernel.run("%agent sessions")), "the end of the turn"
        )

    def test_use_makes_a_session_or_a_profile_the_current_one(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        first, second = fake_agent([TURN]), fake_agent([TURN])
        kernel.run("%%agent fake\na")
        kernel.run("%%agent fake -s review\nb")
        kernel.run("%%agent fake\nc")

        kernel.run("%agent use review")
        assert "turn 1" in frozen(kernel.run("%%agent\nd"))["text/plain"]
        assert "turn 2" in frozen(kernel.run("%ask e"))["text/plain"]
        kernel.run("%agent use fake-2")
        assert "turn 0" in frozen(kernel.run("%%agent\nf"))["text/plain"]

        assert (len(first.pids), len(second.pids)) == (2, 1)
        assert "▸" in shown(kernel.run("%agent sessions"))
        assert "Did you mean 'review'?" in fails(kernel, "%agent use reviw")
        assert "a session or a profile after it" in fails(kernel, "%agent use")

    def test_ask_goes_to_the_session_of_the_last_cell(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        fake_agent([TURN])
        kernel.run("%%agent fake\na")
        kernel.run("%%agent fake\nb")
        kernel.run("%%agent fake -s review\nc")

        assert "turn 1" in frozen(kernel.run("%ask d"))["text/plain"]
        assert "turn 2" in frozen(kernel.run("%%agent\ne"))["text/plain"]


class TestResume:
    def a_past(
        self, directory: Path, fake_agent: FakeAgentFactory, *ways: str
    ) -> tuple[FakeAgent, str]:
        """Return an agent and the id of a session of an earlier kernel with it."""
        agent = fake_agent([offers(*ways), PROMPT, {"say": "the first answer"}, TITLE, END])
        with loaded(directory) as earlier:
            earlier.run("%%agent fake\nthe first question")
            session_id = only_session(earlier)
            earlier.shutdown()
        return agent, session_id

    def test_k5_after_a_kernel_was_killed_in_mid_turn(
        self,
        notebook_dir: Path,
        silo_config: Path,
        agent_processes: AgentProcesses,
        fake_agent: FakeAgentFactory,
    ) -> None:
        """K5, R49, R64: nothing that was acknowledged is lost, and the conversation goes on."""
        half = [PROMPT, {"say": "half an answer"}, {"mark": "half"}, {"sleep": "forever"}]
        agent = fake_agent([offers("resume"), PROMPT, {"say": "a whole answer"}, END, *half])
        with loaded(notebook_dir) as killed:
            killed.run("%%agent fake\nquestion one")
            session_id = only_session(killed)
            killed.submit("%%agent fake\nquestion two")
            agent.wait_reached("half")
            (journal,) = journals(notebook_dir)
            killed.wait_until(lambda: b"half an answer" in journal.read_bytes(), "the disk")
            os.kill(killed.pid, signal.SIGKILL)
            assert agent_processes.wait_gone(5) == []
        plays(agent, offers("resume"), TURN)

        with loaded(notebook_dir) as kernel:
            assert "dormant" in shown(kernel.run("%agent sessions"))
            assert len(agent.pids) == 1
            past = frozen(kernel.run(f"%agent resume {session_id}"))["text/plain"]
            goes_on = frozen(kernel.run("%%agent\nquestion three"))["text/plain"]
            said = kernel.run(
                "import silo_nb.sync\n"
                f"print([u.text for u in silo_nb.sync.read_journal({session_id!r}) if u.text])"
            ).text

        for words in ("question one", "a whole answer", "question two", "half an answer"):
            assert words in past
        assert "Resumed" in past
        assert "turn 0" in goes_on
        assert "question two" not in goes_on
        assert said == (
            "['question one', 'a whole answer', 'question two', 'half an answer', "
            "'question three', 'turn 0']\n"
        )
        assert [m["params"]["cwd"] for m in agent.received("session/resume")] == [str(notebook_dir)]

    def test_k5_the_demo_agent_remembers(
        self, notebook_dir: Path, silo_config: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """K5 with an agent that keeps sessions of its own."""
        monkeypatch.setenv("SILO_DEMO_SPEED", "1")
        with loaded(notebook_dir) as killed:
            killed.run("%%agent demo\nhello")
            session_id = only_session(killed)
            cell = killed.submit("%%agent\nWrite a poem of 300 lines")
            killed.wait_until(
                lambda: cell.outputs and "kernel" in cell.outputs[-1]["data"]["text/html"],
                "a line of the poem",
            )
            os.kill(killed.pid, signal.SIGKILL)
        monkeypatch.setenv("SILO_DEMO_SPEED", "0")

        with loaded(notebook_dir) as kernel:
            past = frozen(kernel.run(f"%agent resume {session_id}"))["text/plain"]
            assert "Write a poem of 300 lines" in past
            assert "Resumed" in past
            assert "Done" in frozen(kernel.run("%%agent\nhello again"))["text/plain"]

    def test_shows_what_there_is_and_what_to_type(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        """R56: those beside this notebook, and the agent's own of the same directory."""
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume", "list")
        assert f"%agent resume {session_id}" in shown(kernel.run("%agent resume"))
        assert len(agent.pids) == 1

        rows = [
            {"sessionId": "theirs", "cwd": str(notebook_dir), "title": "Of their own"},
            {"sessionId": "elsewhere", "cwd": "/", "title": "Of another directory"},
        ]
        plays(agent, offers("resume", "list", **{"session/list": {"sessions": rows}}), TURN)
        kernel.run("%%agent fake\nhi")
        listed = shown(kernel.run("%agent resume"))

        assert "Quarterly report" in listed
        assert "%agent resume theirs fake" in listed
        assert "Of their own" in listed
        assert "elsewhere" not in listed
        assert agent.received("session/list")[0]["params"]["cwd"] == str(notebook_dir)

    def test_a_list_that_is_refused_is_a_line(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        error = {"error": {"code": -32603, "message": "out of order"}}
        fake_agent([offers("list", **{"session/list": error}), TURN])
        kernel.run("%%agent fake\nhi")

        said = shown(kernel.run("%agent resume"))

        assert "does not say which sessions it knows" in said
        assert "out of order" in said

    def test_what_is_on_record_is_seen_before_the_agent_answers(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        """R58: title and transcript come from the record."""
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume")
        plays(
            agent,
            offers("resume"),
            {"expect": "initialize"},
            {"mark": "held"},
            {"wait_for": "go"},
            {"reply": "$default"},
        )

        cell = kernel.submit(f"%agent resume {session_id}")
        agent.wait_reached("held")
        kernel.wait_until(lambda: cell.outputs, "the record")
        early = cell.outputs[0]["data"]["text/html"]
        agent.release("go")
        kernel.finish(cell)

        for words in ("Connecting", "the first answer", "Quarterly report"):
            assert words in early
        assert "Resumed" in frozen(cell)["text/plain"]
        assert "“Quarterly report”" in frozen(cell)["text/plain"]

    def test_a_session_the_agent_lost_is_begun_anew_and_it_is_said(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        """R51: no error, and the old record stays."""
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume")
        stale = {"error": {"code": -32002, "message": "Resource not found"}}
        plays(agent, offers("resume", **{"session/resume": stale}), TURN)

        past = frozen(kernel.run(f"%agent resume {session_id}"))["text/plain"]
        goes_on = frozen(kernel.run("%%agent\nhi"))["text/plain"]

        assert "New session" in past
        assert f"does not know session {session_id} any more" in past
        assert "the first answer" in past
        assert "the first answer" not in goes_on
        assert len(journals(notebook_dir)) == 2

    def test_one_that_can_only_be_read_says_how_to_go_on(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        """R52, R61."""
        agent, session_id = self.a_past(notebook_dir, fake_agent)
        plays(agent, TURN)

        past = frozen(kernel.run(f"%agent resume {session_id}"))["text/plain"]
        assert "Can only be read" in past
        assert "the first answer" in past
        assert "read-only" in shown(kernel.run("%agent sessions"))
        for code in ("%%agent\nhi", "%ask hi", "%agent config"):
            said = fails(kernel, code)
            assert "SessionClosed" in said
            assert f"%agent resume {session_id} --fresh" in said
        assert agent.received("session/prompt")[1:] == []

        carried = frozen(kernel.run(f"%agent resume {session_id} --fresh"))["text/plain"]
        goes_on = frozen(kernel.run("%%agent\nhi"))["text/plain"]

        assert "New session" in carried
        assert "does not know what is shown above" in carried
        assert "turn 0" in goes_on
        assert "the first answer" not in goes_on
        assert "read-only" not in shown(kernel.run("%agent sessions"))
        exported = shown(kernel.run("%agent export md all.md"))
        assert "2 turns" in exported
        assert "the first answer" in (notebook_dir / "all.md").read_text(encoding="utf-8")

    @pytest.mark.parametrize("word", ["--new", "-s another"])
    def test_next_to_one_that_can_only_be_read_others_can_be_opened(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory, word: str
    ) -> None:
        agent, session_id = self.a_past(notebook_dir, fake_agent)
        plays(agent, TURN)
        kernel.run(f"%agent resume {session_id}")

        assert "turn 0" in frozen(kernel.run(f"%%agent fake {word}\nhi"))["text/plain"]

    def test_an_agents_own_session_is_opened_by_its_id_and_a_profile(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """R57: live, and empty where nothing is replayed."""
        agent = fake_agent([offers("resume"), TURN])
        assert "%agent resume theirs PROFILE" in fails(kernel, "%agent resume theirs")
        assert agent.pids == []

        past = frozen(kernel.run("%agent resume theirs fake -s old"))["text/plain"]
        goes_on = frozen(kernel.run("%%agent -s old\nhi"))["text/plain"]

        assert "Resumed" in past
        assert "%%agent -s old goes on" in past
        assert "turn 0" in goes_on
        (asked,) = agent.received("session/prompt")
        assert asked["params"]["sessionId"] == "theirs"

    def test_the_permission_deny_keeps_what_is_on_record_to_itself(
        self,
        kernel: FrontEnd,
        notebook_dir: Path,
        silo_config: Path,
        fake_agent: FakeAgentFactory,
    ) -> None:
        """R60: the same permission as for an agent."""
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume")
        file = silo_config / "profiles.toml"
        file.write_text(file.read_text() + '\n[agents]\npermission = "deny"\n')

        for code in (f"resume {session_id}", "resume", f"export -s {session_id}"):
            said = fails(kernel, f"%agent {code}")
            assert "PermissionDenied" in said
            assert "the first" not in said
        assert len(agent.pids) == 1

    def test_a_slip_in_an_id_starts_nothing(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume")

        said = fails(kernel, f"%agent resume {session_id[:-1]}x")

        assert f"Did you mean {session_id!r}?" in said
        assert len(agent.pids) == 1

    def test_an_open_one_becomes_current_and_gets_an_agent_again(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """R54: the same session, another process."""
        agent = fake_agent([offers("resume"), PROMPT, END, {"wait_for": "die"}, {"exit": 3}])
        kernel.run("%%agent fake\nhi")
        session_id = only_session(kernel)
        agent.release("die")
        kernel.wait_until(
            lambda: "ended" in shown(kernel.run("%agent sessions")), "the end of the agent"
        )
        plays(agent, offers("resume"), TURN)

        kernel.run(f"%agent resume {session_id}")

        assert "idle" in shown(kernel.run("%agent sessions"))
        assert "turn 0" in frozen(kernel.run("%%agent\nhi"))["text/plain"]
        assert only_session(kernel) == session_id
        assert len(agent.pids) == 2

    def test_one_that_another_kernel_has_says_by_whom_and_may_be_carried(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        fake_agent([offers("resume"), TURN])
        with loaded(notebook_dir) as other:
            other.run("%%agent fake\nhi there")
            session_id = only_session(other)

            assert f"open in process {other.pid}" in shown(kernel.run("%agent resume"))
            said = fails(kernel, f"%agent resume {session_id}")
            assert f"process {other.pid}" in said
            assert f"%agent resume {session_id} --fresh" in said
            carried = frozen(kernel.run(f"%agent resume {session_id} --fresh"))["text/plain"]

            assert "hi there" in carried
            assert "turn 1" in frozen(other.run("%%agent\nstill here"))["text/plain"]

    def test_an_agent_that_does_not_start_leaves_the_record(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume")
        plays(agent, {"expect": "initialize"}, {"exit": 4})
        (journal,) = journals(notebook_dir)
        before = journal.read_bytes()

        cell = kernel.run(f"%agent resume {session_id}", check=False)

        assert cell.error == "AgentExited"
        assert "Not connected" in frozen(cell)["text/plain"]
        assert "the first answer" in frozen(cell)["text/plain"]
        assert journal.read_bytes() == before

    def test_an_interrupt_while_it_connects_leaves_nothing_running(
        self,
        kernel: FrontEnd,
        notebook_dir: Path,
        fake_agent: FakeAgentFactory,
        agent_processes: AgentProcesses,
    ) -> None:
        """K3."""
        agent, session_id = self.a_past(notebook_dir, fake_agent, "resume")
        plays(agent, {"expect": "initialize"}, {"mark": "starting"}, {"sleep": "forever"})

        cell = kernel.submit(f"%agent resume {session_id}")
        agent.wait_reached("starting")
        kernel.interrupt()
        kernel.finish(cell, check=False)

        assert cell.error == "KeyboardInterrupt"
        assert agent_processes.wait_gone(3) == []
        assert "dormant" in shown(kernel.run("%agent sessions"))

    def test_of_a_long_conversation_the_end_is_shown(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([offers("resume"), TURN])
        with loaded(notebook_dir) as earlier:
            earlier.run(
                "import silo_nb.sync\nwith silo_nb.sync.connect('fake') as session:\n"
                "    for n in range(30): session.prompt(f'question {n}')"
            )
            session_id = only_session(earlier)

        past = frozen(kernel.run(f"%agent resume {session_id}"))

        assert "rows left out" in past["text/plain"]
        assert "question 29" in past["text/plain"]
        assert "question 2\n" not in past["text/plain"]
        assert "All of it is in .silo_nb" in past["text/plain"]
        assert len(past["text/html"]) < 20_000
        assert len(agent.pids) == 2


class TestClear:
    """R62, R63: by a command or typed, ours for every agent, and for good."""

    COMMANDS: ClassVar[dict[str, Any]] = {
        "update": {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "clear", "description": "Forget", "input": None}],
        }
    }

    def talk(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> tuple[FakeAgent, str]:
        agent = fake_agent([PROMPT, self.COMMANDS, {"say": "turn 0"}, END, TURN])
        kernel.run("%%agent fake\nto be forgotten")
        return agent, only_session(kernel)

    @pytest.mark.parametrize("code", ["%agent clear", "%%agent\n/clear", "%ask  /clear "])
    def test_asks_first_then_deletes_and_begins_anew(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory, code: str
    ) -> None:
        agent, old = self.talk(kernel, fake_agent)

        cell = kernel.run(code, answers=["yes"])

        assert "Cleared" in shown(cell)
        assert "1 prompt and what came of them" in cell.text
        new = only_session(kernel)
        assert new != old
        assert [file.stem for file in journals(notebook_dir)] == [new]
        assert "to be forgotten" not in journals(notebook_dir)[0].read_text(encoding="utf-8")
        assert "turn 0" in frozen(kernel.run("%%agent\nagain"))["text/plain"]
        assert len(agent.pids) == 2
        asked = [m["params"]["prompt"][0]["text"] for m in agent.received("session/prompt")]
        assert asked == ["to be forgotten", "again"]
        names = "print([c.name for c in silo_nb.agents.sessions[0].commands])"
        assert kernel.run(names).text == "['clear']\n"

    @pytest.mark.parametrize("answer", ["no", "", "yes please"])
    def test_anything_but_a_yes_leaves_it(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, answer: str
    ) -> None:
        agent, old = self.talk(kernel, fake_agent)

        cell = kernel.run("%agent clear", answers=[answer])

        assert "Nothing was cleared." in cell.text
        assert only_session(kernel) == old
        assert len(agent.pids) == 1

    def test_where_nobody_can_be_asked_it_has_to_be_said(
        self,
        notebook_dir: Path,
        silo_config: Path,
        agent_processes: AgentProcesses,
        fake_agent: FakeAgentFactory,
    ) -> None:
        with headless(notebook_dir) as kernel:
            kernel.run("%load_ext silo_nb")
            _, old = self.talk(kernel, fake_agent)

            for code in ("%agent clear", "%%agent\n/clear"):
                assert f"%agent clear -s {old} --yes" in fails(kernel, code)
            assert only_session(kernel) == old

            kernel.run(f"%agent clear -s {old} --yes")
            assert only_session(kernel) != old

    def test_only_the_named_one_is_cleared(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        self.talk(kernel, fake_agent)
        kernel.run("%%agent fake -s review\nnot needed")

        kernel.run("%agent clear -s review --yes")

        kept = "".join(file.read_text(encoding="utf-8") for file in journals(notebook_dir))
        assert "to be forgotten" in kept
        assert "not needed" not in kept
        assert "turn 0" in frozen(kernel.run("%%agent -s review\nhi"))["text/plain"]

    def test_a_longer_prompt_that_begins_so_is_the_agents(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent, _ = self.talk(kernel, fake_agent)

        kernel.run("%%agent\n/clear the table")

        assert len(agent.received("session/prompt")) == 2

    def test_without_a_session_there_is_nothing_to_clear(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([TURN])

        assert "nothing to clear" in fails(kernel, "%%agent fake\n/clear")
        assert "%%agent opens one" in fails(kernel, "%agent clear --yes")
        assert agent.pids == []

    def test_a_turn_is_not_cleared_away(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, {"mark": "working"}, {"wait_for": "go"}, END])
        kernel.run(
            "import silo_nb.sync, threading\nsession = silo_nb.sync.connect('fake')\n"
            "thread = threading.Thread(target=session.prompt, args=('hi',)); thread.start()"
        )
        agent.wait_reached("working")

        said = fails(kernel, f"%agent clear --yes -s {only_session(kernel)}")

        assert "SessionBusy" in said
        assert "%agent cancel" in said
        agent.release("go")
        kernel.run("thread.join()")

    def test_when_no_new_session_can_be_had_the_old_one_is_still_there(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory
    ) -> None:
        """R62: it is deleted last."""
        agent, old = self.talk(kernel, fake_agent)
        plays(agent, {"expect": "initialize"}, {"exit": 4})

        said = fails(kernel, "%agent clear --yes")

        assert "AgentExited" in said
        assert f"%agent resume {old}" in said
        assert [file.stem for file in journals(notebook_dir)] == [old]

        plays(agent, offers("resume"), TURN)
        assert "to be forgotten" in shown(kernel.run(f"%agent resume {old}"))


class TestExport:
    TOOL: ClassVar[dict[str, Any]] = {
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "Look <b>around</b>",
            "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "x" * 100_000}}],
        }
    }

    @pytest.fixture
    def session_id(self, kernel: FrontEnd, fake_agent: FakeAgentFactory) -> str:
        fake_agent([offers("resume"), PROMPT, TITLE, self.TOOL, {"say": "**bold**"}, END, TURN])
        kernel.run("%%agent fake\nwhat <is> it?")
        kernel.run("%%agent fake\nand $that$?")
        return only_session(kernel)

    @pytest.mark.parametrize("kind", ["md", "html", "ipynb"])
    def test_writes_the_whole_session_beside_the_notebook(
        self, kernel: FrontEnd, notebook_dir: Path, session_id: str, kind: str
    ) -> None:
        cell = kernel.run(f"%agent export {kind}")

        file = notebook_dir / f"{session_id}.{kind}"
        assert cell.text == f"2 turns exported to {file.name}\n"
        text = file.read_text(encoding="utf-8")
        assert "Quarterly report" in text
        assert "turn 0" in text
        if kind != "ipynb":
            assert "x" * 100_000 in text
        if kind == "html":
            assert "Look &lt;b&gt;around&lt;/b&gt;" in text
            assert "<strong>bold</strong>" in text

    def test_a_name_tells_the_format(
        self, kernel: FrontEnd, notebook_dir: Path, session_id: str
    ) -> None:
        kernel.run("%agent export 'my report.HTML'")

        assert (notebook_dir / "my report.HTML").read_text("utf-8").startswith("<!doctype html>")

    def test_what_is_there_is_kept_unless_it_is_to_be_replaced(
        self, kernel: FrontEnd, notebook_dir: Path, session_id: str
    ) -> None:
        file = notebook_dir / "notes.md"
        file.write_text("mine", encoding="utf-8")

        assert "'notes.md' is there already" in fails(kernel, "%agent export notes.md")
        assert file.read_text(encoding="utf-8") == "mine"

        kernel.run("%agent export notes.md --force")
        assert file.read_text(encoding="utf-8").startswith("# Session")
        assert [path.name for path in notebook_dir.glob(".notes*")] == []

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("pdf", "'pdf' is no format"),
            ("htm x", "'htm' is no format. Did you mean 'html'?"),
            ("md no/such/place.md", "cannot be written: No such file or directory"),
            ("md . --force", "cannot be written: "),
            ("md -s nobody", "no session 'nobody', open or on record"),
        ],
    )
    def test_what_cannot_be_is_said(
        self, kernel: FrontEnd, notebook_dir: Path, session_id: str, words: str, said: str
    ) -> None:
        before = sorted(notebook_dir.iterdir())

        assert said in fails(kernel, f"%agent export {words}")

        assert sorted(notebook_dir.iterdir()) == before

    def test_a_session_of_an_earlier_kernel_is_read_with_nothing_started(
        self, kernel: FrontEnd, notebook_dir: Path, session_id: str
    ) -> None:
        kernel.run("%unload_ext silo_nb")
        kernel.run("%load_ext silo_nb")

        kernel.run(f"%agent export html old.html -s {session_id}")

        assert "and <span>$</span>that<span>$</span>?" in (notebook_dir / "old.html").read_text(
            "utf-8"
        )
        assert "dormant" in shown(kernel.run("%agent sessions"))

    def test_a_session_that_cannot_be_journaled_is_saved_by_it(
        self, kernel: FrontEnd, notebook_dir: Path, fake_agent: FakeAgentFactory, tmp_path: Path
    ) -> None:
        (notebook_dir / ".silo_nb").write_text("in the way", encoding="utf-8")
        fake_agent([TURN])
        kernel.run("%%agent fake\nkeep me")

        kernel.run(f"%agent export {tmp_path / 'saved.md'}")

        saved = (tmp_path / "saved.md").read_text(encoding="utf-8")
        assert "keep me" in saved
        assert "turn 0" in saved

    def test_an_exported_notebook_is_one_and_runs(
        self, kernel: FrontEnd, notebook_dir: Path
    ) -> None:
        kernel.run("%%agent demo\nhello")
        kernel.run("%%agent demo --file test.ipynb\nlook at this")
        kernel.run("%agent export ipynb again.ipynb")

        document = nbformat.read(notebook_dir / "again.ipynb", as_version=4)
        nbformat.validate(document)
        assert "hello" in document.cells[2].source
        assert document.cells[3].source == "%%agent demo --file test.ipynb\nlook at this"
        assert "text/html" in document.cells[3].outputs[0].data

        resources = {"metadata": {"path": str(notebook_dir)}}
        NotebookClient(document, timeout=60, resources=resources).execute()
        assert all(cell.outputs for cell in document.cells[2:])


class TestUnknownCommands:
    """Case 58: a command that is not there looks like one, not like a bug."""

    def test_what_the_agent_does_not_list_is_said_and_sent_all_the_same(
        self, kernel: FrontEnd
    ) -> None:
        kernel.run("%%agent demo\nhello")

        assert "/sumary is not among" in shown(kernel.run("%%agent demo\n/sumary data.csv"))
        assert "Did you mean" in shown(kernel.run("%%agent demo\n/sumary data.csv"))
        assert "is not among" not in shown(kernel.run("%%agent demo\n/help"))
        assert "is not among" not in shown(kernel.run("%%agent demo\n/home/me/data.csv"))
