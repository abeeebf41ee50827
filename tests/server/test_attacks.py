"""Attacks on `coremlscope serve` over raw sockets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from tests.support.attacks import all_attacks, perform, problems

_PATIENCE_S = 5.0
_AT_ONCE = 64
#: None of the attackers finds that the others hold all places: how many may send is another test's question.
_LIMITS = ServerLimits(uploads=_AT_ONCE)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Address(), _LIMITS) as (address, answer):
        threading.Thread(target=answer, daemon=True).start()
        yield address


def test_attacks_are_answered_or_cut_off(url: str, caplog: pytest.LogCaptureFixture) -> None:
    attacks = all_attacks(url)
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = list(pool.map(lambda attack: perform(attack, url, _PATIENCE_S), attacks))
    found = [
        (attack.kind, attack.steps[:1], wrong)
        for attack, outcome in zip(attacks, outcomes, strict=True)
        if (wrong := problems(attack, outcome))
    ]
    assert not found
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
