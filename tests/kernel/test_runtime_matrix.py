"""What a cell that waits can rely on, on every supported ipykernel (ARCHITECTURE §3, FAULTS §2 K).

No agent here: the turns are futures of the agent thread (turns.py). A claim about sync and async
cells is one test with both kinds of cell.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kernel.kernels import Cell, Kernel

SYNC = "turn.ask()"
ASYNC = "await turn.prompt()"
both = pytest.mark.parametrize("wait", [SYNC, ASYNC], ids=["sync", "async"])
# ipykernel ends an awaiting cell with CancelledError where a sync one gets KeyboardInterrupt.
INTERRUPTED = {SYNC: "KeyboardInterrupt", ASYNC: "CancelledError"}


@pytest.fixture(autouse=True)
def _kernel_prepared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give every kernel the turns, and show its own log when a test fails."""
    name = "own_kernel" if "own_kernel" in request.fixturenames else "kernel"
    running: Kernel = request.getfixturevalue(name)
    running.run("from tests.kernel.turns import Turn")
    yield
    request.node.add_report_section("teardown", "log of the kernel", running.log[-4000:])


def begin(kernel: Kernel, wait: str, *, then: str = "", arguments: str = "") -> tuple[Cell, str]:
    """Start a cell with a turn; return it, waiting, and the id of the turn's comm."""
    code = f"turn = Turn({arguments})\nanswer = {wait}\nprint('got', answer)\n{then}"
    cell = kernel.submit(code)
    kernel.wait_for(cell, "waiting")
    return cell, cell.text.split()[1]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    assert took < seconds, f"took {took:.2f} s"


