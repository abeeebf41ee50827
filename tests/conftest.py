"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus(pytestconfig: pytest.Config) -> Path:
    """The folder of real models beside the checkout; tests that need it are skipped where it is absent."""
    folder = pytestconfig.rootpath.parent / "shared" / "corpus"
    if not (folder / "index.csv").is_file():
        pytest.skip(f"no corpus at {folder}")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _plain_output() -> Iterator[None]:
    """Screens are 100 columns wide and plain, whatever the terminal and the environment of the run say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        for name in ("FORCE_COLOR", "NO_COLOR"):
            patch.delenv(name, raising=False)
        yield
