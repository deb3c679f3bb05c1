"""Where a notebook's journals lie, and how to open things there that others may have planted.

::

    <notebook directory>/.silo_nb/          0700
        .gitignore                          "*": transcripts do not belong in a repository
        sessions/<session id>.jsonl         0600
        locks/<session id>.lock             while somebody writes that session

The notebook's directory may come from a stranger: whatever is there already must be a real
directory or a regular file, and ours, before we write to it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from silo_nb.errors import JournalError
from silo_nb.journal.descriptors import close_private, open_private
from silo_nb.journal.ids import checked_session_id

SESSIONS = "sessions"
LOCKS = "locks"
SUFFIX = ".jsonl"

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_OTHERS = 0o077


def journal_directory(notebook_dir: Path) -> Path:
    """Return where the journals of notebooks in a directory lie; nothing is created.

    >>> str(journal_directory(Path("/home/ada/analysis")))
    '/home/ada/analysis/.silo_nb'
    """
    return Path(notebook_dir).absolute() / ".silo_nb"


def session_path(directory: Path, session_id: str) -> Path:
    """Return the path of a session's journal, which need not exist.

    Raises:
        JournalError: the id cannot be one of ours.
    """
    return directory / SESSIONS / (checked_session_id(session_id) + SUFFIX)


def no_journal(path: Path) -> JournalError:
    """Return the error for a session whose journal should be at `path` and is not."""
    where = str(path.parents[1])
    return JournalError(f"there is no journal of session {path.stem!r} in {where!r}")


def create_directories(directory: Path) -> None:
    """Make ``.silo_nb`` with all that belongs in it, private whatever the umask.

    The notebook's own directory is never made: when it is gone, it was moved or deleted.

    Raises:
        OSError: it cannot be made, or what is there is not ours.
    """
    if os.name != "posix":
        raise OSError(errno.ENOTSUP, "journals need a POSIX file system", str(directory))
    _make_directory(directory, dir_fd=None)
    top = _open_directory(directory, dir_fd=None)
    try:
        _write_gitignore(top)
        for name in (SESSIONS, LOCKS):
            _make_directory(name, dir_fd=top)
    finally:
        close_private(top)


def open_directory(directory: Path, name: str) -> int:
    """Return a descriptor of ``directory/name``; neither may be a symbolic link.

    Raises:
        OSError: it is missing, or not a directory of ours.
    """
    top = _open_directory(directory, dir_fd=None)
    try:
        return _open_directory(name, dir_fd=top)
    finally:
        close_private(top)


def open_file(name: str, flags: int, *, dir_fd: int) -> int:
    """Return a descriptor of a regular file of ours, readable and writable by nobody else.

    Raises:
        OSError: it cannot be opened, or is something we must not write to.
    """
    try:
        fd = open_private(name, flags, _FILE_MODE, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refusal(name, "is a symbolic link") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _refusal(name, "is not a regular file")
        _make_private(fd, name, _FILE_MODE, dir_fd)
    except OSError:
        close_private(fd)
        raise
    return fd


def sync_directories(directory: Path) -> None:
    """Make new names durable: of the file, of its directory, of ``.silo_nb`` itself.

    Raises:
        OSError: the disk failed.
    """
    top = _open_directory(directory, dir_fd=None)
    try:
        for name in (SESSIONS, ".", ".."):
            _sync_directory(name, top)
    finally:
        close_private(top)


def _sync_directory(name: str, dir_fd: int) -> None:
    try:
        fd = open_private(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
    except PermissionError:
        return  # a notebook directory one may write to but not list
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems cannot sync a directory; they write names at once.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise
    finally:
        close_private(fd)


def _make_directory(name: str | Path, dir_fd: int | None) -> None:
    try:
        os.mkdir(name, _DIRECTORY_MODE, dir_fd=dir_fd)
    except FileExistsError:
        return
    # mkdir's mode passes through the umask; one that hides it from us would break everything.
    os.chmod(name, _DIRECTORY_MODE, dir_fd=dir_fd)


def _open_directory(name: str | Path, dir_fd: int | None) -> int:
    try:
        fd = open_private(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise _refusal(name, "is a symbolic link or not a directory") from error
        raise
    try:
        _make_private(fd, name, _DIRECTORY_MODE, fd)
    except OSError:
        close_private(fd)
        raise
    return fd


def _write_gitignore(top: int) -> None:
    try:
        fd = open_private(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=top)
    except FileExistsError:
        return
    try:
        os.fchmod(fd, _FILE_MODE)
        os.write(fd, b"*\n")
    finally:
        close_private(fd)


def _make_private(fd: int, name: str | Path, mode: int, dir_fd: int) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() and status.st_uid != _uid_given_here(dir_fd):
        raise _refusal(name, f"belongs to another user (uid {status.st_uid})")
    if status.st_mode & _OTHERS or (status.st_mode & mode) != mode:
        os.fchmod(fd, mode)


def _uid_given_here(dir_fd: int) -> int:
    """Return the owner that files of ours get in a directory.

    Some mounts (CIFS, FUSE, NFS for root) show one fixed owner for everything, our own files too.
    """
    probe = f".probe-{os.getpid()}-{os.urandom(4).hex()}"
    fd = open_private(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=dir_fd)
    try:
        os.unlink(probe, dir_fd=dir_fd)
        return os.fstat(fd).st_uid
    finally:
        close_private(fd)


def _refusal(name: str | Path, why: str) -> OSError:
    return OSError(errno.EPERM, f"{why}, so nothing is written there", str(name))
