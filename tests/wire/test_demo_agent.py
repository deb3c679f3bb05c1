"""The demo agent, driven over its pipes: what it does is real, and all it says is in the schema."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from silo_nb.testing import AgentProcesses, RawClient
from tests.acp_schema import Exchange, validate

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-P", "-m", "silo_nb.demo_agent")
BOOLEANS: dict[str, Any] = {"session": {"configOptions": {"boolean": {}}}}
TABLE = "day;place;degrees\n2026-01-01;harbour;11.5\n2026-01-02;hill;9.8\n2026-01-03;;10\n"


class Demo(RawClient):
    """The demo agent, with every message of both sides checked against the schema."""

    def __init__(self, folder: Path, state: Path, **environment: str) -> None:
        self.folder = folder
        self.exchange = Exchange()
        self.checked = 0
        extra = {"PYTHONPATH": str(ROOT), "SILO_DEMO_STATE": str(state), "SILO_DEMO_SPEED": "0"}
        super().__init__(COMMAND, cwd=folder, env=os.environ | extra | environment)

    def send(self, message: Any) -> None:
        self.check()
        self.exchange.from_client(message)
        super().send(message)

    def check(self) -> None:
        """Check what it said since the last time."""
        while self.checked < len(self.messages):
            self.exchange.from_agent(self.messages[self.checked])
            self.checked += 1

    def open(self, **capabilities: Any) -> str:
        return self.open_session(self.folder, capabilities)

    def turn(self, session: str, text: str, *, answer: str | None = None) -> dict[str, Any]:
        """Have a whole turn; `answer` is the option for the first permission it asks for."""
        asked_before = len(self.permissions())
        prompt = self.prompt(session, text)
        if answer is not None:
            request = self.asked("session/request_permission", times=asked_before + 1)
            chosen = {"outcome": "selected", "optionId": answer}
            self.answer(request["id"], {"outcome": chosen})
        result: dict[str, Any] = self.response(prompt)["result"]
        return result

    def permissions(self) -> list[dict[str, Any]]:
        return [m for m in self.messages if m.get("method") == "session/request_permission"]

    def rows(self) -> list[dict[str, Any]]:
        """Every tool call as it ended."""
        rows: dict[str, dict[str, Any]] = {}
        for update in self.updates():
            if update["sessionUpdate"] in {"tool_call", "tool_call_update"}:
                rows.setdefault(update["toolCallId"], {}).update(update)
        return list(rows.values())

    def row(self) -> dict[str, Any]:
        (row,) = self.rows()
        return row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "weather.csv").write_text(TABLE)
    (folder / "notes.md").write_text("# Notes\n\nold words\n")
    return folder


@pytest.fixture
def start(folder: Path, tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    """Start the demo agent; at the end of the test all it said is checked."""
    with ExitStack() as stack:
        started: list[Demo] = []

        def start(**environment: str) -> Demo:
            demo = stack.enter_context(Demo(folder, tmp_path / "state", **environment))
            started.append(demo)
            return demo

        yield start
        for demo in started:
            demo.close()
            demo.check()
            assert demo.noise == []
            assert demo.stderr == ""


@pytest.fixture
def demo(start: Callable[..., Demo]) -> Demo:
    return start()


# ------------------------------------------------------------------------------------ handshake


def test_it_introduces_itself_and_needs_no_login(demo: Demo) -> None:
    result = demo.call("initialize", {"protocolVersion": 1})["result"]

    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["title"] == "Demo Agent"
    assert result["authMethods"] == []
    assert result["agentCapabilities"]["loadSession"] is True


def test_it_answers_a_newer_protocol_with_the_version_it_speaks(demo: Demo) -> None:
    assert demo.call("initialize", {"protocolVersion": 2})["result"]["protocolVersion"] == 1


def test_commands_follow_the_opening_of_a_session(demo: Demo) -> None:
    demo.open()

    offered = demo.update("available_commands_update")["availableCommands"]
    names = [command["name"] for command in offered]
    assert names == ["help", "files", "summary", "edit", "run", "plan", "poem"]


@pytest.mark.parametrize(
    ("cwd", "reason"),
    [("relative", "absolute path"), ("/no/such/place", "not a directory"), (7, "absolute path")],
)
def test_a_directory_it_cannot_work_in_is_refused(demo: Demo, cwd: Any, reason: str) -> None:
    request = {"jsonrpc": "2.0", "id": "x", "method": "session/new", "params": {"cwd": cwd}}
    demo.send_raw(json.dumps(request).encode() + b"\n")
    demo.exchange._asked_by_client["x"] = "session/new"

    error = demo.response("x")["error"]
    assert error["code"] == -32602
    assert reason in error["message"]


def test_it_starts_quickly(tmp_path: Path) -> None:
    """What it loads is counted, for times drift."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "import silo_nb.demo_agent.__main__\n"
        "print(*sorted(set(sys.modules) - before))"
    )

    loaded = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert {"asyncio", "csv", "dataclasses", "subprocess", "tempfile"}.isdisjoint(loaded)
    ours = {name for name in loaded if name.startswith("silo_nb.")}
    assert all(name.startswith("silo_nb.demo_agent") for name in ours)


