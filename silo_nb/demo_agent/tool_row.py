"""A tool call: the row a client shows for something that is really done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Any, Self

from silo_nb.demo_agent.turn import Turn

Content = dict[str, Any]


def text_content(text: str) -> Content:
    """Return text as the content of a row."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def diff_content(path: Path, old_text: str | None, new_text: str) -> Content:
    """Return a change of a file as the content of a row; a new file has no old text."""
    return {"type": "diff", "path": str(path), "oldText": old_text, "newText": new_text}


class ToolRow:
    """A row, open inside its ``with`` block and settled at the end of it, whatever happens.

    Args:
        turn: the turn it belongs to.
        kind: the protocol's kind: ``read``, ``search``, ``edit``, ``execute``.
        name: name of the tool.
        title: what is being done, for people.
        raw_input: the tool's arguments.
        path: the file or directory it is about.
        content: what to show from the start.
    """

    def __init__(
        self,
        turn: Turn,
        *,
        kind: str,
        name: str,
        title: str,
        raw_input: Mapping[str, Any],
        path: Path | None = None,
        content: Sequence[Content] = (),
    ) -> None:
        self.id = f"{turn.session.id}-t{turn.session.number()}"
        self._turn = turn
        self._settled = False
        self._opening: dict[str, Any] = {
            "toolCallId": self.id,
            "title": title,
            "name": name,
            "kind": kind,
            "status": "pending",
            "rawInput": dict(raw_input),
        }
        if path is not None:
            self._opening["locations"] = [{"path": str(path)}]
        if content:
            self._opening["content"] = list(content)
        self._meta: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._turn.session.tell({"sessionUpdate": "tool_call", **self._opening, **self._meta})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._settled:
            self.update(status="completed" if kind is None else "failed")

    def permission(self, tool: str, always: str) -> str:
        """Ask whether this may be done; see `Turn.permission`."""
        return self._turn.permission(tool, self._opening, always)

    def begin(self) -> None:
        """Say that it is being done."""
        self.update(status="in_progress")

    def update(self, **fields: Any) -> None:
        """Send a change of the row."""
        self._settled = self._settled or fields.get("status") in {"completed", "failed"}
        self._turn.session.tell(
            {"sessionUpdate": "tool_call_update", "toolCallId": self.id, **fields}
        )

    def show_terminal(self, cwd: Path) -> None:
        """Have the row show a terminal, in the manner agents and clients agreed on with `_meta`."""
        self._opening["content"] = [{"type": "terminal", "terminalId": self.id}]
        self._meta = {"_meta": {"terminal_info": {"terminal_id": self.id, "cwd": str(cwd)}}}

    def add_output(self, text: str, *, whole: bool = False) -> None:
        """Send what the terminal printed: a part of it, or all."""
        key = "terminal_output" if whole else "terminal_output_delta"
        self._turn.session.tell(
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": self.id,
                "_meta": {key: {"terminal_id": self.id, "data": text}},
            }
        )

    def terminal_exit(self, status: int) -> dict[str, Any]:
        """Return the `_meta` that says how the command ended; minus a signal's number if by one."""
        by_signal = status < 0
        return {
            "terminal_exit": {
                "terminal_id": self.id,
                "exit_code": None if by_signal else status,
                "signal": Signals(-status).name if by_signal else None,
            }
        }

    def complete(self, *, raw_output: Any = None, content: Sequence[Content] = ()) -> None:
        """Settle it: it worked."""
        self.update(status="completed", **_outcome(raw_output, content))

    def fail(self, reason: str, *, raw_output: Any = None) -> None:
        """Settle it: it did not work, and why."""
        self.update(status="failed", **_outcome(raw_output, [text_content(reason)]))


def _outcome(raw_output: Any, content: Sequence[Content]) -> dict[str, Any]:
    outcome: dict[str, Any] = {"content": list(content)} if content else {}
    return outcome if raw_output is None else {**outcome, "rawOutput": raw_output}
