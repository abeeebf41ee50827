"""Compares the unit of whole networks with the one that published latencies show.

Where one publication measured a network with all units, and with fewer, the time with all units says which
unit the plan chose: that of the setting with the same time, if no other setting takes nearly as long. Where
it takes much less than every other setting, and none of them allows the Neural Engine, that is the unit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.latency.dataset import Measurement, load_measurements
from benchmarks.latency.planned import MODELS
from benchmarks.plan.agreement import Agreement
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, Device, all_chips
from coremlscope.formats import container
from coremlscope.planning.forecast.planner import place_functions

__all__ = ["Shown", "compare_times", "find_shown"]

#: The unit that mostly runs a network under a setting with one accelerator.
_UNITS: Mapping[ComputeUnits, ComputeUnit] = {
    "cpu_only": CPU,
    "cpu_and_gpu": GPU,
    "cpu_and_ne": NEURAL_ENGINE,
}
#: Times within the first factor are those of one plan, beyond the second those of different ones.
_SAME, _DIFFERENT = 1.1, 1.25
#: The first system with published plans, macOS 14: earlier ones plan by other rules.
_FIRST = (17, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A network whose published latencies show where it is planned.

    Attributes:
        measurement: That with all units.
        unit: The unit that most of it runs on.
        times_ms: The latencies by setting.
    """

    measurement: Measurement
    unit: ComputeUnit
    times_ms: Mapping[ComputeUnits, float]


def find_shown(measurements: Iterable[Measurement]) -> Iterator[Shown]:
    """Yields the networks whose latencies show a unit."""
    groups: dict[object, dict[ComputeUnits, Measurement]] = defaultdict(dict)
    for one in measurements:
        group = groups[one.network, one.chip, one.release, one.publication, one.precision]
        if one.setting not in group or one.ms < group[one.setting].ms:
            group[one.setting] = one
    for group in groups.values():
        times = {setting: one.ms for setting, one in group.items()}
        unit = _unit(times)
        if unit is not None:
            yield Shown(measurement=group["all"], unit=unit, times_ms=times)


def _unit(times: Mapping[ComputeUnits, float]) -> ComputeUnit | None:
    """The unit that the time with all units shows; None where it shows none, or several."""
    if "all" not in times or len(times) == 1:
        return None
    ratios = {setting: times["all"] / times[setting] for setting in _UNITS if setting in times}
    same = [setting for setting, ratio in ratios.items() if 1 / _SAME < ratio < _SAME]
    others = [ratio for setting, ratio in ratios.items() if setting not in same]
    if len(same) == 1 and all(not 1 / _DIFFERENT < ratio < _DIFFERENT for ratio in others):
        return _UNITS[same[0]]
    is_faster = all(ratio < 1 / _DIFFERENT for ratio in ratios.values())
    return NEURAL_ENGINE if is_faster and "cpu_and_ne" not in ratios else None


def compare_times() -> list[Agreement]:
    """Compares the unit of most operations of our plans with the one that published latencies show."""
    found = Agreement("Macs · unit of most operations that published latencies show, all")
    decided = Agreement(f"{found.name}, open operations on either unit")
    for one in find_shown(load_measurements()):
        chip, release = all_chips()[one.measurement.chip], one.measurement.release
        if not chip.id.startswith("m") or release.core_ml < _FIRST:
            continue
        ours, others = _planned(one.measurement.network, Device(chip, release, chip.id))
        times = ", ".join(f"{setting} {ms:g} ms" for setting, ms in one.times_ms.items())
        text = f"{one.measurement.network} on {chip.name}: {one.unit}, ours {ours} ({times})"
        found.count(ours == one.unit, text)
        decided.count(one.unit in {ours, *others}, text)
    return [found, decided]


def _planned(network: str, device: Device) -> tuple[ComputeUnit | None, set[ComputeUnit]]:
    """The unit of most operations, and those where most of them may go as well."""
    model = container.read(MODELS / f"{network}.mlpackage")
    functions = place_functions(model, device, ["all"], with_advice=False).values()
    choices = [op.choices["all"] for function in functions for op in function.ops if not op.inserted]
    others = Counter(unit for choice in choices for unit in choice.alternatives)
    ((most, _),) = Counter(choice.unit for choice in choices).most_common(1)
    return most, {unit for unit, count in others.items() if count > len(choices) / 2}
