"""Runs without anybody there: they never hang, say what they refused, and keep a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from silo_nb.testing import AgentProcesses
from silo_nb.testing.plugin import FakeAgentFactory
from tests.kernel.front_ends import (
    ALLOW_AND_REJECT,
    FrontEnd,
    displayed,
    frozen,
    headless,
    notebook,
)

PROMPT = {"expect": "session/prompt"}
END = {"reply": "end_turn"}


def asks(kind: str = "edit", options: list[dict[str, str]] = ALLOW_AND_REJECT) -> dict[str, object]:
    call = {"toolCallId": "t1", "title": "Change notes.md", "kind": kind}
    return {
        "ask": "session/request_permission",
        "params": {"toolCall": call, "options": options},
        "answers": {"*": []},
    }


@pytest.fixture
def kernel(
    notebook_dir: Path, silo_config: Path, agent_processes: AgentProcesses
) -> Iterator[FrontEnd]:
    with headless(notebook_dir) as running:
        running.run("%load_ext silo_nb")
        yield running
        print(running.log[-4000:])  # noqa: T201 -- shown when the test fails


def execute(directory: Path, *cells: str) -> nbformat.NotebookNode:
    """Execute a notebook of these cells as nbconvert and papermill do, and return it."""
    document: nbformat.NotebookNode = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]
    )
    # This environment's Python, and no kernel spec of the machine's.
    document.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    NotebookClient(document, timeout=30, resources={"metadata": {"path": str(directory)}}).execute()
    return document


def test_the_executed_notebook_holds_the_frozen_output_and_nothing_else(
    notebook_dir: Path, fake_agent: FakeAgentFactory
) -> None:
    """JUPYTER §2.3 D10: one output, three mimetypes, no widget."""
    fake_agent([PROMPT, {"say": "**forty** "}, {"say": "two"}, END])

    document = execute(notebook_dir, "%load_ext silo_nb", "%%agent fake\nwhat is it?")

    (output,) = document.cells[1].outputs
    assert output.output_type == "display_data"
    assert set(output.data) == {"text/html", "text/markdown", "text/plain"}
    assert "<strong>forty</strong> two" in output.data["text/html"]
    assert "widgets" not in document.metadata


def test_nbconvert_shows_the_record(notebook_dir: Path, fake_agent: FakeAgentFactory) -> None:
    """Case 73; FAULTS T7: what was escaped stays escaped in the page."""
    fake_agent([PROMPT, {"say": "see <script>__x()</script>"}, END])
    document = execute(notebook_dir, "%load_ext silo_nb", "%%agent fake\nwhat is it?")

    page, _ = HTMLExporter().from_notebook_node(document)

    assert "see &lt;script&gt;__x()&lt;/script&gt;" in page
    assert "<script>__x()" not in page


def test_a_failed_turn_fails_the_run(notebook_dir: Path, fake_agent: FakeAgentFactory) -> None:
    fake_agent([PROMPT, {"exit": 3}])

    with pytest.raises(CellExecutionError, match="exited with code 3"):
        execute(notebook_dir, "%load_ext silo_nb", "%%agent fake\nhi", "never = 1")


class TestPermission:
    def test_is_refused_and_the_output_says_so(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        """ARCHITECTURE §7, K18: "Headless default: reject"."""
        agent = fake_agent([PROMPT, asks(), END])

        cell = kernel.run("%%agent fake\nhi")

        assert agent.answers == ["no"]
        plain = frozen(cell)["text/plain"]
        assert "rejected by policy: Reject" in plain
        assert "nobody can be asked in this run: Change notes.md" in plain

    def test_without_a_clear_no_it_is_cancelled(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        only_yes = ALLOW_AND_REJECT[:1]
        agent = fake_agent([PROMPT, asks(options=only_yes), END])

        cell = kernel.run("%%agent fake\nhi")

        assert agent.answers == ["cancelled"]
        assert "nobody can be asked" in frozen(cell)["text/plain"]

    @pytest.mark.parametrize(
        ("policy", "kind", "answer"),
        [
            ("ask", "read", "no"),
            ("reject", "read", "no"),
            ("reads", "read", "yes"),
            ("reads", "search", "yes"),
            ("reads", "think", "yes"),
            ("reads", "fetch", "no"),
            ("reads", "edit", "no"),
            ("reads", "execute", "no"),
            ("allow", "execute", "yes"),
        ],
    )
    def test_is_given_by_policy(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, policy: str, kind: str, answer: str
    ) -> None:
        agent = fake_agent([PROMPT, asks(kind), END])

        kernel.run(f"%%agent fake --policy {policy}\nhi")

        assert agent.answers == [answer]

    @pytest.mark.parametrize("policy", ["ask", "reject", "reads", "allow"])
    @pytest.mark.parametrize("kinds", [("allow", "allow", "reject"), ("allow", "reject", "reject")])
    def test_no_policy_makes_a_choice(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory, policy: str, kinds: tuple[str, ...]
    ) -> None:
        """Several options of one kind are choices in disguise (qwen-code, kimi-code; T12)."""
        choices = [
            {"optionId": f"o{number}", "name": f"Plan {number}", "kind": f"{kind}_once"}
            for number, kind in enumerate(kinds)
        ]
        agent = fake_agent([PROMPT, asks("read", choices), END])

        kernel.run(f"%%agent fake --policy {policy}\nhi")

        assert agent.answers == ["cancelled"]

    def test_the_remark_recommends_only_what_helps(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        always = [{"optionId": "ever", "name": "Always", "kind": "allow_always"}]
        fake_agent([PROMPT, asks(), END, PROMPT, asks(options=always), END])

        first = kernel.run("%%agent fake\nhi")
        second = kernel.run("%%agent fake\nhi")

        assert "--policy allow" in frozen(first)["text/plain"]
        assert "nobody can be asked" in frozen(second)["text/plain"]
        assert "--policy allow" not in frozen(second)["text/plain"]

    def test_is_never_given_for_longer_than_the_cell(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        always = [{"optionId": "ever", "name": "Always", "kind": "allow_always"}]
        agent = fake_agent([PROMPT, asks(options=always), END])

        kernel.run("%%agent fake --policy allow\nhi")

        assert agent.answers == ["cancelled"]


def test_nothing_is_shown_before_the_end(kernel: FrontEnd, fake_agent: FakeAgentFactory) -> None:
    """A file that keeps every message keeps one."""
    fake_agent([PROMPT, {"flood": 500, "rate": 1_000, "id": "m"}, END])

    cell = kernel.run("%%agent fake\nhi")

    assert [kind for kind, _ in displayed(cell)] == ["display_data"]


class TestCapture:
    """FAULTS K18: output that goes elsewhere holds nothing up."""

    @pytest.fixture
    def kernel(
        self, notebook_dir: Path, silo_config: Path, agent_processes: AgentProcesses
    ) -> Iterator[FrontEnd]:
        with notebook(notebook_dir) as running:
            running.run("%load_ext silo_nb")
            yield running

    def test_the_record_is_captured_once(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        fake_agent([PROMPT, {"flood": 500, "rate": 1_000, "id": "m"}, END])

        cell = kernel.run("%%capture kept\n%%agent fake\nhi")

        assert cell.outputs == []
        shown = kernel.run("print(len(kept.outputs), sorted(kept.outputs[0].data))").text
        assert shown == "1 ['text/html', 'text/markdown', 'text/plain']\n"

    def test_a_question_that_would_not_be_seen_is_not_put(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        agent = fake_agent([PROMPT, asks(), END])

        kernel.run("%%capture kept\n%%agent fake\nhi")

        assert agent.answers == ["no"]
        assert kernel.prompts == []

    def test_a_closed_stdout_changes_nothing(
        self, kernel: FrontEnd, fake_agent: FakeAgentFactory
    ) -> None:
        fake_agent([PROMPT, {"say": "fine"}, END])
        kernel.run("import io, sys\nsys.stdout = io.StringIO()\nsys.stdout.close()")

        cell = kernel.run("%%agent fake\nhi")

        assert "fine" in frozen(cell)["text/plain"]