# ------------------------------------------------------------------------------------- reading


def test_it_says_that_it_is_a_demo_without_a_model(demo: Demo) -> None:
    result = demo.turn(demo.open(), "Good morning")

    assert result["stopReason"] == "end_turn"
    assert "a program without a language model" in demo.text()
    assert "- `Summarise weather.csv`" in demo.text()
    assert "I see 2 files" in demo.text()


def test_the_default_answer_streams_in_word_chunks_within_three_seconds(
    start: Callable[..., Demo],
) -> None:
    demo = start(SILO_DEMO_SPEED="1")
    session = demo.open()
    begun = time.monotonic()
    demo.turn(session, "Good morning")

    assert time.monotonic() - begun < 3
    chunks = [u["content"]["text"] for u in demo.updates("agent_message_chunk")]
    assert len(chunks) > 100
    assert all(len(chunk.split()) <= 1 for chunk in chunks)


def test_the_same_prompt_gets_the_same_answer(start: Callable[..., Demo]) -> None:
    first, second = start(), start()

    for demo in (first, second):
        demo.turn(demo.open(), "Good morning")

    assert first.text() == second.text()


def test_what_it_says_in_one_go_is_one_message(demo: Demo) -> None:
    demo.turn(demo.open(), "Good morning")

    message, thought = (
        {update["messageId"] for update in demo.updates(kind)}
        for kind in ("agent_message_chunk", "agent_thought_chunk")
    )
    assert len(message) == len(thought) == 1
    assert message.isdisjoint(thought)


def test_it_lists_files_and_leaves_out_hidden_ones(demo: Demo, folder: Path) -> None:
    (folder / ".secret").touch()
    (folder / "__pycache__").mkdir()
    (folder / "data").mkdir()

    demo.turn(demo.open(), "What files are here?")

    assert demo.row()["kind"] == "search"
    assert demo.row()["status"] == "completed"
    assert demo.row()["locations"] == [{"path": str(folder)}]
    assert demo.row()["rawOutput"] == {"files": ["data/", "notes.md", "weather.csv"]}
    assert f"| weather.csv | {len(TABLE)} B |" in demo.text()
    assert "secret" not in demo.text()


def test_it_summarises_a_table(demo: Demo, folder: Path) -> None:
    demo.turn(demo.open(), "Summarise weather.csv, please.")

    row = demo.row()
    assert (row["kind"], row["title"]) == ("read", "Read weather.csv")
    assert row["locations"] == [{"path": str(folder / "weather.csv")}]
    columns = {column["name"]: column for column in row["rawOutput"]["columns"]}
    assert row["rawOutput"]["rows"] == 3
    assert columns["degrees"]["type"] == "number"
    assert (columns["degrees"]["lowest"], columns["degrees"]["highest"]) == ("9.8", "11.5")
    assert columns["degrees"]["mean"] == "10.433"
    assert (columns["day"]["type"], columns["day"]["lowest"]) == ("date", "2026-01-01")
    assert (columns["place"]["type"], columns["place"]["missing"]) == ("text", 1)
    assert "3 rows, 3 columns." in demo.text()
    assert "| degrees | number | 3 | 9.8 | 11.5 | 10.433 | 3 |" in demo.text()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.md", "# One\n\n## Two\n", "- One\n- Two"),
        ("a.txt", "It was a dark night.\n", "It begins: “It was a dark night.”"),
        ("a.py", '"""Doc."""\nclass A: ...\ndef b(): ...\n', "- `A`\n- `b`"),
        ("a.py", "def (", "It is not valid Python"),
        ("a.json", '{"a": [1, 2], "b": null}', "| a | list of 2 |"),
        ("a.json", "[1, 2, {}]", "A list of 3: 2 × number and 1 × object with 0 keys."),
        ("a.json", "{", "1 lines, 1 words and 1 characters."),
        ("a.json", "[" * 100_000, "100,000 characters"),
        ("a.ipynb", '{"cells": [{"cell_type": "markdown", "source": "# T"}]}', "1 markdown cells"),
        ("a.tsv", "1\t2\n3\t4\n", "| column 1 | whole number | 2 | 1 | 3 | 2 | 2 |"),
        ("a.csv", "", "0 rows, 0 columns."),
        ("a.csv", "a,b\n1,yes\n", "| b | yes or no | 1 |"),
        ("a.csv", "`a|b`,c,d\nx,y,z\n", "| \\`a\\|b\\` | text |"),
    ],
)
def test_it_says_what_is_in_a_file_of_many_kinds(
    demo: Demo, folder: Path, name: str, content: str, said: str
) -> None:
    (folder / name).write_text(content)

    demo.turn(demo.open(), f"Read {name}")

    assert said in demo.text()
    assert demo.row()["status"] == "completed"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Read nope.csv", "There is no `nope.csv` here. There is `image.bin`, `link.txt`, "),
        ("Read ../outside.txt", "There is no `../outside.txt` here."),
        ("Read link.txt", "There is no `link.txt` here."),
        ("Read image.bin", "I could not read `image.bin`."),
        ("/nonsense", "There is no command `/nonsense`."),
    ],
)
def test_it_says_what_it_cannot_read(demo: Demo, folder: Path, prompt: str, said: str) -> None:
    (folder.parent / "outside.txt").write_text("not for you")
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    (folder / "image.bin").write_bytes(b"\xff\xfe\x00")

    demo.turn(demo.open(), prompt)

    assert said in demo.text()
    assert "not for you" not in json.dumps(demo.messages)