class TestMessagesDuringACell:
    @both
    def test_a_click_on_the_main_shell_is_handled_during_the_cell(
        self, kernel: Kernel, wait: str
    ) -> None:
        """Case 61: "comm answers not handled while a cell runs"; B2."""
        cell, comm = begin(kernel, wait, then="print(turn.handled)")
        kernel.comm(comm, {"answer": "allow"})
        with within(2):
            kernel.finish(cell)
        assert "got allow" in cell.text
        assert "('MainThread', {'answer': 'allow'})" in cell.text

    @both
    def test_a_click_on_a_subshell_is_handled_during_the_cell(
        self, kernel: Kernel, wait: str
    ) -> None:
        """Case 61, in a front end that uses subshells; ipykernel 7.4 re-routes them otherwise."""
        subshell = kernel.create_subshell()
        cell, comm = begin(kernel, wait, then="print(turn.handled)")
        kernel.comm(comm, {"answer": "allow"}, subshell=subshell)
        with within(2):
            kernel.finish(cell)
        assert "got allow" in cell.text
        expected = f"('subshell-{subshell}'" if subshell else "('MainThread'"
        assert expected in cell.text

    @both
    def test_a_comm_that_ipykernel_re_routes_is_answered_all_the_same(
        self, kernel: Kernel, wait: str
    ) -> None:
        """Belt and braces: without the 7.4 correction the pump alone does it."""
        subshell = kernel.create_subshell()
        cell, comm = begin(kernel, wait, arguments="neutral=False")
        kernel.comm(comm, {"answer": "allow"}, subshell=subshell)
        kernel.finish(cell)
        assert "got allow" in cell.text

    @both
    def test_nothing_waits_for_a_tick(self, kernel: Kernel, wait: str) -> None:
        """A click, the end of a turn and an interrupt each wake the cell themselves."""
        kernel.run(
            "from silo_nb.runtime import waiting\n"
            "ticks = waiting.BLOCKING_TICK, waiting.HEARTBEAT\n"
            "waiting.BLOCKING_TICK = waiting.HEARTBEAT = 30.0"
        )
        with within(5):
            cell, comm = begin(kernel, wait)
            kernel.comm(comm, {"answer": "allow"})
            kernel.finish(cell)
            cell, _ = begin(kernel, wait)
            kernel.interrupt()
            kernel.finish(cell)
        kernel.run("waiting.BLOCKING_TICK, waiting.HEARTBEAT = ticks")

    @both
    def test_comms_are_opened_and_closed_during_the_cell(self, kernel: Kernel, wait: str) -> None:
        kernel.run(
            "from IPython import get_ipython\n"
            "opened, closed = [], []\n"
            "def on_open(comm, message):\n"
            "    opened.append(comm.comm_id)\n"
            "    comm.on_close(lambda message: closed.append(comm.comm_id))\n"
            "get_ipython().kernel.comm_manager.register_target('silo_nb.opened', on_open)"
        )
        cell, comm = begin(kernel, wait, then="print(opened, closed)")
        content = {"comm_id": "c1", "target_name": "silo_nb.opened", "data": {}}
        kernel.send("comm_open", content)
        kernel.send("comm_close", {"comm_id": "c1", "data": {}})
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert "['c1'] ['c1']" in cell.text

    @both
    def test_each_handled_message_goes_busy_then_idle(self, kernel: Kernel, wait: str) -> None:
        """ipywidgets' JS sends no further trait update before it sees idle for the last one."""
        cell, comm = begin(kernel, wait)
        sent = kernel.comm(comm, {"run": "pass"})
        kernel.wait_idle(sent)
        assert kernel.statuses(sent) == ["busy", "idle"]
        assert not cell.done
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)

    def test_the_kernel_is_shown_as_busy_while_the_cell_still_blocks(self, kernel: Kernel) -> None:
        """Front ends and servers (culling) take the last status for the kernel's."""
        cell, comm = begin(kernel, SYNC)
        sent = kernel.comm(comm, {"run": "pass"})
        kernel.wait_idle(sent)
        kernel.wait_until(lambda: kernel.statuses(cell.msg_id) == ["busy"] * 2, "busy again")
        last = [m for m in kernel.iopub if m["msg_type"] == "status"][-1]
        assert last["parent_header"]["msg_id"] == cell.msg_id
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert kernel.statuses(cell.msg_id)[-1] == "idle"

    @both
    def test_a_reloaded_page_is_answered_during_the_cell(self, kernel: Kernel, wait: str) -> None:
        """comm_info and kernel_info are what a page asks first; case 61's other half."""
        cell, comm = begin(kernel, wait)
        with within(2):
            comms = kernel.request("comm_info_request", {"target_name": "silo_nb.test"})
            info = kernel.request("kernel_info_request", {})
        assert comm in comms["comms"]
        assert info["implementation"] == "ipython"
        assert not cell.done
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)

    @both
    def test_a_handler_that_raises_costs_neither_the_cell_nor_the_next_message(
        self, kernel: Kernel, wait: str
    ) -> None:
        """FAULTS K15, in a comm handler."""
        cell, comm = begin(kernel, wait)
        kernel.comm(comm, {"run": "1 / 0"})
        kernel.send("comm_open", {"comm_id": "c2", "target_name": "nobody's", "data": {}})
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert "got allow" in cell.text

    def test_a_forged_message_is_left_to_ipykernel(self, kernel: Kernel) -> None:
        cell, comm = begin(kernel, SYNC)
        key = kernel.session.key
        kernel.session.key = b"not the kernel's"
        kernel.comm(comm, {"answer": "forged"})
        kernel.session.key = key
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert "got allow" in cell.text
        assert "got" in kernel.run("print('got', turn.handled)").text

    @both
    def test_hundreds_of_messages_are_handled_in_order(self, kernel: Kernel, wait: str) -> None:
        count = "print([data['n'] for _, data in turn.handled[:-1]] == list(range(300)))"
        cell, comm = begin(kernel, wait, then=count)
        for number in range(300):
            sent = kernel.comm(comm, {"n": number})
            if number % 100 == 99:  # zmq drops what is published to a client that does not read
                kernel.wait_idle(sent)
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert "True" in cell.text


