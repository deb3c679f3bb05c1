"""Where an agent works: the notebook's own directory, unless told otherwise. See case 72."""

from __future__ import annotations

from pathlib import Path

from silo_nb.errors import WorkspaceError
from silo_nb.profiles import Profile
from silo_nb.runtime.kernel_compat import notebook_directory

__all__ = ["notebook_home", "working_directory"]


def working_directory(cwd: Path | None, profile: Profile, home: Path) -> Path:
    """Return the absolute directory a session works in.

    In order: the caller's `cwd`, the profile's, the notebook's directory `home`. What is relative
    is so to the notebook's.

    Raises:
        WorkspaceError: the directory does not exist or is none.
    """
    directory = home / Path(cwd or profile.cwd or home).expanduser()
    _require_directory(directory, "pass another cwd=")
    return directory


def notebook_home(workspace_id: str | None = None) -> Path:
    """Return the directory of a notebook, beside which its journals lie.

    Args:
        workspace_id: path of the notebook, or of its directory; None: this kernel's.

    Raises:
        WorkspaceError: there is no such directory.
    """
    if workspace_id is not None:
        path = Path.cwd() / Path(workspace_id).expanduser()
        home = path.parent if path.suffix == ".ipynb" else path
        _require_directory(home, "workspace_id= is the path of a notebook or of its directory")
        return home
    try:
        return notebook_directory()
    except FileNotFoundError:
        raise WorkspaceError(
            "the current directory was deleted; os.chdir() to one that exists"
        ) from None


def _require_directory(directory: Path, hint: str) -> None:
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise WorkspaceError(f"the working directory {str(directory)!r} {what}; {hint}")
