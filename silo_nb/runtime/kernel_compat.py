"""Every name of IPython and ipykernel that silo_nb reaches for behind their public surface.

Looked up when used, by feature and not by version, and tested on ipykernel 6.31, 7.0, 7.3, 7.4
and the newest. A name that is gone raises :class:`PumpUnavailable` or means "no": a cell then waits
without the pump, nothing breaks.

====================================================  =======================================
what                                                  where it was seen
====================================================  =======================================
``kernel.shell_stream``                               6.29 to 6.31: feeds the main shell
``kernel.shell_channel_thread.manager``               7.0 to 7.4: the shell has its own thread
``manager._shell_channel_to_main.to_stream``          7.0 to 7.4: feeds the main shell
``manager.get_subshell_to_shell_channel_socket``      7.0 to 7.4: takes the main shell's replies
``ZMQStream._recv_callback``                          pyzmq 25 to 27
``kernel._publish_status(status, channel, parent)``   6.29 to 7.4
``kernel._parent_ident["shell"]``                     6.29 to 7.4
``kernel._shell_context``, ``_shell_parent``, …       7.1 to 7.4: the parent other threads see
``comm._reply_subshell_for``                          7.4
====================================================  =======================================
"""

# ruff: noqa: SLF001 -- private names are what this module is for

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

__all__ = [
    "PumpUnavailable",
    "ShellNames",
    "ShellParent",
    "allow_nested_asyncio",
    "allow_stdin",
    "cell_parent",
    "current_kernel",
    "current_shell",
    "honour_requested_subshell",
    "kernel_version",
    "notebook_directory",
    "notebook_path",
    "parent_header",
    "publish_status",
    "receiver",
    "runs_kernel_loop",
    "set_shell_parent",
    "shell_names",
    "shell_parent",
]

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class PumpUnavailable(Exception):
    """This kernel lacks a name the shell pump needs; the message says which."""


class ShellParent(NamedTuple):
    """The request that what the main shell prints is attributed to."""

    idents: Any
    message: Mapping[str, Any]


class Stream(Protocol):
    """The part of ``zmq.eventloop.zmqstream.ZMQStream`` that is used."""

    socket: Any
    _recv_callback: Callable[[list[Any]], Any] | None

    def on_recv(self, callback: Callable[[list[Any]], Any] | None, *, copy: bool = ...) -> None:
        """Have the loop give every message to ``callback``."""

    def flush(self, flag: int) -> int:
        """Send (POLLOUT) or receive (POLLIN) what is waiting."""


class ShellNames(NamedTuple):
    """How messages reach the main shell and how its replies leave."""

    stream: Stream
    reply_stream: Any
    # 6.x queues replies on the stream, whose loop is blocked while a cell runs.
    flush_replies: bool


def current_shell() -> Any | None:
    """Return the running InteractiveShell, or None; IPython is not imported for it."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


def current_kernel() -> Any | None:
    """Return the kernel this process is, or None outside one.

    A process forked from a kernel is none: its sockets belong to the parent.
    """
    kernel = getattr(current_shell(), "kernel", None)
    session = getattr(kernel, "session", None)
    if session is None or getattr(session, "pid", os.getpid()) != os.getpid():
        return None
    return kernel


def kernel_version() -> str:
    """Return, say, ``"ipykernel 7.4.0"``, for messages."""
    module = sys.modules.get("ipykernel")
    return f"ipykernel {getattr(module, '__version__', 'of unknown version')}"


def runs_kernel_loop(kernel: Any) -> bool:
    """Whether the caller is on the main thread and the kernel's main shell runs there.

    An embedded kernel may run on another thread; a subshell always does.
    """
    main = threading.main_thread()
    home = getattr(getattr(kernel, "shell_channel_thread", None), "parent_thread", main)
    return home is main and threading.current_thread() is main


def shell_names(kernel: Any) -> ShellNames:
    """Find the streams of the main shell.

    Raises:
        PumpUnavailable: this kernel does not have them where they were ever seen.
    """
    try:
        # Asked for here, so that a missing one is noticed before a message was taken.
        for name in ("session", "io_loop", "shell_handlers", "_publish_status", "_parent_ident"):
            getattr(kernel, name)
        if getattr(kernel, "shell_channel_thread", None) is None:
            stream, reply_stream, flush_replies = kernel.shell_stream, kernel.shell_stream, True
        else:
            manager = kernel.shell_channel_thread.manager
            stream = manager._shell_channel_to_main.to_stream
            reply_stream = manager.get_subshell_to_shell_channel_socket(None)
            flush_replies = False
        if not callable(receiver(stream)):
            raise PumpUnavailable(f"nothing receives shell messages in {kernel_version()}")
    except AttributeError as error:
        raise PumpUnavailable(f"{error} in {kernel_version()}") from error
    return ShellNames(cast("Stream", stream), reply_stream, flush_replies)


def receiver(stream: Stream) -> Callable[[list[Any]], Any]:
    """Return what a stream gives its messages to."""
    return cast("Callable[[list[Any]], Any]", stream._recv_callback)


def publish_status(kernel: Any, status: str, parent: Mapping[str, Any]) -> None:
    """Tell front ends that the request ``parent`` is being handled ("busy") or was ("idle")."""
    kernel._publish_status(status, "shell", parent=parent)


def cell_parent(kernel: Any) -> ShellParent:
    """Return the request whose handling the caller is part of: in a cell, that cell's."""
    return ShellParent(kernel._parent_ident["shell"], kernel.get_parent("shell"))


