"""Kernel names where there is no kernel, and where a kernel lacks them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from silo_nb.runtime import kernel_compat
from tests.kernel.kernels import Kernel


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SILO_NB_DIR", raising=False)
    path = tmp_path / "work" / "analysis.ipynb"
    path.parent.mkdir()
    path.touch()
    monkeypatch.chdir(tmp_path)
    return path


class TestWithoutAKernel:
    def test_there_is_none_and_nobody_minds(self) -> None:
        assert kernel_compat.current_kernel() is None
        assert dict(kernel_compat.parent_header()) == {}

    @pytest.mark.parametrize("stdin", [None, SimpleNamespace(closed=True)])
    def test_no_terminal_no_questions(self, monkeypatch: pytest.MonkeyPatch, stdin: object) -> None:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert not kernel_compat.allow_stdin()

    def test_a_comm_of_another_kind_is_left_alone(self) -> None:
        comm = SimpleNamespace()
        kernel_compat.honour_requested_subshell(comm)
        assert vars(comm) == {}

    def test_a_kernel_without_the_names_says_which(self) -> None:
        with pytest.raises(kernel_compat.PumpUnavailable, match="_publish_status"):
            kernel_compat.shell_names(SimpleNamespace(session=1, io_loop=1, shell_handlers={}))

    def test_nested_asyncio_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "nest_asyncio2", None)
        with pytest.raises(ImportError, match="pip install"):
            kernel_compat.allow_nested_asyncio()


class TestWhereTheNotebookIs:
    """JUPYTER §6."""

    def test_jupyter_tells_its_path(self, notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))
        assert kernel_compat.notebook_path() == notebook
        assert kernel_compat.notebook_directory() == notebook.parent

    def test_a_path_below_the_servers_root_is_found_beside_the_kernel(
        self, notebook: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JPY_SESSION_NAME", "elsewhere/analysis.ipynb")
        monkeypatch.chdir(notebook.parent)
        assert kernel_compat.notebook_path() == notebook

    @pytest.mark.parametrize("name", ["gone.ipynb", "/nowhere/gone.ipynb", "a-uuid", ""])
    def test_of_a_renamed_one_nothing_is_known(
        self, notebook: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv("JPY_SESSION_NAME", name)
        assert kernel_compat.notebook_path() is None
        assert kernel_compat.notebook_directory() == notebook.parents[1]

    def test_the_users_choice_comes_first(
        self, notebook: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))
        monkeypatch.setenv("SILO_NB_DIR", str(tmp_path / "journals"))
        assert kernel_compat.notebook_directory() == tmp_path / "journals"
        assert kernel_compat.notebook_path() == notebook

    def test_vs_code_tells_its_path_in_the_namespace(self, notebook: Path) -> None:
        other = notebook.with_name("vscode.ipynb")
        other.touch()
        with Kernel(env={"JPY_SESSION_NAME": str(notebook)}) as kernel:
            kernel.run("from silo_nb.runtime import kernel_compat")
            assert kernel.run("print(kernel_compat.notebook_path())").text == f"{notebook}\n"
            kernel.run(f"__vsc_ipynb_file__ = {str(other)!r}")
            assert kernel.run("print(kernel_compat.notebook_path())").text == f"{other}\n"