def test_without_a_name_it_reads_the_most_telling_file(demo: Demo) -> None:
    demo.turn(demo.open(), "/summary")

    assert [row["title"] for row in demo.rows()] == ["List the files of work", "Read weather.csv"]


def test_attachments_are_part_of_the_prompt(demo: Demo) -> None:
    session = demo.open()
    resource = {"uri": "file:///x/people.csv", "text": "name,age\nAda,36\n"}
    blocks = [
        {"type": "text", "text": "Summarise these"},
        {"type": "resource", "resource": resource},
        {"type": "resource_link", "uri": "file:///y.txt", "name": "y.txt"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ]

    demo.response(demo.request("session/prompt", {"sessionId": session, "prompt": blocks}))

    assert "| age | whole number | 1 | 36 | 36 | 36 | 1 |" in demo.text()
    assert "`y.txt` (link), which I cannot look into" in demo.text()
    assert "`png` (image, 3 B)" in demo.text()


def test_a_plan_is_worked_off_step_by_step(demo: Demo) -> None:
    demo.turn(demo.open(), "Make a plan")

    plans = [[e["status"] for e in u["entries"]] for u in demo.updates("plan")]
    assert plans == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]
    assert [row["kind"] for row in demo.rows()] == ["search", "read"]
    assert "The most telling one is **`weather.csv`**" in demo.text()


def test_an_empty_directory_is_no_trouble(demo: Demo, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    session = demo.open_session(empty)

    for prompt in ("hello", "/files", "/summary", "/plan", "/run"):
        result = demo.turn(session, prompt, answer="reject_once" if prompt == "/run" else None)
        assert result["stopReason"] == "end_turn"


def test_a_poem_is_as_long_as_one_likes(demo: Demo) -> None:
    demo.turn(demo.open(), "Write a poem of 100 lines")

    assert len([line for line in demo.text().splitlines() if line]) == 100


# ------------------------------------------------------------------------------------- editing


def test_an_edit_is_shown_as_a_diff_and_made_after_asking(demo: Demo, folder: Path) -> None:
    file = folder / "notes.md"
    prompt = demo.prompt(demo.open(), "Replace `old words` with 'new ones' in notes.md")
    request = demo.asked("session/request_permission")

    kinds = [option["kind"] for option in request["params"]["options"]]
    assert kinds == ["allow_once", "allow_always", "reject_once"]
    diff = {
        "type": "diff",
        "path": str(file),
        "oldText": "# Notes\n\nold words\n",
        "newText": "# Notes\n\nnew ones\n",
    }
    opened = demo.updates("tool_call")[0]
    assert opened["content"] == request["params"]["toolCall"]["content"] == [diff]
    assert (opened["kind"], opened["title"], opened["status"]) == (
        *("edit", "Edit notes.md"),
        "pending",
    )
    assert file.read_text() == "# Notes\n\nold words\n"

    demo.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    demo.response(prompt)
    assert file.read_text() == "# Notes\n\nnew ones\n"
    assert demo.row()["status"] == "completed"
    assert "Done: `notes.md` now has 3 lines." in demo.text()


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ({"outcome": "selected", "optionId": "reject_once"}, "You said no, so `notes.md` is as"),
        ({"outcome": "selected", "optionId": "made up"}, "You said no"),
        ({"outcome": "cancelled"}, "Nobody answered, so `notes.md` is as it was."),
    ],
)
def test_a_refused_edit_is_not_made_and_the_turn_goes_on(
    demo: Demo, folder: Path, outcome: dict[str, Any], said: str
) -> None:
    before = (folder / "notes.md").read_text()
    prompt = demo.prompt(demo.open(), "Add the line 'more' to notes.md")

    demo.answer(demo.asked("session/request_permission")["id"], {"outcome": outcome})

    assert demo.response(prompt)["result"]["stopReason"] == "end_turn"
    assert demo.row()["status"] == "failed"
    assert said in demo.text()
    assert (folder / "notes.md").read_text() == before


def test_an_error_for_an_answer_is_no_permission(demo: Demo, folder: Path) -> None:
    prompt = demo.prompt(demo.open(), "/edit notes.md: old => new")
    request = demo.asked("session/request_permission")
    error = {"code": -32601, "message": "no"}

    demo.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    demo.response(prompt)
    assert "Nobody answered" in demo.text()
    assert "old words" in (folder / "notes.md").read_text()


