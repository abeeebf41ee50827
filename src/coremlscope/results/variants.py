"""Variants of a model: what transforms of coremltools change in size, time, placement and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coremlscope.base.errors import INTERRUPTED_EXIT
from coremlscope.base.findings import Finding
from coremlscope.base.units import short_repr
from coremlscope.devices.unit import ComputeUnit
from coremlscope.results.answer import Answer, PairVerdict
from coremlscope.results.encoding import plain
from coremlscope.results.estimate import MemoryEstimate
from coremlscope.results.presentation import Presented
from coremlscope.results.profile import Provenance

#: Name and version of the schema.
VARIANTS = "coremlscope.variants/1"
#: The name of the model as it is.
ORIGINAL = "original"


class OutputDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How far an output of a variant is from that of the original, over all samples.

    Attributes:
        name: The output.
        elements: Number of elements that were compared.
        is_equal: True if all elements are equal.
        max_abs: The largest difference; None for outputs without numbers.
        largest: The largest magnitude in the original's output.
        snr_db: Ratio of the energy of the original's output to that of the difference, in decibels; None
            where the outputs are equal, or without numbers.
        psnr_db: The same for the square of the largest magnitude instead of the energy per element.
        top1: The share of rows whose largest element, or whose class, is the same; None where the output
            does not rank classes, such as sound, pictures and activations.
        not_finite: Elements that are NaN or infinite in the variant, and finite in the original.
    """

    name: str
    elements: int
    is_equal: bool
    max_abs: float | None = None
    largest: float | None = None
    snr_db: float | None = None
    psnr_db: float | None = None
    top1: float | None = None
    not_finite: int = 0


class VariantDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How far the outputs of a variant are from those of the original.

    Attributes:
        samples: Number of inputs that were predicted.
        synthetic: How many of them are synthetic.
        precision: The arithmetic of the predictions: `fp32`, or `fp16` where each fp16 result was rounded.
        outputs: The outputs.
    """

    samples: int
    synthetic: int
    precision: str = "fp32"
    outputs: tuple[OutputDifference, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if all outputs are equal."""
        return all(output.is_equal for output in self.outputs)

    @property
    def worst(self) -> OutputDifference | None:
        """The output with the least PSNR; None where all are equal or without numbers."""
        numeric = [output for output in self.outputs if output.psnr_db is not None]
        return min(numeric, key=lambda output: output.psnr_db or 0.0) if numeric else None

    @property
    def top1(self) -> float | None:
        """The least agreement on the first class; None where no output ranks classes."""
        return min((o.top1 for o in self.outputs if o.top1 is not None), default=None)


class VariantForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The plan and estimate of a variant on a device under one setting.

    Attributes:
        answer: How fast it is, and how far to believe it; without changes, and without where the time goes.
        verdict: Whether it is faster than the original; None for the original.
        operations: Number of operations on each unit, as planned.
        memory: The memory of a prediction.
    """

    answer: Answer
    verdict: PairVerdict | None = None
    operations: Mapping[ComputeUnit, int] = msgspec.field(default_factory=dict)
    memory: MemoryEstimate

    @property
    def key(self) -> tuple[str, str, str]:
        """The device, the system and the setting."""
        return self.answer.device, self.answer.os, self.answer.compute_units


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A model after one transform or several, or why there is none.

    Attributes:
        name: Its name, which `--apply` takes: `palettize-4`, `prune-50+int8`.
        title: The same in words.
        size_bytes: Bytes of the package or file.
        weights_bytes: Bytes of the weights in it.
        storage: How most of the weights are stored: `LUT 4-bit`.
        platforms: The oldest systems that read it.
        forecasts: Plans and estimates, by device and setting.
        difference: How far its outputs are from the original's; None for the original, and where they were
            not compared.
        notes: Remarks.
        failure: Why the variant, or a part of what is asked of it, is missing; empty if nothing is.
        hint: What to do about it.
        exit_code: The exit code of that error.
        seconds: How long the transform took.
    """

    name: str
    title: str
    size_bytes: int | None = None
    weights_bytes: int | None = None
    storage: str = ""
    platforms: str = ""
    forecasts: tuple[VariantForecast, ...] = ()
    difference: VariantDifference | None = None
    notes: tuple[str, ...] = ()
    failure: str = ""
    hint: str = ""
    exit_code: int = 0
    seconds: float | None = None

    def forecast(self, key: tuple[str, str, str]) -> VariantForecast | None:
        """Returns the forecast for a device, system and setting."""
        return next((one for one in self.forecasts if one.key == key), None)


class VariantReport(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """A model and its variants.

    Attributes:
        path: The path of the model.
        kind: Apple's name of the model type.
        made: When, where and by which version.
        coremltools: The version of coremltools that is installed, which applies some of the transforms.
        variants: The original first.
        findings: Remarks on all of them.
    """

    path: str
    kind: str
    made: Provenance
    coremltools: str = ""
    variants: tuple[Variant, ...]
    findings: tuple[Finding, ...] = ()

    __repr__ = short_repr

    def to_json(self) -> dict[str, Any]:
        """Converts the report to plain JSON values, with the schema's name."""
        return {"schema": VARIANTS, **plain(self)}

    @property
    def original(self) -> Variant:
        """The model as it is."""
        return self.variants[0]

    @property
    def exit_code(self) -> int:
        """That of Ctrl-C, or that of the first failure if no variant was made; else 0."""
        if any(variant.exit_code == INTERRUPTED_EXIT for variant in self.variants):
            return INTERRUPTED_EXIT
        made = any(variant.size_bytes is not None for variant in self.variants[1:])
        return 0 if made else next((v.exit_code for v in self.variants if v.exit_code), 0)

    @property
    def keys(self) -> tuple[tuple[str, str, str], ...]:
        """The devices, systems and settings of all forecasts."""
        return tuple(dict.fromkeys(f.key for variant in self.variants for f in variant.forecasts))


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Returns the points that no other point beats: by less of the first figure and more of the second.

    Args:
        points: Cost and quality of each.

    Returns:
        Indices, by rising cost. Of equal points the first one.
    """
    order = sorted(range(len(points)), key=lambda index: (points[index][0], -points[index][1], index))
    front: list[int] = []
    for index in order:
        if not front or points[index][1] > points[front[-1]][1]:
            front.append(index)
    return front
