"""The comparison of predictions with and without recording."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.recording import measure, summarise
from coremlscope.dropin.tracing.recorder import is_recording


def test_blocks_of_both_kinds_are_measured_and_compared() -> None:
    seen: list[bool] = []
    taken = measure(lambda: seen.append(is_recording()), 3, 1024)
    assert taken[True].shape == taken[False].shape == (3, 40, 2)
    assert sum(seen) == len(seen) - sum(seen) == 192
    taken = {False: np.full((5, 8, 2), 5e-3), True: np.full((5, 8, 2), 5.05e-3)}
    assert summarise(taken, 0, 50) == pytest.approx((5e-3, 5e-5, 5e-5, 5e-5))