def test_always_is_remembered_for_that_tool_and_session(demo: Demo) -> None:
    """Case 45."""
    session = demo.open()
    demo.turn(session, "Add 'one' to notes.md", answer="allow_always")
    demo.turn(session, "Add 'two' to notes.md")
    assert len(demo.permissions()) == 1

    demo.turn(session, "run ls", answer="reject_once")
    other = demo.call("session/new", {"cwd": str(demo.folder), "mcpServers": []})
    demo.turn(other["result"]["sessionId"], "Add 'three' to notes.md", answer="reject_once")

    assert len(demo.permissions()) == 3
    assert (demo.folder / "notes.md").read_text().endswith("one\ntwo\n")


@pytest.mark.parametrize(
    ("prompt", "file", "content"),
    [
        ("Create hello.txt with hello world", "hello.txt", "hello world\n"),
        ("Write 'a b' to deep/er/x.md", "deep/er/x.md", "a b\n"),
        ("Append the line `x` to fresh.txt", "fresh.txt", "x\n"),
        ("edit something", "demo_notes.md", "- edit something\n"),
        ("/edit notes.md: old words → new", "notes.md", "# Notes\n\nnew\n"),
    ],
)
def test_many_ways_to_ask_for_an_edit(
    demo: Demo, folder: Path, prompt: str, file: str, content: str
) -> None:
    demo.turn(demo.open(), prompt, answer="allow_once")

    assert (folder / file).read_text() == content


def test_a_summary_can_be_written_to_a_file(demo: Demo, folder: Path) -> None:
    demo.turn(demo.open(), "Write a summary of weather.csv to summary.md", answer="allow_once")

    written = (folder / "summary.md").read_text()
    assert written.startswith("# Summary of weather.csv\n\n3 rows, 3 columns.")
    assert [(row["kind"], row["status"]) for row in demo.rows()] == [
        ("read", "completed"),
        ("edit", "completed"),
    ]
    assert demo.rows()[1]["content"][0]["oldText"] is None


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("Write 'x' to ../escape.txt", "outside of this directory"),
        ("Write 'x' to /tmp/escape.txt", "outside of this directory"),
        ("Write 'x' to out/escape.txt", "outside of this directory"),
        ("Write 'x' to .hidden/a.txt", "is hidden"),
        ("Write 'x' to book.ipynb", "is a notebook"),
        ("Replace a with b in nope.md", "there is no `nope.md`"),
        ("Replace zebra with b in notes.md", "`zebra` does not occur"),
        ("Add 'x' to image.txt", "is not a text file"),
        ("Write a summary of nope.csv to s.md", "there is no `nope.csv`"),
    ],
)
def test_what_it_will_not_edit_it_does_not_ask_about(
    demo: Demo, folder: Path, tmp_path: Path, prompt: str, reason: str
) -> None:
    """Case 64 among others: an open notebook would overwrite the file."""
    (folder / "out").symlink_to(tmp_path)
    (folder / "image.txt").write_bytes(b"\xff\xfe")
    before = sorted(folder.iterdir())

    demo.turn(demo.open(), prompt)

    assert "I change nothing: " in demo.text()
    assert reason in demo.text()
    assert demo.permissions() == []
    assert sorted(folder.iterdir()) == before
    assert list(tmp_path.rglob("escape*")) == []


def test_a_file_that_was_changed_meanwhile_is_left_alone(demo: Demo, folder: Path) -> None:
    prompt = demo.prompt(demo.open(), "Add 'mine' to notes.md")
    request = demo.asked("session/request_permission")
    (folder / "notes.md").write_text("somebody else's\n")

    demo.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})

    demo.response(prompt)
    assert "changed by somebody else meanwhile" in demo.text()
    assert demo.row()["status"] == "failed"
    assert (folder / "notes.md").read_text() == "somebody else's\n"


def test_an_edit_keeps_the_mode_of_the_file(demo: Demo, folder: Path) -> None:
    (folder / "notes.md").chmod(0o640)

    demo.turn(demo.open(), "Add 'x' to notes.md", answer="allow_once")

    assert stat.S_IMODE((folder / "notes.md").stat().st_mode) == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["notes.md", "weather.csv"]


# ------------------------------------------------------------------------------------- running


def test_a_command_runs_after_asking(demo: Demo, folder: Path) -> None:
    demo.turn(demo.open(), "run `ls`", answer="allow_once")

    row = demo.row()
    assert (row["kind"], row["title"], row["status"]) == ("execute", "ls", "completed")
    assert row["rawInput"] == {"command": ["ls"], "cwd": str(folder)}
    assert row["rawOutput"] == {"output": "notes.md\nweather.csv\n", "exitCode": 0}
    (content,) = row["content"]
    assert content["content"]["text"] == "```console\nnotes.md\nweather.csv\n```"
    assert "`ls` worked; it printed 2 lines." in demo.text()