class TestWhatBelongsToTheCell:
    @both
    def test_output_after_a_handled_message_is_the_cells(self, kernel: Kernel, wait: str) -> None:
        """A handler's own output is not; it goes where ipykernel sends it, to the message."""
        then = (
            "from IPython.display import display\n"
            "display({'text/plain': 'shown'}, raw=True)\n"
            "'the result'"
        )
        cell, comm = begin(kernel, wait, then=then)
        noisy = kernel.comm(comm, {"run": "print('from the handler', flush=True)"})
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert cell.text.endswith("got allow\n")
        shown = [output["data"]["text/plain"] for output in cell.outputs]
        assert shown == ["shown", "'the result'"]
        assert kernel.printed(noisy) == "from the handler\n"

    @both
    def test_so_is_what_other_threads_print(self, kernel: Kernel, wait: str) -> None:
        then = (
            "import threading\n"
            "thread = threading.Thread(target=print, args=('from a thread',))\n"
            "thread.start(); thread.join()"
        )
        cell, comm = begin(kernel, wait, then=then)
        kernel.comm(comm, {"run": "pass"})
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert "from a thread" in cell.text

    @both
    def test_a_cell_knows_its_own_request(self, kernel: Kernel, wait: str) -> None:
        then = (
            "from silo_nb.runtime import kernel_compat\n"
            "print(kernel_compat.parent_header()['msg_id'], kernel_compat.allow_stdin())"
        )
        cell, comm = begin(kernel, wait, then=then)
        kernel.comm(comm, {"run": "pass"})
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert f"{cell.msg_id} False" in cell.text

    def test_a_front_end_that_takes_input_is_known(self, kernel: Kernel) -> None:
        cell = kernel.run(
            "from silo_nb.runtime import kernel_compat\n"
            "print(kernel_compat.allow_stdin() and input('name? '))",
            answers=["Ada"],
        )
        assert (cell.text, kernel.prompts[-1]) == ("Ada\n", "name? ")

    @pytest.mark.parametrize(
        "spoil",
        [
            "import sys, io; sys.stdout = io.StringIO()",
            "import sys, io; sys.stdout = io.StringIO(); sys.stdout.close()",
            "import sys; sys.stdout = sys.stderr = None",
        ],
        ids=["redirected", "closed", "none"],
    )
    def test_stdout_may_be_gone(self, kernel: Kernel, spoil: str) -> None:
        """FAULTS K18."""
        kernel.run("import sys; streams = sys.stdout, sys.stderr")
        restore = "sys.stdout, sys.stderr = streams\nprint('got', answer)"
        cell = kernel.submit(f"turn = Turn()\n{spoil}\nanswer = turn.ask()\n{restore}")
        kernel.wait_for(cell, "comm ")
        kernel.comm(cell.text.split()[1], {"answer": "allow"})
        kernel.finish(cell)
        assert "got allow" in cell.text


class TestQueuedCells:
    def test_run_all_runs_five_cells_in_order(self, kernel: Kernel) -> None:
        """Case 60: nest_asyncio in ipykernel 7 drops queued cells of a Run All."""
        kernel.run(
            "from silo_nb.runtime import agent_thread, wait_async, wait_sync\n"
            "import asyncio\n"
            "done = []\n"
            "async def work(name):\n"
            "    await asyncio.sleep(0.05)\n"
            "    return name"
        )
        codes = [
            "done.append(wait_sync(agent_thread().run(work('sync 1'))))",
            "done.append('plain 2')",
            "done.append(await wait_async(agent_thread().run(work('async 3'))))",
            "await asyncio.sleep(0.01); done.append('async plain 4')",
            "done.append(wait_sync(agent_thread().run(work('sync 5'))))",
        ]
        cells = kernel.run_all(codes)
        assert [cell.status for cell in cells] == ["ok"] * 5
        replies = [msg_id for msg_id in kernel.reply_order if msg_id in {c.msg_id for c in cells}]
        assert replies == [cell.msg_id for cell in cells]
        shown = kernel.run("print(done)").text
        assert shown == "['sync 1', 'plain 2', 'async 3', 'async plain 4', 'sync 5']\n"

    @both
    def test_requests_of_a_waiting_cell_follow_in_the_order_they_came(
        self, kernel: Kernel, wait: str
    ) -> None:
        kernel.run("order = []")
        cell, comm = begin(kernel, wait, then="order.append('cell')")
        sent = [
            kernel.send("complete_request", {"code": "prin", "cursor_pos": 4}),
            (first := kernel.submit("order.append('first')")).msg_id,
            kernel.send("is_complete_request", {"code": "1"}),
            (second := kernel.submit("order.append('second')")).msg_id,
            kernel.send(
                "history_request",
                {"hist_access_type": "tail", "n": 1, "output": False, "raw": True},
            ),
        ]
        kernel.comm(comm, {"answer": "allow"})
        for queued in (cell, first, second):
            kernel.finish(queued)
        kernel.wait_until(lambda: sent[-1] in kernel.reply_order, "the last reply")
        assert [i for i in kernel.reply_order if i in sent] == sent
        assert kernel.run("print(order)").text == "['cell', 'first', 'second']\n"

    @both
    def test_a_failing_cell_before_aborts_the_queue_and_nothing_else(
        self, kernel: Kernel, wait: str
    ) -> None:
        # Held back by a first cell, so that all are queued by the time one fails.
        first, comm = begin(kernel, SYNC)
        failing, *queued = (kernel.submit(c) for c in ("1 / 0", f"turn = Turn(); {wait}", "2"))
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(first)
        assert kernel.finish(failing, check=False).error == "ZeroDivisionError"
        assert [kernel.finish(cell, check=False).status for cell in queued] == ["aborted"] * 2
        cell, comm = begin(kernel, wait)
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        assert "got allow" in cell.text

    @both
    def test_cells_behind_a_wait_that_fails_are_aborted(self, kernel: Kernel, wait: str) -> None:
        """Also those that the pump has taken out of the socket meanwhile."""
        cell, comm = begin(kernel, wait, then="1 / 0")
        queued = [kernel.submit("1"), kernel.submit("2")]
        kernel.comm(comm, {"answer": "allow"})
        assert kernel.finish(cell, check=False).error == "ZeroDivisionError"
        assert [kernel.finish(behind, check=False).status for behind in queued] == ["aborted"] * 2
        assert kernel.run("1").status == "ok"

    def test_a_queued_cell_sees_the_context_it_would_see_without_the_pump(
        self, kernel: Kernel
    ) -> None:
        """Context variables set by a cell live on or not, as the version has it."""
        kernel.run("import contextvars; mine = contextvars.ContextVar('mine', default='unset')")
        plain = kernel.run_all(["mine.set('plain')", "print(mine.get())"])[-1]
        cell, comm = begin(kernel, SYNC, then="mine.set('pumped')")
        pumped = kernel.submit("print(mine.get())")
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        kernel.finish(pumped)
        assert (pumped.text == "pumped\n") == (plain.text == "plain\n")


