"""An operation that only the model has: the stem of a network, scaled or turned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import verify
from tests.support.faulty_programs import _program, _random, save_program

_WEIGHT = _random(4, 3, 3, 3, seed=1, scale=0.4)


@pytest.mark.parametrize(
    ("added", "cause"),
    [
        (lambda x: mb.mul(x=x, y=0.25, name="added"), "scale"),
        (lambda x: mb.transpose(x=x, perm=[0, 1, 3, 2], name="added"), "layout"),
    ],
)
def test_an_extra_operation_is_named(added: Callable[[Any], Any], cause: str, tmp_path: Path) -> None:
    def network(*, has_more: bool) -> Any:
        def body(_: Any, x: Any) -> Any:
            stem = mb.sin(x=mb.conv(x=x, weight=_WEIGHT, pad_type="same"), name="stem")
            return mb.exp(x=added(stem) if has_more else stem, name="y")

        return _program((1, 3, 8, 8), body)

    paths = [
        save_program(network(has_more=more), tmp_path / f"{more}.mlpackage", fp16=False)
        for more in (True, False)
    ]
    found = verify(*paths)
    assert found.faults[0].cause == cause
    assert found.faults[-1].repairs
