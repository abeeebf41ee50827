"""The rates behind Core ML's planned costs on one chip and system: published, or transferred from others.

A rate belongs to a class of operations and a backend. Core ML has a decision tree for each class with other
leaves on every chip. What is published for the chip itself is used as it is. What is not is transferred from
the nearest published chip by the physical ratio that the published chips follow (`_law`), and its interval
spans what all of them would give, and is at least as wide as published rates differ. Where a class is
published for three or more chips, the rate in the middle is transferred: on the Neural Engine no physical
quantity explains how they differ, and the middle is nearer to a left-out chip than the most similar one.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.devices.catalog import all_chips
from coremlscope.devices.chip import Chip, Device
from coremlscope.devices.release import OSRelease
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.cost.planned.publications import Borders, Publication, PublishedNumber, publications
from coremlscope.planning.placement.backend import BACKENDS, UNIT_OF, Backend, Rate
from coremlscope.planning.placement.search import Bounds, TransitionCosts

__all__ = ["CLASSES", "Rate", "RateTable", "rate_table"]

#: The classes of operations, and what their rates count.
CLASSES: Mapping[str, str] = {
    "bytes": "bytes",
    "relu": "bytes",
    "convolution, sparse": "operations",
    "convolution, medium": "operations",
    "convolution, dense": "operations",
    "convolution, transposed": "operations",
    "convolution, transposed in one or three dimensions": "operations",
    "linear, few rows": "operations",
    "linear, small": "operations",
    "linear, medium": "operations",
    "linear, large": "operations",
    "matmul": "operations",
    "add": "elements",
    "mul": "elements",
    "transpose, outer": "elements",
    "transpose, small": "elements",
    "transpose, large": "elements",
    "concat": "elements",
    "gather": "elements",
    "bilinear upsampling": "elements",
    "recurrence": "operations",
}

#: The class whose rate is used where no chip has one of a class on a backend.
_SUBSTITUTES: Mapping[str, str] = {
    "convolution, sparse": "convolution, medium",
    "convolution, medium": "convolution, dense",
    "convolution, transposed": "convolution, transposed in one or three dimensions",
    "convolution, transposed in one or three dimensions": "convolution, dense",
    "linear, few rows": "bytes",
    "linear, small": "convolution, sparse",
    "linear, medium": "convolution, medium",
    "linear, large": "linear, medium",
    "matmul": "convolution, dense",
    "mul": "add",
    "transpose, outer": "transpose, large",
    "transpose, small": "bytes",
    "transpose, large": "transpose, small",
    "concat": "mul",
    "gather": "bytes",
    "bilinear upsampling": "bytes",
    "recurrence": "bytes",
}

#: The ratio of a rate to its substitute, where it is known from another backend. On the Neural Engine the
#: large leaf of `linear` is 2.5 times as fast as the medium one. 128 rows of 576→49152 stay on the CPU, 256
#: do not (thisisthepy/torchnative, chip not stated): 2.0 … 4.1 for the CPU.
#: Large transposes have 0.4 of the rate of small ones on the Neural Engine (M4 Max and M4), transposed
#: convolutions in two dimensions 0.401 of that in one and three (M4), as of dense convolutions on the GPU (M1
#: Max).
_RATIOS: Mapping[str, float] = {
    "linear, large": 2.5,
    "transpose, large": 0.4,
    "convolution, transposed": 0.4015,
}
#: An element in half precision is read and written where a rate of elements is that of bytes.
_MOVED, _BYTES_PER_ELEMENT = ("elements", "bytes"), 4

#: Classes with one rate on the CPU, its peak: 754.49 and 754.54 GFLOP/s on an M4. Where one is published for
#: a chip, it is used for the other rather than that of another chip.
_PEAKS: Mapping[str, str] = {"matmul": "convolution, dense", "convolution, dense": "matmul"}
_PEAK_SPREAD = 1.05

#: The relation between all accelerators' and the CPU's bandwidths is the same in all publications: the
#: uncertainty of these rates is common to all units and does not move operations between them.
_COMMON = ("bytes", "relu")
#: The factor of the interval of a transferred rate: of convolutions, and of all others. With it, and the span
#: of all published chips, nine in ten published rates lie within if those of their chip are left out
#: (`python -m benchmarks.plan rates`: 95 % on the Neural Engine, 92 % on the GPU, 100 % on the CPU).
_SPREAD_CONVOLUTIONS, _SPREAD = 1.9, 1.33
#: The same of transposes on the CPU: 14.6 and 21.8 elements per nanosecond on M1 and M4.
_SPREAD_TRANSPOSES = 1.6
#: The same of rates that are published for no chip. Published ones, assumed without them to be those of
#: another class, differ by up to 2.6 on the Neural Engine (one of two classes) and the GPU (four of seven:
#: not two leaves of `linear` and one of transposes of an M4 Max), by up to 3.5 on the CPU, but by 116 for
#: bilinear upsampling there, and by far more for recurrences.
_SPREAD_ASSUMED: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 2.6, GPU: 2.6, CPU: 4.0}
#: With so many published chips the median is nearer than the nearest chip: left-out rates of the Neural
#: Engine differ from it by a factor of 1.28 (root mean square), from the nearest chip by 1.36.
_SEVERAL = 3
#: The first version of Core ML whose plans differ: inputs are free from here on.
_CHANGE = (26, 0)
#: The first version of Core ML to which rates of later systems are lent: those of macOS 15 and iOS 18.
_LENT_SINCE = (18, 0)
#: The cost of changing the backend, and of ending on the Neural Engine (M4: 440 of 482 plans exactly).
_SWITCH_MS = 0.125
#: The cost of ending on the GPU: more than 0.066 ms, as SigLIP does not end there on an M4 Pro; less than on
#: the Neural Engine, as large single operations of equal cost run there (thisisthepy/torchnative).
_GPU_FINISH_MS = 0.1


class RateTable(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one chip and system.

    Attributes:
        chip: The chip's name.
        os: The system.
        rates: By class of operations and backend.
        borders: Between the leaves of convolutions: those of chips, the nearest one first.
        transition_costs: The costs of launching, switching and ending.
        prices_inputs: Whether the conversion of inputs is priced; otherwise it costs nothing.
        name: Where the rates come from, in words.
    """

    chip: str
    os: str
    rates: Mapping[str, Mapping[Backend, Rate]]
    borders: tuple[Borders, ...]
    transition_costs: TransitionCosts
    prices_inputs: bool
    name: str


