"""`silo-nb journal`: the sessions beside a notebook, for who has no kernel at hand."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from silo_nb.cli import main
from silo_nb.journal import Journal, journal_directory, read_records

WITHIN = 10
HOSTILE = "\x1b]0;owned\x07\x1b[2Jevil\u202e"


def write(folder: Path, *records: tuple[str, dict[str, Any]], **header: Any) -> Path:
    """Write the journal of a session that nobody writes any more."""
    facts = {"id": "demo-1", "profileId": "demo", "agentName": "Demo agent", "sessionId": "a-1"}
    journal = Journal.create(
        journal_directory(folder), {**facts, **header}, redact=["hunter2-hunter2"]
    )
    for kind, fields in records:
        journal.append(kind, fields)
    journal.close().result(WITHIN)
    assert journal.path is not None
    return journal.path


def update(kind: str, /, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "update", {"u": {"sessionUpdate": kind, **fields}}


def said(text: str, kind: str = "agent_message_chunk") -> tuple[str, dict[str, Any]]:
    return update(kind, content={"type": "text", "text": text}, messageId=kind)


def content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


OPTIONS = [{"optionId": "yes", "name": "Allow once", "kind": "allow_once"}]
ASKED = {"id": "p1", "toolCallId": "c2", "options": OPTIONS}
CONVERSATION: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "user",
        {
            "turn": 1,
            "at": "2026-11-30T12:00:00+00:00",
            "prompt": [
                {"type": "text", "text": "Fix the *bug*\nplease"},
                {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py"},
            ],
        },
    ),
    ("turn_start", {}),
    said("Let me see", "agent_thought_chunk"),
    update(
        "tool_call",
        toolCallId="c1",
        title="Read a.py",
        kind="read",
        status="completed",
        locations=[{"path": "/w/a.py", "line": 3}],
        content=[content("\n".join(f"line {n}" for n in range(1, 31)))],
    ),
    update(
        "tool_call",
        toolCallId="c2",
        title="Edit a.py",
        kind="edit",
        status="pending",
        content=[{"type": "diff", "path": "/w/a.py", "oldText": "a = 1\n", "newText": "a = 2\n"}],
    ),
    ("permission", ASKED),
    ("permission", {**ASKED, "outcome": "selected", "optionId": "yes", "by": "listener"}),
    update("tool_call_update", toolCallId="c2", status="completed"),
    said("Done, with ```fences``` and hunter2-hunter2."),
    update("plan", entries=[{"content": "Fix it", "status": "completed", "priority": "high"}]),
    update("session_info_update", title="Fixing a.py"),
    ("turn_end", {"stopReason": "cancelled"}),
)


def words(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line a command that fails says."""
    assert main(["journal", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("silo-nb: ")
    return line


# list


def test_sessions_are_listed_as_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(write(tmp_path, *CONVERSATION), (1_796_000_000, 1_796_000_000))
    os.utime(write(tmp_path, id="demo-22", agentName=""), (1_795_000_000, 1_795_000_000))
    monkeypatch.chdir(tmp_path)

    assert main(["journal", "list"]) == 0

    heading, first, second = words(capsys).splitlines()
    assert heading.split() == ["ID", "LAST", "CHANGE", "TURNS", "SIZE", "AGENT", "TITLE"]
    assert re.fullmatch(
        r"demo-1 +2026-\d\d-\d\d \d\d:\d\d +1 +[\d.]+ kB +Demo agent +Fixing a.py", first
    )
    assert re.fullmatch(r"demo-22 +2026-\d\d-\d\d \d\d:\d\d +0 +\d+ B +demo", second)
    assert heading.index("LAST") == first.index("2026")


def test_a_directory_without_sessions_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "list", "--dir", str(tmp_path)]) == 0

    assert words(capsys) == f"no sessions in {tmp_path / '.silo_nb'}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_list_says_what_is_open_or_was_cut_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FAULTS D11: and where."""
    write(tmp_path, *CONVERSATION[:-1])
    journal = Journal.create(journal_directory(tmp_path), {"id": "demo-2"})
    journal.sync().result(WITHIN)

    main(["journal", "list", "--dir", str(tmp_path)])

    table = words(capsys)
    assert "Fixing a.py (ended in the middle of a turn)" in table
    assert f"(open in process {os.getpid()} on " in table
    journal.close().result(WITHIN)


