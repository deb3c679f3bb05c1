"""FAULTS T15: an agent gets the user's environment, and nothing that belongs to Jupyter."""

from __future__ import annotations

import pytest

from silo_nb.acp.environment import child_environment

USERS = {
    "ANTHROPIC_API_KEY": "key",
    "CONDA_PREFIX": "/opt/conda",
    "HOME": "/home/user",
    "HTTPS_PROXY": "http://proxy:3128",
    "IPYTHONDIR": "/home/user/.ipython",
    "JUPYTER_CONFIG_DIR": "/home/user/.jupyter",
    "JUPYTER_PATH": "/opt/jupyter",
    "JUPYTER_PLATFORM_DIRS": "1",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LOGNAME": "user",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
    "PATH": "/usr/bin",
    "PYTHONPATH": "/home/user/lib",
    "SHELL": "/bin/sh",
    "SSL_CERT_FILE": "/ca.pem",
    "SSL_CERT_DIR": "/certs",
    "TERM": "xterm",
    "TMPDIR": "/tmp",
    "TZ": "Europe/Zurich",
    "USER": "user",
    "VIRTUAL_ENV": "/venv",
    "XDG_CONFIG_HOME": "/home/user/.config",
    "all_proxy": "http://proxy:3128",
    "http_proxy": "http://proxy:3128",
    "no_proxy": "localhost",
}
JUPYTERS = {
    "CONFIGPROXY_AUTH_TOKEN": "secret",
    "DEBUGPY_RUNNING": "true",
    "EG_AUTH_TOKEN": "secret",
    "JPY_API_TOKEN": "secret",
    "JPY_INTERRUPT_EVENT": "12",
    "JPY_PARENT_PID": "1",
    "JPY_SESSION_NAME": "/home/user/a.ipynb",
    "JUPYTERHUB_API_TOKEN": "secret",
    "JUPYTERHUB_SERVICE_PREFIX": "/user/x/",
    "JUPYTERHUB_HTTP_PROXY": "would pass for a proxy",
    "JUPYTER_GATEWAY_AUTH_TOKEN": "secret",
    "JUPYTER_GATEWAY_HTTP_PWD": "secret",
    "JUPYTER_PASSWORD": "secret",
    "JUPYTER_SERVER_ROOT": "/home/user",
    "JUPYTER_SERVER_URL": "http://localhost:8888/",
    "JUPYTER_TOKEN": "secret",
    "JUPYTER_TOKEN_FILE": "/secret",
    "KG_AUTH_TOKEN": "secret",
    "PYDEVD_IPYTHON_COMPATIBLE_DEBUGGING": "1",
    "PYDEVD_USE_FRAME_EVAL": "NO",
}
IPYKERNELS = {
    "CLICOLOR_FORCE": "1",
    "FORCE_COLOR": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}
NEEDED_BY_ANY_PROGRAM = {
    "HOME",
    "HTTPS_PROXY",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CONFIG_HOME",
    "all_proxy",
    "http_proxy",
    "no_proxy",
}
KERNELS = {**USERS, **JUPYTERS, **IPYKERNELS}


def test_an_inherited_environment_is_exactly_the_users() -> None:
    assert child_environment(KERNELS, {}, inherit=True) == USERS


def test_a_clean_environment_is_exactly_what_any_program_needs() -> None:
    assert child_environment(KERNELS, {}, inherit=False) == {
        name: value for name, value in USERS.items() if name in NEEDED_BY_ANY_PROGRAM
    }


@pytest.mark.parametrize("inherit", [True, False])
def test_the_profile_has_the_last_word(inherit: bool) -> None:
    profile = {"FORCE_COLOR": "1", "JUPYTER_TOKEN": "on purpose", "PATH": "/opt", "ANY": ""}
    without = child_environment(KERNELS, {}, inherit=inherit)
    assert child_environment(KERNELS, profile, inherit=inherit) == {**without, **profile}


@pytest.mark.parametrize(
    ("name", "value"), [("MPLBACKEND", "Agg"), ("FORCE_COLOR", "3"), ("FORCE_COLOR", "0")]
)
def test_what_the_user_chose_instead_of_ipykernels_value_stays(name: str, value: str) -> None:
    assert child_environment({name: value}, {}, inherit=True) == {name: value}


def test_nothing_is_changed_in_place() -> None:
    environ, profile = dict(KERNELS), {"A": "1"}
    child_environment(environ, profile, inherit=True)
    assert (environ, profile) == (KERNELS, {"A": "1"})
