"""Where `profiles.toml` lies, and whether a file found there can be trusted."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from jupyter_core import paths

from silo_nb.errors import ProfileError

__all__ = ["CONFIG_DIR_VARIABLE", "Source", "read_trusted", "sources", "user_file"]

CONFIG_DIR_VARIABLE = "SILO_NB_CONFIG_DIR"
FILE_NAME = "profiles.toml"
MAX_BYTES = 1 << 20
MAX_LINKS = 40

# Windows knows neither of the last three, nor FIFOs, nor links that need no privilege to make.
_OPEN = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Source:
    """A place where profiles may be defined.

    Attributes:
        file: the profiles.toml, whether it exists or not.
        administrator: it lies on the system's path, so its word on permissions is final.
    """

    file: Path
    administrator: bool


def user_file() -> Path:
    """Return where the user's own profiles.toml lies, or would lie."""
    override = os.environ.get(CONFIG_DIR_VARIABLE)
    if override:
        return Path(override, FILE_NAME)
    return Path(paths.jupyter_config_dir(), "silo_nb", FILE_NAME)


def sources() -> tuple[Source, ...]:
    """Return every place to look, the first having precedence for profiles.

    Only the user's configuration and the system's count. What an environment brings along
    (``<sys.prefix>/etc/jupyter``) is written by packages, not by people.
    """
    system = [Path(directory, "silo_nb", FILE_NAME) for directory in paths.SYSTEM_CONFIG_PATH]
    return (
        Source(user_file(), administrator=False),
        *(Source(f, administrator=True) for f in system),
    )


def read_trusted(file: Path) -> str | None:
    """Return the text of a profiles.toml, or None when there is none.

    Like ssh with its own files: a file that somebody else owns or could write is refused, and so
    is one reached through somebody else's link or kept where others could exchange it. What is
    checked is the file that was opened, not what the name stood for a moment earlier.

    Raises:
        ProfileError: it cannot be read or must not be trusted; the message says what to do.
    """
    if not file.is_absolute():
        raise ProfileError(
            "the directory must be absolute, so that what counts does not depend on where a "
            f"notebook lies; set {CONFIG_DIR_VARIABLE} to such a one.",
            file=file,
        )
    try:
        real = _follow_links(file)
        descriptor = os.open(real, _OPEN)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ProfileError(f"cannot be read: {error.strerror}.", file=file) from error
    try:
        _check(os.fstat(descriptor), real, file)
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            data = opened.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise ProfileError(
            f"is larger than {MAX_BYTES >> 20} MiB; it is no profiles file.", file=file
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileError(
            f"is not UTF-8 (byte {error.start}); save it as UTF-8.", file=file
        ) from error


def _follow_links(file: Path) -> Path:
    """Return what `file` stands for, after checking every link on the way and where it lies."""
    current = file
    for _ in range(MAX_LINKS):
        status = current.lstat() if current == file else _target_status(current, file)
        _check_directory(current.parent, file)
        if not stat.S_ISLNK(status.st_mode):
            return current
        if not _is_ours(status):
            raise ProfileError(
                f"is reached through the link {str(current)!r}, which belongs to "
                f"{_owner(status)}; replace it by a link or file of your own.",
                file=file,
            )
        current = current.parent / current.readlink()
    raise ProfileError(f"is a chain of more than {MAX_LINKS} links; it never ends.", file=file)


def _target_status(target: Path, file: Path) -> os.stat_result:
    try:
        return target.lstat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ProfileError(
            f"is a link to {str(target)!r}, which does not exist; mend or remove the link.",
            file=file,
        ) from error


def _check_directory(directory: Path, file: Path) -> None:
    status = directory.stat()
    if not _is_ours(status):
        raise ProfileError(
            f"lies in {str(directory)!r}, which belongs to {_owner(status)}; keep it in a "
            "directory of your own.",
            file=file,
        )
    # In a sticky directory (such as /tmp) nobody can exchange what belongs to us.
    if _others_can_write(status) and not status.st_mode & stat.S_ISVTX:
        raise ProfileError(
            f"others could exchange it, because they can write to its directory; run "
            f"`chmod go-w {directory}`.",
            file=file,
        )


def _check(status: os.stat_result, real: Path, file: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ProfileError("is not a regular file; replace it by one.", file=file)
    if not _is_ours(status):
        raise ProfileError(
            f"belongs to {_owner(status)}, so it could start programs you did not choose; make it "
            "your own file.",
            file=file,
        )
    if _others_can_write(status):
        raise ProfileError(
            "others can write to it, so they could start programs as you; run "
            f"`chmod go-w {real}`.",
            file=file,
        )


def _is_ours(status: os.stat_result) -> bool:
    """Whether it belongs to whoever runs this kernel, or to root, who needs no file to do harm."""
    if sys.platform == "win32":
        return True
    return status.st_uid in {os.geteuid(), 0}


def _others_can_write(status: os.stat_result) -> bool:
    if sys.platform == "win32":
        return False  # Windows shows no such bits; its profile directories are private by default
    return bool(status.st_mode & _WRITABLE_BY_OTHERS)


def _owner(status: os.stat_result) -> str:
    return f"another user (uid {status.st_uid})"
