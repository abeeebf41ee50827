"""The drop-in runtime as a fixture."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from coremlscope.dropin import install, uninstall


@pytest.fixture(scope="module")
def drop_in() -> Iterator[None]:
    """Installs the drop-in runtime for the tests of a module; skips them on a Mac."""
    if sys.platform == "darwin":
        pytest.skip("coremltools calls Core ML on a Mac")
    install()
    yield
    uninstall()
