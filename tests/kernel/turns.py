"""What the cells of the kernel tests run: a turn without an agent.

A :class:`Turn` lives on the agent thread as a real one does. It ends when its comm brings an
answer, or when it is cancelled, and it says on the cell's stdout what happens to it.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import comm

from silo_nb.runtime import agent_thread, kernel_compat, run_on_main, wait_async, wait_sync

# A turn nobody answers must not outlive the test that forgot it.
LIMIT = 15.0


class Turn:
    """One turn; ``print(turn.ask())`` or ``print(await turn.prompt())`` in a cell.

    Args:
        deaf: ignore that it is cancelled, as some agents do.
        neutral: undo ipykernel 7.4's own routing of the comm.
    """

    def __init__(self, *, deaf: bool = False, neutral: bool = True) -> None:
        self.deaf = deaf
        self.cancels = 0
        self.handled: list[tuple[str, Any]] = []
        """Thread and data of each comm message."""
        self.comm = comm.create_comm(target_name="silo_nb.test", data={})
        if neutral:
            kernel_compat.honour_requested_subshell(self.comm)
        self.comm.on_msg(self._on_message)
        self._answer: Future[str] = Future()
        print("comm", self.comm.comm_id)  # noqa: T201 -- for the test

    def ask(self, grace: float = 10.0) -> str:
        """Block the cell until the turn ends; "waiting" is printed from inside the wait."""
        future = self.start()
        return wait_sync(future, on_interrupt=self.cancel, grace=grace)

    async def prompt(self, grace: float = 10.0) -> str:
        """Await the end of the turn."""
        future = self.start()
        return await wait_async(future, on_interrupt=self.cancel, grace=grace)

    def start(self) -> Future[str]:
        """Start the turn and return its future."""
        self._answer = Future()
        future = agent_thread().run(self._run(self._answer))
        run_on_main(lambda: print("waiting"))  # noqa: T201 -- for the test
        return future

    def cancel(self) -> None:
        """End the turn, unless it is deaf."""
        self.cancels += 1
        print(f"cancel {self.cancels}")  # noqa: T201 -- for the test
        if not self.deaf:
            agent_thread().call(self._settle, "cancelled")

    def _on_message(self, message: dict[str, Any]) -> None:
        data = message["content"]["data"]
        self.handled.append((threading.current_thread().name, data))
        if "answer" in data:
            agent_thread().call(self._settle, data["answer"])
        if "run" in data:
            exec(data["run"], {"turn": self})  # the test's own code, in the handler

    async def _run(self, answer: Future[str]) -> str:
        async with asyncio.timeout(LIMIT):
            return await asyncio.wrap_future(answer)

    def _settle(self, value: str) -> None:
        if not self._answer.done():
            self._answer.set_result(value)
