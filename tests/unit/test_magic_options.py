"""The option line of ``%%agent``: what it takes, and what it says of what it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from silo_nb.errors import AgentExited, NotYet, SiloError
from silo_nb.ipython.brief import brief_errors, brief_lines
from silo_nb.ipython.config import choose_value
from silo_nb.ipython.extension import AskCommand
from silo_nb.ipython.options import CellOptions, parse_options
from silo_nb.ipython.words import Words, parse_words
from silo_nb.model import ConfigChoice, ConfigOption


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


CONFIG = "%agent config [OPTION [VALUE]] [-s NAME]"


class TestWords:
    def test_words_session_and_flags_in_any_order(self) -> None:
        words = parse_words(
            "html --force 'my file.html' -s review",
            "%agent export [FORMAT] [FILE] [--force] [-s NAME]",
            flags=("--force",),
            most=2,
        )

        assert words == Words(("html", "my file.html"), "review", frozenset({"--force"}))
        assert [words.get(n) for n in (0, 1, 2)] == ["html", "my file.html", None]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("mode -s", "config -s needs the name of a session"),
            ("mode plan more", "at most 2 words after it, not 'more'"),
            ("-x", "no option '-x'"),
            ("mode 'plan", "no closing quotation"),
        ],
    )
    def test_a_mistake_is_named_with_what_would_be_right(self, line: str, said: str) -> None:
        with pytest.raises(UsageError, match=said):
            parse_words(line, CONFIG, most=2)

    def test_a_flag_with_a_slip_is_recognized(self) -> None:
        with pytest.raises(UsageError, match="Did you mean '--yes'"):
            parse_words("--yess", "%agent clear [--yes]", flags=("--yes",))

    def test_a_command_without_sessions_takes_no_s(self) -> None:
        with pytest.raises(UsageError, match="no option '-s'"):
            parse_words("-s x", "%agent nest")


class TestValues:
    """R43: what a control does not have never reaches the agent."""

    MODE = ConfigOption(
        "mode",
        "Mode",
        "select",
        "ask",
        (ConfigChoice("ask", "Ask first"), ConfigChoice("plan", "Plan Only")),
    )

    @pytest.mark.parametrize(
        ("said", "value"),
        [("plan", "plan"), ("PLAN", "plan"), ("plan only", "plan"), ("ask", "ask")],
    )
    def test_a_choice_is_known_by_value_or_name(self, said: str, value: str) -> None:
        assert choose_value(self.MODE, said) == value

    @pytest.mark.parametrize(
        ("said", "value"), [("on", True), ("True", True), ("OFF", False), ("false", False)]
    )
    def test_a_switch_is_on_or_off(self, said: str, *, value: bool) -> None:
        assert choose_value(ConfigOption("b", "B", "boolean", current_value=False), said) is value

    @pytest.mark.parametrize(
        ("option", "said", "words"),
        [
            (MODE, "pla", r"Did you mean 'plan'\? Choose one of ask, plan"),
            (ConfigOption("b", "B", "boolean"), "maybe", "say on or off, not 'maybe'"),
            (ConfigOption("b", "B", "slider"), "3", "cannot set a control of the type 'slider'"),
            (ConfigOption("m", "M", "select"), "x", "Choose one of none"),
        ],
    )
    def test_anything_else_is_refused(self, option: ConfigOption, said: str, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            choose_value(option, said)

    def test_what_two_choices_are_called_is_not_guessed(self) -> None:
        both = (ConfigChoice("a", "Fast"), ConfigChoice("b", "Fast"))

        with pytest.raises(UsageError, match="there is no 'Fast'"):
            choose_value(ConfigOption("m", "M", "select", "a", both), "Fast")


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

    def test_they_say_what_to_do_next(self) -> None:
        error = SiloError("nothing was deleted")
        error.add_note("try again")

        assert brief_lines(error) == ["SiloError: nothing was deleted", "try again"]
        assert brief_lines(KeyboardInterrupt()) == ["KeyboardInterrupt"]

    def test_they_are_inert(self) -> None:
        (line,) = brief_lines(SiloError("\x1b]8;;http://x\x07click\x1b]8;;\x07 \u202e"))

        assert line == "SiloError: click <U+202E>"

    def test_the_error_itself_goes_on(self) -> None:
        with pytest.raises(SiloError) as caught, brief_errors():
            raise SiloError("no")

        assert caught.value.__dict__["_render_traceback_"]() == ["SiloError: no"]
