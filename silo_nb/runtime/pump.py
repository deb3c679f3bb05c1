"""The shell pump: what the browser says reaches Python while a cell waits for an agent.

A kernel executes one shell message at a time. While a cell waits, a click on "allow" would lie
in a queue until the cell is over, and the cell would wait for the click. So the waiting cell
receives the main shell's messages itself:

* comm messages, and the two requests a reloaded page starts with, are handled at once, as
  ipykernel would have done it, with busy and idle and under their own parent;
* everything else goes back to ipykernel's own receiver in the order it came, and is executed
  when the cell is over. That includes the one-frame mark by which ipykernel 7 ends the aborting
  of queued cells.

A message that ipykernel took before the wait began, behind an earlier cell that awaits something
of its own, is out of reach (6.31 to 7.3); it is handled after the cell.

Subshells, where a front end uses them, do the same without the pump. It runs all the same: the
first messages after a display come on the main shell (JupyterLab), and some front ends know no
subshells at all.
"""

from __future__ import annotations

import contextvars
import inspect
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import zmq

from silo_nb.runtime import kernel_compat
from silo_nb.runtime.guests import run_guest
from silo_nb.runtime.kernel_compat import ShellParent

__all__ = ["ShellPump", "Waker", "shell_pump"]

COMM_MESSAGES = frozenset({"comm_open", "comm_msg", "comm_close"})
ANSWERED_AT_ONCE = COMM_MESSAGES | {"comm_info_request", "kernel_info_request"}

Frames = list[Any]
Receiver = Callable[[Frames], Any]


class Waker:
    """Ends a poll from another thread or from a signal handler."""

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._receiver.settimeout(0)
        self._sender.settimeout(0)

    def wake(self) -> None:
        """End the poll that is going on, or else the next one."""
        # A full buffer wakes just as well. A closed one belongs to a wait that is over.
        with suppress(OSError):
            self._sender.send(b"\0")

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._receiver.fileno()

    def clear(self) -> None:
        """Forget the wakes so far."""
        with suppress(BlockingIOError):
            while self._receiver.recv(4096):
                pass

    def close(self) -> None:
        """Give the descriptors back."""
        self._receiver.close()
        self._sender.close()


