"""Equal blocks in a row are found, however they are named."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope import api
from coremlscope.model import ir
from coremlscope.planning.answer.repeats import find_repeat
from tests.support.advised_models import F16, Builder


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("s" + "abc" * 4 + "e", (1, 3, 4)),
        ("abab" + "xyzw" * 3, (4, 4, 3)),
        # The shortest parts: not two of four.
        ("abababab", (0, 2, 4)),
        ("abcdefg", (0, 0, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_the_repeat_that_covers_most(keys: str, expected: tuple[int, int, int]) -> None:
    assert find_repeat(keys) == expected


def test_equal_blocks_are_summed_once() -> None:
    shape = (1, 1024, 512)
    b = Builder({"x": (F16, shape)})
    y = b["x"]
    for place in range(6):
        weight = ir.constant(np.full((512, 512), place, np.float16))
        y = b.op("linear", f"l{place}", shape, x=y, weight=weight)
        y = b.op("softmax", f"s{place}", shape, x=y, axis=-1)
    profile = api.answer(b.model(y), "m1")
    parts = [one for one in profile.answers[0].time if one.part.startswith("6 × ")]
    default = profile.estimates[0]
    assert sum(len(one.kernels) for one in parts) == 12
    assert sum(one.share for one in parts) == pytest.approx(sum(default.kernel_s) / default.latency.value)
