"""What has to be true before an agent can be started, said in words that help.

The operating system answers "No such file or directory" to a missing program, a missing directory
and a script whose interpreter is missing. Here each of them is looked at before anything is forked,
with the search path and the directory that the agent itself will have.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from silo_nb.errors import AgentError, AgentNotFound, SiloError, WorkspaceError

__all__ = ["Launch", "check_directory", "explain_failure", "find_program"]

_SHEBANG_LIMIT = 256  # as much of a first line as Linux reads
_SCRIPTS_DEEP = 4  # an interpreter may be a script itself; Linux follows as many


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start, and how.

    Attributes:
        argv: the command and its arguments. Never a shell's line: nothing in it is expanded.
        cwd: directory the agent starts in; a relative command is relative to it.
        env: the agent's whole environment, see `child_environment`.
        install_hint: what to tell a user who does not have the command.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    install_hint: str = ""

    @property
    def search_path(self) -> str:
        """The agent's own PATH, in which its command is looked for."""
        return self.env.get("PATH", os.defpath)


def check_directory(cwd: Path) -> None:
    """Make sure that an agent can start in `cwd`.

    Raises:
        WorkspaceError: it is missing, not a directory, or cannot be entered.
    """
    mode = _mode(cwd)
    if mode is None:
        reason = "there is no such directory; create it, or choose another cwd"
    elif not stat.S_ISDIR(mode):
        reason = "that is not a directory; choose another cwd"
    elif not os.access(cwd, os.X_OK):
        reason = "this user cannot enter it; choose another cwd"
    else:
        return
    raise _bad_directory(cwd, reason)


def find_program(launch: Launch) -> Path:
    """Return the path of the program that `launch` names.

    Raises:
        AgentNotFound: there is none, it is not executable, or it is a script whose interpreter is
            missing.
    """
    if not launch.argv or not launch.argv[0]:
        raise AgentNotFound("the profile's command is empty", command="", phase="spawn")
    program = _look_up(launch.argv[0], launch)
    if program is None:
        raise _not_found(launch)
    _check_interpreter(program, launch)
    return program


def explain_failure(launch: Launch, program: Path, step: str, number: int) -> SiloError:
    """Return the error for a start that failed in spite of all checks.

    Args:
        launch: what was to be started.
        program: what `find_program` returned for it.
        step: the guard's word for what failed: ``"fork"``, ``"setsid"``, ``"chdir"``, ``"exec"``.
        number: the ``errno`` of the failure.
    """
    reason = os.strerror(number)
    if step == "chdir":
        return _bad_directory(launch.cwd, reason)
    if step == "exec" and number == errno.ENOEXEC:
        reason = "this system cannot run it: no '#!' line, or built for another machine"
    elif step == "exec" and number == errno.ENOENT:
        # We saw the file, so what is missing is the loader that its header names.
        reason = "its loader is missing: it was built for another system"
    elif step != "exec" or number not in {errno.EACCES, errno.ENOTDIR, errno.ELOOP}:
        return AgentError(f"{str(program)!r} could not be started: {reason}", phase="spawn")
    return _unusable(launch, f"{str(program)!r} could not be started: {reason}.")


def _check_interpreter(program: Path, launch: Launch) -> None:
    script = program
    for _ in range(_SCRIPTS_DEEP):
        line = _shebang(script)
        if line is None:
            return
        for name in _interpreters(line):
            interpreter = _look_up(name, launch)
            if interpreter is None:
                raise AgentNotFound(
                    f"{str(program)!r} needs the interpreter {name!r} (its first line is "
                    f"{'#!' + line!r}), which was not found; PATH is {launch.search_path!r}. "
                    "Install it, or put its directory on the PATH of the profile's env.",
                    command=name,
                    search_path=launch.search_path,
                    phase="spawn",
                )
            script = interpreter


def _shebang(program: Path) -> str | None:
    try:
        with program.open("rb") as file:
            head = file.read(_SHEBANG_LIMIT)
    except OSError:  # executable but not readable: no script, then
        return None
    if not head.startswith(b"#!"):
        return None
    return os.fsdecode(head[2:].partition(b"\n")[0]).strip(" \t")


def _interpreters(line: str) -> list[str]:
    """Return the programs that a script's first line needs, in the order they are started.

    >>> _interpreters("/usr/bin/env node")
    ['/usr/bin/env', 'node']
    >>> _interpreters("/usr/bin/env -S NODE_ENV=x node --no-warnings")
    ['/usr/bin/env', 'node']
    >>> _interpreters("/usr/bin/python3 -u")
    ['/usr/bin/python3']
    """
    # Only blanks part words: the carriage return of a file from Windows belongs to the last one.
    interpreter, *arguments = line.replace("\t", " ").split(" ")
    arguments = [argument for argument in arguments if argument]
    if Path(interpreter).name != "env":
        return [interpreter]
    for argument in arguments:
        if argument in {"-S", "--split-string"} or "=" in argument:
            continue
        # Any other option may change the search (-i, -u, -P): env itself has to judge then.
        return [interpreter] if argument.startswith("-") else [interpreter, argument]
    return [interpreter]


def _look_up(name: str, launch: Launch) -> Path | None:
    """Find a program as the agent's process would: by its own PATH, from its own directory."""
    for path in _candidates(name, launch):
        mode = _mode(path)
        if mode is not None and stat.S_ISREG(mode) and os.access(path, os.X_OK):
            return path
    return None


def _candidates(name: str, launch: Launch) -> Iterator[Path]:
    if os.sep in name:
        yield launch.cwd / name
        return
    for directory in launch.search_path.split(os.pathsep):
        yield launch.cwd / directory / name


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):  # missing, behind a closed directory, not a name at all
        return None


def _not_found(launch: Launch) -> AgentNotFound:
    command = launch.argv[0]
    for path in _candidates(command, launch):
        mode = _mode(path)
        if mode is not None and stat.S_ISDIR(mode) and os.sep in command:
            return _unusable(launch, f"{command!r} is a directory, not a program.")
        if mode is not None and stat.S_ISREG(mode):
            return _unusable(
                launch,
                f"{str(path)!r} is not executable (its mode is {stat.S_IMODE(mode):04o}); "
                f"make it so with chmod +x.",
            )
    if os.sep in command:
        return _unusable(launch, f"{str(launch.cwd / command)!r} does not exist.")
    return _unusable(launch, f"{command!r} was not found; PATH is {launch.search_path!r}.")


def _unusable(launch: Launch, sentence: str) -> AgentNotFound:
    advice = launch.install_hint or "Install it, or give its full path in the profile's command."
    return AgentNotFound(
        f"{sentence} {advice}",
        command=launch.argv[0],
        search_path=launch.search_path,
        phase="spawn",
    )


def _bad_directory(cwd: Path, reason: str) -> WorkspaceError:
    return WorkspaceError(f"no agent can start in {str(cwd)!r}: {reason}")
