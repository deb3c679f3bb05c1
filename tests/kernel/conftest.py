"""Kernels as fixtures; see kernels.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.kernels import VERSIONS, Kernel, kernel_python

MATRIX = [pytest.param(version, marks=pytest.mark.kernel_matrix) for version in VERSIONS]


@pytest.fixture(scope="module", params=MATRIX)
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """One kernel for all tests of a module, of each version of the matrix in turn."""
    with Kernel(kernel_python(request.param)) as running:
        yield running


@pytest.fixture(params=MATRIX)
def own_kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """A kernel for one test that would leave it changed; of each version in turn."""
    with Kernel(kernel_python(request.param)) as running:
        yield running