class TestInterrupts:
    @both
    def test_the_first_ends_the_turn_and_the_cell_ends_normally(
        self, kernel: Kernel, wait: str
    ) -> None:
        """FAULTS K2, T-3."""
        cell, _ = begin(kernel, wait, then="print('cancels', turn.cancels)")
        with within(2):
            kernel.interrupt()
            kernel.finish(cell)
        assert "got cancelled" in cell.text
        assert "cancels 1" in cell.text

    @both
    def test_the_second_ends_the_cell_at_once(self, kernel: Kernel, wait: str) -> None:
        """FAULTS K2: an agent that ignores session/cancel must not hold the kernel."""
        cell, _ = begin(kernel, wait, arguments="deaf=True")
        kernel.interrupt()
        kernel.wait_for(cell, "cancel 1")
        with within(2):
            kernel.interrupt()
            kernel.finish(cell, check=False)
        assert cell.error == INTERRUPTED[wait]
        assert kernel.run("print('cancels', turn.cancels)").text == "cancels 1\n"

    @both
    def test_the_cell_ends_when_the_grace_has_passed(self, kernel: Kernel, wait: str) -> None:
        wait = wait.replace("()", "(grace=0.2)")
        cell, _ = begin(kernel, wait, arguments="deaf=True")
        with within(2):
            kernel.interrupt()
            kernel.finish(cell, check=False)
        assert cell.error in INTERRUPTED.values()
        assert "did not end within 0.2 s" in str(cell.reply)

    @both
    def test_between_interrupt_and_end_clicks_still_arrive(self, kernel: Kernel, wait: str) -> None:
        cell, comm = begin(kernel, wait, arguments="deaf=True")
        kernel.interrupt()
        kernel.wait_for(cell, "cancel 1")
        kernel.comm(comm, {"answer": "too late"})
        kernel.finish(cell)
        assert "got too late" in cell.text

    @both
    def test_afterwards_the_kernel_is_as_before(self, kernel: Kernel, wait: str) -> None:
        """Its own handlers are back, and messages reach it again."""
        cell, _ = begin(kernel, wait)
        kernel.interrupt()
        kernel.finish(cell)
        looping = kernel.submit("import threading; print('in'); threading.Event().wait(15)")
        kernel.wait_for(looping, "in")
        kernel.interrupt()
        assert kernel.finish(looping, check=False).error == "KeyboardInterrupt"
        idle = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
        assert kernel.run(idle).text == "default_int_handler\n"

    def test_a_handler_that_hangs_is_ended_and_the_turn_with_it(self, kernel: Kernel) -> None:
        cell, comm = begin(kernel, SYNC)
        hanging = "import time\nprint('hangs', flush=True)\ntime.sleep(15)"
        sent = kernel.comm(comm, {"run": hanging})
        kernel.wait_until(lambda: "hangs" in kernel.printed(sent), "the handler")
        with within(2):
            kernel.interrupt()
            kernel.finish(cell)
        assert "got cancelled" in cell.text

    def test_no_message_is_lost_to_an_interrupt(self, kernel: Kernel) -> None:
        """Though SIGINT strikes a pump that is busy with messages."""
        cell, comm = begin(kernel, SYNC, arguments="deaf=True", then="print(len(turn.handled))")
        for number in range(100):
            kernel.comm(comm, {"n": number})
        queued = [kernel.submit(f"{number}") for number in range(5)]
        kernel.interrupt()
        kernel.wait_for(cell, "cancel 1")
        kernel.comm(comm, {"answer": "done"})
        kernel.finish(cell)
        assert cell.text.endswith("got done\n101\n")
        assert [kernel.finish(behind).status for behind in queued] == ["ok"] * 5

    def test_one_interrupt_ends_all_turns_a_cell_awaits(self, kernel: Kernel) -> None:
        code = (
            "import asyncio\n"
            "turns = [Turn(), Turn()]\n"
            "print(await asyncio.gather(*(turn.prompt() for turn in turns)))"
        )
        cell = kernel.submit(code)
        kernel.wait_until(lambda: cell.text.count("waiting") == 2 or cell.done, "both turns")
        kernel.interrupt()
        kernel.finish(cell)
        assert "['cancelled', 'cancelled']" in cell.text

    def test_an_interrupt_of_another_cell_leaves_the_turn_alone(self, kernel: Kernel) -> None:
        """FAULTS K4: a turn in the background, SIGINT in an unrelated cell."""
        cell = kernel.run(
            "import asyncio, threading\n"
            "turn = Turn()\n"
            "background = asyncio.create_task(turn.prompt())\n"
            "await asyncio.sleep(0)"
        )
        other = kernel.submit("print('in'); threading.Event().wait(15)")
        kernel.wait_for(other, "in")
        kernel.interrupt()
        assert kernel.finish(other, check=False).error == "KeyboardInterrupt"
        kernel.comm(cell.text.split()[1], {"answer": "unharmed"})
        after = kernel.run("print(await background, turn.cancels)")
        assert after.text == "unharmed 0\n"


