"""``%load_ext silo_nb`` and back.

Loading adds three magics and one input transformer, and starts nothing. The state of sessions lives
in modules that ``%reload_ext`` does not execute again, and outlives it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from tokenize import TokenInfo
from typing import Any, Self

from IPython.core.extensions import ExtensionManager
from IPython.core.inputtransformer2 import EscapedCommand
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.ipython import magics

__all__ = ["AskCommand", "load", "unload"]

_MAGICS = (
    ("cell", "agent", magics.agent_cell),
    ("line", "agent", magics.agent),
    ("line", "ask", magics.ask),
)


class AskCommand(EscapedCommand):
    """Takes ``%ask`` before IPython sees the question mark that ends a question.

    IPython reads any line that ends in ``?`` as a request for help, magics included: without this,
    ``%ask what is in data.csv?`` would show the help of ``csv``.
    """

    priority = 4
    """HelpEnd has 5; the lowest number goes first."""

    @classmethod
    def find(cls, tokens_by_line: Sequence[Sequence[TokenInfo]]) -> Self | None:
        """Return the first line that begins with ``%ask`` and a space."""
        for line in tokens_by_line:
            words = [token for token in line if token.string.strip()][:2]
            if [word.string for word in words] != ["%", "ask"]:
                continue
            sign, name = words
            if sign.line[name.end[1] : name.end[1] + 1] == " ":
                found: Self = cls(sign.start)
                return found
        return None


def load(shell: InteractiveShell) -> None:
    """Add the magics to `shell`. Once or twice makes no difference (K12)."""
    for kind, name, function in _MAGICS:
        shell.magics_manager.register_function(function, magic_kind=kind, magic_name=name)
    transformers = _token_transformers(shell)
    if AskCommand not in transformers:
        transformers.append(AskCommand)


def unload(shell: InteractiveShell) -> None:
    """Take the magics away, dispose every session and stop the agent thread (K11).

    ``%reload_ext`` unloads too, but people who run their first cell once more do not want to end
    their conversations: sessions outlive that.
    """
    for kind, name, function in _MAGICS:
        registered = shell.magics_manager.magics[kind]
        if registered.get(name) is function:
            del registered[name]
    transformers = _token_transformers(shell)
    if AskCommand in transformers:
        transformers.remove(AskCommand)
    if not _is_reloading():
        _end_sessions()


def _token_transformers(shell: InteractiveShell) -> list[Any]:
    transformers: list[Any] = shell.input_transformer_manager.token_transformers
    return transformers


def _is_reloading() -> bool:
    reload = ExtensionManager.reload_extension.__code__
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not reload:
        frame = frame.f_back
    return frame is not None


def _end_sessions() -> None:
    # What was never imported has nothing to end, and unloading is no reason to import it.
    if "silo_nb.session.manager" in sys.modules:
        from silo_nb.session import manager

        manager.dispose_all()
    if "silo_nb.ipython.sessions" in sys.modules:
        from silo_nb.ipython.sessions import session_book

        session_book().forget()
    if "silo_nb.runtime.agent_thread" in sys.modules:
        from silo_nb.runtime import agent_thread

        agent_thread().stop()
