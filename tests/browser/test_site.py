"""The search of the documentation, and its home, in a browser."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Drive

ROOT = Path(__file__).parents[2]
SPHINX = ROOT / ".venv-site" / "bin" / "python"
#: What newcomers search for, and the page that answers it.
QUERIES = {
    "Neural Engine": "guides/neural-engine",
    "ANE": "guides/neural-engine",
    "why slow": "guides/recording",
    "compress": "guides/compression",
    "quantize": "guides/compression",
    "error loading model": "guides/failures",
    "license": "",
    "webcam": "guides/report",
    "tokens": "guides/tokens",
    "install": "start",
    "MLComputePlan": "guides/drop-in",
    "ONNX": "guides/onnx-runtime",
}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the documentation."""
    if not SPHINX.is_file():
        pytest.skip("Sphinx is not installed: make site")
    folder = tmp_path_factory.mktemp("site")
    sources, built = folder / "docs", folder / "site"
    make = [sys.executable, str(ROOT / "tools" / "make_site.py"), str(sources)]
    build = [str(SPHINX), "-m", "sphinx", "--quiet", "-b", "dirhtml", str(sources), str(built)]
    for command in (make, build):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    handler = functools.partial(_Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_the_search_finds_what_newcomers_ask_for(drive: Drive, site: str) -> None:
    seen = drive("search", site, *QUERIES)
    assert {query: found[0] for query, found in seen["found"].items()} == {
        query: f"../{page}/" if page else "../" for query, page in QUERIES.items()
    }
    assert seen["violations"] == []
