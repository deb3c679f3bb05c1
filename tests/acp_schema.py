"""The protocol's own schema as an oracle: is this message one that ACP version 1 allows?

::

    validate("PromptRequest", params)                    # one definition of the schema
    validate_params("session/prompt", params)            # by method, requests and notifications
    validate_result("session/prompt", result)            # by the method that was asked

    exchange = Exchange()                                # a whole conversation, both directions
    exchange.from_client(message); exchange.from_agent(message)

Everything raises `NotInSchema`, an AssertionError that names the place and the rule. Methods the
schema does not know (vendor extensions begin with ``_``) raise too: ask `knows` first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

SCHEMA_FILE = Path(__file__).parent / "data" / "acp" / "schema.json"
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


class NotInSchema(AssertionError):
    """An instance the schema does not allow."""


def _definitions_named(*endings: str) -> Iterator[tuple[str, str, str]]:
    """Yield (side, method, definition) of each definition that ends in one of `endings`."""
    for name, definition in SCHEMA["$defs"].items():
        if "x-method" in definition and name.endswith(endings):
            yield definition["x-side"], definition["x-method"], name


# Method -> name of the definition of its params or result. "Agent" methods are those an agent
# serves: a client sends them. `$/cancel_request` goes both ways.
AGENT_PARAMS = {
    method: name
    for side, method, name in _definitions_named("Request", "Notification")
    if side in {"agent", "protocol"}
}
AGENT_RESULTS = {
    method: name for side, method, name in _definitions_named("Response") if side == "agent"
}
CLIENT_PARAMS = {
    method: name
    for side, method, name in _definitions_named("Request", "Notification")
    if side in {"client", "protocol"}
}
CLIENT_RESULTS = {
    method: name for side, method, name in _definitions_named("Response") if side == "client"
}
PARAMS = AGENT_PARAMS | CLIENT_PARAMS
RESULTS = AGENT_RESULTS | CLIENT_RESULTS


@cache
def _validator(definition: str) -> Draft202012Validator:
    if definition not in SCHEMA["$defs"]:
        raise NotInSchema(f"the schema has no definition {definition!r}")
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]})


def knows(method: str) -> bool:
    """Whether the schema describes `method` at all, in either direction."""
    return method in PARAMS


def validate(definition: str, instance: Any) -> None:
    """Check `instance` against one definition of the schema, by name."""
    error = best_match(_validator(definition).iter_errors(instance))
    if error is not None:
        error = _innermost(error)
        place = error.json_path.removeprefix("$.")
        shown = json.dumps(instance, default=repr)
        raise NotInSchema(f"{definition}: at {place}: {error.message}\nin {shown[:2000]}")


def _innermost(error: ValidationError) -> ValidationError:
    """Of a union that failed, show what is wrong in the branch the instance says it is."""
    while error.context:
        branches: dict[Any, list[ValidationError]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        meant = [
            errors for errors in branches.values() if all(e.validator != "const" for e in errors)
        ]
        if len(meant) != 1:
            return error
        error = meant[0][0]
    return error


def validate_params(method: str, params: Any) -> None:
    """Check the params of a request or notification."""
    validate(_named(PARAMS, method), params)


def validate_result(method: str, result: Any) -> None:
    """Check the result of a request. `null` stands for an empty object (session/load sends it)."""
    validate(_named(RESULTS, method), {} if result is None else result)


def _named(table: Mapping[str, str], method: str) -> str:
    if method not in table:
        raise NotInSchema(f"the schema knows no method {method!r}")
    return table[method]


class Exchange:
    """Checks the messages of one connection in the order they are sent, both directions.

    A response is checked against the method its id asked for. Of vendor methods (``_…``) nothing
    is known but that they are JSON-RPC.
    """

    def __init__(self) -> None:
        self._asked_by_client: dict[Any, str] = {}
        self._asked_by_agent: dict[Any, str] = {}

    def from_client(self, message: Mapping[str, Any]) -> None:
        """Check a message that the client sends."""
        self._check(message, AGENT_PARAMS, self._asked_by_client, self._asked_by_agent)

    def from_agent(self, message: Mapping[str, Any]) -> None:
        """Check a message that the agent sends."""
        self._check(message, CLIENT_PARAMS, self._asked_by_agent, self._asked_by_client)

    @property
    def unanswered(self) -> dict[str, list[str]]:
        """Methods asked for and not answered yet, by who asked."""
        return {
            "client": list(self._asked_by_client.values()),
            "agent": list(self._asked_by_agent.values()),
        }

    def _check(
        self,
        message: Mapping[str, Any],
        served: Mapping[str, str],
        asked: dict[Any, str],
        answers: dict[Any, str],
    ) -> None:
        if message.get("jsonrpc") != "2.0":
            raise NotInSchema(f"not JSON-RPC 2.0: {message!r:.500}")
        method = message.get("method")
        if method is None:
            self._check_response(message, answers)
            return
        if method in served:
            validate(served[method], message.get("params"))
        elif not method.startswith(("_", "$/")):
            raise NotInSchema(f"{method!r} is not served by the other side")
        if "id" in message:
            if message["id"] in asked:
                raise NotInSchema(f"request id {message['id']!r} is in use")
            asked[message["id"]] = method

    @staticmethod
    def _check_response(message: Mapping[str, Any], answers: dict[Any, str]) -> None:
        if message.get("id") not in answers:
            raise NotInSchema(f"answers no open request: {message!r:.500}")
        method = answers.pop(message["id"])
        if ("result" in message) == ("error" in message):
            raise NotInSchema(f"a response has either a result or an error: {message!r:.500}")
        if "error" in message:
            validate("Error", message["error"])
        elif method in RESULTS:
            validate_result(method, message["result"])
