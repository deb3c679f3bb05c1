"""Who answers an agent's permission requests while a cell waits for it.

In this order: a listener that a script registered; the policy of the cell; the person, with
``input()`` on the main thread; else nobody can be asked, and the answer is no.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from silo_nb.ipython.policy import policy_answer, refusal
from silo_nb.model.text import one_line
from silo_nb.runtime import wait_sync
from silo_nb.session import PermissionRequest, PromptResult, manager
from silo_nb.session.live import LiveSession

__all__ = ["Answers"]

_NAMED = 5


class Answers:
    """Answers for one turn.

    Args:
        live: the session.
        policy: see :func:`silo_nb.ipython.policy.policy_answer`.
        ask_person: puts a request to the person and answers it; None when that is not possible.
    """

    def __init__(
        self,
        live: LiveSession,
        *,
        policy: str,
        ask_person: Callable[[PermissionRequest], None] | None,
    ) -> None:
        self._live = live
        self._policy = policy
        self._ask_person = ask_person
        self._waiting: deque[PermissionRequest] = deque()
        self._change = _uncancellable()
        self._lock = threading.Lock()
        self._turned_down: list[str] = []
        self._could_be_allowed = False

    @property
    def remarks(self) -> list[str]:
        """What has to be said of requests that nobody was asked about."""
        if not self._turned_down:
            return []
        named = "; ".join(self._turned_down[:_NAMED])
        more = len(self._turned_down) - _NAMED
        named += f" and {more} more" if more > 0 else ""
        words = f"Not allowed, because nobody can be asked in this run: {named}."
        hint = " With '%%agent --policy allow' it would be." if self._could_be_allowed else ""
        return [words + hint]

    def take(self, ask: PermissionRequest) -> None:
        """Answer a request, or leave it to the main thread. Runs on the agent thread."""
        if len(self._live.desk.on_permission) > 1 or manager.on_ask:
            # A script listens as well, to this session or to all: answering is its duty.
            return
        option = policy_answer(self._policy, ask)
        if option is not None:
            ask.respond(option.option_id, by="policy")
        elif self._policy == "reject":
            # Of several ways to say no, none is for a policy to choose.
            ask.cancel(by="policy")
        elif self._ask_person is not None and ask.options:
            self._waiting.append(ask)
            self._tell()
        else:
            self._turn_down(ask)

    def wait_for(self, turn: Future[PromptResult], cancel: Callable[[], None]) -> PromptResult:
        """Block until the turn is over, putting requests to the person on the way.

        The first interrupt cancels the turn, wherever it strikes, and the wait goes on until the
        turn has ended; the second ends the wait.

        Raises:
            KeyboardInterrupt: the second interrupt.
        """
        turn.add_done_callback(lambda _: self._tell())
        try:
            while not turn.done():
                self._wait_for_change(turn)
                while self._waiting and not turn.done():
                    self._put(self._waiting.popleft())
        except KeyboardInterrupt:
            cancel()
            while not turn.done():
                # Cancelling settles what was asked until then.
                self._waiting.clear()
                self._wait_for_change(turn)
        return turn.result()

    def _put(self, ask: PermissionRequest) -> None:
        # A request that another cell, a script or the agent itself has settled is not shown.
        if self._ask_person is not None and not ask.answered:
            self._ask_person(ask)

    def _wait_for_change(self, turn: Future[PromptResult]) -> None:
        with self._lock:
            self._change = change = _uncancellable()
            if self._waiting or turn.done():
                return
        wait_sync(change)

    def _tell(self) -> None:
        with self._lock:
            if not self._change.done():
                self._change.set_result(None)

    def _turn_down(self, ask: PermissionRequest) -> None:
        option = refusal(ask)
        self._could_be_allowed |= policy_answer("allow", ask) is not None
        if option is None:
            ask.cancel(by="policy")
        else:
            ask.respond(option.option_id, by="policy")
        self._turned_down.append(one_line(ask.tool_call.title or ask.tool_call.kind, 80))


def _uncancellable() -> Future[None]:
    """Return a future that an interrupted wait cannot cancel, which would race with its result."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
