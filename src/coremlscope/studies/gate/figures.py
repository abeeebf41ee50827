"""The figures of a model that a gate holds to limits: size, memory, latency, placement, crashes and PSNR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.api.own_measurements.using import use_own
from coremlscope.api.providers import report_session
from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.figures import Figure
from coremlscope.base.units import format_bytes, format_duration, shown
from coremlscope.describe.loading import check_weights, find_load_problem
from coremlscope.describe.stages import programs_of
from coremlscope.devices import NEURAL_ENGINE, Device, find_device
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.measure.embedded.process import call_isolated, file_of
from coremlscope.model.features.dummy import dummy_values
from coremlscope.model.ir import DType, Function, Model, TensorType
from coremlscope.planning.answer.answer import answer_forecast
from coremlscope.planning.answer.hazards import find_on_every_unit
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.forecast.memory import MemoryModel
from coremlscope.planning.forecast.planner import forecast
from coremlscope.planning.forecast.unplanned import unplanned_stages
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.planning.onnxruntime.case import Format
from coremlscope.results.answer import Answer
from coremlscope.results.gate import FigureKind, Place
from coremlscope.results.hazard import Hazard
from coremlscope.results.measurement import Precision
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import PlanView
from coremlscope.results.verification import ComparedOutput
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.random_weights import missing_weights
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.runtime.execution.wiring import bind_functions, bodies_of
from coremlscope.studies.gate.limits import GateLimits
from coremlscope.verification.outputs import Tolerance, compare_predictions

#: Synthetic inputs on which outputs are compared.
SAMPLES = 4
#: The figures that belong to a device, its system and a setting.
ON_DEVICES: tuple[FigureKind, ...] = ("latency", "neural-engine", "known-crash")
#: What `known-crash` is about.
_DEFECTS = frozenset({"crash", "wrong values"})
_NO_PARTITION = "ONNX Runtime's Core ML provider takes nothing of it"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a model, or why there is none.

    Attributes:
        value: The figure; None if it is not known. With `why`, it is less than the whole.
        why: Why the whole is not known; may be empty.
        hint: What to do about that.
        text: What was found, where the number does not say it all; may be empty.
        doubt: What makes the figure unclear; may be empty.
        is_equal: True if outputs do not differ at all, so that there is no ratio.
    """

    value: Figure | None = None
    why: str = ""
    hint: str = ""
    text: str = ""
    doubt: str = ""
    is_equal: bool = False


class _Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A function on a device, under a setting, or why it is not planned there; or a session's seconds."""

    view: PlanView | None = None
    answer: Answer | None = None
    session: Figure | None = None
    hazards: Sequence[Hazard] = ()
    why: str = ""