def rate_table(device: Device, among: Sequence[Publication] | None = None) -> RateTable:
    """Returns the rates for a device: its own where they are published, otherwise transferred ones.

    Args:
        device: The device.
        among: The publications to use; by default all of them.
    """
    if among is None and all_chips().get(device.chip.id) is device.chip:
        return _known_table(device.chip.id, device.os)
    return _rate_table(device, publications() if among is None else among)


@functools.lru_cache(maxsize=256)
def _known_table(chip: str, os: OSRelease) -> RateTable:
    """Returns the rates of a chip of the catalogue."""
    return _rate_table(Device(all_chips()[chip], os, chip), publications())


def _rate_table(device: Device, among: Sequence[Publication]) -> RateTable:
    ranked = _ranked(device, among)
    rates = {
        name: {
            backend: replace(_rate(device, ranked, name, backend), name=name, counts=counts)
            for backend in BACKENDS
        }
        for name, counts in CLASSES.items()
    }
    return RateTable(
        chip=device.chip.name,
        os=str(device.os),
        rates=rates,
        borders=_borders(ranked),
        transition_costs=_transition_costs(device, ranked),
        prices_inputs=device.os.core_ml < _CHANGE,
        name=_describe(device, ranked, rates),
    )


def _ranked(device: Device, among: Sequence[Publication]) -> list[Publication]:
    """Returns the publications, the nearest chip first, then the nearest system."""

    def distance(one: Publication) -> tuple[bool, bool, int, bool, float, float]:
        cores = _cores(one.chip, "mps_graph")
        return (
            one.chip.id != device.chip.id,
            one.chip.family != device.chip.family,
            abs(one.chip.neural_engine_generation - device.chip.neural_engine_generation),
            (one.os.core_ml < _CHANGE) != (device.os.core_ml < _CHANGE),
            round(abs(math.log(cores / _cores(device.chip, "mps_graph"))), 6),
            -cores,
        )

    return sorted(among, key=distance)