class TestTurnsInTheBackground:
    def test_cells_run_and_clicks_arrive_while_nobody_waits(self, kernel: Kernel) -> None:
        cell = kernel.run(
            "import asyncio\n"
            "turn = Turn()\n"
            "background = asyncio.create_task(turn.prompt())\n"
            "await asyncio.sleep(0)"
        )
        cells = kernel.run_all(["a = 1", "await asyncio.sleep(0.01); b = 2", "print(a + b)"])
        assert cells[-1].text == "3\n"
        noisy = kernel.submit(
            "import threading; await asyncio.sleep(0); print('one', flush=True)\n"
            "while not turn.handled: await asyncio.sleep(0.01)\n"
            "print('two')\n"
            "thread = threading.Thread(target=print, args=('three',))\n"
            "thread.start(); thread.join()"
        )
        kernel.wait_for(noisy, "one")
        kernel.comm(cell.text.split()[1], {"run": "pass"})
        assert kernel.finish(noisy).text == "one\ntwo\nthree\n"
        kernel.comm(cell.text.split()[1], {"answer": "later"})
        assert kernel.run("print(await background)").text == "later\n"

    def run_and_answer_both(self, kernel: Kernel, code: str) -> Cell:
        """Run a cell that waits for two turns; the first is answered ``a``, the second ``b``."""
        cell = kernel.submit(code)
        kernel.wait_until(lambda: cell.text.count("waiting") == 2 or cell.done, "both turns")
        comms = [line.split()[1] for line in cell.text.splitlines() if line.startswith("comm")]
        kernel.comm(comms[0], {"answer": "a"})
        kernel.comm(comms[1], {"answer": "b"})
        kernel.finish(cell)
        return cell

    def test_two_turns_of_one_cell_share_the_pump(self, kernel: Kernel) -> None:
        code = (
            "import asyncio\n"
            "first, second = Turn(), Turn()\n"
            "print(await asyncio.gather(first.prompt(), second.prompt()))"
        )
        cell = self.run_and_answer_both(kernel, code)
        assert "['a', 'b']" in cell.text

    def test_a_blocking_wait_inside_an_async_cell_serves_both(self, kernel: Kernel) -> None:
        code = (
            "import asyncio\n"
            "first, second = Turn(), Turn()\n"
            "background = asyncio.create_task(first.prompt())\n"
            "await asyncio.sleep(0)\n"
            "print('blocking', second.ask())\n"
            "print('awaited', await background)"
        )
        cell = self.run_and_answer_both(kernel, code)
        assert "blocking b" in cell.text
        assert "awaited a" in cell.text


