"""Names of journals: our own session ids, never the agent's.

An agent's session id is text from outside; as a file name it could say ``../../.bashrc``. Our ids
are made here, sort by time, and are the only ones that ever become part of a path.
"""

from __future__ import annotations

import os
import re
import time

from silo_nb.errors import JournalError

# Crockford's base 32 in lower case: no letter reads as a digit, and two ids never differ by case
# alone, so they stay apart on file systems that ignore it.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS = 10
_ENTROPY_CHARS = 16
_ENTROPY_BYTES = 10
_SLUG_CHARS = 40
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


def new_session_id(slug: str, *, now_ms: int | None = None, entropy: bytes | None = None) -> str:
    """Return a new session id: the slug, and 26 characters that sort by time.

    Args:
        slug: what the id begins with, usually the profile's id; made fit for a file name.
        now_ms: milliseconds since 1970; the clock's when not given.
        entropy: ten bytes that make the id unique; random when not given.

    >>> new_session_id("Claude Code", now_ms=1_764_547_200_000, entropy=bytes(10))
    'claude-code-01kbbkb1000000000000000000'
    """
    milliseconds = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    noise = os.urandom(_ENTROPY_BYTES) if entropy is None else entropy[:_ENTROPY_BYTES]
    stem = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:_SLUG_CHARS].rstrip("-")
    when = _base32(milliseconds, _TIME_CHARS)
    return f"{stem or 'session'}-{when}{_base32(int.from_bytes(noise), _ENTROPY_CHARS)}"


def is_session_id(text: str) -> bool:
    """Return whether the text may name a journal: one lower-case file name, nothing else.

    >>> is_session_id("claude-01kbbkb1000000000000000000"), is_session_id("../../.bashrc")
    (True, False)
    """
    return _ID.fullmatch(text) is not None


def checked_session_id(text: object) -> str:
    """Return the text when it may name a journal.

    Raises:
        JournalError: it may not.
    """
    if isinstance(text, str) and is_session_id(text):
        return text
    msg = f"{text!r} is not a session id of silo_nb; make one with new_session_id()"
    raise JournalError(msg)


def _base32(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