class FigureMaker:
    """Makes the figures of a model, each at first use.

    Args:
        model: The model.
        limits: The limits, with shapes of flexible inputs for the functions that have them.

    Raises:
        ModelError: Its weights are damaged.
    """

    def __init__(self, model: Model, limits: GateLimits) -> None:
        check_weights(model)
        self.model, self._given, self._limits = model, limits.shapes, limits
        self._own, _ = use_own()
        self._described: dict[str, ModelSummary] = {}
        self._shapes: dict[str, Mapping[str, Sequence[int]]] = {}
        self._placed: dict[Place, _Placed] = {}

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions; an empty one for the only function of a model."""
        names = tuple(self.model.description.functions)
        return names if len(names) > 1 else ("",)

    def describe(self, function: str) -> None:
        """Reads the operations of a function.

        Raises:
            InputError: A shape is not allowed.
            UsageError: The model has no such function.
        """
        if function in self._described:
            return
        interfaces = self.model.description.functions
        every = {one.name for interface in interfaces.values() for one in interface.inputs}
        named = interfaces.get(function or self.model.description.default)
        own = {one.name for one in named.inputs} if named else every
        given = {name: shape for name, shape in self._given.items() if name in own or name not in every}
        self._shapes[function] = choose_lengths(self.model, function or None, given)
        described = describe_model(
            self.model, self._shapes[function], function=function or None, list_ops=True
        )
        self._described[function] = described

    def made_at(self, kind: FigureKind, place: Place, function: str) -> Place:
        """Returns a place with a function, and with the conditions under which its figures are made.

        Raises:
            UsageError: The model has no such function.
        """
        if kind == "size":
            return Place()
        self.describe(function)
        work = self._described[function].main.work
        session = (self._limits.format, self._limits.ort) if kind in ON_DEVICES else ()
        conditions = filter(None, ("" if work is None else work.sizes, *session))
        return replace(place, function=function, conditions=", ".join(conditions))

    def place(self, places: Iterable[Place]) -> None:
        """Plans functions on devices, those under one setting at once."""
        alike: dict[tuple[str, ComputeUnits], dict[Place, Device]] = {}
        for place in places:
            try:
                self.describe(place.function)
                device = find_device(place.device, place.os or None)
            except UsageError as error:
                self._placed[place] = _Placed(why=error.message)
                continue
            if not place.compute_units:
                self._placed[place] = _Placed(why="it is of no setting of compute units")
            elif find_load_problem(self.model, device.os) is not None:
                self._placed[place] = _Placed(why="the model does not load there")
            else:
                alike.setdefault((place.function, place.compute_units), {})[place] = device
        for (function, setting), devices in alike.items():
            if self._limits.format is None:
                self._forecast(function, setting, devices)
            else:
                self._ask_provider(self._limits.format, setting, devices)

    def _ask_provider(self, format_: Format, setting: ComputeUnits, devices: Mapping[Place, Device]) -> None:
        """Finds the time of sessions of ONNX Runtime, and what is known to go wrong in them."""
        report = report_session(
            Path(self.model.source or ""),
            format_,
            self._limits.ort,
            list(devices.values()),
            (setting,),
            self._given,
        )
        seconds = {(one.device, one.os): one.latency for one in report.estimates}
        for place, device in devices.items():
            self._placed[place] = _Placed(
                session=seconds.get((device.name, str(device.os))),
                hazards=report.hazards,
                why="nothing is known of a part of the model" if report.models else _NO_PARTITION,
            )

    def _forecast(self, function: str, setting: ComputeUnits, devices: Mapping[Place, Device]) -> None:
        described = self._described[function]
        try:
            found = forecast(
                self.model,
                described.ops,
                list(devices.values()),
                (setting,),
                function=function or None,
                shapes=self._shapes[function],
                advised=(),
                own=self._own,
            )
        except CoremlscopeError as error:
            self._placed.update(dict.fromkeys(devices, _Placed(why=error.message)))
            return
        why = "" if found.estimates else next((one.text for one in found.findings), "")
        answers = answer_forecast(described, found) or [None] * len(devices)
        if not found.plans:
            for place, answer in zip(devices, answers, strict=True):
                self._placed[place] = _Placed(answer=answer, why=why)
        for (place, device), plan, answer in zip(devices.items(), found.plans, answers, strict=False):
            view = plan.view(plan.setting(setting))
            hazards = find_hazards(self.model, view, systems=[device.os])
            self._placed[place] = _Placed(view=view, answer=answer, hazards=hazards, why=why)

    @property
    def hazards(self) -> Mapping[Place, Sequence[Hazard]]:
        """The known hazards of the places that were planned."""
        return {place: placed.hazards for place, placed in self._placed.items()}

    @property
    def hazards_everywhere(self) -> Sequence[Hazard]:
        """The known hazards of the model that depend on no device, as absent weights do."""
        self.describe(self.functions[0])
        return find_on_every_unit(self.model)

    def find(self, kind: FigureKind, place: Place) -> Found:
        """Returns a figure; those on devices after `place`."""
        if kind in ON_DEVICES and place not in self._placed:
            self.place([place])
        try:
            made_now = self.made_at(kind, place, place.function)
        except UsageError as error:
            return Found(why=error.message)
        if made_now != place:
            then, now = (one.conditions or "the model at fixed sizes" for one in (place, made_now))
            return Found(
                why=f"the baseline is of {then}, this check is of {now}",
                hint="check with the --shape and --format of the baseline, or make it again",
            )
        match kind:
            case "size":
                return self._size()
            case "memory":
                model = MemoryModel.of(
                    self.model, self._described[place.function].ops, place.function or None
                )
                peak = model.peak()
                return Found(value=peak, why="" if peak is not None else model.why_unknown)
            case "psnr":
                return self._precision(place)
            case "latency":
                return _latency(self._placed[place])
        others = unplanned_stages(bind_functions(self.model))
        if others:
            return Found(why=f"there are no operations to plan in: {', '.join(others)}")
        return (
            _share(self._placed[place]) if kind == "neural-engine" else _crashes(self._placed[place], place)
        )

    def _size(self) -> Found:
        """Returns the size; without the weights that are absent, such as files of Git LFS."""
        size = self.model.size_bytes
        programs = programs_of(self.model)
        if not any(missing_weights(each) for program in programs for each in program.functions.values()):
            return Found(value=_exactly(size, "declared"))
        return Found(
            value=_exactly(size, "declared"),
            why=f"weights are absent, and the other files have {format_bytes(size)}",
            hint="fetch the weights (with Git LFS: `git lfs pull`)",
        )

    def _precision(self, place: Place) -> Found:
        """Compares the outputs with those of the reference, or with the model's own in fp32."""
        given = {
            "path": file_of(self.model),
            "reference": place.reference,
            "function": place.function,
            "shapes": self._shapes[place.function],
        }
        try:
            outputs: Sequence[ComparedOutput] = call_isolated(compare_outputs, given)
        except CoremlscopeError as error:
            return Found(why=error.message, hint=error.hint)
        ratios = [output.psnr_db for output in outputs if output.psnr_db is not None]
        why = _why_no_ratio(outputs, ratios)
        if why:
            return Found(why=why)
        if ratios:
            return Found(value=_exactly(min(ratios), "measured"))
        rounds = place.reference or any(map(_rounds, bodies_of(self.model, place.function or None)))
        why = "" if rounds else ": no operation has a result in fp16"
        subject = describe_place("psnr", place)
        return Found(is_equal=True, text=f"{subject} are equal on {SAMPLES} synthetic inputs{why}")