class TestJobsOnTheMainThread:
    ASK = (
        "import asyncio, threading\n"
        "from silo_nb.runtime import agent_thread, run_on_main, wait_async, wait_sync\n"
        "def where(): return threading.current_thread().name\n"
        "async def tool(): return await asyncio.wrap_future(run_on_main(where))\n"
    )

    @pytest.mark.parametrize("wait", ["wait_sync", "await wait_async"], ids=["sync", "async"])
    def test_they_run_while_a_cell_waits(self, kernel: Kernel, wait: str) -> None:
        cell = kernel.run(f"{self.ASK}print({wait}(agent_thread().run(tool())))")
        assert cell.text == "MainThread\n"

    def test_they_run_while_the_kernel_is_idle(self, kernel: Kernel) -> None:
        kernel.run(f"{self.ASK}future = agent_thread().run(tool())")
        with within(10):
            while kernel.run("print(future.done())").text != "True\n":
                pass  # between two cells the kernel is idle
        assert kernel.run("print(future.result())").text == "MainThread\n"

    @both
    def test_an_interrupt_ends_the_job_and_the_turn(self, kernel: Kernel, wait: str) -> None:
        hang = "print('hangs', flush=True), __import__('time').sleep(15)"
        code = (
            "from silo_nb.runtime import run_on_main\n"
            "turn = Turn()\n"
            f"job = run_on_main(lambda: ({hang}))\n"
            f"print({wait}, repr(job.exception()))"
        )
        cell = kernel.submit(code)
        kernel.wait_for(cell, "hangs")
        with within(2):
            kernel.interrupt()
            kernel.finish(cell)
        assert "cancelled JobInterrupted('the job was ended by KeyboardInterrupt')" in cell.text


class TestWaitsInsideWaits:
    @both
    def test_a_handler_must_not_wait(self, kernel: Kernel, wait: str) -> None:
        """It would hold up the very answer it waits for; it is told so and nothing hangs."""
        cell, comm = begin(kernel, wait, then="print(turn.refused, turn.nested.cancelled())")
        nested = (
            "import asyncio\n"
            "from silo_nb.runtime import agent_thread, wait_sync\n"
            "turn.nested = agent_thread().run(asyncio.sleep(15))\n"
            "try: wait_sync(turn.nested)\n"
            "except RuntimeError as error: turn.refused = str(error)"
        )
        kernel.comm(comm, {"run": nested})
        kernel.comm(comm, {"answer": "allow"})
        with within(5):
            kernel.finish(cell)
        assert "cannot wait here" in cell.text
        assert cell.text.endswith("True\n")

    def test_a_handler_may_wait_when_nobody_else_does(self, kernel: Kernel) -> None:
        cell = kernel.run("turn = Turn()\nasync def soon(): return 'soon'")
        nested = (
            "import __main__\n"
            "from silo_nb.runtime import agent_thread, wait_sync\n"
            "turn.told = wait_sync(agent_thread().run(__main__.soon()))"
        )
        kernel.comm(cell.text.split()[1], {"run": nested})
        assert kernel.run("print(turn.told)").text == "soon\n"