def _borders(ranked: Sequence[Publication]) -> tuple[Borders, ...]:
    """Returns the borders between leaves of convolutions: the nearest chip first, large weights first.

    Where few convolutions of a chip are published, its borders are wide; those of other chips narrow them,
    the sparse one where they are for large weights as well, or for small ones. It may be the same everywhere:
    M1, M1 Max, M4 Pro and M4 share 18.3 … 19.3 operations per byte with small weights. With weights of 6.9 kB
    and more, those of an M1 Max, 12.8 … 14.3, contradict no other.
    """
    every = [(one, borders) for one in ranked for borders in one.borders]
    sizes = sorted({borders.weights_bytes for _, borders in every}, reverse=True)
    found = []
    for one, size in itertools.product(ranked, sizes):
        own = next((borders for borders in one.borders if borders.weights_bytes <= size), None)
        if own is not None:
            others = [two for other, two in every if other is not one and two.weights_bytes <= size]
            alike = [two for two in others if (two.weights_bytes > 0) == (size > 0)]
            sparse = own.sparse.narrowed(two.sparse for two in alike)
            dense = own.dense.narrowed(two.dense for two in others)
            found.append(replace(own, sparse=sparse, dense=dense, weights_bytes=size))
    return tuple(found)


def _is_own(device: Device, one: Publication) -> bool:
    """Returns True if plans of the chip itself were published for this system or one like it."""
    return one.chip.id == device.chip.id and _has_same_plans(device, one)


def _has_same_plans(device: Device, one: Publication) -> bool:
    return (one.os.core_ml < _CHANGE) == (device.os.core_ml < _CHANGE)


def _lends(device: Device, one: Publication, name: str, backend: Backend) -> bool:
    """Returns True if a published rate is one of the device, or may be transferred to it.

    With macOS 26 small layers of `linear` are planned 40 times as fast on the GPU of an M4 Max as on its
    Neural Engine. Latencies show that small transformers run on the GPU of an M4 with macOS 26.6, but on the
    Neural Engines of A14, A15 and M3 Max with systems before macOS 15 and iOS 18.
    """
    match one.only_for.get((name, backend)):
        case "chip":
            return _is_own(device, one)
        case "system":
            return one.os.platform == device.os.platform and device.os.core_ml >= _LENT_SINCE
    return True


def _is_withheld(device: Device, one: Publication, name: str, backend: Backend) -> bool:
    """Returns True if a rate of other systems may be that of the device, and no latency tells whether it is.

    Where it is lent, that of another class may hold as well.
    """
    is_of_system = one.only_for.get((name, backend)) == "system" and device.os.core_ml >= _LENT_SINCE
    return is_of_system and not (_has_same_plans(device, one) and one.os.platform == device.os.platform)


def _rate(device: Device, ranked: list[Publication], name: str, backend: Backend) -> Rate:
    """Returns the rate of a class, with an interval that spans both values where one is of other systems."""
    every = [(one, one.rates[name][backend]) for one in ranked if backend in one.rates.get(name, {})]
    lent = [pair for pair in every if _lends(device, pair[0], name, backend)]
    found = _rate_of(device, ranked, name, backend, lent)
    withheld = [pair for pair in every if _is_withheld(device, pair[0], name, backend)]
    if not withheld:
        return found
    unlent = [pair for pair in lent if pair not in withheld]
    others = _rate_of(device, ranked, name, backend, unlent), _transferred(device, name, backend, withheld)
    low, high = (pick(found.value, *(one.value for one in others)) for pick in (min, max))
    why = "plans of other systems have a rate that is far from it; the interval includes both"
    return replace(found, basis="assumed", low=min(low, found.low), high=max(high, found.high), note=why)


def _rate_of(
    device: Device,
    ranked: list[Publication],
    name: str,
    backend: Backend,
    known: list[tuple[Publication, PublishedNumber]],
) -> Rate:
    """Returns the rate of a class from the publications that lend it."""
    peak = _PEAKS.get(name, "") if UNIT_OF[backend] == CPU else ""
    is_own = bool(known) and _is_own(device, known[0][0])
    if not is_own and any(_is_own(device, one) and backend in one.rates.get(peak, {}) for one in ranked):
        return _like(_rate(device, ranked, peak, backend), peak, 1.0, _PEAK_SPREAD)
    if not known:
        substitute = _SUBSTITUTES[name]
        factor = _RATIOS.get(name, 1.0)
        if (CLASSES[name], CLASSES[substitute]) == _MOVED:
            factor /= _BYTES_PER_ELEMENT
        if _law(name, backend) == "matrix" != _law(substitute, backend) and _has_matrix_units(device.chip):
            factor *= _MATRIX_SPEEDUP[1] / _CONVOLUTION_SPEEDUP[1]
        spread = _SPREAD_ASSUMED[UNIT_OF[backend]]
        return _like(_rate(device, ranked, substitute, backend), substitute, factor, spread)
    nearest, published = known[0]
    if _is_own(device, nearest):
        return Rate(
            value=published.value,
            low=published.low,
            high=published.high,
            basis=published.basis,
            publication=nearest.name,
            note=published.note,
        )
    return _transferred(device, name, backend, known)


