"""Secrets of an agent's environment, so that nothing we write or show contains them; T14."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["redact", "secret_values"]

_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASS(WORD|WD|PHRASE)?$|CREDENTIAL|AUTH", re.IGNORECASE)
_SHORTEST = 8


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables whose names say secret, longest first.

    Values under 8 characters are left out: they turn up in ordinary text.

    >>> secret_values({"ANTHROPIC_API_KEY": "sk-ant-123", "HOME": "/home/me", "TOKEN": "x"})
    ('sk-ant-123',)
    """
    found = {
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and _NAMES.search(name) and not value.startswith("/")
    }
    return tuple(sorted(found, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every one of `secrets` withheld.

    >>> redact("401 for sk-ant-123", ["sk-ant-123"])
    '401 for [withheld]'
    """
    for secret in secrets:
        text = text.replace(secret, "[withheld]")
    return text