def test_a_command_that_fails_says_how(demo: Demo) -> None:
    demo.turn(demo.open(), "/run cat nope", answer="allow_once")

    assert demo.row()["status"] == "failed"
    assert demo.row()["rawOutput"]["exitCode"] == 1
    assert "failed with exit code 1" in demo.text()


@pytest.mark.parametrize(
    "command", ["rm notes.md", "git push", "ls; rm notes.md", "python -c 1", "'unbalanced"]
)
def test_a_command_that_could_change_something_is_not_run(demo: Demo, command: str) -> None:
    demo.turn(demo.open(), f"/run {command}")

    assert "I only run what changes nothing" in demo.text()
    assert demo.permissions() == demo.rows() == []


def test_a_rejected_command_is_not_run(demo: Demo) -> None:
    demo.turn(demo.open(), "run seq 3", answer="reject_once")

    assert "You said no, so I ran nothing." in demo.text()
    assert demo.row()["status"] == "failed"


@pytest.mark.parametrize("key", ["terminal_output", "terminal_output_delta"])
def test_a_client_that_knows_terminals_gets_one(demo: Demo, folder: Path, key: str) -> None:
    """The output comes as vendor data of the row, as two real agents send it."""
    demo.turn(demo.open(_meta={key: True}), "run seq 3", answer="allow_once")

    updates = [u for u in demo.updates() if u["sessionUpdate"].startswith("tool_call")]
    row_id = updates[0]["toolCallId"]
    metas = [update["_meta"] for update in updates if "_meta" in update]
    assert updates[0]["content"] == [{"type": "terminal", "terminalId": row_id}]
    assert metas == [
        {"terminal_info": {"terminal_id": row_id, "cwd": str(folder)}},
        {key: {"terminal_id": row_id, "data": "1\n2\n3\n"}},
        {"terminal_exit": {"terminal_id": row_id, "exit_code": 0, "signal": None}},
    ]


# ------------------------------------------------------------------------------------- options


def test_options_are_listed_and_set(demo: Demo) -> None:
    demo.call("initialize", {"protocolVersion": 1, "clientCapabilities": BOOLEANS})
    opened = demo.call("session/new", {"cwd": str(demo.folder), "mcpServers": []})["result"]
    session = opened["sessionId"]

    assert [(o["id"], o["type"], o["currentValue"]) for o in opened["configOptions"]] == [
        ("mode", "select", "ask"),
        ("thinking", "select", "short"),
        ("brief", "boolean", False),
    ]
    change = {"sessionId": session, "configId": "brief", "type": "boolean", "value": True}
    changed = demo.call("session/set_config_option", change)["result"]["configOptions"]
    assert [option["currentValue"] for option in changed] == ["ask", "short", True]

    demo.turn(session, "Good morning")
    assert "without a language model" not in demo.text()


def test_a_client_without_booleans_gets_a_choice_instead(demo: Demo) -> None:
    session = demo.open()
    change = {"sessionId": session, "configId": "brief", "value": "on"}

    option = demo.call("session/set_config_option", change)["result"]["configOptions"][2]

    assert (option["type"], option["currentValue"]) == ("select", "on")


@pytest.mark.parametrize(
    ("option", "value"), [("mode", "yolo"), ("nope", "x"), ("brief", "true"), ("mode", True)]
)
def test_an_option_or_value_there_is_not_is_refused(demo: Demo, option: str, value: Any) -> None:
    change = {"sessionId": demo.open(), "configId": option, "value": value}
    if isinstance(value, bool):
        change |= {"type": "boolean"}

    assert demo.call("session/set_config_option", change)["error"]["code"] == -32602


def set_mode(demo: Demo, session: str, mode: str) -> None:
    change = {"sessionId": session, "configId": "mode", "value": mode}
    assert "result" in demo.call("session/set_config_option", change)


def test_in_plan_mode_nothing_is_changed(demo: Demo, folder: Path) -> None:
    session = demo.open()
    set_mode(demo, session, "plan")
    before = (folder / "notes.md").read_text()

    demo.turn(session, "Replace old with new in notes.md")
    demo.turn(session, "run ls")

    assert "-old words\n+new words" in demo.text()
    assert "I would run\n\n```console\nls\n```" in demo.text()
    assert demo.rows() == demo.permissions() == []
    assert (folder / "notes.md").read_text() == before


def test_in_auto_mode_it_does_not_ask(demo: Demo, folder: Path) -> None:
    session = demo.open()
    set_mode(demo, session, "auto")

    demo.turn(session, "Replace old with new in notes.md")
    demo.turn(session, "run ls")

    assert demo.permissions() == []
    assert [row["status"] for row in demo.rows()] == ["completed", "completed"]
    assert "new words" in (folder / "notes.md").read_text()


