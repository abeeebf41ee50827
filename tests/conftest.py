"""Fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus(pytestconfig: pytest.Config) -> Path:
    """The folder of real models beside the checkout; tests that need it are skipped where it is absent."""
    folder = pytestconfig.rootpath.parent / "shared" / "corpus"
    if not (folder / "index.csv").is_file():
        pytest.skip(f"no corpus at {folder}")
    return folder
