"""Children of Core ML's measurers for tests on any machine."""

from __future__ import annotations

import pytest

from coremlscope.runtime.engines.host import processor_name


@pytest.fixture(autouse=True, scope="session")
def _this_machine(_preloading: None) -> None:
    """Caches the name of the processor, and prepares the children's process; tests say that this is a Mac."""
    processor_name()
