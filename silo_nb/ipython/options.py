"""The option line of ``%%agent``: what may stand there, and help for what may not."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from keyword import iskeyword
from pathlib import Path

from IPython.core.error import UsageError

from silo_nb.errors import NotYet

__all__ = ["POLICIES", "USAGE", "CellOptions", "did_you_mean", "parse_options"]

POLICIES = ("ask", "reject", "reads", "allow")

USAGE = (
    "%%agent [PROFILE] [-s NAME] [-o VAR] [--file PATH] [--new] [--policy ask|reject|reads|allow]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """How one cell is to be run.

    Attributes:
        profile: id of the profile, None for the one used last.
        session: name of the session, None for the profile's current one.
        output: the variable that gets the result.
        files: what to link to, in order.
        new: whether to open a session of its own.
        policy: who answers the agent's permission requests; see :data:`POLICIES`.
    """

    profile: str | None = None
    session: str | None = None
    output: str | None = None
    files: tuple[Path, ...] = ()
    new: bool = False
    policy: str = "ask"


def parse_options(line: str) -> CellOptions:
    """Return what an option line says.

    Args:
        line: what follows ``%%agent``; words as in a shell, so that a path may be quoted.

    Raises:
        UsageError: the line cannot be understood; the message says what would be right.
        NotYet: it asks for something this version cannot do.

    >>> parse_options("claude -o answer --policy reads").policy
    'reads'
    >>> parse_options("claude --polcy reads")
    Traceback (most recent call last):
    ...
    IPython.core.error.UsageError: %%agent has no option '--polcy'. Did you mean '--policy'? ...
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%agent: {str(error).lower()} in {line.strip()!r}") from None
    options = CellOptions()
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            options = _with_profile(options, word)
            continue
        name, assigned, value = word.partition("=")
        options = _with_option(options, name, iter([value]) if assigned else rest)
    return options


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return a question with the nearest of `known`, with a space before it; else nothing.

    >>> did_you_mean("sesions", ("sessions", "profiles"))
    " Did you mean 'sessions'?"
    """
    near = get_close_matches(wrong, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _with_profile(options: CellOptions, word: str) -> CellOptions:
    if options.profile is not None:
        raise UsageError(
            f"%%agent takes one profile; there are {options.profile!r} and {word!r}. "
            "The question goes into the lines below"
        )
    return replace(options, profile=word)


def _with_option(options: CellOptions, name: str, rest: Iterable[str]) -> CellOptions:
    if name in _LATER:
        raise NotYet(f"%%agent {name} is not part of this version yet; leave it out")
    if name in _FLAGS:
        return replace(options, new=True)
    if name not in _WITH_VALUE:
        known = (*_WITH_VALUE, *_FLAGS, *_LATER)
        raise UsageError(
            f"%%agent has no option {name!r}.{did_you_mean(name, known)} Usage: {USAGE}"
        )
    what, parse = _WITH_VALUE[name]
    value = next(iter(rest), "")
    if not value or value.startswith("-"):
        raise UsageError(f"%%agent {name} needs {what} after it")
    return parse(options, value)


def _session(options: CellOptions, value: str) -> CellOptions:
    return replace(options, session=value)


def _output(options: CellOptions, value: str) -> CellOptions:
    if not value.isidentifier() or iskeyword(value):
        raise UsageError(f"%%agent -o {value}: {value!r} cannot be the name of a variable")
    return replace(options, output=value)


def _file(options: CellOptions, value: str) -> CellOptions:
    path = Path(value).expanduser().absolute()
    if not path.exists():
        raise UsageError(f"%%agent --file {value}: there is no file {str(path)!r}")
    return replace(options, files=(*options.files, path))


def _policy(options: CellOptions, value: str) -> CellOptions:
    if value not in POLICIES:
        raise UsageError(
            f"%%agent --policy {value}: choose {', '.join(POLICIES[:-1])} or {POLICIES[-1]}."
            f"{did_you_mean(value, POLICIES)}"
        )
    return replace(options, policy=value)


_WITH_VALUE: dict[str, tuple[str, Callable[[CellOptions, str], CellOptions]]] = {
    "-s": ("the name of a session", _session),
    "-o": ("the name of a variable", _output),
    "--file": ("a path", _file),
    "--policy": ("ask, reject, reads or allow", _policy),
}
_FLAGS = ("--new",)
_LATER = ("--with", "--cells", "--error", "--background")
