"""A headless browser driven by scripts of `frontend/browser/`; skips the tests if it is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Drive

FRONTEND = Path(__file__).parents[2] / "frontend"


@pytest.fixture(scope="session")
def drive() -> Drive:
    """Runs `frontend/browser/NAME.mjs` on a page and returns its JSON output."""
    node = shutil.which("node")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if node is None or chromium is None:
        pytest.skip("node or chromium is not installed")
    if not (FRONTEND / "node_modules" / "playwright-core").is_dir():
        pytest.skip("the front end's packages are not installed: make browser")

    def run(script: str, page: Path | str, *arguments: str) -> Any:
        address = page if isinstance(page, str) else page.as_uri()
        done = subprocess.run(
            [node, str(FRONTEND / "browser" / f"{script}.mjs"), chromium, address, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
