"""The estimate is the price of the plan: same changes of unit, no kernel on two units, shares of all placed.

And more work never takes less time: networks that grow along one dimension, on every unit of every chip.
"""

from __future__ import annotations

import csv
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.base.errors import UnsupportedModelError
from coremlscope.devices import UNITS, all_chips, find_device
from coremlscope.devices.unit import SETTINGS
from coremlscope.model import ir
from coremlscope.planning.cost.latency.kernels import Kernel, fuse
from coremlscope.planning.cost.latency.model import estimate
from coremlscope.planning.cost.latency.work import place_kernels
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import Plan
from coremlscope.results.profile import Profile
from tests.support import programs

CHIPS = tuple(all_chips())
#: Every so many models of the corpus; one has nothing to estimate.
_EVERY = 10


def weight(*shape: int) -> Any:
    return np.zeros(shape, np.float16)


def residual(*, batch: int = 1, size: int = 32, channels: int = 32, blocks: int = 2, kernel: int = 3) -> Any:
    """Convolutions with shortcuts, an operation that no Neural Engine runs in each, and a classifier."""

    def body(x: Any) -> Any:
        for _ in range(blocks):
            y = mb.conv(x=x, weight=weight(channels, channels, kernel, kernel), pad_type="same")
            y = mb.relu(x=mb.batch_norm(x=y, mean=weight(channels), variance=np.ones(channels, np.float16)))
            x = mb.add(x=mb.sinh(x=y), y=x)
        return x

    return programs.build(body, {"x": np.zeros((batch, channels, size, size), np.float16)})


def classifier(*, batch: int = 1, classes: int = 10, hidden: int = 256) -> Any:
    def body(x: Any) -> Any:
        y = mb.relu(x=mb.linear(x=x, weight=weight(hidden, 256)))
        return mb.softmax(x=mb.linear(x=y, weight=weight(classes, hidden)), axis=-1)

    return programs.build(body, {"x": np.zeros((batch, 256), np.float16)})


def encoder(*, batch: int = 1, tokens: int = 64, width: int = 128, layers: int = 1) -> Any:
    """Attention with four heads, and two layers with a shortcut."""

    def heads(x: Any, columns: bool = False) -> Any:
        x = mb.reshape(x=mb.linear(x=x, weight=weight(width, width)), shape=[batch, tokens, 4, width // 4])
        return mb.transpose(x=x, perm=[0, 2, 3, 1] if columns else [0, 2, 1, 3])

    def body(x: Any) -> Any:
        for _ in range(layers):
            scores = mb.softmax(x=mb.matmul(x=heads(x), y=heads(x, columns=True)), axis=-1)
            y = mb.transpose(x=mb.matmul(x=scores, y=heads(x)), perm=[0, 2, 1, 3])
            x = mb.add(x=mb.reshape(x=y, shape=[batch, tokens, width]), y=x)
            y = mb.gelu(x=mb.linear(x=x, weight=weight(4 * width, width)), mode="EXACT")
            x = mb.add(x=mb.linear(x=y, weight=weight(width, 4 * width)), y=x)
        return x

    return programs.build(body, {"x": np.zeros((batch, tokens, width), np.float16)})


#: Networks by one dimension, and its values from the least to the most work.
GROWING: tuple[tuple[Callable[..., Any], str, tuple[int, ...]], ...] = (
    (residual, "batch", (1, 2, 8)),
    (residual, "size", (16, 31, 32, 64)),
    (residual, "channels", (16, 32, 48)),
    (residual, "blocks", (1, 2, 4)),
    (residual, "kernel", (1, 3, 5)),
    (classifier, "batch", (1, 8, 64, 128)),
    (classifier, "classes", (10, 100, 1000)),
    (encoder, "batch", (1, 2, 4)),
    (encoder, "tokens", (16, 64, 77, 128, 256)),
    (encoder, "width", (64, 128, 256)),
    (encoder, "layers", (1, 2)),
)


@functools.cache
def built() -> tuple[ir.Model, ...]:
    return residual(blocks=3), residual(size=112, channels=64), encoder(layers=2), classifier(batch=8)


def sampled(folder: Path) -> list[str]:
    with (folder / "index.csv").open(newline="") as file:
        return [str(folder / row["path"]) for row in csv.DictReader(file)][::_EVERY]


def assert_priced_as_planned(profile: Profile) -> None:
    for plan, one in itertools.product(profile.plans, profile.estimates):
        if (plan.device, plan.os) == (one.device, one.os):
            assert_of_plan(profile, plan, one)


def assert_of_plan(profile: Profile, plan: Plan, one: Estimate) -> None:
    setting = plan.setting(one.compute_units)
    assert setting is not None
    where = f"{profile.model.path}, {one.device}, {one.compute_units}"
    assert setting.switches == one.switches, where
    units = {op.id: op.choices[setting.compute_units].unit for op in plan.ops}
    for kernel, unit in zip(profile.kernels_of(one), one.kernel_unit, strict=True):
        assert {units.get(profile.ops.id[row]) for row in kernel.ops} <= {one.units[unit], None}, (
            where,
            kernel.name,
        )
    placed = {unit for unit in units.values() if unit is not None}
    shares = dict.fromkeys(placed, 0.0)
    for function in setting.functions.values():
        for unit, share in function.time_shares.items():
            shares[unit] += share
    assert all(share > 0 for share in shares.values()), (where, shares)
    assert not shares or sum(shares.values()) == pytest.approx(1.0)
    assert sum(one.parts.values()) == pytest.approx(one.latency.value)
    assert one.latency.low <= one.latency.value <= one.latency.high


def test_built_models_are_priced_as_they_are_planned() -> None:
    mixed = 0
    for place, model in enumerate(built()):
        for chip in CHIPS[place :: len(built())]:
            profile = api.estimate(model, [chip], compute_units=list(SETTINGS))
            assert_priced_as_planned(profile)
            mixed += sum(one.switches > 1 for one in profile.estimates)
    assert mixed


def test_models_of_the_corpus_are_priced_as_they_are_planned(corpus: Path) -> None:
    checked = 0
    for place, path in enumerate(sampled(corpus)):
        chips = [CHIPS[(2 * place + more) % len(CHIPS)] for more in (0, 1)]
        try:
            profile = api.estimate(path, chips, compute_units=list(SETTINGS))
        except UnsupportedModelError:
            continue
        assert_priced_as_planned(profile)
        checked += len(profile.estimates)
    assert checked > 50


@functools.cache
def kernels_of(build: Callable[..., Any], dimension: str, value: int) -> tuple[Kernel, ...]:
    return fuse(programs.bind_main(build(**{dimension: value})).graph)


@pytest.mark.parametrize(
    ("build", "dimension", "values"), GROWING, ids=lambda one: getattr(one, "__name__", one)
)
def test_more_work_never_takes_less_time(
    build: Callable[..., Any], dimension: str, values: tuple[int, ...]
) -> None:
    several = [kernels_of(build, dimension, value) for value in values]
    for chip, unit in itertools.product(CHIPS, UNITS):
        device = find_device(chip)
        works = [place_kernels(each, [(id_, unit) for one in each for id_ in one.ops]) for each in several]
        times = [estimate(work, device).latency.value for work in works]
        assert times == sorted(times), (chip, unit, times)