def _like(other: Rate, name: str, factor: float, spread: float) -> Rate:
    """Returns a rate that is assumed to be that of another class times a factor, with a wider interval."""
    return Rate(
        value=other.value * factor,
        low=min(other.low, other.value / spread) * factor,
        high=max(other.high, other.value * spread) * factor,
        basis="assumed",
        publication=other.publication,
        law=other.law,
        note=f"the rate of: {name}",
    )


def _transferred(
    device: Device, name: str, backend: Backend, known: list[tuple[Publication, PublishedNumber]]
) -> Rate:
    """The rate of a chip times the physical ratio; the interval spans those of all chips."""
    law = _law(name, backend)
    ratios = [_strength(device.chip, law, backend) / _strength(one.chip, law, backend) for one, _ in known]
    place = 0
    if len(known) >= _SEVERAL and not _is_alike(device.chip, known[0][0].chip, backend):
        place = _middle(
            [published.value * ratio for (_, published), ratio in zip(known, ratios, strict=True)]
        )
    nearest, published = known[place]
    value = published.value * ratios[place]
    low = min(published.low * ratio for (_, published), ratio in zip(known, ratios, strict=True))
    high = max(published.high * ratio for (_, published), ratio in zip(known, ratios, strict=True))
    spread = _spread(name, backend)
    if nearest.chip.id != device.chip.id:
        low, high = min(low, value / spread), max(high, value * spread)
    elif name not in _COMMON:
        # Another system of a chip says more of it than other chips. M1 (14.5) and M1 Max (macOS 27) have
        # the same Neural Engine: rates differ by up to 1.10 there, and by up to 1.19 on the CPU.
        spread = spread if UNIT_OF[backend] == GPU else _SPREAD
        low, high = value / spread, value * spread
    if law in _SPEEDUPS and _has_matrix_units(device.chip):
        least, usual, most = _SPEEDUPS[law]
        if name.startswith("linear"):
            # The plans that bound the speedup bound these very rates.
            low, high = value, value
        low, high = low * least / usual, high * most / usual
    if law == "matrix":
        dies = _dies(device.chip)
        low, high = low / dies, high * max(_cores(device.chip, backend) / (_MATRIX_CORES * dies), 1.0)
    return Rate(
        value=value,
        low=low,
        high=high,
        basis="transferred",
        publication=nearest.name,
        law=_LAWS[law] if nearest.chip.id != device.chip.id else "another system of the same chip",
        note=published.note,
        is_common=name in _COMMON,
    )


def _is_alike(chip: Chip, published: Chip, backend: Backend) -> bool:
    """Returns True for a chip itself, and for a GPU with as many cores, which is nearer than the middle."""
    same_size = _cores(chip, backend) == _cores(published, backend)
    return chip.id == published.id or (UNIT_OF[backend] == GPU and same_size)


def _spread(name: str, backend: Backend) -> float:
    """Returns the factor of the interval: planned convolutions on the CPU differ as little as other rates."""
    if UNIT_OF[backend] == CPU:
        return _SPREAD_TRANSPOSES if name.startswith("transpose") else _SPREAD
    return _SPREAD_CONVOLUTIONS if name.startswith("convolution") else _SPREAD