class TestOtherLoopsAndThreads:
    """FAULTS K13: a turn can be waited for from wherever a notebook runs code."""

    def test_a_thread_waits_while_cells_run(self, kernel: Kernel) -> None:
        cell = kernel.run(
            "import threading\n"
            "got = []\n"
            "turn = Turn()\n"
            "thread = threading.Thread(target=lambda: got.append(turn.ask()))\n"
            "thread.start()"
        )
        assert kernel.run("1 + 1").outputs
        kernel.comm(cell.text.split()[1], {"answer": "from a thread"})
        assert kernel.run("thread.join(); print(got)").text == "['from a thread']\n"

    @pytest.mark.parametrize(
        "run",
        [
            "asyncio.run(main())",
            "from tornado.ioloop import IOLoop; IOLoop(make_current=False).run_sync(main)",
        ],
        ids=["asyncio.run", "tornado"],
    )
    def test_a_loop_in_a_thread_awaits_a_turn(self, kernel: Kernel, run: str) -> None:
        cell = kernel.run(
            "import asyncio, threading\n"
            "from silo_nb.runtime import agent_thread, wait_async\n"
            "got = []\n"
            "async def work(): await asyncio.sleep(0.01); return 'worked'\n"
            "async def main(): got.append(await wait_async(agent_thread().run(work())))\n"
            f"def in_thread():\n    {run}\n"
            "thread = threading.Thread(target=in_thread); thread.start(); thread.join(15)\n"
            "print(got)"
        )
        assert cell.text == "['worked']\n"

    def test_a_subshell_waits_while_the_main_shell_is_free(self, kernel: Kernel) -> None:
        subshell = kernel.create_subshell()
        if subshell is None:
            return  # ipykernel 6 has none: nothing to claim
        cell = kernel.submit("turn = Turn()\nprint('got', turn.ask())", subshell_id=subshell)
        kernel.wait_for(cell, "waiting")
        assert kernel.run("1 + 1").outputs
        kernel.comm(cell.text.split()[1], {"answer": "allow"})
        kernel.finish(cell)
        assert "got allow" in cell.text

    @pytest.mark.parametrize("first", ["nested", "turn"])
    def test_nested_asyncio_applied_by_the_user_breaks_nothing(
        self, own_kernel: Kernel, first: str
    ) -> None:
        """Whether asyncio is patched before or after the agent thread was started."""
        steps = {
            "nested": "from silo_nb.runtime.kernel_compat import allow_nested_asyncio as allow\n"
            "allow()",
            "turn": "from silo_nb.runtime import agent_thread, wait_async, wait_sync\n"
            "import asyncio\n"
            "async def work(): await asyncio.sleep(0.01); return 'worked'\n"
            "wait_sync(agent_thread().run(work()))",
        }
        second = "turn" if first == "nested" else "nested"
        own_kernel.run(steps[first])
        own_kernel.run(steps[second])
        nested = own_kernel.run(
            "async def main(): return await wait_async(agent_thread().run(work()))\n"
            "print(asyncio.run(main()))"
        )
        assert nested.text == "worked\n"
        for wait in (SYNC, ASYNC):
            cell, comm = begin(own_kernel, wait)
            own_kernel.comm(comm, {"answer": "allow"})
            own_kernel.finish(cell)
            assert "got allow" in cell.text


