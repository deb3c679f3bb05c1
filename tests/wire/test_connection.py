"""Connection: order, both directions' requests, and nothing that stops it. (PROTOCOL §3; T-4)"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silo_nb.acp.connection import Connection, ConnectionLostError
from silo_nb.acp.rpc import IncomingRequest, InvalidParamsError, RpcError


class Recorder:
    """A host that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.requests: list[IncomingRequest] = []

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "trip":
            raise RuntimeError("a bug of ours")
        self.events.append((method, params))

    def on_request(self, request: IncomingRequest) -> None:
        if request.method == "bad":
            raise InvalidParamsError("toolCall: expected an object")
        if request.method == "trip":
            raise RuntimeError("a bug of ours")
        self.events.append(request.method)
        self.requests.append(request)


class Wire:
    """A connection with its far end in the test's hands."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.host = Recorder()
        self.connection = Connection(lambda data: self.sent.append(json.loads(data)), self.host)

    def receive(self, *messages: Any) -> None:
        self.connection.feed(b"".join(json.dumps(m).encode() + b"\n" for m in messages))


@pytest.fixture
def wire() -> Wire:
    return Wire()


def update(n: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"n": n}}


async def test_requests_are_numbered_from_1_and_get_their_result(wire: Wire) -> None:
    first = wire.connection.request("initialize", {"protocolVersion": 1})
    second = wire.connection.request("session/new", {})
    wire.receive({"id": 2, "result": {"sessionId": "s"}}, {"id": 1, "result": {"a": 1}})

    assert [m["id"] for m in wire.sent] == [1, 2]
    assert await first == {"a": 1}
    assert await second == {"sessionId": "s"}


async def test_what_precedes_a_response_is_handled_before_it_and_what_follows_after(
    wire: Wire,
) -> None:
    """PROTOCOL §3.9: one reader, wire order, also within one read."""
    done = wire.connection.request(
        "session/prompt", {}, on_result=lambda _: wire.host.events.append("response")
    )
    wire.receive(update(1), update(2), {"id": 1, "result": {}}, update(3))

    assert [e if e == "response" else e[1]["n"] for e in wire.host.events] == [1, 2, "response", 3]
    await done


async def test_an_error_response_fails_the_request_readably(wire: Wire) -> None:
    pending = wire.connection.request("session/new", {})
    wire.receive({"id": 1, "error": {"code": -32000, "message": "log in", "data": {"a": 1}}})

    with pytest.raises(RpcError, match="log in") as failure:
        await pending
    assert (failure.value.code, failure.value.data) == (-32000, {"a": 1})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"code": "x", "message": "text code"}, "text code"),
        ({"code": 1}, "the agent gave no reason"),
        ({"message": ""}, "the agent gave no reason"),
        ("just words", "just words"),
        (["odd"], "the agent gave no reason"),
        ({"message": "m", "data": "x" * 1_000_000}, "m"),
        ({"message": "\x1b[31mred\x1b[0m"}, "red"),
    ],
)
async def test_any_error_is_readable(wire: Wire, error: Any, message: str) -> None:
    """FAULTS R10."""
    pending = wire.connection.request("session/new", {})
    wire.receive({"id": 1, "error": error})

    with pytest.raises(RpcError) as failure:
        await pending
    assert failure.value.message == message
    assert len(repr(failure.value.data)) < 30_000


async def test_a_response_with_result_and_error_is_an_error(wire: Wire) -> None:
    """FAULTS R9."""
    pending = wire.connection.request("session/new", {})
    wire.receive({"id": 1, "result": {}, "error": {"code": 1, "message": "no"}})

    with pytest.raises(RpcError, match="no"):
        await pending


async def test_a_null_result_is_an_empty_one(wire: Wire) -> None:
    """session/load may answer null (PROTOCOL §2)."""
    pending = wire.connection.request("session/load", {})
    wire.receive({"id": 1, "result": None})

    assert await pending == {}


@pytest.mark.parametrize("request_id", [99, "1", None, {"a": 1}, [1], 1.5, True])
async def test_a_response_to_no_open_request_is_logged_and_ignored(
    wire: Wire, request_id: Any
) -> None:
    """FAULTS R8; an object id kills the official SDK's reader."""
    pending = wire.connection.request("session/new", {})
    wire.receive({"id": 1, "result": {"ok": 1}}, {"id": request_id, "result": {}})

    assert await pending == {"ok": 1}
    assert wire.connection.diagnostics.counts["response to no open request"] == 1


