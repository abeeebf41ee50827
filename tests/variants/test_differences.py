from __future__ import annotations

import math

import numpy as np
import pytest
from coremltools.converters.mil.testing_utils import compute_snr_and_psnr

from coremlscope.results.variants import OutputDifference, VariantDifference, pareto_front
from coremlscope.studies.variants.differences import Differences

RANDOM = np.random.default_rng(0)


def difference_of(*pairs: tuple[object, object]) -> OutputDifference:
    found = Differences()
    for before, after in pairs:
        found.add({"y": before}, {"y": after})
    (one,) = found.result()
    return one


def test_ratios_are_those_of_coremltools() -> None:
    before = RANDOM.standard_normal((1, 5000)) * 10
    after = before + RANDOM.standard_normal(before.shape) * 0.1
    found = difference_of((before, after))
    snr, psnr = compute_snr_and_psnr(after.ravel(), before.ravel())
    assert found.snr_db == pytest.approx(snr, abs=1e-3)
    assert found.psnr_db == pytest.approx(psnr, abs=1e-3)
    assert found.max_abs == pytest.approx(np.abs(before - after).max())


def test_samples_count_together() -> None:
    before, noise = RANDOM.standard_normal((2, 1, 300)), RANDOM.standard_normal((2, 1, 300)) * 0.01
    found = difference_of(*zip(before, before + noise, strict=True))
    expected = 10 * math.log10(np.square(before).sum() / np.square(noise).sum())
    assert found.snr_db == pytest.approx(expected)
    assert found.elements == 600


def test_equal_outputs_have_no_ratio() -> None:
    found = difference_of((np.ones((1, 3)), np.ones((1, 3))))
    assert (found.is_equal, found.psnr_db, found.max_abs, found.top1) == (True, None, 0.0, 1.0)


def test_top1_of_one_row_and_of_many_classes() -> None:
    assert difference_of((np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]]))).top1 == 0.0
    boxes = np.zeros((7, 4))
    assert difference_of((boxes, boxes + 1)).top1 is None
    tokens = np.eye(100)[None]
    assert difference_of((tokens, np.roll(tokens, 1, axis=-1))).top1 == 0.0


def test_labels_and_probabilities() -> None:
    assert difference_of(("cat", "cat"), ("cat", "dog")).top1 == 0.5
    found = difference_of(({"cat": 0.9, "dog": 0.1}, {"cat": 0.6, "dog": 0.4}))
    assert (found.top1, found.max_abs) == (1.0, pytest.approx(0.3))


def test_values_that_are_not_finite_are_counted() -> None:
    found = difference_of((np.array([1.0, 2.0, np.inf]), np.array([np.nan, 2.0, np.inf])))
    assert (found.not_finite, found.is_equal, found.max_abs) == (1, False, 0.0)


def test_other_shapes_differ_everywhere() -> None:
    found = difference_of((np.zeros((2, 2)), np.zeros((4,))))
    assert (found.is_equal, found.max_abs) == (False, None)


def test_renamed_outputs_are_paired_by_place() -> None:
    found = Differences()
    found.add({"a": np.ones(3)}, {"b": np.ones(3)})
    assert [one.name for one in found.result()] == ["a"]


def test_the_worst_output_speaks_for_a_variant() -> None:
    outputs = tuple(
        OutputDifference(name=n, elements=1, is_equal=n == "c", psnr_db=p, top1=t)
        for n, p, t in (("a", 50.0, 1.0), ("b", 20.0, 0.5), ("c", None, None))
    )
    difference = VariantDifference(samples=1, synthetic=0, outputs=outputs)
    assert difference.worst is outputs[1]
    assert difference.top1 == 0.5
    assert not difference.is_equal


def test_pareto_front() -> None:
    points = [(4.0, 60.0), (2.0, 30.0), (3.0, 25.0), (1.0, 10.0), (2.0, 30.0)]
    assert pareto_front(points) == [3, 1, 0]
    assert pareto_front([]) == []
