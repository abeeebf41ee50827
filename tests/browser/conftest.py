"""A headless browser driven by scripts of `frontend/browser/`; skips the tests if it is not installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Drive

FRONTEND = Path(__file__).parents[2] / "frontend"


@pytest.fixture(scope="session")
def port() -> Iterator[str]:
    """The port of one browser for all pages; those that scripts open in it share nothing."""
    node = shutil.which("node")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if node is None or chromium is None:
        pytest.skip("node or chromium is not installed")
    if not (FRONTEND / "node_modules" / "playwright-core").is_dir():
        pytest.skip("the front end's packages are not installed: make browser")
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = str(server.getsockname()[1])
    command = [node, str(FRONTEND / "browser" / "browser.mjs"), chromium, free]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as browser:
        assert browser.stdout is not None
        assert browser.stdout.readline() == b"ready\n"
        yield free
        browser.communicate()


@pytest.fixture(scope="session")
def drive(port: str) -> Drive:
    """Runs `frontend/browser/NAME.mjs` on a page and returns its JSON output."""

    def run(script: str, page: Path | str, *arguments: str) -> Any:
        address = page if isinstance(page, str) else page.as_uri()
        done = subprocess.run(
            ["node", str(FRONTEND / "browser" / f"{script}.mjs"), port, address, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