def test_files_that_are_no_journals_are_named_beside_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    path.with_name("demo-2.jsonl").symlink_to("/etc/passwd")

    assert main(["journal", "list", "--dir", str(tmp_path)]) == 0

    captured = capsys.readouterr()
    assert "demo-1" in captured.out
    assert re.fullmatch(r"silo-nb: left out: .*demo-2\.jsonl.* cannot be read.*\n", captured.err)


# show


def test_a_conversation_is_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, *CONVERSATION, cwd="/w", createdAt="2026-11-30T11:59:00+00:00")

    assert main(["journal", "show", "demo-1", "--dir", str(tmp_path)]) == 0

    facts, conversation = words(capsys).split("\n\n", 1)
    assert [line.split(":")[0] for line in facts.splitlines()] == [
        "Session",
        "Title",
        "Agent",
        "Directory",
        "Begun",
        "Last change",
    ]
    lines = "\n".join(f"    line {n}" for n in range(1, 20))
    assert conversation == (
        f"""You, 2026-11-30T12:00:00+00:00
    Fix the *bug*
    please

    [a.py](file:///w/a.py)

Demo agent, thinking
    Let me see

[✓] Read a.py (read)
    /w/a.py:3
{lines}
    … 11 more lines

[✓] Edit a.py (edit, allowed: Allow once)
    /w/a.py
    @@ -1 +1 @@
    -a = 1
    +a = 2

Demo agent
    Done, with ```fences``` and [redacted].

The turn ended: cancelled

Plan
    ✓ Fix it
"""
    )


@pytest.mark.parametrize("command", [["show"], ["export", "--to", "md"]], ids=["show", "md"])
def test_what_is_shown_cannot_act_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """FAULTS T8, T4: every field an agent fills."""
    plan = [{"content": HOSTILE, "status": HOSTILE, "priority": "high"}]
    write(
        tmp_path,
        ("user", {"turn": 1, "at": HOSTILE, "prompt": [{"type": "text", "text": HOSTILE}]}),
        said(HOSTILE),
        said(HOSTILE, "agent_thought_chunk"),
        update(
            "tool_call",
            toolCallId="c1",
            title=HOSTILE,
            kind=HOSTILE,
            status=HOSTILE,
            locations=[{"path": HOSTILE}],
            content=[
                content(HOSTILE),
                {"type": "diff", "path": HOSTILE, "oldText": HOSTILE, "newText": "x"},
            ],
            rawOutput=HOSTILE,
        ),
        update("plan", entries=plan),
        update("session_info_update", title=HOSTILE),
        ("turn_end", {"stopReason": HOSTILE, "error": HOSTILE}),
        agentName=HOSTILE,
        cwd=HOSTILE,
        createdAt=HOSTILE,
        carriedFrom=HOSTILE,
    )

    for arguments in ([*command, "demo-1"], ["list"]):
        assert main(["journal", *arguments, "--dir", str(tmp_path)]) == 0
        shown = words(capsys)
        assert "evil" in shown
        assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown) is None


def test_a_session_is_found_by_the_agents_id_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, sessionId="11f0-agent")

    assert main(["journal", "show", "11f0-agent", "--dir", str(tmp_path)]) == 0

    assert words(capsys).startswith("Session: demo-1\n")


def test_who_misspells_an_id_is_helped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, id="demo-01kbbkb1")

    line = complaint(capsys, "show", "demo-01kbbkb7", "--dir", str(tmp_path))
    assert "there is no session 'demo-01kbbkb7' in" in line
    assert line.endswith("did you mean 'demo-01kbbkb1'?")
    assert "`silo-nb journal list` shows what there is" in complaint(
        capsys, "show", "../../x", "--dir", str(tmp_path)
    )


def test_a_directory_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no directory" in complaint(capsys, "list", "--dir", str(tmp_path / "nowhere"))


def test_damage_is_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, *CONVERSATION)
    with path.open("ab") as file:
        file.write(b"\0\0\0\n")

    for command in (["show", "demo-1"], ["export", "demo-1", "--to", "jsonl"]):
        assert main(["journal", *command, "--dir", str(tmp_path)]) == 0
        captured = capsys.readouterr()
        assert "Fix the *bug*" in captured.out
        assert re.fullmatch(r"silo-nb: 1 damaged lines of .* were left out\n", captured.err)