def test_the_thinking_level_says_how_much_it_thinks(demo: Demo) -> None:
    session = demo.open()
    lengths = []
    for level in ("off", "short", "long"):
        change = {"sessionId": session, "configId": "thinking", "value": level}
        demo.call("session/set_config_option", change)
        before = len(demo.text("agent_thought_chunk"))
        demo.turn(session, "What files are here?")
        lengths.append(len(demo.text("agent_thought_chunk")) - before)

    assert 0 == lengths[0] < lengths[1] < lengths[2]


# --------------------------------------------------------------------------------------- usage


def test_usage_is_reported_for_the_turn_and_the_session(demo: Demo) -> None:
    session = demo.open()
    usages = [demo.turn(session, "What files are here?")["usage"] for _ in range(2)]

    for usage in usages:
        parts = ("inputTokens", "outputTokens", "thoughtTokens")
        assert usage["totalTokens"] == sum(usage[part] for part in parts) > 0
    reported = [update["used"] for update in demo.updates("usage_update")]
    assert reported == [usages[0]["totalTokens"], sum(usage["totalTokens"] for usage in usages)]
    assert demo.updates("usage_update")[0]["size"] >= reported[-1]


def test_the_title_is_the_first_prompt_shortened(demo: Demo) -> None:
    session = demo.open()
    demo.turn(session, "What files\nare here? " + "Tell me all about them. " * 5)
    demo.turn(session, "And now?")

    (info,) = demo.updates("session_info_update")
    assert info["title"] == "What files are here? Tell me all about them. Tell me all ab…"


# ----------------------------------------------------------------------------------- cancelling


def cancel(demo: Demo, session: str) -> None:
    demo.notify("session/cancel", {"sessionId": session})


def test_a_cancel_stops_it_in_the_middle_of_a_sentence(start: Callable[..., Demo]) -> None:
    demo = start(SILO_DEMO_SPEED="1")
    session = demo.open()
    prompt = demo.prompt(session, "/poem 10000")
    demo.update("agent_message_chunk")

    cancel(demo, session)

    result = demo.response(prompt, within=2)["result"]
    assert result["stopReason"] == "cancelled"
    assert result["usage"]["outputTokens"] < 1000
    assert demo.turn(session, "/files")["stopReason"] == "end_turn"


def test_a_cancel_withdraws_an_open_permission(demo: Demo, folder: Path) -> None:
    """As two real agents do; an answer that comes later is nobody's."""
    session = demo.open()
    prompt = demo.prompt(session, "Add 'x' to notes.md")
    request = demo.asked("session/request_permission")

    cancel(demo, session)

    assert demo.response(prompt)["result"]["stopReason"] == "cancelled"
    assert demo.asked("$/cancel_request")["params"] == {"requestId": request["id"]}
    assert demo.row()["status"] == "failed"
    demo.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    assert demo.turn(session, "/files")["stopReason"] == "end_turn"
    assert "x" not in (folder / "notes.md").read_text().split()


def test_a_permission_answered_cancelled_before_the_cancel_ends_the_turn_once(demo: Demo) -> None:
    """FAULTS R28: a client answers what is open with, or before, the cancel."""
    session = demo.open()
    prompt = demo.prompt(session, "Add 'x' to notes.md")
    request = demo.asked("session/request_permission")

    demo.answer(request["id"], {"outcome": {"outcome": "cancelled"}})
    cancel(demo, session)

    assert demo.response(prompt)["result"]["stopReason"] in {"cancelled", "end_turn"}
    assert demo.turn(session, "/files")["stopReason"] == "end_turn"


def running_sleep(demo: Demo) -> psutil.Process:
    """The `sleep` that the demo agent started, once it runs."""
    agent = psutil.Process(demo.process.pid)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        for child in agent.children():
            if child.name() == "sleep":
                return child
    raise AssertionError("no sleep was started")


def begin_sleep(demo: Demo) -> tuple[str, int, psutil.Process]:
    session = demo.open()
    prompt = demo.prompt(session, "run sleep 1000")
    request = demo.asked("session/request_permission")
    demo.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    return session, prompt, running_sleep(demo)


def test_a_cancel_kills_a_running_command(demo: Demo) -> None:
    session, prompt, sleep = begin_sleep(demo)

    cancel(demo, session)

    assert demo.response(prompt)["result"]["stopReason"] == "cancelled"
    psutil.wait_procs([sleep], timeout=5)
    assert not sleep.is_running()
    assert demo.row()["status"] == "failed"


def test_a_prompt_can_be_called_off_by_the_id_of_its_request(demo: Demo) -> None:
    session, prompt, sleep = begin_sleep(demo)

    demo.notify("$/cancel_request", {"requestId": prompt})

    assert demo.response(prompt)["error"]["code"] == -32800
    psutil.wait_procs([sleep], timeout=5)
    assert not sleep.is_running()
    assert demo.turn(session, "/files")["stopReason"] == "end_turn"


def test_a_cancel_without_a_turn_does_nothing(demo: Demo) -> None:
    session = demo.open()

    cancel(demo, session)
    cancel(demo, "unknown")
    demo.notify("$/cancel_request", {"requestId": 4711})

    assert demo.turn(session, "/files")["stopReason"] == "end_turn"


