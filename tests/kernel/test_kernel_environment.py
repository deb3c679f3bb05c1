"""FAULTS T15, in a real kernel: what ipykernel adds to its environment stays there."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.kernel.kernels import ROOT, Kernel


def test_of_a_real_kernel_nothing_is_left_that_a_child_of_ours_has_not() -> None:
    """Whatever ipykernel adds by itself, an agent does not see it, but for pagers and terminal."""
    code = (
        "import os; from silo_nb.acp.environment import child_environment\n"
        "print('\\n'.join(sorted(child_environment(os.environ, {}, inherit=True))))"
    )
    with Kernel() as kernel:
        in_the_kernel = set(kernel.run(code).text.split())
    plain = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    added = in_the_kernel - set(plain.stdout.split())
    assert added <= {"CLICOLOR", "GIT_PAGER", "PAGER", "TERM"}
