"""The plainest client: one agent process, its pipes, and every message it said.

It knows no protocol beyond JSON-RPC lines, so it can say things no proper client would. For testing
agents, our own first of all.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

Message = dict[str, Any]
T = TypeVar("T")


class Silent(AssertionError):
    """The agent did not say what was waited for; the message ends with what it said last."""


class RawClient:
    """Starts an agent and talks to it over its pipes. Use it as a context manager.

    Args:
        command: argv of the agent.
        cwd: its working directory.
        env: its whole environment; that of this process when None.

    Attributes:
        messages: every JSON object the agent sent, in order.
        noise: every line on its stdout that was none.
        process: the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self.noise: list[bytes] = []
        self._ids = count(1)
        self._heard = threading.Condition()
        self._ended = False
        self._stderr: list[bytes] = []
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --------------------------------------------------------------------------- saying

    def send(self, message: Any) -> None:
        """Send one JSON value as a line."""
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        stdin = self.process.stdin
        assert stdin is not None  # noqa: S101 - it was started with pipes
        stdin.write(data)
        stdin.flush()

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and return its id at once."""
        request_id = next(self._ids)
        request = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send({**request, "params": dict(params or {})})
        return request_id

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": dict(params or {})})

    def answer(self, request_id: Any, result: Any) -> None:
        """Answer a request of the agent."""
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, within: float = 10.0
    ) -> Message:
        """Send a request and return the agent's response, result or error."""
        return self.response(self.request(method, params), within=within)

    def open_session(self, cwd: Path, capabilities: Mapping[str, Any] | None = None) -> str:
        """Shake hands and open a session; return its id."""
        self.call(
            "initialize", {"protocolVersion": 1, "clientCapabilities": dict(capabilities or {})}
        )
        opened = self.call("session/new", {"cwd": str(cwd), "mcpServers": []})
        return str(opened["result"]["sessionId"])

    def prompt(self, session_id: str, text: str) -> int:
        """Send a prompt of one text block; return the id of the request."""
        blocks = [{"type": "text", "text": text}]
        return self.request("session/prompt", {"sessionId": session_id, "prompt": blocks})

    # -------------------------------------------------------------------------- hearing

    def response(self, request_id: Any, *, within: float = 10.0) -> Message:
        """Wait for the response to a request of ours."""
        return self.until(
            lambda m: "method" not in m and m.get("id") == request_id,
            within=within,
            what=f"a response to {request_id!r}",
        )

    def asked(self, method: str, *, times: int = 1, within: float = 10.0) -> Message:
        """Wait for a request or notification of that method (so many of them)."""

        def look() -> Message | None:
            found = [m for m in self.messages if m.get("method") == method]
            return found[times - 1] if len(found) >= times else None

        return self._wait(look, within, method)

    def update(self, kind: str, *, within: float = 10.0, **fields: Any) -> Message:
        """Wait for a session/update of that kind with those fields; return the update."""

        def look() -> Message | None:
            return next((u for u in self.updates(kind) if fields.items() <= u.items()), None)

        return self._wait(look, within, f"{kind} {fields or ''}")

    def until(
        self, wanted: Callable[[Message], bool], *, within: float = 10.0, what: str = "a message"
    ) -> Message:
        """Wait for a message, old or new, that `wanted` says yes to.

        Raises:
            Silent: there is none within so many seconds, or the agent ended without one.
        """
        return self._wait(lambda: next(filter(wanted, self.messages), None), within, what)

    def updates(self, kind: str | None = None, session_id: str | None = None) -> list[Message]:
        """Return the well-formed session/updates so far, of one kind and session when named."""
        notes = [m.get("params") for m in self.messages if m.get("method") == "session/update"]
        return [
            note["update"]
            for note in notes
            if isinstance(note, dict)
            and isinstance(note.get("update"), dict)
            and (kind is None or note["update"].get("sessionUpdate") == kind)
            and (session_id is None or note.get("sessionId") == session_id)
        ]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """Return the text of all chunks so far, joined."""
        contents = [update.get("content") for update in self.updates(kind)]
        return "".join(c.get("text", "") for c in contents if isinstance(c, dict))

    @property
    def stderr(self) -> str:
        """What the agent wrote to stderr so far."""
        return b"".join(self._stderr).decode(errors="replace")

    # --------------------------------------------------------------------------- ending

    def close_stdin(self) -> None:
        """End the conversation as a client does."""
        stdin = self.process.stdin
        assert stdin is not None  # noqa: S101 - it was started with pipes
        try:
            stdin.close()
        except BrokenPipeError:
            # What it never read goes with it.
            return

    def wait(self, *, within: float = 10.0) -> int:
        """Wait for the process and all it said; return its exit status as subprocess has it."""
        status = self.process.wait(within)
        for thread in self._threads:
            thread.join(within)
        return status

    def close(self) -> None:
        """Close stdin, wait a little, then kill. Idempotent."""
        self.close_stdin()
        grace = 3.0
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(grace)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    # -------------------------------------------------------------------------- threads

    def _wait(self, look: Callable[[], T | None], within: float, what: str) -> T:
        deadline = time.monotonic() + within
        with self._heard:
            while (found := look()) is None:
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    raise Silent(self._silence(what, within))
                self._heard.wait(left)
            return found

    def _silence(self, what: str, within: float) -> str:
        why = "it ended its output" if self._ended else f"{within} s passed"
        shown = 8
        last = "\n".join(json.dumps(message)[:300] for message in self.messages[-shown:])
        return f"the agent did not send {what}: {why}\nlast messages:\n{last}\n{self.stderr}"

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - it was started with pipes
        for line in self.process.stdout:
            self._take(line)
        with self._heard:
            self._ended = True
            self._heard.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            # Text, bad UTF-8, or nested past all reason.
            message = None
        with self._heard:
            if isinstance(message, dict):
                self.messages.append(message)
            else:
                self.noise.append(line)
            self._heard.notify_all()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None  # noqa: S101 - it was started with pipes
        for line in self.process.stderr:
            self._stderr.append(line)