def shell_parent(kernel: Any) -> ShellParent:
    """Return the request that output without a context of its own belongs to now."""
    context = getattr(kernel, "_shell_context", None)
    if context is None:
        return cell_parent(kernel)
    return ShellParent(context[kernel._shell_parent_ident], context[kernel._shell_parent])


def set_shell_parent(kernel: Any, parent: ShellParent) -> None:
    """Attribute output to another request."""
    kernel.set_parent(parent.idents, parent.message, channel="shell")


def parent_header() -> Mapping[str, Any]:
    """Return the header of the request being executed; empty outside a kernel.

    Called in a cell it names that cell's execute request, whatever else was handled meanwhile.
    """
    return cast("Mapping[str, Any]", _parent_message().get("header", _EMPTY))


def allow_stdin() -> bool:
    """Whether a question can be put to the user with ``input()`` now.

    In a kernel the execute request says so: notebooks and consoles allow it, headless runs do
    not. Elsewhere stdin has to be a terminal.
    """
    if current_kernel() is None:
        return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    content = _parent_message().get("content", _EMPTY)
    return bool(content.get("allow_stdin", False))


def _parent_message() -> Mapping[str, Any]:
    kernel = current_kernel()
    if kernel is None or not hasattr(kernel, "get_parent"):
        return _EMPTY
    try:
        return cast("Mapping[str, Any]", kernel.get_parent("shell") or _EMPTY)
    except LookupError:  # 7.0: a thread that no request ever reached
        return _EMPTY


def honour_requested_subshell(comm: Any) -> None:
    """Let messages of ``comm`` go where the front end sends them.

    ipykernel 7.4 sends the replies to a comm to the shell that published last: the main one, for
    every widget made in a cell, where they would wait until a blocking cell ends.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = None


def allow_nested_asyncio() -> None:
    """Let cells call ``asyncio.run()`` although the kernel's loop is running.

    For notebooks written that way; silo_nb itself never needs it. It patches asyncio for the whole
    process, for good, and ipykernel 7 may then drop queued cells of a Run All.

    Raises:
        ImportError: nest-asyncio2 is not installed.
    """
    try:
        import nest_asyncio2
    except ImportError as error:
        raise ImportError(
            "nested asyncio needs nest-asyncio2: pip install 'nest-asyncio2>=1.7'"
        ) from error
    nest_asyncio2.apply()


def notebook_path() -> Path | None:
    """Return the notebook this kernel was started for, if that can be known.

    VS Code says so in the namespace, Jupyter servers in JPY_SESSION_NAME. The latter is fixed when
    the kernel starts: of a notebook that was renamed since, nothing is known.
    """
    namespace = getattr(current_shell(), "user_ns", None) or {}
    told = (namespace.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME"))
    for name in told:
        if isinstance(name, str) and Path(name).is_absolute() and Path(name).is_file():
            return Path(name)
    # A server with its own idea of the root tells a path below it; kernels start beside the file.
    beside = Path(Path(told[1] or "").name)
    return beside.absolute() if beside.is_file() else None


def notebook_directory() -> Path:
    """Return the directory a notebook's journals lie beside.

    SILO_NB_DIR if set, else the notebook's own, else the working directory.

    Raises:
        FileNotFoundError: it would be the working directory, which was deleted.
    """
    if configured := os.environ.get("SILO_NB_DIR"):
        return Path(configured).expanduser().absolute()
    path = notebook_path()
    return path.parent if path is not None else Path.cwd()
