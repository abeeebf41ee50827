"""Forms that compute each element alone or of few: functions, binary operations, reductions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from coremlscope.ir import Array
from coremlscope.verification.element_functions import find_functions
from coremlscope.verification.recognition.form import Floats, Form, is_same, values_read

__all__ = ["binary", "elementwise", "reductions"]

#: Axes of which all subsets are tried.
_MOST_AXES = 6


def elementwise(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    for place, x in values_read(given, is_read):
        reads = {"x": (place,)}
        if x.shape != y.shape:
            continue
        for function in find_functions(x, y):
            yield Form(type=function.type, reads=reads, settings=function.parameters)
        low, high = float(y.min()), float(y.max())
        if low < high and is_same(np.clip(x, low, high), y) and not is_same(x, y):
            bounds = {"alpha": np.array(low, np.float32), "beta": np.array(high, np.float32)}
            yield Form(type="clip", reads=reads, settings=bounds)
        size = float((x * x).sum())
        factor = float((x * y).sum()) / size if size else 0.0
        if factor and is_same(factor * x, y):
            yield Form(type="mul", reads=reads, settings={"y": np.array(factor, np.float32)})
        shift = float((y - x).mean())
        if shift and is_same(x + shift, y):
            yield Form(type="add", reads=reads, settings={"y": np.array(shift, np.float32)})
        spread = float(np.square(x - x.mean()).sum())
        slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread else 0.0
        rest = float(y.mean() - slope * x.mean())
        if slope and is_same(slope * x + rest, y):
            line = {"alpha": np.array(slope, np.float32), "beta": np.array(rest, np.float32)}
            yield Form(type="linear_activation", reads=reads, settings=line)


_BINARY: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "real_div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
}


def binary(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    for one, two in itertools.product(range(len(given)), repeat=2):
        if not (is_read[one] or is_read[two]) or (one == two and len(given) > 1):
            continue
        try:
            if np.broadcast_shapes(given[one].shape, given[two].shape) != y.shape:
                continue
        except ValueError:
            continue
        for kind, compute in _BINARY.items():
            if is_same(compute(given[one], given[two]), y):
                yield Form(type=kind, reads={"x": (one,), "y": (two,)})


_REDUCTIONS: Mapping[str, Callable[..., Floats]] = {
    "reduce_mean": np.mean,
    "reduce_sum": np.sum,
    "reduce_max": np.max,
    "reduce_min": np.min,
}


def reductions(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    for place, x in values_read(given, is_read):
        subsets = itertools.chain.from_iterable(
            itertools.combinations(range(x.ndim), count) for count in range(1, x.ndim + 1)
        )
        for axes in subsets if x.size > y.size and x.ndim <= _MOST_AXES else ():
            if x.size // math.prod(x.shape[axis] for axis in axes) != y.size:
                continue
            for kind, compute in _REDUCTIONS.items():
                for keeps in (True, False):
                    if is_same(np.asarray(compute(x, axis=axes, keepdims=keeps)), y):
                        settings: dict[str, Array | str] = {
                            "axes": np.array(axes, np.int32),
                            "keep_dims": np.array(keeps),
                        }
                        yield Form(type=kind, reads={"x": (place,)}, settings=settings)