class TestWithoutThePrivateNames:
    """What changes when a future ipykernel, or another kernel, lacks what the pump needs."""

    HIDE = (
        "from IPython import get_ipython\n"
        "class Strange:\n"
        "    def __init__(self, kernel): self.kernel = kernel\n"
        "    def __getattr__(self, name):\n"
        "        if name == '_parent_ident': raise AttributeError(f'no {name}')\n"
        "        return getattr(self.kernel, name)\n"
        "shell = get_ipython()\n"
        "real, shell.kernel = shell.kernel, None\n"
        "shell.__dict__['strange'] = Strange(real)\n"
        "type(shell).kernel = property(lambda shell: shell.__dict__['strange'])"
    )

    @both
    def test_cells_wait_without_it_and_say_so_once(self, own_kernel: Kernel, wait: str) -> None:
        own_kernel.run(self.HIDE)
        for expected in (1, 0):
            cell, _ = begin(own_kernel, wait)
            own_kernel.interrupt()
            own_kernel.finish(cell)
            assert "got cancelled" in cell.text
            assert cell.stderr.count("cannot receive clicks while a cell waits") == expected
            assert cell.stderr.count("no _parent_ident in ipykernel") == expected

    def test_a_slow_handler_is_left_to_the_loop(self, kernel: Kernel) -> None:
        """The pump cannot await; a kernel whose answers take time gives them after the cell."""
        kernel.run(
            "import asyncio\n"
            "from IPython import get_ipython\n"
            "handlers = get_ipython().kernel.shell_handlers\n"
            "quick = handlers['comm_info_request']\n"
            "async def slow(*arguments):\n"
            "    await asyncio.sleep(0.01)\n"
            "    await quick(*arguments)\n"
            "handlers['comm_info_request'] = slow"
        )
        cell, comm = begin(kernel, SYNC)
        sent = kernel.send("comm_info_request", {})
        kernel.comm(comm, {"answer": "allow"})
        kernel.finish(cell)
        kernel.wait_until(lambda: sent in kernel.reply_order, "the slow answer")
        kernel.run("handlers['comm_info_request'] = quick")

    def test_another_receiver_above_ours_loses_nothing(self, kernel: Kernel) -> None:
        """Set while a turn is awaited, and taken away when the pump is long gone."""
        swap = (
            "from IPython import get_ipython\n"
            "from silo_nb.runtime import kernel_compat\n"
            "stream = kernel_compat.shell_names(get_ipython().kernel).stream\n"
            "ours, passed = stream._recv_callback, []\n"
            "stream.on_recv(lambda frames: passed.append(ours(frames)), copy=False)"
        )
        cell = kernel.submit(
            "import asyncio\n"
            "turn = Turn()\n"
            "background = asyncio.create_task(turn.prompt())\n"
            f"await asyncio.sleep(0)\n{swap}\nprint('got', await background)"
        )
        kernel.wait_for(cell, "waiting")
        kernel.comm(cell.text.split()[1], {"answer": "allow"})
        assert "got allow" in kernel.finish(cell).text
        assert kernel.run("1 + 1").outputs
        kernel.run("stream.on_recv(ours, copy=False)")
        for wait in (SYNC, ASYNC, SYNC):
            cell, comm = begin(kernel, wait)
            queued = kernel.submit("2 + 2")
            kernel.comm(comm, {"answer": "allow"})
            assert "got allow" in kernel.finish(cell).text
            assert kernel.finish(queued).outputs


class TestTheEnd:
    def test_a_fork_in_a_cell_leaves_the_parents_agents_alone(self, own_kernel: Kernel) -> None:
        """FAULTS K7: os.fork() and multiprocessing."""
        if not hasattr(os, "fork"):
            return
        fork = (
            "import os, multiprocessing\n"
            "from silo_nb.runtime import agent_thread, kernel_compat, wait_sync\n"
            "async def answer(): return 42\n"
            "wait_sync(agent_thread().run(answer()))\n"
            "def child(results):\n"
            "    own = wait_sync(agent_thread().run(answer()))\n"
            "    results.put((own, kernel_compat.current_kernel()))\n"
            "context = multiprocessing.get_context('fork')\n"
            "results = context.SimpleQueue()\n"
            "process = context.Process(target=child, args=(results,)); process.start()\n"
            "process.join(10)\n"
            "print(process.exitcode, results.get())"
        )
        assert own_kernel.run(fork).text.endswith("0 (42, None)\n")
        for wait in (SYNC, ASYNC):
            cell, comm = begin(own_kernel, wait)
            own_kernel.comm(comm, {"answer": "allow"})
            own_kernel.finish(cell)
            assert "got allow" in cell.text

    @pytest.mark.parametrize("cell", ["idle", SYNC, ASYNC])
    def test_shutdown_with_an_open_turn_is_quick_and_silent(
        self, own_kernel: Kernel, cell: str
    ) -> None:
        """FAULTS K16: no traceback of ours, at most 3 s.

        ipykernel 7 may log one of its own, when a cell ends while its shell channel closes.
        """
        if cell == "idle":
            own_kernel.run("turn = Turn(); turn.start()")
        else:
            begin(own_kernel, cell)
        assert own_kernel.shutdown() < 3
        assert f"silo_nb{os.sep}" not in own_kernel.log
        assert "destroyed" not in own_kernel.log
