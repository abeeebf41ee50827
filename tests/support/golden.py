"""Golden files: expected text output.

Set UPDATE_GOLDEN=1 to write what the tests see, then look at the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check(name: str, text: str) -> None:
    """Compares `text` with the golden file `name`."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    assert text == path.read_text(encoding="utf-8"), f"{name} looks different; see tests/support/golden.py"