def test_a_cancel_while_it_reads_a_large_table_is_heeded(demo: Demo, folder: Path) -> None:
    rows = "\n".join(f"{n},{n * 7 % 1000},some text" for n in range(2_000_000))
    (folder / "large.csv").write_text(f"a,b,c\n{rows}\n")
    session = demo.open()
    prompt = demo.prompt(session, "Read large.csv")
    demo.update("tool_call_update", status="in_progress")

    cancel(demo, session)

    assert demo.response(prompt)["result"]["stopReason"] == "cancelled"
    assert demo.row()["status"] == "failed"


# ------------------------------------------------------------------------------------ sessions


def test_two_sessions_run_side_by_side(start: Callable[..., Demo], tmp_path: Path) -> None:
    demo = start(SILO_DEMO_SPEED="1")
    first = demo.open()
    second = demo.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})["result"]
    prompts = [demo.prompt(s, "/poem 10") for s in (first, second["sessionId"])]

    assert [demo.response(p)["result"]["stopReason"] for p in prompts] == ["end_turn"] * 2
    senders = [
        m["params"]["sessionId"]
        for m in demo.messages
        if m.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk"
    ]
    assert senders != sorted(senders)
    assert senders != sorted(senders, reverse=True)


def test_a_second_prompt_during_a_turn_is_refused(demo: Demo) -> None:
    session = demo.open()
    first = demo.prompt(session, "Add 'x' to notes.md")
    demo.asked("session/request_permission")

    error = demo.response(demo.prompt(session, "hello"))["error"]

    assert error["data"] == {"code": "turn.busy"}
    cancel(demo, session)
    assert demo.response(first)["result"]["stopReason"] == "cancelled"


def test_a_session_is_listed_and_loaded_by_a_later_process(start: Callable[..., Demo]) -> None:
    first = start()
    session = first.open(_meta={"terminal_output_delta": True})
    set_mode(first, session, "auto")
    first.turn(session, "Read weather.csv")
    first.turn(session, "run seq 2")
    first.close()

    second = start()
    second.call("initialize", {"protocolVersion": 1})
    listed = second.call("session/list", {"cwd": str(second.folder)})["result"]
    assert [row["title"] for row in listed["sessions"]] == ["Read weather.csv"]
    assert second.call("session/list", {"cwd": "/elsewhere"})["result"]["sessions"] == []

    where = {"sessionId": session, "cwd": str(second.folder), "mcpServers": []}
    loaded = second.call("session/load", where)["result"]
    assert loaded["configOptions"][0]["currentValue"] == "auto"
    second.update("available_commands_update")
    kinds = [u["sessionUpdate"] for u in second.updates()]
    turn = ["user_message_chunk", "agent_thought_chunk", "tool_call", "agent_message_chunk"]
    assert kinds[: kinds.index("available_commands_update")] == turn * 2
    assert second.text("user_message_chunk") == "Read weather.csvrun seq 2"
    assert second.text() == first.text()
    assert [row["status"] for row in second.rows()] == ["completed", "completed"]
    assert second.rows()[1]["_meta"]["terminal_output_delta"]["data"] == "1\n2\n"


def test_a_resumed_session_goes_on_without_a_replay(start: Callable[..., Demo]) -> None:
    first = start()
    session = first.open()
    first.turn(session, "Add 'one' to notes.md", answer="allow_always")
    first.close()

    second = start()
    second.call("initialize", {"protocolVersion": 1})
    where = {"sessionId": session, "cwd": str(second.folder)}
    assert "result" in second.call("session/resume", where)
    second.update("available_commands_update")
    assert len(second.updates()) == 1

    second.turn(session, "Add 'two' to notes.md")
    assert second.permissions() == []
    ids = [{row["toolCallId"] for row in demo.rows()} for demo in (first, second)]
    assert ids[0].isdisjoint(ids[1])


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize("session", ["demo-0123456789abcdef", "../../etc/passwd", ""])
def test_a_session_that_is_not_there_is_not_found(demo: Demo, method: str, session: str) -> None:
    demo.open()
    where = {"sessionId": session, "cwd": str(demo.folder), "mcpServers": []}

    assert demo.call(method, where)["error"]["code"] == -32002


def test_a_closed_session_takes_no_prompt_and_can_be_loaded(demo: Demo) -> None:
    session = demo.open()
    prompt = demo.prompt(session, "Add 'x' to notes.md")
    demo.asked("session/request_permission")

    assert demo.call("session/close", {"sessionId": session})["result"] == {}

    assert demo.response(prompt)["result"]["stopReason"] == "cancelled"
    assert demo.response(demo.prompt(session, "hello"))["error"]["code"] == -32002
    where = {"sessionId": session, "cwd": str(demo.folder), "mcpServers": []}
    assert "result" in demo.call("session/load", where)


