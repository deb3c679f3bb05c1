"""What holds for every test: nothing of the machine gets in, and nothing is left there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Durations drift on shared machines; what is wrong must be a counterexample, not a slow minute.
settings.register_profile("silo_nb", deadline=None)
settings.load_profile("silo_nb")


@pytest.fixture(scope="session", autouse=True)
def _a_home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's profiles, history and Jupyter settings out, here and in every child."""
    home = tmp_path_factory.mktemp("home", numbered=True)
    with pytest.MonkeyPatch.context() as patch:
        for variable, folder in {
            "SILO_NB_CONFIG_DIR": "profiles",
            "IPYTHONDIR": "ipython",
            "JUPYTER_CONFIG_DIR": "jupyter",
            "JUPYTER_RUNTIME_DIR": "runtime",
        }.items():
            directory = home / folder
            directory.mkdir(mode=0o700)
            patch.setenv(variable, str(directory))
        for name in [name for name in os.environ if name.startswith("JPY_")]:
            patch.delenv(name)
        yield
