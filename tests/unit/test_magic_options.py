"""The option line of ``%%agent``: what it takes, and what it says of what it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from silo_nb.errors import AgentExited, NotYet, SiloError
from silo_nb.ipython.brief import brief_errors, brief_lines
from silo_nb.ipython.extension import AskCommand
from silo_nb.ipython.options import CellOptions, parse_options


class TestOptions:
    def test_nothing_means_the_defaults(self) -> None:
        assert parse_options("") == CellOptions()
        assert parse_options("   ").policy == "ask"

    def test_all_of_them(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.csv", tmp_path / "b c.csv"
        first.touch()
        second.touch()

        options = parse_options(
            f"claude -s review -o answer --file {first} --file='{second}' --new --policy=reads"
        )

        assert options == CellOptions(
            profile="claude",
            session="review",
            output="answer",
            files=(first, second),
            new=True,
            policy="reads",
        )

    def test_the_profile_may_come_last(self) -> None:
        assert parse_options("-o x claude").profile == "claude"

    def test_a_path_starts_in_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.csv").touch()
        monkeypatch.chdir(tmp_path)

        assert parse_options("--file a.csv").files == (tmp_path / "a.csv",)

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("demo claude", "one profile"),
            ("--polcy allow", "Did you mean '--policy'"),
            ("--fil x", "Did you mean '--file'"),
            ("-x", "no option '-x'"),
            ("--policy alow", "Did you mean 'allow'"),
            ("--policy", "--policy needs ask, reject, reads or allow"),
            ("-o", "-o needs the name of a variable"),
            ("-s -o x", "-s needs the name of a session"),
            ("-o 2x", "cannot be the name of a variable"),
            ("-o class", "cannot be the name of a variable"),
            ("--file nowhere.csv", "there is no file"),
            ("-s 'review", "no closing quotation"),
        ],
    )
    def test_a_mistake_is_named(self, line: str, said: str) -> None:
        with pytest.raises(UsageError, match=said):
            parse_options(line)

    @pytest.mark.parametrize("option", ["--with", "--cells", "--error", "--background"])
    def test_what_is_not_there_yet_says_so(self, option: str) -> None:
        with pytest.raises(NotYet, match=f"{option} is not part of this version yet"):
            parse_options(f"demo {option} df")


class TestAsk:
    """``%ask`` ends in a question mark more often than not, which IPython takes for its own."""

    @pytest.mark.parametrize(
        ("code", "python"),
        [
            ("%ask what is in data.csv?", "('ask', 'what is in data.csv?')"),
            ("%ask really??", "('ask', 'really??')"),
            ("if True:\n    %ask {x} $y?", "('ask', '{x} $y?')"),
            ("%ask what's this", '("ask", "what\'s this")'),
        ],
    )
    def test_a_question_is_sent_not_looked_up(self, code: str, python: str) -> None:
        manager = TransformerManager()
        manager.token_transformers.append(AskCommand)

        transformed = manager.transform_cell(code)

        assert python.replace('"', "'") in transformed.replace('"', "'")
        assert "pinfo" not in transformed

    @pytest.mark.parametrize(
        "code", ["%ask?", "len?", "%time?", "x = 5 % ask\n", "text = '%ask a?'"]
    )
    def test_everything_else_stays_as_it_was(self, code: str) -> None:
        plain, ours = TransformerManager(), TransformerManager()
        ours.token_transformers.append(AskCommand)

        assert ours.transform_cell(code) == plain.transform_cell(code)


class TestBriefErrors:
    def test_they_take_at_most_twelve_lines(self) -> None:
        error = AgentExited(
            "the process exited with code 1",
            profile="claude",
            phase="initialize",
            stderr=[f"line {n}" for n in range(20)],
        )

        lines = brief_lines(error)

        assert len(lines) == 12
        assert lines[0] == (
            "AgentExited: agent 'claude', initialize: the process exited with code 1"
        )
        assert lines[-1] == "  line 19"
        assert any("lines left out" in line for line in lines)

    def test_they_are_inert(self) -> None:
        (line,) = brief_lines(SiloError("\x1b]8;;http://x\x07click\x1b]8;;\x07 \u202e"))

        assert line == "SiloError: click <U+202E>"

    def test_the_error_itself_goes_on(self) -> None:
        with pytest.raises(SiloError) as caught, brief_errors():
            raise SiloError("no")

        assert caught.value.__dict__["_render_traceback_"]() == ["SiloError: no"]
