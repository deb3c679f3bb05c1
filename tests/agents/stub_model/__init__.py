"""A stand-in for the model servers of Anthropic, OpenAI and Google, for real agents offline.

It answers on the loopback interface, says what a script named in the prompt tells it to, and keeps
a log of what it was told. Standard library only.

``script`` holds the scripts, ``tools`` finds the agent's own tool for what a script wants,
``dialect`` is what the APIs share, ``anthropic``, ``chat``, ``gemini`` and ``responses`` are the
APIs, ``server`` is the HTTP part.
"""

from __future__ import annotations

from .script import prompt_for
from .server import ModelRequest, StubModel

__all__ = ["ModelRequest", "StubModel", "prompt_for"]
