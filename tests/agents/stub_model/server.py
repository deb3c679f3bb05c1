"""The HTTP side of the stub model."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar, Self, cast
from urllib.parse import urlsplit

from .anthropic import AnthropicDialect
from .chat import ChatDialect
from .dialect import Dialect, Json, next_turn, play, scripts_of
from .gemini import GeminiDialect, choice_of_model
from .responses import ResponsesDialect

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request for an answer, as the model saw it.

    Attributes:
        script: the script whose marker the prompt carried, None for titles and the like.
        step: which step of the script was played.
        results: what the model was told its last tool calls came to.
        history: the scripts of all prompts of the conversation, oldest first.
    """

    dialect: str
    model: str
    script: str | None
    step: int
    results: tuple[str, ...]
    history: tuple[str, ...]


class StubModel:
    """A model server on a free port of the loopback interface; a context manager."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._requests: list[ModelRequest] = []
        self._unknown: list[str] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="stub-model")

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End every open stream and the server."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def closing(self) -> threading.Event:
        """Set when the server ends."""
        return self._closing

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """The requests so far, oldest first."""
        with self._lock:
            return tuple(self._requests)

    @property
    def unknown_paths(self) -> tuple[str, ...]:
        """Paths that were asked for and are not served."""
        with self._lock:
            return tuple(self._unknown)

    def told(self, script: str) -> tuple[str, ...]:
        """Return what the model was told about the tools it called in a script."""
        found: Iterable[ModelRequest] = (r for r in self.requests if r.script == script)
        return tuple(result for request in found for result in request.results)

    def remembers(self) -> tuple[str, ...]:
        """Return the scripts of the conversation that the last prompt was part of."""
        return next(r.history for r in reversed(self.requests) if r.script is not None)

    def note(self, request: ModelRequest) -> None:
        """Add a request to the log."""
        with self._lock:
            self._requests.append(request)

    def note_unknown(self, path: str) -> None:
        """Add a path that is not served to the log."""
        with self._lock:
            self._unknown.append(path)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, model: StubModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    DIALECTS: ClassVar[dict[str, Dialect]] = {
        "/messages": AnthropicDialect(),
        "/chat/completions": ChatDialect(),
        "/responses": ResponsesDialect(),
        ":streamGenerateContent": GeminiDialect(),
    }

    @property
    def _stub(self) -> StubModel:
        return cast("_Server", self.server).model

    def handle(self) -> None:
        """Serve one client until it hangs up, which is how an agent cancels a turn."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Keep the tests' stderr free of an access log."""

    def do_GET(self) -> None:
        """Note what is not served: lists of models, updates, telemetry."""
        self._not_found(urlsplit(self.path).path)

    def do_POST(self) -> None:
        """Answer as the model."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = urlsplit(self.path).path
        model = body.get("model") or path.rpartition("/")[2].partition(":")[0]
        if path.endswith(":generateContent"):
            self._send_json(choice_of_model(model))
            return
        dialect = next((d for end, d in self.DIALECTS.items() if path.endswith(end)), None)
        if dialect is None:
            self._not_found(path)
            return
        self._answer(dialect, body, model)

    def _answer(self, dialect: Dialect, body: Json, model: str) -> None:
        conversation = dialect.conversation(body)
        turn = next_turn(conversation)
        results = conversation.results if turn.script else ()
        history = scripts_of(conversation)
        self._stub.note(ModelRequest(dialect.name, model, turn.script, turn.step, results, history))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        play(turn.blocks, dialect.writer(self, body, model), self._stub.closing)
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data: Json | str, name: str | None = None) -> None:
        """Send one server-sent event."""
        head = f"event: {name}\n" if name else ""
        text = data if isinstance(data, str) else json.dumps(data)
        self._chunk(f"{head}data: {text}\n\n")

    def comment(self) -> None:
        """Send a server-sent event that says nothing."""
        self._chunk(": ping\n\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _not_found(self, path: str) -> None:
        self._stub.note_unknown(path)
        error = {"type": "not_found_error", "message": f"the stub serves no {path}"}
        self._send_json({"type": "error", "error": error}, HTTPStatus.NOT_FOUND)

    def _send_json(self, value: Json, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