class ShellPump:
    """Receives the main shell's messages in place of ipykernel.

    Used on the kernel's main thread only.

    Args:
        kernel: the running kernel.

    Raises:
        PumpUnavailable: this kernel hides what the pump needs.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._stream, self._reply_stream, self._flush_replies = kernel_compat.shell_names(kernel)
        self._attached = 0
        # ipykernel's own. Messages go back to it even if somebody else puts a receiver in between:
        # that one may well call ours, and two receivers that call each other never end.
        self._home = self._receiver
        self._replaced = self._home
        self._parent_at_attach: ShellParent | None = None

    # ------------------------------------------------- while a cell blocks the main thread

    def poll(self, waker: Waker, seconds: float) -> None:
        """Wait for a message, for the waker or for the time to pass; handle one message."""
        poller = zmq.Poller()
        poller.register(self._stream.socket, zmq.POLLIN)
        poller.register(waker.fileno(), zmq.POLLIN)
        poller.poll(int(seconds * 1000))
        waker.clear()
        try:
            frames = self._stream.socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
        # A receiver above ours may be there for a reason, and sees what comes back.
        back = self._home if self._receiver == self._on_frames else self._receiver
        self._dispatch(frames, back, cell_blocks=True)

    def release(self) -> None:
        """Let the loop receive again, after the last :meth:`poll`."""
        # The descriptor of a zmq socket signals once, and the polls may have used that up.
        # Setting the callback makes the stream look for itself.
        self._stream.on_recv(self._receiver, copy=False)

    # --------------------------------------------------------- while a coroutine awaits

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Receive through the kernel's running loop; several coroutines may be in here."""
        self._attached += 1
        if self._receiver != self._on_frames:
            self._replaced = self._receiver
            self._stream.on_recv(self._on_frames, copy=False)
        self._parent_at_attach = kernel_compat.cell_parent(self.kernel)
        try:
            yield
        finally:
            self._attached -= 1
            # Whoever put a receiver of their own above ours may restore ours later: it then
            # passes everything on.
            if not self._attached and self._receiver == self._on_frames:
                self._stream.on_recv(self._replaced, copy=False)

    @property
    def _receiver(self) -> Receiver:
        return kernel_compat.receiver(self._stream)

    def _on_frames(self, frames: Frames) -> None:
        if self._attached:
            self._dispatch(frames, self._home, cell_blocks=False)
        else:
            self._hand_back(frames, self._home)

    # ------------------------------------------------------------------- one message

    def _dispatch(self, frames: Frames, back: Receiver, *, cell_blocks: bool) -> None:
        message_type = self._message_type(frames)
        if message_type not in ANSWERED_AT_ONCE:
            self._hand_back(frames, back)
            return
        session = self.kernel.session
        idents, parts = session.feed_identities(frames, copy=False)
        try:
            message = session.deserialize(parts, content=True, copy=False)
        except Exception:  # noqa: BLE001 -- not signed, not JSON, …: ipykernel has words for it
            self._hand_back(frames, back)
            return
        self._answer(message_type, idents, message, cell_blocks=cell_blocks)

    def _message_type(self, frames: Frames) -> str:
        """Peek: a message must be verified once only, or it counts as a replay."""
        try:
            _, parts = self.kernel.session.feed_identities(frames, copy=False)
            return str(self.kernel.session.unpack(parts[1].bytes)["msg_type"])
        except Exception:  # noqa: BLE001 -- ipykernel's mark, or rubbish: its own receiver knows
            return ""

    def _hand_back(self, frames: Frames, receiver: Receiver) -> None:
        if inspect.iscoroutinefunction(receiver):
            # An empty context: what the waiting cell set must not reach the cells after it.
            contextvars.Context().run(self.kernel.io_loop.add_callback, receiver, frames)
        else:
            # ipykernel 6 only queues. At once, so that a failing cell finds in that queue what
            # it has to abort.
            receiver(frames)

    def _answer(
        self, message_type: str, idents: Any, message: Mapping[str, Any], *, cell_blocks: bool
    ) -> None:
        kernel = self.kernel
        found = self._current_parent(cell_blocks=cell_blocks)
        kernel_compat.publish_status(kernel, "busy", message)
        try:
            # In contexts of their own, so that the waiting cell keeps its parent.
            contextvars.copy_context().run(
                run_guest, lambda: self._call_handler(message_type, ShellParent(idents, message))
            )
        finally:
            _flush_output()
            kernel_compat.publish_status(kernel, "idle", message)
            contextvars.copy_context().run(kernel_compat.set_shell_parent, kernel, found)
            if cell_blocks and found.message:
                # Front ends and servers take the last status for the kernel's.
                kernel_compat.publish_status(kernel, "busy", found.message)
            if self._flush_replies:
                self._stream.flush(zmq.POLLOUT)

    def _current_parent(self, *, cell_blocks: bool) -> ShellParent:
        """Return the request that output belongs to when the message has been handled."""
        if cell_blocks:
            # What a subshell handled meanwhile has overwritten the common one.
            parent = kernel_compat.cell_parent(self.kernel)
        else:
            # Not the awaiting cell's: it may be over, with the turn going on in the background.
            parent = kernel_compat.shell_parent(self.kernel)
        if not parent.message and self._parent_at_attach is not None:
            return self._parent_at_attach  # 7.0 keeps no common one
        return parent

    def _call_handler(self, message_type: str, parent: ShellParent) -> None:
        kernel_compat.set_shell_parent(self.kernel, parent)
        arguments = (self._reply_stream, parent.idents, parent.message)
        try:
            handler = self.kernel.shell_handlers[message_type]
            answer = handler(*arguments)
            if inspect.iscoroutine(answer) and not _ran_through(answer):
                self.kernel.io_loop.add_callback(handler, *arguments)
        except Exception:
            # As ipykernel does: a broken handler is logged, the kernel goes on.
            self.kernel.log.exception("Exception in message handler:")


def shell_pump(kernel: Any) -> ShellPump:
    """Return the one pump of this kernel.

    Raises:
        PumpUnavailable: this kernel hides what the pump needs.
    """
    global _pump  # noqa: PLW0603 -- a process has one kernel, and the kernel one main shell
    if _pump is None or _pump.kernel is not kernel:
        _pump = ShellPump(kernel)
    return _pump


_pump: ShellPump | None = None


def _ran_through(coroutine: Any) -> bool:
    """Whether the coroutine ended without waiting for anything; otherwise it is dropped.

    ipykernel's handlers of the two requests are coroutines by name only. One of another kernel
    that does wait is called again by the loop, after the cell.
    """
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    coroutine.close()
    return False


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        # Users replace and close these; that must not cost a message (FAULTS K18).
        with suppress(Exception):
            stream.flush()
