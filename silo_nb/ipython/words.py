"""The words behind ``%agent COMMAND``: what may stand there, and help for what may not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from IPython.core.error import UsageError

from silo_nb.ipython.options import did_you_mean

__all__ = ["Words", "parse_words"]


@dataclass(frozen=True, slots=True)
class Words:
    """What stands behind a command.

    Attributes:
        said: the words that are no options, in order.
        session: the session that ``-s`` names.
        flags: the flags that are set.
    """

    said: tuple[str, ...] = ()
    session: str | None = None
    flags: frozenset[str] = frozenset()

    def get(self, index: int) -> str | None:
        """Return the word at `index`, if there are so many."""
        return self.said[index] if index < len(self.said) else None


def parse_words(line: str, usage: str, *, flags: Sequence[str] = (), most: int = 0) -> Words:
    """Return what stands behind a command.

    Args:
        line: what follows the command; words as in a shell.
        usage: the whole command as it would be right, beginning with ``%agent COMMAND``. It takes
            ``-s`` if that is part of it.
        flags: the flags it takes.
        most: how many other words it takes.

    Raises:
        UsageError: the line cannot be understood; the message says what would be right.

    >>> usage = "%agent config [OPTION [VALUE]] [-s NAME]"
    >>> parse_words("mode plan -s review", usage, most=2).said
    ('mode', 'plan')
    """
    command = " ".join(usage.split()[:2])
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{command}: {str(error).lower()} in {line.strip()!r}") from None
    takes_session = "-s " in usage
    said: list[str] = []
    session: str | None = None
    set_flags: set[str] = set()
    rest = iter(words)
    for word in rest:
        if word == "-s" and takes_session:
            session = next(rest, "")
            if not session:
                raise UsageError(f"{command} -s needs the name of a session after it")
        elif word in flags:
            set_flags.add(word)
        elif word.startswith("-") and word != "-":
            known = (*flags, *(["-s"] if takes_session else []))
            raise UsageError(
                f"{command} has no option {word!r}.{did_you_mean(word, known)} Usage: {usage}"
            )
        else:
            said.append(word)
    if len(said) > most:
        takes = f"at most {most} word{'s' * (most > 1)}" if most else "nothing"
        raise UsageError(f"{command} takes {takes} after it, not {said[most]!r}. Usage: {usage}")
    return Words(tuple(said), session, frozenset(set_flags))
