"""How an agent's process starts, and what is said when it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from silo_nb.acp.process import AgentProcess, Launch
from silo_nb.errors import AgentError, AgentNotFound, WorkspaceError
from tests.wire.small_agents import PRELUDE, PYTHON, Agent, Bench, executable

# Any program of this system, whose header names a loader that does not exist.
WITHOUT_LOADER = Path("/bin/true").read_bytes().replace(b"/lib", b"/lip", 1)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bench(tmp_path) as bench:
        yield bench


@contextlib.contextmanager
def nothing_forked() -> Iterator[None]:
    before = FORKS.copy()
    yield
    assert before == FORKS


FORKS: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _count_forks() -> None:
    sys.addaudithook(
        lambda event, _: (
            FORKS.append(event)
            if event in {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.forkpty"}
            else None
        )
    )


def launch_of(*argv: str, cwd: Path = Path("/"), hint: str = "", **env: str) -> Launch:
    return Launch(argv=argv, cwd=cwd, env=env, install_hint=hint)


@contextlib.contextmanager
def closed(directory: Path) -> Iterator[None]:
    directory.chmod(0o600)
    yield
    directory.chmod(0o700)


async def refusal(launch: Launch) -> Exception:
    """Return the error of a start that must fail."""
    agent = Agent()
    with pytest.raises((AgentError, WorkspaceError)) as caught:
        await AgentProcess.start(launch, on_stdout=agent.on_stdout, on_exit=agent.on_exit)
    assert agent.exits == []
    return caught.value


class TestBeforeAnythingIsForked:
    async def test_p1_a_missing_program_is_named_with_the_path_and_the_hint(self) -> None:
        began = time.monotonic()
        with nothing_forked():
            error = await refusal(
                launch_of(
                    "no-such-agent", hint="Run `npm i no-such-agent`.", PATH="/usr/bin:/opt/x"
                )
            )
        assert isinstance(error, AgentNotFound)
        assert (error.command, error.search_path) == ("no-such-agent", "/usr/bin:/opt/x")
        assert error.phase == "spawn"
        for word in ("'no-such-agent'", "'/usr/bin:/opt/x'", "Run `npm i no-such-agent`."):
            assert word in str(error)
        assert time.monotonic() - began < 1

    async def test_p1_it_is_the_agents_own_path_that_counts(self, tmp_path: Path) -> None:
        with nothing_forked():
            error = await refusal(launch_of("env", PATH=str(tmp_path)))
        assert isinstance(error, AgentNotFound)
        assert str(tmp_path) in str(error)

    async def test_p1_a_missing_path_is_named_in_full(self, tmp_path: Path) -> None:
        with nothing_forked():
            error = await refusal(launch_of("./bin/agent", cwd=tmp_path))
        assert isinstance(error, AgentNotFound)
        assert f"'{tmp_path}/bin/agent' does not exist" in str(error)

    @pytest.mark.parametrize("command", ["./agent", "agent"])
    async def test_p1_a_file_that_is_not_executable_is_called_that(
        self, tmp_path: Path, command: str
    ) -> None:
        executable(tmp_path / "agent", "#!/bin/sh\n", mode=0o640)
        with nothing_forked():
            error = await refusal(launch_of(command, cwd=tmp_path, PATH=str(tmp_path)))
        assert isinstance(error, AgentNotFound)
        assert "is not executable (its mode is 0640)" in str(error)

    async def test_p1_a_directory_is_no_program(self, tmp_path: Path) -> None:
        (tmp_path / "agent").mkdir()
        with nothing_forked():
            error = await refusal(launch_of(str(tmp_path / "agent")))
        assert isinstance(error, AgentNotFound)
        assert "is a directory" in str(error)

    @pytest.mark.parametrize("argv", [(), ("",)])
    async def test_p1_an_empty_command_is_no_program(self, argv: tuple[str, ...]) -> None:
        with nothing_forked():
            assert isinstance(await refusal(launch_of(*argv)), AgentNotFound)

    async def test_p2_a_missing_directory_is_named_and_not_the_program(
        self, tmp_path: Path
    ) -> None:
        with nothing_forked():
            error = await refusal(launch_of("no-such-agent", cwd=tmp_path / "gone"))
        assert isinstance(error, WorkspaceError)
        assert f"'{tmp_path}/gone': there is no such directory" in str(error)
        assert "no-such-agent" not in str(error)

    async def test_p2_a_file_is_no_directory(self, tmp_path: Path) -> None:
        executable(tmp_path / "file", "")
        with nothing_forked():
            error = await refusal(launch_of("sh", cwd=tmp_path / "file"))
        assert isinstance(error, WorkspaceError)
        assert "not a directory" in str(error)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every directory")
    async def test_p2_a_closed_directory_cannot_be_entered(self, tmp_path: Path) -> None:
        with closed(tmp_path), nothing_forked():
            error = await refusal(launch_of("sh", cwd=tmp_path))
        assert isinstance(error, WorkspaceError)
        assert "cannot enter" in str(error)

    @pytest.mark.parametrize(
        ("first_line", "missing"),
        [
            ("#!/usr/bin/env node", "node"),
            ("#!/usr/bin/env -S node --no-warnings", "node"),
            ("#! /usr/bin/env -S MODE=x node", "node"),
            ("#!/no/such/python -u", "/no/such/python"),
            ("#!/usr/bin/env node\r", "node\r"),
        ],
    )
    async def test_case_16_a_missing_interpreter_is_named_with_the_path(
        self, tmp_path: Path, first_line: str, missing: str
    ) -> None:
        executable(tmp_path / "agent", f"{first_line}\nconsole.log(1)\n")
        with nothing_forked():
            error = await refusal(launch_of("agent", PATH=str(tmp_path)))
        assert isinstance(error, AgentNotFound)
        assert error.command == missing
        assert f"needs the interpreter {missing!r}" in str(error)
        assert repr(str(tmp_path)) in str(error)

    async def test_case_16_an_interpreter_may_be_a_script_that_lacks_its_own(
        self, tmp_path: Path
    ) -> None:
        executable(tmp_path / "node", "#!/no/such/sh\n")
        executable(tmp_path / "agent", f"#!{tmp_path}/node\n")
        with nothing_forked():
            error = await refusal(launch_of("agent", PATH=str(tmp_path)))
        assert isinstance(error, AgentNotFound)
        assert error.command == "/no/such/sh"

    @pytest.mark.parametrize(
        ("argv", "env"),
        [
            (("sh", "a\0b"), {}),
            (("sh\0",), {}),
            (("sh", "\ud800"), {}),
            (("sh",), {"A": "b\0c"}),
            (("sh",), {"A=B": "c"}),
            (("sh",), {"": "c"}),
        ],
    )
    async def test_what_no_system_can_pass_on_is_refused(
        self, argv: tuple[str, ...], env: dict[str, str]
    ) -> None:
        with nothing_forked():
            launch = Launch(argv=argv, cwd=Path("/"), env={"PATH": "/bin:/usr/bin", **env})
            assert isinstance(await refusal(launch), AgentError)


class TestStart:
    async def test_it_starts_in_its_directory_as_its_own_session(self, bench: Bench) -> None:
        agent = await bench.start("say(os.getcwd()); wait_for_eof()")
        await agent.says(f"{bench.cwd}\n")
        pid = agent.process.pid
        assert (os.getsid(pid), os.getpgid(pid)) == (pid, pid)
        assert psutil.Process(pid).cmdline()[0] == sys.executable

    async def test_its_environment_is_exactly_what_the_launch_says(self, bench: Bench) -> None:
        env = {"A": "1", "EMPTY": "", "TEXT": "zwölf\n=", "LC_ALL": "C"}
        agent = await bench.launch("/usr/bin/env", "-0", env=env)
        await agent.exit()
        assert set(agent.stdout.decode().split("\0")) == {
            *(f"{name}={value}" for name, value in env.items()),
            "",
        }

    async def test_case_17_nothing_is_expanded_and_no_shell_is_needed(self, bench: Bench) -> None:
        words = ["$HOME", "~", "*", "; exit 3", "`id`", "", "ü"]
        agent = await bench.launch(
            *PYTHON, "import sys; print(ascii(sys.argv[1:]))", *words, env={"PATH": "/nowhere"}
        )
        assert (await agent.exit()).code == 0
        assert agent.stdout.decode().strip() == ascii(words)

    async def test_a_relative_command_is_relative_to_the_directory(self, bench: Bench) -> None:
        executable(bench.cwd / "agent", "#!/bin/sh\necho ran $0\n")
        for command in ("./agent", "agent"):
            agent = await bench.launch(command, env={"PATH": ".:/usr/bin:/bin"})
            assert (await agent.exit()).code == 0
            assert b"ran" in agent.stdout

    async def test_a_script_runs_by_its_first_line(self, bench: Bench) -> None:
        executable(bench.cwd / "agent", "#!/usr/bin/env sh\necho ran\n")
        agent = await bench.launch("./agent", env={"PATH": "/usr/bin:/bin"})
        assert (await agent.exit()).code == 0
        assert agent.stdout == b"ran\n"

    @linux_only
    async def test_it_inherits_three_descriptors_and_no_more(self, bench: Bench) -> None:
        keep = os.open("/", os.O_RDONLY)
        os.set_inheritable(keep, True)
        agent = await bench.start("say(' '.join(sorted(os.listdir('/proc/self/fd'))))")
        await agent.exit()
        os.close(keep)
        assert agent.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing's own

    @linux_only
    async def test_its_signals_are_at_their_defaults(self, bench: Bench) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        agent = await bench.launch("cat", "/proc/self/status")
        await agent.exit()
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
        status = dict(line.split(":\t", 1) for line in agent.stdout.decode().splitlines())
        assert int(status["SigIgn"], 16) == 0
        assert int(status["SigBlk"], 16) == 0

    async def test_its_stdin_is_a_pipe_that_can_be_opened_again(self, bench: Bench) -> None:
        agent = await bench.launch("/bin/sh", "-c", "read line </dev/stdin; echo got $line")
        agent.process.write(b"hello\n")
        await agent.says("got hello")

    async def test_nothing_is_reported_before_start_returned(self, bench: Bench) -> None:
        for _ in range(5):
            agent = Agent()
            launch = launch_of("echo", "word", PATH="/usr/bin:/bin")
            process = await AgentProcess.start(
                launch, on_stdout=agent.on_stdout, on_exit=agent.on_exit
            )
            assert not agent.stdout
            assert not agent.exits
            await agent.exit()
            assert agent.stdout == b"word\n"
            assert process.exited == agent.exits[0]

    async def test_it_takes_no_thread(self, bench: Bench) -> None:
        threads = threading.active_count()
        await bench.start("wait_for_eof()")
        assert threading.active_count() == threads

    async def test_a_file_that_is_no_program_for_this_system(self, tmp_path: Path) -> None:
        program = executable(tmp_path / "agent", b"\x7fELF-not-really")
        error = await refusal(launch_of(str(program)))
        assert isinstance(error, AgentNotFound)
        assert "built for another machine" in str(error)

    @linux_only
    async def test_a_program_whose_loader_is_missing(self, tmp_path: Path) -> None:
        program = executable(tmp_path / "agent", WITHOUT_LOADER)
        error = await refusal(launch_of(str(program)))
        assert isinstance(error, AgentNotFound)
        assert "loader is missing" in str(error)

    async def test_an_environment_too_large_is_the_systems_word(self) -> None:
        error = await refusal(launch_of("/bin/true", LARGE="x" * 10_000_000))
        assert isinstance(error, AgentError)
        assert not isinstance(error, AgentNotFound)
        assert "list too long" in str(error)

    async def test_a_guard_that_cannot_run_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        error = await refusal(launch_of("/bin/true"))
        assert "guard process ended" in str(error)
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        assert "guard process could not be started" in str(await refusal(launch_of("/bin/true")))

    @pytest.mark.parametrize("turns", range(12))
    async def test_p5_a_cancelled_start_leaves_nothing(self, tmp_path: Path, turns: int) -> None:
        bench, agent = Bench(tmp_path), Agent()
        launch = launch_of(*PYTHON, PRELUDE + "wait()", bench.tag)
        starting = asyncio.create_task(
            AgentProcess.start(launch, on_stdout=agent.on_stdout, on_exit=agent.on_exit)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert bench.alive() == []
        assert psutil.Process().children() == []
        assert agent.exits == []
