"""The page of a running program."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.results.trace import Trace
from coremlscope.server.limits import ServerLimits
from coremlscope.server.live import serve_program
from coremlscope.server.server import Address
from tests.support.traces import recorded_program


class _Program:
    """Has recorded nothing, then ever more."""

    def __init__(self) -> None:
        self.predictions = 0

    def read(self) -> Trace:
        if not self.predictions:
            raise UsageError("nothing so far")
        self.predictions += 1
        return recorded_program(self.predictions)


@pytest.fixture
def served() -> Iterator[tuple[str, _Program]]:
    program = _Program()
    with serve_program(program.read, Address(), ServerLimits()) as (url, answer):
        thread = threading.Thread(target=answer)
        thread.start()
        yield url, program
    thread.join(10)
    assert not thread.is_alive()


def test_the_recording_grows_on_the_page_and_in_its_events(served: tuple[str, _Program]) -> None:
    url, program = served
    with urllib.request.urlopen(url) as waiting:
        assert "has not recorded anything yet" in waiting.read().decode()
    program.predictions = 1
    with urllib.request.urlopen(url) as page:
        assert '"live":true' in page.read().decode()
    with urllib.request.urlopen(f"{url}events") as events:
        first = next(line for line in events if line.startswith(b"data: "))
    seen = json.loads(first.removeprefix(b"data: "))
    assert seen.pop("live") is True
    assert [kind["name"] for kind in seen.pop("kinds")][1] == "load"
    assert len(Trace.from_json(seen).events.of("predict")) >= 3


def test_a_wrong_token_is_refused(served: tuple[str, _Program]) -> None:
    url, _ = served
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url.rstrip("/") + "x/")
