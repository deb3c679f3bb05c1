r"""A scripted agent: speaks ACP over stdio and does exactly what a scenario says, faults included.

::

    python -m silo_nb.testing.fake_agent SCENARIO.jsonl [--log FILE] [--control DIR] [--tag TEXT]

A scenario is JSON Lines: one step a line, played in order. A step is an object whose one *verb*
says what to do; other keys are its options. The file is named for what happens in it, and its first
line may tell the reader more::

    {"about": "a refused edit, then the agent dies"}
    {"expect": "session/prompt"}
    {"say": "I would like to change something."}
    {"ask": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}}}
    {"exit": 3}

What needs no step
    ``initialize``, ``session/new``, ``session/load`` and their like are answered with sane
    defaults; a prompt is answered with one chunk ``ok`` and ``end_turn``; ``session/cancel`` ends
    the open prompt with ``cancelled`` (the rest of that turn is skipped, up to its reply);
    ``$/cancel_request`` does the same with error -32800; other requests get -32601. A message is
    kept for the script instead as long as an ``expect`` that fits it lies ahead.
    ``{"defaults": {"initialize": {…}}}`` replaces single answers: a result, or ``{"error": {…}}``.
    The process ends when its stdin does.

Talking
    ``{"expect": METHOD}``  wait for a request or notification; a request is then *bound*.
        ``params``: a subset it has to have. ``as``: a name for it.
    ``{"reply": RESULT}``  answer the bound request; a string is a stopReason. ``to``: a name.
    ``{"error": {…}}``  answer it with an error object. ``to``: a name.
    ``{"update": {…}}``  a session/update of the current session. ``session``: of another one.
    ``{"say": TEXT}``, ``{"think": TEXT}``  one chunk of a message or a thought. ``id``: messageId.
    ``{"send": MESSAGE}``  any JSON value. ``as``: a name for its id.
    ``{"ask": METHOD}``  send a request and wait for its answer; ``"wait": false``: do not.
        ``params`` (sessionId is added; permission options too, when left out), ``id`` (else 0, 1,
        2 …), ``as``: a name, ``answers``: steps by answer, for example
        ``{"allow": […], "reject": […], "*": […]}``; the keys are an optionId, an elicitation
        action, ``cancelled``, ``error`` or ``*``. A permission answered ``cancelled`` ends the turn
        so, as some agents do, unless ``answers`` covers it.
    ``{"answered": NAME}``  wait for the answer to an earlier ``ask``. ``answers`` as above,
        ``result``: a subset of it, else the agent exits with 1.
    Message steps take ``end``: what is written after the message in place of a newline;
    ``send``, ``reply`` and ``error`` take ``"verbatim": true``: no ``$`` names in it.

Order and time
    ``{"mark": NAME}``  write an event to the log, so that a test can wait for it. ``value``: any.
    ``{"wait_for": NAME}``  hold until the test releases that name.
    ``{"sleep": SECONDS}``  or ``"forever"``.
    ``{"loop": N}``  or ``"forever"``; ``steps``: what to repeat. ``$i`` counts from 0.

Bytes
    ``{"garbage": PART}``  raw bytes: a text, ``{"text": …}`` or ``{"base64": …}``, each with its
        own ``repeat``, or a list of them. Nothing is added, no newline either.
    ``{"split": N}``  write the next message in two at byte N, the second part when the reader has
        taken the first; a list of places, or ``"bytes"``: one by one.
    ``{"flood": N}``  N chunks as fast as they go. ``text`` (``${i}`` is the number), ``rate`` a
        second, ``id``: messageId, ``kind``.
    ``{"stderr": TEXT}``  ``repeat``: how often.

Process
    ``{"exit": CODE}``, ``{"signal": "SIGKILL"}`` (to itself), ``{"close": "stdin|stdout|stderr"}``
    ``{"ignore": WHAT}``  one or a list of ``cancel``, ``sigterm``, ``sigint``, ``sighup``, ``eof``,
        ``stdin`` (stop reading it) and ``requests`` (answer none by default).
    ``{"fork": KIND}``  leave a process behind that stays: ``child``, ``setsid``, ``daemon`` (forked
        twice), ``term_immune``, or a ``zombie``. ``keeps``: which of the agent's streams it holds
        open (a list; none by default).

Values
    ``$session``, ``$request`` (id of the bound request), ``$params`` (its params), ``$default``
    (the default result for it), ``$prompt`` (text of the last prompt), ``$cwd``, ``$pid``,
    ``$environ`` and every name given with ``as`` (that request's id) are replaced in all values of
    a step, keeping their type; inside longer texts as ``${session}``. Unknown names stay as they
    are.
    ``{"$repeat": TEXT, "times": N}`` is a long text.

The log has one JSON object a line: ``received`` and ``sent`` messages in their order, and ``event``
for the rest (start, mark, answer, forked, eof, exit, finished). The process uses the standard
library only, and starts in a fraction of what an agent takes.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Run by its path: the agent's working directory need not know where silo_nb lies.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from silo_nb.testing.scripted.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