def test_a_session_that_is_open_elsewhere_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FAULTS D11."""
    journal = Journal.create(journal_directory(tmp_path), {"id": "demo-1"})
    journal.append("user", {"turn": 1, "prompt": [{"type": "text", "text": "hello"}]})
    journal.sync().result(WITHIN)

    assert main(["journal", "show", "demo-1", "--dir", str(tmp_path)]) == 0

    assert "You\n    hello\n" in words(capsys)
    journal.close().result(WITHIN)


# export


def test_a_session_is_exported_as_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FAULTS §0.1: what the agent said is fenced, so that no renderer makes anything of it."""
    write(tmp_path, *CONVERSATION)

    assert main(["journal", "export", "demo-1", "--to", "md", "--dir", str(tmp_path)]) == 0

    page = words(capsys)
    assert page.startswith("# Fixing a.py\n\n- Session: demo-1\n")
    assert "\n## You, 2026-11-30T12\\:00\\:00+00\\:00\n\n```text\nFix the *bug*\n" in page
    assert "\n````text\nDone, with ```fences``` and [redacted].\n````\n" in page
    assert "line 30" in page


def test_markup_in_a_heading_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title = "[x](javascript:alert(1)) <img src=x onerror=a> ![i](http://x/y.png) $\\href{x}{y}$"
    write(tmp_path, update("tool_call", toolCallId="c1", title=title), agentName="**A**")

    assert main(["journal", "export", "demo-1", "--to", "md", "--dir", str(tmp_path)]) == 0

    page = words(capsys)
    assert re.search(r"(?<!\\)[\[<$!*]", page.replace("```text", "")) is None


def test_a_session_is_exported_as_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every intact line as it is; what was secret is not in there."""
    path = write(tmp_path, *CONVERSATION)

    assert main(["journal", "export", "demo-1", "--to", "jsonl", "--dir", str(tmp_path)]) == 0

    assert words(capsys).encode() == path.read_bytes()
    assert b"hunter2" not in path.read_bytes()


def test_an_export_is_a_new_private_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FAULTS T14."""
    path = write(tmp_path, *CONVERSATION)
    target = tmp_path / "copy.jsonl"
    export = ["journal", "export", "demo-1", "--to", "jsonl", "--dir", str(tmp_path), "--output"]

    umask = os.umask(0)
    try:
        assert main([*export, str(target)]) == 0
    finally:
        os.umask(umask)

    assert target.read_bytes() == path.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert words(capsys) == ""
    assert "exists; choose another --output" in complaint(capsys, *export[1:], str(target))
    assert read_records(target).header is not None


def test_an_export_that_fails_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    path.write_bytes(b"\0" * 1_000)
    target = tmp_path / "copy.md"

    line = complaint(
        capsys, "export", "demo-1", "--to", "md", "--dir", str(tmp_path), "--output", str(target)
    )

    assert "is no journal" in line
    assert not target.exists()


# purge


@pytest.mark.parametrize(
    ("answer", "is_deleted"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False)]
)
def test_deleting_asks_first(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    is_deleted: bool,
) -> None:
    path = write(tmp_path, *CONVERSATION)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    status = main(["journal", "purge", "demo-1", "--dir", str(tmp_path)])

    assert (status == 0, path.exists()) == (is_deleted, not is_deleted)
    shown = words(capsys)
    assert re.search(r"demo-1: Fixing a.py \(1 turns, .* kB, last change 20", shown)
    assert ("deleted demo-1" if is_deleted else "kept demo-1") in shown


def test_several_are_deleted_without_asking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write(tmp_path, id=f"demo-{n}", sessionId=f"a-{n}") for n in range(3)]

    assert main(["journal", "purge", "demo-0", "a-1", "--yes", "--dir", str(tmp_path)]) == 0

    assert words(capsys) == "deleted demo-0\ndeleted demo-1\n"
    assert [path.exists() for path in paths] == [False, False, True]


def test_nothing_is_deleted_when_one_of_them_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)

    complaint(capsys, "purge", "demo-1", "demo-9", "--yes", "--dir", str(tmp_path))

    assert path.exists()


def test_who_writes_a_session_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FAULTS D11: pid, host, since when."""
    journal = Journal.create(journal_directory(tmp_path), {"id": "demo-1"})
    journal.sync().result(WITHIN)

    line = complaint(capsys, "purge", "demo-1", "--yes", "--dir", str(tmp_path))

    assert re.search(rf"is open in process {os.getpid()} on \S+ since 20", line)
    assert journal.path is not None
    assert json.loads(journal.path.read_bytes())["id"] == "demo-1"
    journal.close().result(WITHIN)
