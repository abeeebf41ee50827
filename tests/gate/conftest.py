from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small image classifier."""
    path = tmp_path_factory.mktemp("gate") / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), path)
    return path
