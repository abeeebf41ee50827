"""Children of Core ML's measurers for tests on any machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.preloaded import preloading


@pytest.fixture(autouse=True, scope="session")
def _preloading() -> Iterator[None]:
    with preloading():
        yield