def describe_place(kind: FigureKind, place: Place) -> str:
    """Returns what a figure belongs to: `M1, macOS 27, all, function decode`; may be empty."""
    function = f"function {shown(place.function)}" if place.function else ""
    outputs = f"outputs against {place.reference}" if place.reference else "outputs rounded to fp16"
    parts = (place.device, place.os, place.compute_units, outputs if kind == "psnr" else "", function)
    return ", ".join(filter(None, parts))


def _latency(placed: _Placed) -> Found:
    answer = placed.answer
    if placed.session is not None:
        return Found(value=placed.session)
    if answer is None or answer.latency is None:
        return Found(why=placed.why)
    doubt, latency = next(iter(answer.trust.doubts), ""), answer.latency
    if not answer.is_at_least:
        # The interval has the other plan, and the error of a chip; not what counts more than the estimate.
        published = [one.seconds for one in answer.trust.published if one.is_believed]
        low, high = min(latency.low, *published, latency.value), max(latency.high, *published, latency.value)
        return Found(value=Figure(latency.value, low, high, latency.origin), doubt=doubt)
    why = f"{doubt}; the rest is estimated at {format_duration(answer.latency.value)}"
    return Found(value=answer.latency, why=why)


def _share(placed: _Placed) -> Found:
    """Returns the share of operations on the Neural Engine, with those that the evidence does not decide."""
    if placed.view is None:
        return Found(why="a session is not planned by operation" if placed.session else placed.why)
    choices = [op.choices[placed.view.compute_units] for op in placed.view.plan.ops]
    total = max(len(choices), 1)
    there = [choice for choice in choices if choice.unit == NEURAL_ENGINE]
    sure = sum(not choice.alternatives for choice in there)
    possible = len(there) + sum(NEURAL_ENGINE in choice.alternatives for choice in choices)
    return Found(value=Figure(len(there) / total, sure / total, possible / total, "planned"))