async def test_a_second_response_is_ignored(wire: Wire) -> None:
    """FAULTS R7, case 6."""
    pending = wire.connection.request("session/prompt", {})
    wire.receive({"id": 1, "result": {"n": 1}}, {"id": 1, "result": {"n": 2}})

    assert await pending == {"n": 1}
    assert wire.connection.diagnostics.counts["response to no open request"] == 1


@pytest.mark.parametrize("request_id", [0, 7, "abc", None, -1])
async def test_a_request_is_answered_once_with_its_own_id(wire: Wire, request_id: Any) -> None:
    """Agents number from 0, which is falsy (REAL_AGENTS §4.1)."""
    wire.receive({"id": request_id, "method": "session/request_permission", "params": {}})
    request = wire.host.requests[0]

    assert request.reply({"outcome": 1}) is True
    assert request.reply({"outcome": 2}) is False
    assert request.refuse(-1, "late") is False
    assert wire.sent == [{"jsonrpc": "2.0", "id": request_id, "result": {"outcome": 1}}]


async def test_the_two_directions_ids_do_not_collide(wire: Wire) -> None:
    pending = wire.connection.request("session/prompt", {})
    wire.receive({"id": 1, "method": "ask", "params": {}}, {"id": 1, "result": {"done": 1}})
    wire.host.requests[0].reply({})

    assert await pending == {"done": 1}
    assert wire.sent[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_bad_params_are_answered_with_the_field(wire: Wire) -> None:
    """FAULTS R13."""
    wire.receive({"id": 5, "method": "bad", "params": {}}, {"id": 6, "method": "x", "params": [1]})

    assert [m["error"]["code"] for m in wire.sent] == [-32602, -32602]
    assert "toolCall" in wire.sent[0]["error"]["message"]


async def test_a_bug_of_ours_does_not_stop_the_messages_behind_it(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "silo_nb.acp"):
        wire.receive(
            {"method": "trip", "params": {}}, {"id": 3, "method": "trip", "params": {}}, update(1)
        )

    assert wire.host.events == [("session/update", {"n": 1})]
    assert wire.sent[0]["error"]["code"] == -32603


async def test_a_request_taken_back_is_answered_as_cancelled(wire: Wire) -> None:
    """PROTOCOL §3.5: claude and codex withdraw with $/cancel_request."""
    withdrawn: list[bool] = []
    wire.receive({"id": 0, "method": "session/request_permission", "params": {}})
    wire.host.requests[0].on_withdrawn = lambda: withdrawn.append(True)
    wire.receive({"method": "$/cancel_request", "params": {"requestId": 0}})

    assert withdrawn == [True]
    assert wire.sent[0]["error"]["code"] == -32800
    assert wire.host.requests[0].reply({}) is False


@pytest.mark.parametrize("request_id", [0, {"a": 1}, None, [1]])
async def test_taking_back_what_is_not_open_does_nothing(wire: Wire, request_id: Any) -> None:
    wire.receive({"method": "$/cancel_request", "params": {"requestId": request_id}})

    assert wire.sent == []


async def test_cancelling_our_request_tells_the_agent(wire: Wire) -> None:
    pending = wire.connection.request("session/new", {})
    pending.cancel()
    await asyncio.wait([pending])
    wire.receive({"id": 1, "result": {}})

    assert wire.sent[-1]["method"] == "$/cancel_request"
    assert wire.sent[-1]["params"] == {"requestId": 1}


async def test_when_the_agent_is_gone_everything_pending_fails_at_once(wire: Wire) -> None:
    pending = wire.connection.request("session/prompt", {})
    wire.receive({"id": 0, "method": "ask", "params": {}})
    wire.connection.feed(b'{"method":"session/update","params":{"n":9}}')
    wire.connection.close()

    with pytest.raises(ConnectionLostError):
        await pending
    with pytest.raises(ConnectionLostError):
        await wire.connection.request("session/prompt", {})
    assert wire.host.events[-1] == ("session/update", {"n": 9})
    assert wire.host.requests[0].answered


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)
FRAMES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": JSON,
            "method": st.sampled_from(["session/update", "ask", "$/cancel_request", "bad", ""])
            | JSON,
            "params": JSON,
            "result": JSON,
            "error": JSON,
        },
    )
    | JSON,
    max_size=30,
)


@given(FRAMES)
def test_no_frame_stops_the_next_one(frames: list[Any]) -> None:
    """T-4: fuzzed frames; none escapes, none leaves a future behind, the last one is processed."""

    async def play() -> None:
        wire = Wire()
        pending = wire.connection.request("session/new", {})
        wire.receive(*frames, {"id": 1, "result": {}}, update(1))
        assert pending.done()
        assert wire.host.events[-1] == ("session/update", {"n": 1})
        wire.connection.close()
        await asyncio.wait([pending])

    asyncio.run(play())
