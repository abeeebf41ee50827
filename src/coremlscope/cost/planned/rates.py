"""The published rates behind Core ML's planned costs: leaves of its decision trees, and its bandwidths.

The two systems with published plans have different leaves; their bandwidths agree. The number of operations
per byte selects the leaf. The published figures of the M1 are at 1.0 … 10.8, 20.0 … 93.5 and 154 … 240
operations per byte; the borders between them are geometric means. `benchmarks/plan` derives all rates again
and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coremlscope.devices.release import OSRelease
from coremlscope.placement.backend import Backend

__all__ = [
    "ACCELERATOR_BPS",
    "BNNS_SPEEDUP",
    "CLASSIC_GOPPS",
    "CPU_BPS",
    "RELU_BPS",
    "Era",
    "Leaf",
    "Rates",
    "cpu_rates",
    "era",
]

#: Operations (or elements) per nanosecond, by backend: the trees hold GFLOP/s.
Rates = Mapping[Backend, float]

#: Bandwidth assumed for the Neural Engine and the GPU, in bytes per second: 68 GiB/s.
ACCELERATOR_BPS = 68 * 2.0**30
#: Bandwidth assumed for both CPU backends, in bytes per second.
CPU_BPS = 60.845367296e9
#: `relu` has a bandwidth of its own, the same everywhere.
RELU_BPS = 100e9
#: Operations per nanosecond of the older CPU backend.
CLASSIC_GOPPS = 656.0
#: Speed of BNNS relative to the older CPU backend, for arithmetic, not for bytes moved.
BNNS_SPEEDUP = 1.1502184867858887


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a decision tree.

    Attributes:
        up_to: The largest number of operations per byte for which it holds.
        rates: Operations per nanosecond.
    """

    up_to: float
    rates: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """The rates in the plans of one system.

    Attributes:
        name: The chip and the system whose plans were published.
        convolution: Leaves of convolutions, by operations per byte.
        dilated: Rates of dilated convolutions.
        transposed: Rates of transposed convolutions.
        linear: Leaves of `linear`, by operations per byte.
        addition: Elements of all arguments per nanosecond, for `add`.
        transposition: Elements of all arguments per nanosecond, for `transpose`.
        prices_inputs: Whether the conversion of inputs is priced; otherwise it costs nothing.
    """

    name: str
    convolution: tuple[Leaf, ...]
    dilated: Rates
    transposed: Rates
    linear: tuple[Leaf, ...]
    addition: Rates
    transposition: Rates
    prices_inputs: bool


def cpu_rates(classic: float) -> dict[Backend, float]:
    """The rates of both CPU backends from that of the older one, in single precision as in Core ML."""
    return {"bnns": float(np.float32(classic * BNNS_SPEEDUP)), "classic_cpu": classic}


def _rates(ane: float, bnns: float, classic_cpu: float, mps_graph: float) -> Rates:
    """Rates in the order of the published plans."""
    return {"ane": ane, "bnns": bnns, "classic_cpu": classic_cpu, "mps_graph": mps_graph}


#: sqrt(10.82 · 19.97) and sqrt(93.45 · 154.39); see the module.
_FEW, _MANY = 14.7, 120.1
_ALL = float("inf")

#: The GPU's leaves, published for the M1 only.
_GPU_FEW, _GPU_SOME, _GPU_MANY = 114.07001495361328, 737.8605346679688, 1572.246337890625

#: Published for one shape, at 73 operations per byte. Four `linear` in sequence at 64 operations per byte,
#: and two at 43, go to the Neural Engine. So below 64 they cost the CPU at least six times as much as this
#: leaf gives; the convolutions' lowest leaf is consistent with all of these plans.
_LINEAR = (
    Leaf(68.3, _rates(471.180908203125, 27.08521270751953, 23.54788589477539, _GPU_FEW)),
    Leaf(_ALL, _rates(10581.5791015625, 335.5166015625, 291.6981506347656, _GPU_SOME)),
)

#: On the later system a convolution at 31 operations per byte has the middle leaf, and one at 70.7 must have
#: the highest: two of them at the end of a graph stay on the CPU (`pixel_shuffle` in context).
_MANY_LATER = 46.8

_MACOS_14 = Era(
    name="M1, macOS 14.5",
    convolution=(
        Leaf(_FEW, _rates(436.7751770019531, 31.374584197998047, 27.27706527709961, _GPU_FEW)),
        Leaf(_MANY, _rates(5980.8818359375, 298.10491943359375, 259.17242431640625, _GPU_SOME)),
        Leaf(_ALL, _rates(11582.1572265625, 729.201904296875, 633.9681396484375, _GPU_MANY)),
    ),
    # Not published for this system; those of the other one.
    dilated=_rates(28706.0, 754.4927368164062, 655.9559936523438, _GPU_MANY),
    transposed=_rates(3804.0, 729.201904296875, 633.9681396484375, _GPU_MANY),
    linear=_LINEAR,
    addition=_rates(16.474746704101562, 7.27761697769165, 6.327160358428955, 10.207612037658691),
    transposition=_rates(15.510704040527344, 14.583409309387207, 12.678816795349121, 17.69293785095215),
    prices_inputs=True,
)

_MACOS_27 = Era(
    name="M4, macOS 27.0.1",
    convolution=(
        Leaf(_FEW, _rates(471.180908203125, 27.08521270751953, 23.54788589477539, _GPU_FEW)),
        Leaf(_MANY_LATER, _rates(7160.830078125, 388.0614318847656, 337.380615234375, _GPU_SOME)),
        Leaf(_ALL, _rates(16151.6767578125, 754.4927368164062, 655.9559936523438, _GPU_MANY)),
    ),
    # Three digits are published: 2.63 µs for 75.5 MFLOP, 8.82 and 19.85 µs for 33.6 and 75.5 MFLOP.
    dilated=_rates(28706.0, 754.4927368164062, 655.9559936523438, _GPU_MANY),
    transposed=_rates(3804.0, 754.4927368164062, 655.9559936523438, _GPU_MANY),
    linear=_LINEAR,
    addition=_rates(17.990264892578125, 10.56109619140625, 9.181818008422852, 10.207612037658691),
    # Three digits: 3.81 and 3.00 µs for 65,540 elements; the fourth is chosen to reproduce a tie of a
    # published plan.
    transposition=_rates(17.2025, 21.847, 21.847 / BNNS_SPEEDUP, 17.69293785095215),
    prices_inputs=False,
)

#: From this version of Core ML on, the later figures are used. Nothing is published for versions between.
_CHANGE = (26, 0)


def era(os: OSRelease) -> Era:
    """The rates for a system: those of the published system on the same side of version 26.

    The leaves changed between macOS 14.5 on an M1 and macOS 27 on an M4, while the bandwidths stayed those of
    an M1. So the rates are assumed to depend on the system, not on the chip.
    """
    return _MACOS_27 if os.core_ml >= _CHANGE else _MACOS_14