def test_a_deleted_session_is_gone_and_deleting_is_idempotent(demo: Demo) -> None:
    session = demo.open()
    demo.turn(session, "/files")

    for _ in range(2):
        assert demo.call("session/delete", {"sessionId": session})["result"] == {}

    assert demo.call("session/list")["result"]["sessions"] == []


def test_sessions_are_listed_in_pages(demo: Demo, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for number in range(120):
        saved = {"sessionId": f"demo-{number:016x}", "cwd": "/x", "title": str(number)}
        saved |= {"updatedAt": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"}
        (state / f"demo-{number:016x}.json").write_text(json.dumps(saved))
    (state / f"demo-{'f' * 16}.json").write_text("{broken")
    demo.open()

    titles: list[str] = []
    cursor = None
    for _ in range(3):
        page = demo.call("session/list", {"cursor": cursor})["result"]
        titles += [row["title"] for row in page["sessions"]]
        cursor = page["nextCursor"]

    assert cursor is None
    assert titles == [str(number) for number in reversed(range(120))]
    assert demo.call("session/list", {"cursor": "x"})["error"]["code"] == -32602


def test_what_is_kept_is_for_the_user_alone(demo: Demo, tmp_path: Path) -> None:
    demo.turn(demo.open(), "/files")

    state = tmp_path / "state"
    (file,) = state.iterdir()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_state_directory_that_cannot_be_written_costs_only_the_resuming(folder: Path) -> None:
    blocked = folder / "notes.md"

    with Demo(folder, blocked) as demo:
        session = demo.open()
        assert demo.turn(session, "/files")["stopReason"] == "end_turn"
        assert demo.turn(session, "/files")["stopReason"] == "end_turn"
        demo.close()

    assert demo.stderr.count("sessions are not kept") == 1


# ---------------------------------------------------------------------------------- odd clients


@pytest.mark.parametrize(
    ("line", "code"), [(b"nonsense\n", -32700), (b"[]\n", -32600), (b"[" * 10_000 + b"\n", -32700)]
)
def test_a_line_that_is_no_message_is_refused_and_no_more(
    start: Callable[..., Demo], line: bytes, code: int
) -> None:
    demo = start()
    session = demo.open()
    demo.check()
    demo.send_raw(line)

    refused = demo.response(None)
    assert refused["error"]["code"] == code
    validate("Error", refused["error"])
    demo.messages.remove(refused)
    assert demo.turn(session, "/files")["stopReason"] == "end_turn"


def test_unknown_methods_are_refused_and_unknown_notifications_ignored(demo: Demo) -> None:
    session = demo.open()
    demo.notify("_vendor/hello")

    assert demo.call("_vendor/question")["error"]["code"] == -32601
    assert demo.turn(session, "/files")["stopReason"] == "end_turn"


def test_a_prompt_without_blocks_is_refused(demo: Demo) -> None:
    session = demo.open()
    demo.exchange._asked_by_client["x"] = "session/prompt"
    params = {"sessionId": session, "prompt": "just a text"}
    request = {"jsonrpc": "2.0", "id": "x", "method": "session/prompt", "params": params}
    demo.send_raw(json.dumps(request).encode() + b"\n")

    assert demo.response("x")["error"]["code"] == -32602


def test_text_with_half_a_surrogate_pair_is_no_trouble(demo: Demo) -> None:
    session = demo.open()

    assert demo.turn(session, "hello \ud83d")["stopReason"] == "end_turn"


def test_a_folder_with_terrible_names_is_listed(demo: Demo, folder: Path) -> None:
    (folder / "a|b`c\n.txt").touch()
    (folder / os.fsdecode(b"bad-\xff.txt")).touch()

    assert demo.turn(demo.open(), "/files")["stopReason"] == "end_turn"
    assert "a\\|b\\`c .txt" in demo.text()


# ------------------------------------------------------------------------------------- its end


def test_it_exits_when_its_stdin_ends(demo: Demo) -> None:
    demo.open()
    demo.close_stdin()

    assert demo.wait(within=2) == 0


def test_the_end_of_stdin_kills_a_running_command_and_keeps_the_session(
    demo: Demo, tmp_path: Path
) -> None:
    session, _, sleep = begin_sleep(demo)

    demo.close_stdin()

    assert demo.wait(within=5) == 0
    psutil.wait_procs([sleep], timeout=5)
    assert not sleep.is_running()
    saved = json.loads((tmp_path / "state" / f"{session}.json").read_bytes())
    assert saved["title"] == "run sleep 1000"


def test_sigterm_ends_it_with_what_it_started(demo: Demo) -> None:
    _, _, sleep = begin_sleep(demo)

    demo.process.send_signal(signal.SIGTERM)

    assert demo.wait(within=5) == 128 + signal.SIGTERM
    psutil.wait_procs([sleep], timeout=5)
    assert not sleep.is_running()


def test_it_says_how_it_is_started(agent_processes: AgentProcesses) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    run = subprocess.run(
        [*COMMAND, "--help"], capture_output=True, text=True, check=True, env=environment
    )

    assert "speaks ACP" in run.stderr
    assert run.stdout == ""
