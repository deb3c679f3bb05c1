"""The magics: ``%%agent``, ``%ask`` and ``%agent``.

Their docstrings are what ``%%agent?`` shows. Nothing but IPython is imported until one of them
runs.
"""

from __future__ import annotations

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import no_var_expand

__all__ = ["agent", "agent_cell", "ask"]


def agent_cell(line: str, cell: str) -> None:
    """Ask an agent: the cell below the line is the prompt, sent as it is written.

    ::

        %%agent [PROFILE] [-s NAME] [-o VAR] [--file PATH] [--new] [--policy POLICY]
        What is wrong with the loader? Keep {braces} and $HOME literally.

    The cell waits until the agent is done, shows what it does and keeps a record of it. The
    session goes on in the next such cell. Interrupting the kernel stops the turn, not the session.
    A cell that says `/clear`, and nothing else, deletes the conversation and begins a new one.

    PROFILE        an agent of profiles.toml, or `demo`; by default the one used last
    -s NAME        a session of that name, opened on first use
    -o VAR         put the result into a variable: VAR.text, VAR.tool_calls, VAR.stop_reason …
    --file PATH    link to a file; may be given several times
    --new          open a new session
    --policy WORD  what to answer when the agent asks for permission: `ask` you (default, or
                   `reject` where nobody can be asked), `reject`, `reads` (allow to read and
                   search, ask for all else) or `allow`
    """
    from silo_nb.ipython.brief import brief_errors
    from silo_nb.ipython.cell import run_cell
    from silo_nb.ipython.options import parse_options

    with brief_errors():
        run_cell(_shell(), parse_options(line), cell.removesuffix("\n"))


@no_var_expand
def ask(line: str) -> None:
    """Ask the agent one line, in the session of the last ``%%agent``, sent as it is written.

    ::

        %ask And what does the second test do?
    """
    from silo_nb.ipython.brief import brief_errors
    from silo_nb.ipython.cell import ask_last

    with brief_errors():
        ask_last(_shell(), line)


def agent(line: str) -> None:
    """Look at agents and sessions, and look after them.

    ::

        %agent profiles                     the agents that can be asked
        %agent sessions                     the sessions of this notebook, open or on record
        %agent use NAME|PROFILE|ID          the one that %%agent goes on with
        %agent config [OPTION [VALUE]]      what the agent lets you set, and setting it
        %agent resume [ID]                  go on with a session of an earlier kernel
        %agent clear                        delete a conversation for good, and begin anew
        %agent export [md|html|ipynb] [FILE]    a whole session as a file
        %agent cancel                       stop the running turn
        %agent log                          what an agent wrote to stderr, and what was odd
        %agent nest                         let cells call asyncio.run()

    `config`, `clear` and `export` are about the session in use; `-s NAME` (or its id) names
    another one. After `resume`, `-s NAME` is the name to resume it under, and `--fresh` begins a
    new session with the old transcript in front. `clear --yes` asks no more; `export --force`
    replaces a file.
    """
    from silo_nb.ipython.brief import brief_errors
    from silo_nb.ipython.commands import run_command

    with brief_errors():
        run_command(_shell(), line)


def _shell() -> InteractiveShell:
    shell = get_ipython()
    if shell is None:
        raise RuntimeError("the magics of silo_nb need IPython")
    return shell