def _crashes(placed: _Placed, place: Place) -> Found:
    if placed.view is None and placed.session is None:
        return Found(why=placed.why)
    met = [hazard for hazard in placed.hazards if hazard.kind in _DEFECTS]
    certain, possible = ops_of(hazard for hazard in met if hazard.is_sure), ops_of(met)
    first = min(met, key=lambda hazard: not hazard.is_sure, default=None)
    names = "" if first is None else f": {' '.join([first.text, *name_first(first)])}"
    is_planned = any(hazard.is_certain for hazard in met)
    how = "may run" if possible and not is_planned else "runs" if len(possible) == 1 else "run"
    count = "no operation runs" if not possible else f"{count_operations(len(possible))} {how}"
    known = "is reported" if possible and not certain and is_planned else "is known"
    subject = describe_place("known-crash", place)
    return Found(
        value=Figure(float(len(certain)), float(len(certain)), float(len(possible)), "planned"),
        text=f"{count} on {subject} where it {known} to end the app or to return wrong values{names}",
        hint="" if first is None else first.fix,
    )


def ops_of(hazards: Iterable[Hazard]) -> set[str]:
    """Returns the operations that meet hazards; the id of one that is about the whole model stands for it."""
    return {id_ for hazard in hazards for id_ in (hazard.ops or (hazard.id,))}


def name_first(hazard: Hazard) -> list[str]:
    """Returns the name of the first operation, in brackets; nothing where it is about the whole model."""
    return [f"({shown(name)})" for name in hazard.ops.values()][:1]


def count_operations(count: int) -> str:
    """Returns `1 operation`, `2 operations`."""
    return f"{count} operation{'' if count == 1 else 's'}"


def _exactly(value: float, origin: Any) -> Figure:
    return Figure(value, value, value, origin)


def _why_no_ratio(outputs: Sequence[ComparedOutput], ratios: Sequence[float]) -> str:
    """Returns why a ratio says nothing about some output; empty if it does."""
    lost = sum(output.not_finite for output in outputs)
    if lost:
        return f"{lost} elements are not finite"
    alone = next((one for one in outputs if one.status != "paired"), None)
    if alone is not None:
        return f"{shown(alone.name)!r} is {alone.status}"
    # A label may differ where probabilities are nearly equal; their ratio tells how far.
    without = [one for one in outputs if one.psnr_db is None and not (one.meaning == "labels" and ratios)]
    differs = next((one for one in without if one.relative or not one.passed), None)
    return "" if differs is None else f"{shown(differs.name)!r}: {differs.why}"


def _rounds(function: Function) -> bool:
    """True if rounding to fp16 concerns a function: a neural network's layers, or results in fp16."""
    values = (value.type for op in function.graph.walk() for value in op.outputs)
    return bool(function.layers) or any(isinstance(t, TensorType) and t.dtype is DType.FP16 for t in values)


def compare_outputs(
    path: Path, reference: str, function: str, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[ComparedOutput, ...]:
    """Compares outputs on synthetic inputs. It is called in a process of its own, which may crash.

    Args:
        path: The model.
        reference: The path of another model; empty for the model itself, which is then rounded to fp16.
        function: The function of both; empty for the default one.
        shapes: Shapes of flexible inputs.
    """
    model, name = container.read(path), function or None
    other = container.read(Path(reference)) if reference else model
    precision: Precision = "fp32" if reference else "fp16"
    rows: list[ComparedOutput] = []
    interface = model.description.functions[function or model.description.default]
    with open_predictor(other, name) as exact, open_predictor(model, name, precision=precision) as checked:
        for seed in range(SAMPLES):
            values = dummy_values(interface, *bodies_of(model, name), seed=seed, shapes=shapes)
            pair = checked.predict(values), exact.predict(values)
            rows += compare_predictions(*pair, f"sample {seed + 1}", Tolerance())
    return tuple(rows)
