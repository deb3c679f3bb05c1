"""Where an agent works: the notebook's own directory, unless told otherwise. See case 72."""

from __future__ import annotations

from pathlib import Path

from silo_nb.errors import WorkspaceError
from silo_nb.profiles import Profile
from silo_nb.runtime.kernel_compat import notebook_directory

__all__ = ["notebook_home", "working_directory"]


def working_directory(cwd: Path | None, profile: Profile) -> Path:
    """Return the absolute directory a session works in.

    In order: the caller's `cwd`, the profile's, the notebook's directory as far as the front end
    tells it, the current one. What is relative is so to the notebook's.

    Raises:
        WorkspaceError: the directory does not exist or is none.
    """
    here = notebook_home()
    directory = here / Path(cwd or profile.cwd or here).expanduser()
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise WorkspaceError(f"the working directory {str(directory)!r} {what}; pass another cwd=")
    return directory


def notebook_home() -> Path:
    """Return the directory of the notebook, beside which its journals lie.

    Raises:
        WorkspaceError: it is the current directory, which somebody deleted.
    """
    try:
        return notebook_directory()
    except FileNotFoundError:
        raise WorkspaceError(
            "the current directory was deleted; os.chdir() to one that exists"
        ) from None
