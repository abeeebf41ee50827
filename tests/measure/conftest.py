"""Children of Core ML's measurers for tests on any machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coremlscope.engines.host import processor_name
from tests.support.preloaded import preloading


@pytest.fixture(autouse=True, scope="session")
def _preloading() -> Iterator[None]:
    processor_name()  # It is cached, and tests say that this machine is a Mac.
    with preloading():
        yield
