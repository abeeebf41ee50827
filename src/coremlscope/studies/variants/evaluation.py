"""Evaluates variants: size, plans, estimates, and differences of outputs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.writing import write_draft
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.planning.answer.answer import make_answers
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.planner import forecast
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import unit_counts
from coremlscope.results.variants import Variant, VariantDifference, VariantForecast
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.studies.variants.differences import Differences
from coremlscope.studies.variants.scores import find_signals

_Values = Mapping[str, Any]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """How every variant of a model is evaluated.

    Attributes:
        devices: Names of devices.
        os: Their system; None for the newest of each.
        compute_units: The settings.
        shapes: Shapes of flexible inputs, the default of each first.
        samples: The file of the inputs.
        sample_count: Their number.
        synthetic: How many of them are synthetic.
        outputs: The file of the original's outputs.
        own: The user's own measurements.
        threads: Threads that work on one operation.
    """

    devices: tuple[str, ...] = ()
    os: str | None = None
    compute_units: tuple[ComputeUnits, ...] = ("all",)
    shapes: Mapping[str, tuple[tuple[int, ...], ...]] = msgspec.field(default_factory=dict)
    samples: Path
    sample_count: int
    synthetic: int
    outputs: Path
    own: Own = NOTHING_OWN
    threads: int | None = None

    @property
    def default_shapes(self) -> dict[str, tuple[int, ...]]:
        """The first shape of each flexible input."""
        return {name: shapes[0] for name, shapes in self.shapes.items()}


def write_samples(path: Path, values: Sequence[_Values]) -> None:
    """Writes inputs or outputs to a private file."""
    write_draft(path, pickle.dumps(list(values)))


def read_samples(path: Path) -> list[_Values]:
    """Reads inputs or outputs from a private file that this program wrote."""
    found: list[_Values] = pickle.loads(path.read_bytes())
    return found


def evaluate(path: Path, question: Question, variant: Variant, *, is_original: bool, fp16: bool) -> Variant:
    """Describes, plans, estimates and runs a model. What fails of the latter three becomes a sentence.

    Args:
        path: The model.
        question: What is asked.
        variant: What is known of the variant already.
        is_original: Keeps the outputs instead of comparing them.
        fp16: Whether every fp16 result is rounded as on a device.

    Raises:
        ModelError: The model cannot be read.
        InputError: A shape is not allowed.
    """
    model = container.read(path)
    shapes = {
        name: shape
        for name, shape in question.default_shapes.items()
        if any(feature.name == name for feature in model.description.main.inputs)
    }
    summary = describe_model(model, shapes, list_ops=True)
    problems: list[CoremlscopeError] = []
    forecasts: tuple[VariantForecast, ...] = ()
    try:
        forecasts = tuple(_forecast(variant.name, model, summary, question, shapes))
    except CoremlscopeError as error:
        problems.append(error)
    difference = None
    try:
        difference = _run(model, question, is_original=is_original, fp16=fp16)
    except CoremlscopeError as error:
        problems.append(error)
    return replace(
        variant,
        size_bytes=summary.size_bytes,
        weights_bytes=summary.weights_bytes,
        storage=max(summary.weights, key=lambda group: group.parameters).storage if summary.weights else "",
        platforms=summary.platforms,
        forecasts=forecasts,
        difference=difference,
        failure="; ".join(error.message for error in problems),
        hint=problems[0].hint if problems else "",
    )


def _forecast(
    name: str, model: Model, summary: ModelSummary, question: Question, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[VariantForecast]:
    devices = [find_device(device, question.os) for device in question.devices]
    if not devices:
        return
    settings, own = question.compute_units, question.own
    found = forecast(model, summary.ops, devices, settings, shapes=shapes, advised=(), own=own)
    plans = {(plan.device, plan.os): plan for plan in found.plans}
    memory = {(one.device, one.os, one.compute_units): one.memory for one in found.estimates}
    for answer in make_answers(
        model, summary, found, devices, settings, asked=(), advised=(), shapes=shapes, own=own
    ):
        held = memory.get((answer.device, answer.os, answer.compute_units))
        if held is not None:
            counts = unit_counts(plans[answer.device, answer.os].ops, answer.compute_units)
            yield VariantForecast(
                answer=replace(answer, model=name, is_asked=True, headline="", time=(), why=(), changes=()),
                operations={unit: number for unit, number in counts.items() if unit is not None},
                memory=held,
            )


def _run(model: Model, question: Question, *, is_original: bool, fp16: bool) -> VariantDifference | None:
    samples = read_samples(question.samples)
    precision: Any = "fp16" if fp16 else "fp32"
    with open_predictor(model, precision=precision, threads=question.threads) as predictor:
        if is_original:
            write_samples(question.outputs, [predictor.predict(sample) for sample in samples])
            return None
        if not question.outputs.exists():
            return None
        differences, expected = Differences(find_signals(model)), read_samples(question.outputs)
        for sample, outputs in zip(samples, expected, strict=True):
            differences.add(outputs, predictor.predict(sample))
    return VariantDifference(
        samples=question.sample_count,
        synthetic=question.synthetic,
        precision=precision,
        outputs=differences.result(),
    )
