"""What the front end of the running cell can do: update an output, put a question."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.runtime import kernel_compat

__all__ = ["FrontEnd", "front_end"]


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """What can be done with the output of the running cell.

    Attributes:
        shows: ``"live"``: an output can be updated in place. ``"maybe"``: nobody knows, so what
            matters has to be displayed again. ``"once"``: only what is displayed last is wanted.
        asks: whether a person can be asked with ``input()``, and will see what they are asked.
    """

    shows: Literal["live", "maybe", "once"]
    asks: bool


def front_end(shell: InteractiveShell) -> FrontEnd:
    """Return what the front end can do now.

    Headless runs (nbclient, papermill, nbconvert) say that nobody can be asked; they and
    ``%%capture`` keep every update they get, so they get none. Jupyter servers, VS Code and Colab
    leave a trace. What is left may be jupyter-console, which ignores updates.
    """
    if isinstance(shell.display_pub, CapturingDisplayPublisher):
        return FrontEnd("once", asks=False)
    asks = kernel_compat.allow_stdin()
    if kernel_compat.current_kernel() is None or not asks:
        return FrontEnd("once", asks)
    return FrontEnd("live" if _is_notebook(shell) else "maybe", asks)


def _is_notebook(shell: InteractiveShell) -> bool:
    return bool(
        os.environ.get("JPY_SESSION_NAME")
        or "__vsc_ipynb_file__" in shell.user_ns
        or "google.colab" in sys.modules
    )
