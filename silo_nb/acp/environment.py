"""The environment an agent starts with: what the user's own programs get, and nothing of Jupyter's.

A kernel's environment is the user's plus what the Jupyter server and ipykernel added for their own
use. Tokens of the server are no business of an agent (FAULTS T15), and some of the rest breaks the
programs that an agent runs: a matplotlib backend that only exists in a kernel, a parent's pid that
makes any second kernel end itself, colours forced on output that no terminal shows.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["child_environment"]

_SERVER_PREFIXES = (
    "CONFIGPROXY_",
    "JPY_",  # JPY_API_TOKEN, JPY_PARENT_PID, JPY_SESSION_NAME …
    "JUPYTERHUB_",
    "JUPYTER_GATEWAY_",
    "JUPYTER_SERVER_",
)
_SERVER_NAMES = frozenset(
    ("EG_AUTH_TOKEN", "JUPYTER_PASSWORD", "JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "KG_AUTH_TOKEN")
)
_DEBUGGER_PREFIXES = ("DEBUGPY_", "PYDEVD_")

# ipykernel writes these into its own environment. Only its values are taken out: another backend
# is the user's choice.
_KERNEL_VALUES = {
    "CLICOLOR_FORCE": ("1",),
    "FORCE_COLOR": ("1",),
    "MPLBACKEND": (
        "module://ipykernel.pylab.backend_inline",
        "module://matplotlib_inline.backend_inline",
    ),
}

_CLEAN_NAMES = frozenset(
    ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
)
_CLEAN_PREFIXES = ("LC_", "SSL_CERT_", "XDG_")
_CLEAN_SUFFIX = "_proxy"  # in lower case as in upper case: curl only knows http_proxy


def child_environment(
    environ: Mapping[str, str], profile_env: Mapping[str, str], *, inherit: bool
) -> dict[str, str]:
    """Return the environment of an agent's process.

    Args:
        environ: the kernel's own environment (``os.environ``).
        profile_env: variables of the profile; they win over everything else.
        inherit: keep the user's variables; otherwise only what any program needs to run at all
            (home, search path, locale, time zone, certificates, proxies).

    >>> kernel = {"PATH": "/usr/bin", "API_KEY": "k", "JUPYTERHUB_API_TOKEN": "secret"}
    >>> child_environment(kernel, {"MODEL": "m"}, inherit=True)
    {'PATH': '/usr/bin', 'API_KEY': 'k', 'MODEL': 'm'}
    >>> child_environment(kernel, {"MODEL": "m"}, inherit=False)
    {'PATH': '/usr/bin', 'MODEL': 'm'}
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not _is_jupyters(name, value) and (inherit or _is_needed_by_any_program(name))
    }
    return {**kept, **profile_env}


def _is_jupyters(name: str, value: str) -> bool:
    return (
        name in _SERVER_NAMES
        or name.startswith(_SERVER_PREFIXES + _DEBUGGER_PREFIXES)
        or value in _KERNEL_VALUES.get(name, ())
    )


def _is_needed_by_any_program(name: str) -> bool:
    return (
        name in _CLEAN_NAMES
        or name.startswith(_CLEAN_PREFIXES)
        or name.lower().endswith(_CLEAN_SUFFIX)
    )
