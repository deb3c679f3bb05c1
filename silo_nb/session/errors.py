"""What an agent's refusals become: errors a caller can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silo_nb.acp.fields import items
from silo_nb.acp.rpc import AUTH_REQUIRED, RpcError
from silo_nb.errors import AgentError, AgentExited, AgentRefused, AuthRequired
from silo_nb.session.secret_values import redact

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["exit_error", "refusal"]


def exit_error(session: LiveSession, phase: str) -> AgentExited:
    """Return the error for whoever wanted something of an agent that is gone."""
    report = session.exit
    how = "the connection is gone" if report is None else f"the process {report.describe()}"
    return AgentExited(
        f"{how}; the next prompt starts a new one",
        exit_code=None if report is None else report.code,
        signal=None if report is None else report.signal,
        profile=session.profile.id,
        phase=phase,
        stderr=session.last_words(),
    )


def refusal(error: RpcError, session: LiveSession, phase: str) -> AgentError:
    """Return the error a caller gets for `error`, with the agent's own words.

    -32000 means a login is needed, on any call: codex says so at session/new, claude only at the
    first prompt. A non-empty list of login methods alone never means that. (R5, case 18)
    """
    message = redact(error.message, session.secrets)
    profile, stderr = session.profile.id, session.last_words()
    if error.code != AUTH_REQUIRED:
        return AgentRefused(
            message, code=error.code, data=error.data, profile=profile, phase=phase, stderr=stderr
        )
    data = error.data if isinstance(error.data, dict) else {}
    methods = [dict(item) for item in items(data, "authMethods")] or session.card.auth_methods
    names = ", ".join(repr(m.get("name") or m.get("id")) for m in methods)
    hint = f" It offers: {names}." if names else ""
    return AuthRequired(
        f"{message}. Log in with the agent's own command, or set its key in the profile's env."
        f"{hint}",
        methods=methods,
        profile=profile,
        phase=phase,
        stderr=stderr,
    )
