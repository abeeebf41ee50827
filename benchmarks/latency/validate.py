"""Cross-validation: estimates of held-out measurements and their errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, concatenate
from benchmarks.latency.fit import Estimator, Fitted, fit, linearize
from benchmarks.latency.priors import UnitPriors
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips
from coremlscope.planning.cost.latency.calibration import Family, UnitParameters
from coremlscope.planning.cost.latency.constants import on_system, scaled_to
from coremlscope.planning.cost.latency.model import family_of
from coremlscope.planning.cost.latency.roofline import time_kernels
from coremlscope.planning.cost.latency.table import Floats

#: The first system whose measurements count: those of iOS 13, in whole milliseconds, take two to three times
#: as long on CPUs as later ones. What is older only widens intervals.
OLDEST = 15
#: The oldest Neural Engine that counts: that of A13 has half the arithmetic of A14's for each core.
_OLDEST_ENGINE = 13
#: Rows that contradict others of their network by a factor of five or more: networks that fell off a unit.
CONTRADICTED = {("a16", "efficientformer_l1-224"), ("m1-pro", "tiny_vit_5m_224-1024")}
#: Families of transformers, which took several times as long before iOS 16 (EfficientFormer's figures).
_TRANSFORMERS = frozenset({"deit", "mobilevit", "pit", "sam"})
_OLD_PUBLICATIONS = frozenset({"MobileViT"})
#: Kinds of networks and their families, for validation without a whole kind.
KINDS: Mapping[str, frozenset[str]] = {
    "dense convolutions": frozenset(
        {"alexnet", "densenet", "inception", "keras_conv", "resnest", "resnet", "vgg"}
    ),
    "depthwise convolutions": frozenset(
        {
            *("convnext", "efficientnet", "fasternet", "ghostnetv3", "mobilenetv2", "mobilenetv3"),
            *("mobileone", "repvit", "shufflenetv2", "starnet"),
        }
    ),
    "convolutions and attention": frozenset(
        {
            *("efficientformer", "efficientformerv2", "efficientvit_mit", "fastvit", "mobilevit"),
            *("poolformer", "swiftformer"),
        }
    ),
    "transformers of images and sound": frozenset({"deit", "depth_anything", "pvtv2", "siglip", "whisper"}),
    "text encoders, language models and their parts": frozenset(
        {
            *("decoder", "distilbert", "linear", "micro_ffn", "micro_linear", "micro_mlp"),
            *("llama_mlp", "minilm", "modernbert", "qwen3"),
        }
    ),
    "detectors, segmentation and generators": frozenset(
        {"comma", "crnn", "isnet", "stable_diffusion", "u2net", "yolo"}
    ),
}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measurement and its estimate from a fit without it.

    Attributes:
        measurement: The measurement.
        ms: Milliseconds, from a fit without the measurements of its publication and without the networks of
            its family.
        family: The family of the network, by the fit to all measurements.
    """

    measurement: Measurement
    ms: float
    family: Family


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of estimates.

    Attributes:
        count: Number of estimates.
        median: Median of |estimate / measured - 1|.
        p90: Its 90th percentile.
        bias: Median of the logarithm of their ratio.
        rank: Spearman's rank correlation.
    """

    count: int
    median: float
    p90: float
    bias: float
    rank: float


def choose(
    measurements: Iterable[Measurement], unit: ComputeUnit, *, every: bool = False, oldest: int = OLDEST
) -> list[Measurement]:
    """Selects the measurements of a unit that fits use.

    Left out are GPUs at the low clock of idleness, systems before iOS 15, transformers on systems before iOS
    16, the Neural Engine of A13, phones' Neural Engines of grade B, networks that stay out of every fit, and
    rows that others contradict by a factor of five or more.

    Args:
        measurements: The measurements.
        unit: The unit.
        every: Whether those that stay out of every fit are among them.
        oldest: The oldest system, as a version of iOS.
    """
    chips = all_chips()
    return [
        m
        for m in measurements
        if m.ran_on == unit
        and (m.is_fitted or every)
        and m.release.core_ml[0] >= oldest
        and (m.chip, m.network) not in CONTRADICTED
        and not (m.family in _TRANSFORMERS and m.publication in _OLD_PUBLICATIONS)
        and (
            unit != NEURAL_ENGINE
            or chips[m.chip].platform == "macOS"
            or (m.grade == "A" and chips[m.chip].neural_engine_generation >= _OLDEST_ENGINE)
        )
    ]


def kind_of(measurement: Measurement) -> str:
    """Returns the kind of the measured network.

    Raises:
        StopIteration: If its family is in no kind.
    """
    return next(name for name, families in KINDS.items() if measurement.family in families)


def hold_out(
    unit: ComputeUnit,
    known: UnitPriors,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    whole: Fitted,
    group: Callable[[Measurement], str] = lambda m: m.family,
) -> list[HeldOut]:
    """Estimates every measurement from a fit without its publication and without its group of networks.

    Args:
        unit: The unit.
        known: The priors of the unit.
        measurements: The measurements.
        networks: The networks by name.
        whole: The fit to all of them.
        group: Returns the group of a measurement: by default its family of networks.
    """
    seconds = np.full(len(measurements), np.nan)
    around = linearize(unit, known, measurements, networks, whole.logs)
    for publication, kind in sorted({(m.publication, group(m)) for m in measurements}):
        seen = [p for p, m in enumerate(measurements) if m.publication != publication and group(m) != kind]
        places = [p for p, m in enumerate(measurements) if (m.publication, group(m)) == (publication, kind)]
        fitted = fit(unit, known, [measurements[p] for p in seen], networks, around.of(seen))
        hidden = [measurements[place] for place in places]
        seconds[places] = Estimator(unit, known.reference, hidden, networks).seconds(fitted.parameters)
    families = families_of(unit, known.reference, measurements, networks, whole.parameters)
    return [HeldOut(*row) for row in zip(measurements, (seconds * 1e3).tolist(), families, strict=True)]


def estimate_all(
    unit: ComputeUnit,
    known: UnitPriors,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    parameters: UnitParameters,
) -> list[HeldOut]:
    """Estimates measurements with constants of the reference chip."""
    seconds = Estimator(unit, known.reference, measurements, networks).seconds(parameters)
    families = families_of(unit, known.reference, measurements, networks, parameters)
    return [HeldOut(m, float(s) * 1e3, f) for m, s, f in zip(measurements, seconds, families, strict=True)]


def families_of(
    unit: ComputeUnit,
    reference: str,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    parameters: UnitParameters,
) -> list[Family]:
    """Returns the family of each measured network."""
    found = []
    for m in measurements:
        table, times, _ = concatenate([networks[m.network]], m.precision)
        constants = scaled_to(all_chips()[m.chip], unit, all_chips()[reference], parameters)
        constants = on_system(constants, m.release)
        total = time_kernels(table, unit, constants).total * times
        plain = table.is_kind("conv", "pointwise", "depthwise", "elementwise", "pool", "reduce")
        seconds = float(total.sum()) + constants.dispatch_s
        found.append(family_of(float(total[~plain].sum()) / seconds, seconds, constants.dispatch_s))
    return found


def errors(measured: Sequence[float], estimated: Sequence[float]) -> Errors:
    """Returns the errors of estimates, ignoring NaN."""
    pairs = [(m, e) for m, e in zip(measured, estimated, strict=True) if e == e]
    if not pairs:
        return Errors(0, *[float("nan")] * 4)
    m, e = np.array(pairs).T
    off = np.abs(e / m - 1)
    rank = (
        float(np.corrcoef(_ranks(m), _ranks(e))[0, 1])
        if len(pairs) > 2 and np.ptp(m) and np.ptp(e)
        else float("nan")
    )
    return Errors(
        len(pairs), float(np.median(off)), float(np.quantile(off, 0.9)), float(np.median(np.log(e / m))), rank
    )


def _ranks(values: Floats) -> Floats:
    """Returns ranks; equal values have equal ranks."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return np.asarray((last - (times - 1) / 2)[place])


def noise_floor(measurements: Iterable[Measurement], chip: str) -> Errors | None:
    """Returns the errors of publications relative to the median of the others, for networks with several."""
    mine, theirs = [], []
    for medians in _published(measurements, chip).values():
        for name, value in medians.items():
            others = [v for other, v in medians.items() if other != name]
            if others:
                mine.append(value)
                theirs.append(float(np.median(others)))
    return errors(mine, theirs) if mine else None


def oracle(measurements: Sequence[Measurement], chip: str) -> Errors | None:
    """Returns the errors of the median of all publications, including the measurement's own."""
    centres = {n: float(np.median(list(m.values()))) for n, m in _published(measurements, chip).items()}
    pairs = [(m.ms, centres[m.network]) for m in measurements if m.chip == chip and m.precision == "fp16"]
    return errors(*zip(*pairs, strict=True)) if pairs else None


def _published(measurements: Iterable[Measurement], chip: str) -> dict[str, dict[str, float]]:
    """Returns the median by network and publication."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for m in measurements:
        if m.chip == chip and m.precision == "fp16":
            found[m.network][m.publication].append(m.ms)
    return {
        network: {name: float(np.median(values)) for name, values in publications.items()}
        for network, publications in found.items()
    }
