"""Everything below this folder is part of the long suite."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder, so that none can be forgotten."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker("long")
