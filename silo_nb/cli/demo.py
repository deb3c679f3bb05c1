"""``silo-nb demo``: the tour in JupyterLab, with the offline agent.

``--run`` executes it without a browser instead and says where the result lies.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from silo_nb.errors import SiloError

if TYPE_CHECKING:
    from silo_nb.cli import Commands

TOUR = "01-first-turn.ipynb"
DEFAULT_FOLDER = Path("silo_nb-demo")
CELL_SECONDS = 120


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    demo = commands.add_parser(
        "demo",
        help="open the tour in JupyterLab, with the offline demo agent",
        description="Copy the tour into a folder and open it in JupyterLab. "
        "Nothing to log in to, no network.",
    )
    demo.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=DEFAULT_FOLDER,
        help="where the tour is copied to and works (default: ./%(default)s); a notebook that is "
        "there already is kept",
    )
    demo.add_argument(
        "--run",
        action="store_true",
        help="execute it without a browser, and say where the executed notebook and its HTML lie",
    )
    demo.set_defaults(action=_demo)


def _demo(chosen: argparse.Namespace) -> int:
    folder = chosen.folder.absolute()
    _require(*(("nbclient", "nbconvert") if chosen.run else ("jupyterlab",)))
    notebook = _place_tour(folder)
    return _execute(notebook) if chosen.run else _open_lab(notebook)


def _require(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise SiloError(
            f"the demo needs {' and '.join(missing)}, not installed here. "
            f"Run: {sys.executable} -m pip install 'silo_nb[lab]'"
        )


def _place_tour(folder: Path) -> Path:
    """Copy the tour into `folder`, unless it is there, and return the copy."""
    copy = folder / TOUR
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_tour(), copy)
    return copy


def _tour() -> Path:
    """Return the tour's own file: in the installed package, or in a checkout beside it."""
    package = Path(__file__).parents[1]
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if (folder / TOUR).is_file():
            return folder / TOUR
    raise SiloError(f"{TOUR} is missing from this installation; install silo_nb again.")


def _open_lab(notebook: Path) -> int:
    command = [sys.executable, "-m", "jupyterlab", str(notebook)]
    print(f"starting: {' '.join(command)}", flush=True)
    # JupyterLab takes over this process: Ctrl-C and the exit status are its own.
    os.chdir(notebook.parent)
    os.execv(sys.executable, command)  # noqa: S606 - our own Python, no shell


def _execute(notebook: Path) -> int:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    tour = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        tour,
        timeout=CELL_SECONDS,
        resources={"metadata": {"path": str(notebook.parent)}},
        # The kernel's remark on how it is reached over this machine's own loopback is no news here.
        extra_arguments=["--log-level=ERROR"],
    )
    failure = ""
    try:
        client.execute()
    except CellExecutionError as error:
        failure = str(error)
    executed = notebook.with_name(f"{notebook.stem}.executed.ipynb")
    nbformat.write(tour, executed)
    page = _render(executed)
    print(f"executed notebook: {executed}")
    print(f"as a web page:     {page}")
    if failure:
        raise SiloError(f"a cell of the tour failed; it is kept as far as it came.\n{failure}")
    return 0


def _render(executed: Path) -> Path:
    from nbconvert import HTMLExporter

    page = executed.with_suffix(".html")
    body, _resources = HTMLExporter().from_filename(str(executed))
    page.write_text(body, encoding="utf-8")
    return page
