"""Structure of a network as a few numbers, to compare networks for a compute unit."""

from __future__ import annotations

import math
from itertools import starmap

import msgspec

from coremlscope.planning.cost.latency.kinds import KernelKind
from coremlscope.planning.cost.latency.table import Floats, KernelTable

_DENSE: tuple[KernelKind, ...] = ("conv", "pointwise")
_DEPTHWISE: tuple[KernelKind, ...] = ("depthwise", "grouped")
_LINEAR: tuple[KernelKind, ...] = ("linear", "recurrent")
_PRODUCTS: tuple[KernelKind, ...] = ("matmul", "attention")
_NORMS: tuple[KernelKind, ...] = ("norm", "map_norm", "softmax")
_MOVES: tuple[KernelKind, ...] = ("copy", "channels", "reshape", "layout", "resize", "other")
_SIMPLE: tuple[KernelKind, ...] = ("elementwise", "reduce", "pool")

_WORK = ("dense", "depthwise", "linear", "products")
_TRAFFIC = ("matrix", "simple", "norms", "moves")
#: Sizes that differ by this factor count as much as compositions without anything in common.
_SCALE = 4.0
#: A size counts at most this much: a network of the same kind is like another, however much larger it is.
_MOST = 1.5


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a network. Work is in multiply-adds, traffic in elements that kernels read and write.

    Attributes:
        kernels: Number of kernels that a prediction runs.
        weight_bytes: Bytes of all weights, compressed.
        dense: Work of dense convolutions.
        depthwise: Work of depthwise and grouped convolutions.
        linear: Work of linear and recurrent layers.
        products: Work of products of two computed tensors, those in attention included.
        matrix: Traffic of all kernels with multiply-adds.
        simple: Traffic of elementwise operations, reductions and pooling.
        norms: Traffic of normalizations and softmax.
        moves: Traffic of copies and rearrangements.
    """

    kernels: float
    weight_bytes: float
    dense: float
    depthwise: float
    linear: float
    products: float
    matrix: float
    simple: float
    norms: float
    moves: float

    @property
    def macs(self) -> float:
        """All multiply-adds."""
        return self.dense + self.depthwise + self.linear + self.products

    @property
    def traffic(self) -> float:
        """All elements that kernels read and write."""
        return self.matrix + self.simple + self.norms + self.moves


def structure_of(table: KernelTable, times: Floats) -> Structure:
    """Returns the structure of a network.

    Args:
        table: Its kernels.
        times: How often each runs in a prediction.
    """
    macs, traffic = table.macs * times, (table.inputs + table.outputs) * times

    def total(column: Floats, *kinds: KernelKind) -> float:
        return float(column[table.is_kind(*kinds)].sum())

    return Structure(
        kernels=float(times.sum()),
        weight_bytes=float(table.weight_bytes.sum()),
        dense=total(macs, *_DENSE),
        depthwise=total(macs, *_DEPTHWISE),
        linear=total(macs, *_LINEAR),
        products=total(macs, *_PRODUCTS),
        matrix=total(traffic, *_DENSE, *_DEPTHWISE, *_LINEAR, *_PRODUCTS),
        simple=total(traffic, *_SIMPLE),
        norms=total(traffic, *_NORMS),
        moves=total(traffic, *_MOVES),
    )


def distance(one: Structure, other: Structure) -> float:
    """Returns how far apart two structures are: 0 for equal ones; about 1 is no longer alike.

    It combines the logarithms of the ratios of sizes with the Hellinger distances between the compositions
    of work and of traffic.
    """
    sizes = [
        (one.macs, other.macs),
        (one.weight_bytes, other.weight_bytes),
        (one.traffic, other.traffic),
        (one.kernels, other.kernels),
    ]
    apart = [min(abs(math.log((a + 1) / (b + 1))) / math.log(_SCALE), _MOST) for a, b in sizes]
    work = _hellinger(_shares(one, *_WORK), _shares(other, *_WORK))
    traffic = _hellinger(_shares(one, *_TRAFFIC), _shares(other, *_TRAFFIC))
    return math.sqrt(sum(x * x for x in apart) / len(apart) + work * work + traffic * traffic)


def _shares(structure: Structure, *names: str) -> list[float]:
    values = [getattr(structure, name) for name in names]
    whole = sum(values)
    return [value / whole for value in values] if whole else [0.0] * len(values)


def _hellinger(one: list[float], other: list[float]) -> float:
    return math.sqrt(sum(starmap(_gap, zip(one, other, strict=True))) / 2)


def _gap(one: float, other: float) -> float:
    return (math.sqrt(one) - math.sqrt(other)) ** 2