def _middle(values: Sequence[float]) -> int:
    """Returns the place of the median; of two in the middle, the first in the list."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    return min(order[(len(order) - 1) // 2 : len(order) // 2 + 1])


#: The physical ratios, in words.
_LAWS: Mapping[str, str] = {
    "": "equal rates",
    "cores": "number of cores",
    "matrix": "number of cores, 32 of a die at most, and their speed in matrix products",
    "convolution": "number of cores and their speed in convolutions",
    "medium": "square root of the number of cores, and their speed in matrix products",
    "core": "speed of a core",
}
#: Classes whose rates are those of arithmetic units. All others are the same on chips of any size.
_ARITHMETIC = ("convolution", "linear", "matmul")


def _law(name: str, backend: Backend) -> str:
    """Returns the physical ratio that a class follows.

    The rates of convolutions grow with the cores of GPU (197, 172 and 160 GFLOP/s per core of M1, M1 Max and
    M4 Max) and CPU (729 and 1,441 with 4 and 8 performance cores), on the medium leaf of the GPU with their
    square root (261, 269 and 224 GFLOP/s for it of M1, M4 Pro and M1 Max). That leaf holds convolutions with
    1×1 weights, which are matrix products; less than their gain from matrix units would put ResNet-50 and
    MobileNet on the Neural Engine of an M5 Max, unlike published plans. The rates of `add` and `mul` grow
    with the cores of the GPU (1.28, 1.41, 1.40 and 1.26 per core of M1, M1 Max, M4 Pro and M4 Max).
    Bandwidths and `concat` do not grow with cores, and `transpose` grows with their speed: 10.27 and 14.03
    elements per nanosecond on M1 Max and M4 Pro, whose cores have 0.332 and 0.46 TFLOP/s. Sparse convolutions
    are bound by bandwidth on the CPU and gain nothing from matrix units. `linear` has the same rates on the
    Neural Engines of M1 Max, M4, M4 Pro and M4 Max, on the CPUs of M4 and M4 Max (4 and 12 performance cores)
    and on the GPUs of M1 Max and M4 Max, to all digits. An M1, and programs whose chip is not stated, need
    less on a smaller GPU, so that it follows the cores there, up to the 32 of an M1 Max.
    """
    unit = UNIT_OF[backend]
    if name == "convolution, sparse" or (unit == CPU and name.startswith("linear")):
        return "" if unit == CPU else "cores"
    if name == "linear, few rows":
        return "cores"
    if name.startswith(_ARITHMETIC):
        if unit != GPU:
            return "cores"
        if name == "convolution, medium":
            return "medium"
        return "convolution" if name.startswith("convolution") else "matrix"
    if unit != GPU:
        return ""
    if name.startswith("transpose"):
        return "core"
    return "cores" if name in ("add", "mul", "bilinear upsampling") else ""


#: How much faster a core with matrix units is in planned rates of `linear`: at least, most likely, at most.
#: Apple says 4 for peak rates. Published plans of three chips bound it, and agree: with all units,
#: laya-multilingual runs on the GPU of an M5 Pro (20 cores) at 128 to 1,024 positions, but at less than 2.55
#: layers of 512 positions, and at less than 2.75 layers of 1,024 positions would stay on the Neural Engine;
#: about 37 % of the operations of a transformer run on the GPU of an M5 (10 cores), where `linear` stays on
#: the Neural Engine (less than 3.9); all operations of five networks run on the GPU of an M5 Max (40 cores,
#: counted as 32: more than 1.9).
_MATRIX_SPEEDUP = (2.75, 3.2, 3.9)
#: The same for convolutions. Published plans of an M5 Max bound it: ResNet-50 at batch 16 runs on the GPU
#: (more than 1.6), a U-Net at batch 1 on the Neural Engine (less than 2.8 with the largest launch of the GPU,
#: less than 2.2 with that of an M1 Max).
_CONVOLUTION_SPEEDUP = (1.6, 2.1, 2.8)
_SPEEDUPS: Mapping[str, tuple[float, float, float]] = {
    "matrix": _MATRIX_SPEEDUP,
    "convolution": _CONVOLUTION_SPEEDUP,
    "medium": _MATRIX_SPEEDUP,
}
#: The cores of a die of a GPU above which rates of `linear` are those of a smaller one: M1 Max and M4 Max,
#: with 32 and 40, have the same. That those of two dies have twice the rate is assumed.
_MATRIX_CORES = 32
#: The most cores of the GPU of one die.
_DIE_CORES = 40
#: Operations per second of a core of a GPU where they are not published.
_USUAL_CORE = 0.4e12


def _has_matrix_units(chip: Chip) -> bool:
    return chip.value(GPU, "matrix_speedup") is not None


def _strength(chip: Chip, law: str, backend: Backend) -> float:
    if not law:
        return 1.0
    if law == "core":
        cores = _cores(chip, backend)
        return (chip.value(GPU, "fp32_FLOPps") or _USUAL_CORE * cores) / cores
    is_faster = law in _SPEEDUPS and _has_matrix_units(chip)
    cores = _cores(chip, backend)
    if law == "medium":
        cores = math.sqrt(cores)
    elif law == "matrix":
        cores = min(cores, _MATRIX_CORES * _dies(chip))
    return cores * (_SPEEDUPS[law][1] if is_faster else 1.0)


def _dies(chip: Chip) -> int:
    """Returns the number of dies that hold the cores of a GPU: two of an Ultra."""
    return math.ceil(_cores(chip, "mps_graph") / _DIE_CORES)


def _cores(chip: Chip, backend: Backend) -> float:
    unit = UNIT_OF[backend]
    name = "performance_cores" if unit == CPU else "cores"
    usual = {CPU: 4.0, GPU: 8.0, NEURAL_ENGINE: 16.0}[unit]
    return chip.value(unit, name) or usual


#: The cost of launching the GPU where no smaller one is published: that of the Neural Engine.
_GPU_LAUNCH_MS = 0.125
#: A GPU with 0.8 of the cores of a published one still has its launch: that of 32 cores is not that of 20.
_SMALLER = 0.8


def _transition_costs(device: Device, ranked: list[Publication]) -> TransitionCosts:
    """Returns the costs of a path; those of launching a backend have bounds that span those of all chips."""
    launch: dict[Backend, float] = {}
    bounds: dict[Backend, Bounds] = {}
    for backend in BACKENDS:
        known = [(one, one.launch_ms[backend]) for one in ranked if backend in one.launch_ms]
        if not known:
            continue
        nearest, published = known[0]
        spread = [published] if _is_own(device, nearest) else [cost for _, cost in known]
        bounds[backend] = Bounds(min(cost.low for cost in spread), max(cost.high for cost in spread))
        launch[backend] = published.value
        if UNIT_OF[backend] == GPU and not _is_own(device, nearest):
            launch[backend] = _gpu_launch_ms(device.chip, known)
    return TransitionCosts(
        launch_ms=launch,
        switch_ms=_SWITCH_MS,
        finish_ms={"ane": _SWITCH_MS, "mps_graph": _GPU_FINISH_MS},
        launch_bounds=bounds,
    )


def _gpu_launch_ms(chip: Chip, known: list[tuple[Publication, PublishedNumber]]) -> float:
    """Returns the cost of launching the GPU: that of the largest published GPU which is not larger.

    It grows with the size of the GPU: 0.08 … 0.134 ms with the 20 cores of an M4 Pro, 0.346 … 0.444 ms with
    the 32 of an M1 Max, 0.395 … 0.426 ms with the 40 of an M4 Max. With the launch of the M1 Max, and all its
    rates from other chips, 11 of 12 encoders of convolutions are planned as published on an M4 Max, 10 with
    that of the M4 Pro.
    """
    cores = _cores(chip, "mps_graph")
    smaller = [pair for pair in known if _cores(pair[0].chip, "mps_graph") * _SMALLER <= cores]
    if not smaller:
        return _GPU_LAUNCH_MS
    return max(smaller, key=lambda pair: _cores(pair[0].chip, "mps_graph"))[1].value


def _describe(device: Device, ranked: list[Publication], rates: Mapping[str, Mapping[Backend, Rate]]) -> str:
    """Returns where the rates come from: `rates of M4 Pro, macOS 26.5.1; others transferred from M4, …`."""
    own = [one.name for one in ranked if _is_own(device, one)]
    names = ", ".join(_transferred_from(device, rates))
    if not own:
        return f"rates transferred from {names}"
    return f"rates of {' and '.join(own)}" + (f"; others transferred from {names}" if names else "")


def _transferred_from(device: Device, rates: Mapping[str, Mapping[Backend, Rate]]) -> Iterator[str]:
    """The chips of transferred rates, those with the most first; of the chip itself with the system."""
    found: dict[str, int] = {}
    for of_class in rates.values():
        for rate in of_class.values():
            if rate.law:
                chip, _, system = rate.publication.partition(", ")
                name = f"{chip} with {system}" if chip == device.chip.name else chip
                found[name] = found.get(name, 0) + 1
    yield from sorted(found, key=lambda name: -found[name])
