"""What a prediction by ONNX Runtime takes on a device: Core ML models, what is between them, and the rest.

A partition becomes a program and goes through the planner. Operators outside run on ONNX Runtime's own CPU
kernels, whose rates on Apple's chips are assumed: they are set by one published pair (YOLOv8n on M2: 38.5 ms
by the CPU provider, 10.7 ms in 11 partitions), and are uncertain by a factor of 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.figures import Figure
from coremlscope.describe.model import list_operations
from coremlscope.devices import CPU, ComputeUnit, ComputeUnits, Device
from coremlscope.formats.onnx.graph import OWN_DOMAINS, Graph, Node, OnnxModel, sort_nodes
from coremlscope.formats.onnx.model import default_shapes
from coremlscope.formats.onnx.network import Part, translate
from coremlscope.model.ir import DType, Model, TensorType
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.spec import work_of
from coremlscope.ops.traits import Trait
from coremlscope.planning.forecast.planner import forecast
from coremlscope.planning.onnxruntime.division import Course, Division, Partition
from coremlscope.planning.onnxruntime.quantisation import DEQUANTIZE, QUANTIZE, without_quantisation
from coremlscope.results.estimate import Estimate
from coremlscope.results.provider import ProviderEstimate, ProviderReport, ProviderVerdict
from coremlscope.runtime.execution.binding import sharing_bindings

#: Float operations of a performance core in a cycle: four units of four float32 multiply-adds.
_CYCLE_FLOPS = 32
#: What an efficiency core adds, and the share of the peak that kernels reach: 226 GFLOP/s on M2.
_EFFICIENCY_CORE, _REACHED = 0.25, 0.4
#: Convolutions by channel or in groups, which are not matrix products, reach a fraction of that.
_GROUPED = 0.15
#: Bytes a second of operators that work element by element, and seconds of starting an operator.
_MOVED_BPS, _OPERATOR_S = 20e9, 4e-6
#: The factor to either end of the interval of assumed rates.
_DOUBT = 2.0
#: Seconds of a round trip to a Core ML model (microsoft/onnxruntime, pull request 28293), besides its launch.
_ROUND_TRIP_S, _LEAST_TRIP_S, _MOST_TRIP_S = 75e-6, 50e-6, 100e-6
#: Bytes a second of copies to and from a Core ML model, uncertain by a factor of 2.
_COPIED_BPS = 5e9
#: Ratios between which a verdict is too close.
_CLOSE = (0.67, 1.5)
#: Operators whose work is not counted, the domains of those whose work is, and those that multiply matrices.
_UNCOUNTED = frozenset(
    {
        *("Attention", "ConvInteger", "GRU", "GroupQueryAttention", "LSTM", "MatMulInteger", "MatMulNBits"),
        *("MultiHeadAttention", "QLinearConv", "QLinearMatMul", "RNN", "RoiAlign", "SequenceMap"),
    }
)
_COUNTED_DOMAINS = {*OWN_DOMAINS, "com.microsoft"}
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
#: Settings for ML Programs of float32, which never reach the Neural Engine.
_WITHOUT_ENGINE: Mapping[ComputeUnits, ComputeUnits] = {
    "all": "cpu_and_gpu",
    "cpu_and_ne": "cpu_only",
    "cpu_and_gpu": "cpu_and_gpu",
    "cpu_only": "cpu_only",
}
_KINDS = {"neuralnetwork": "neuralNetwork", "mlprogram": "mlProgram"}
_COMMON_CORES, _COMMON_CLOCK_HZ = 2.0, 3.2e9


class CpuRates(msgspec.Struct, frozen=True):
    """The assumed rates of ONNX Runtime's CPU kernels on a chip, in float operations a second."""

    products: float

    @classmethod
    def of(cls, device: Device) -> CpuRates:
        """Returns the rates on a device."""
        chip = device.chip
        cores = chip.value(CPU, "performance_cores") or _COMMON_CORES
        cores += _EFFICIENCY_CORE * (chip.value(CPU, "efficiency_cores") or 0.0)
        clock = chip.value(CPU, "performance_clock_Hz") or _COMMON_CLOCK_HZ
        return cls(_REACHED * cores * clock * _CYCLE_FLOPS)


class NodeWork(msgspec.Struct):
    """The work of an operator.

    Attributes:
        products: Float operations of matrix products.
        grouped: Float operations of convolutions in groups.
        bytes: Bytes read and written.
    """

    products: float = 0.0
    grouped: float = 0.0
    bytes: float = 0.0

    def seconds(self, rates: CpuRates) -> float:
        """Returns the time on a CPU."""
        computing = self.products / rates.products + self.grouped / (_GROUPED * rates.products)
        return max(computing, self.bytes / _MOVED_BPS) + _OPERATOR_S


class Pricing:
    """Prices the divisions of one model.

    Args:
        model: The model with the graph that was divided.
        shapes: Shapes of inputs by name, instead of those that are assumed for free dimensions.
        devices: The chips and systems.
        settings: The settings of compute units.
    """

    def __init__(
        self,
        model: OnnxModel,
        shapes: Mapping[str, Sequence[int]],
        devices: Sequence[Device],
        settings: Sequence[ComputeUnits],
    ) -> None:
        self._model, self._devices, self._settings = model, devices, settings
        self._floats = DType.FP16 if model.is_half else DType.FP32
        self._bound = dict(model.graph.types)
        for name, shape in default_shapes(model).items():
            given = tuple(shapes.get(name, shape))
            self._bound[name] = msgspec.structs.replace(self._bound[name], shape=given)
        self._types, self._work = self._whole(model.graph)
        if any(node.op == DEQUANTIZE for node in model.graph.nodes):
            self._work |= self._whole(without_quantisation(model.graph))[1]
        #: Estimates of partitions by their form: networks repeat themselves.
        self._known: dict[object, tuple[Estimate, ...]] = {}

    def _whole(self, graph: Graph) -> tuple[dict[str, TensorType], dict[str, NodeWork]]:
        """Returns the types of a graph's values, and the work of operators by their first result."""
        part = Part(
            nodes=graph.nodes,
            inputs=[one.name for one in self._model.free_inputs],
            outputs=[one.name for one in graph.outputs],
        )
        model = translate(graph, self._model.opset, part, types=self._bound)
        (function,) = model.content.functions.values()
        bound = bind(function, OPS)
        types, works = dict(self._bound), dict[str, NodeWork]()
        for view in bound.graph.ops:
            for value in view.op.outputs:
                if isinstance(value.type, TensorType) and value.type.is_static:
                    types[value.name] = value.type
            layer = view.op.layer
            if layer is None or not layer.outputs:
                continue
            total = works.setdefault(layer.outputs[0], NodeWork())
            work = work_of(OPS[view.op.type], view) if view.op.type in OPS else None
            if work is None:
                total.bytes += sum(_nbytes(types.get(name)) for name in (*layer.inputs, *layer.outputs))
                continue
            total.bytes += work.read_bytes + work.written_bytes
            traits = OPS[view.op.type].traits
            if view.op.type in ("conv", "conv_transpose") and view.integer("groups", 1) > 1:
                total.grouped += work.flops
            elif traits & (Trait.CONVOLUTION | Trait.MATRIX_PRODUCT | Trait.LINEAR):
                total.products += work.flops
        return types, works

    def cpu(self, device: Device) -> Figure | None:
        """Returns the seconds of a prediction by the CPU provider alone; None where they are not known.

        There, ONNX Runtime makes one operator of a quantised one and what surrounds it: priced as in float.
        """
        nodes = [one for one in self._model.graph.nodes if one.op not in (QUANTIZE, DEQUANTIZE)]
        return self._on_cpu(nodes, self._work, device)

    def _on_cpu(self, nodes: Sequence[Node], work: Mapping[str, NodeWork], device: Device) -> Figure | None:
        if any(node.bodies or node.op in _UNCOUNTED or node.domain not in _COUNTED_DOMAINS for node in nodes):
            return None
        rates, seconds = CpuRates.of(device), 0.0
        for node in nodes:
            # Without a first output it has no work; without work its values are constants.
            counted = work.get(node.outputs[0]) if node.outputs else None
            if counted is not None and node.op in _PRODUCTS and not (counted.products or counted.grouped):
                return None  # Its shapes are not known: a product is never free.
            seconds += (counted or NodeWork()).seconds(rates)
        return Figure(seconds, seconds / _DOUBT, seconds * _DOUBT, "estimated")

    def reports(self, divisions: Sequence[Division]) -> tuple[ProviderReport, ...]:
        """Returns the reports of divisions with estimates, by device and setting.

        The first fix of the format that is fastest now is planned again.
        """
        reports = []
        for one in divisions:
            estimates = self._of(one.course, one.report.format)
            reports.append(msgspec.structs.replace(one.report, estimates=estimates))
        best = min(range(len(reports)), key=lambda index: _speed(reports[index]))
        report, division = reports[best], divisions[best]
        if report.fixes and (report.estimates or not division.partitions):
            first, *others = report.fixes
            if first.models < report.models or not report.partitions:
                after = self._of(division.fixed[0], report.format)
                first = msgspec.structs.replace(first, estimates=after)
                reports[best] = msgspec.structs.replace(report, fixes=(first, *others))
        return tuple(reports)

    def _of(self, course: Course, format_: str) -> tuple[ProviderEstimate, ...]:
        """Returns the estimates by device and setting; none where a part is not known."""
        if not course.partitions:
            return ()
        types, work = self._types, self._work
        if course.graph is not self._model.graph:
            types, work = self._whole(_without_partitions(course))
        programs = [self._estimates(one, course.graph, format_, types) for one in course.partitions]
        columns = len(self._devices) * len(self._settings)
        if any(len(one) < columns for one in programs):
            return ()
        copied = sum(
            _nbytes(types.get(name)) for one in course.partitions for name in (*one.inputs, *one.outputs)
        )
        trips, copies = len(course.partitions), copied / _COPIED_BPS
        boundaries = Figure(
            trips * _ROUND_TRIP_S + copies,
            trips * _LEAST_TRIP_S + copies / _DOUBT,
            trips * _MOST_TRIP_S + copies * _DOUBT,
            "estimated",
        )
        found = []
        for column, first in enumerate(programs[0]):
            device = self._devices[column // len(self._settings)]
            outside = self._on_cpu(course.outside, work, device)
            if outside is None:
                return ()
            inside = sum((one[column].latency for one in programs[1:]), start=first.latency)
            found.append(
                ProviderEstimate(
                    device=first.device,
                    os=first.os,
                    compute_units=self._settings[column % len(self._settings)],
                    latency=inside + boundaries + outside,
                    inside=inside,
                    boundaries=boundaries,
                    outside=outside,
                    placement=_placement([one[column] for one in programs]),
                )
            )
        return tuple(found)

    def _estimates(
        self, partition: Partition, graph: Graph, format_: str, types: Mapping[str, TensorType]
    ) -> tuple[Estimate, ...]:
        kind = _KINDS[format_]
        key = kind, _form(partition, types, graph)
        if key not in self._known:
            part = Part(nodes=partition.nodes, inputs=partition.inputs, outputs=partition.outputs)
            floats = self._floats if kind == "mlProgram" else DType.FP32
            model = translate(graph, self._model.opset, part, kind=kind, floats=floats, types=types)
            self._known[key] = self._forecast(model)
        return self._known[key]

    def _forecast(self, model: Model) -> tuple[Estimate, ...]:
        is_single = model.kind == "mlProgram" and self._floats is DType.FP32
        settings = [_WITHOUT_ENGINE[one] if is_single else one for one in self._settings]
        try:
            with sharing_bindings():
                found = forecast(
                    model,
                    list_operations(model, None),
                    self._devices,
                    list(dict.fromkeys(settings)),
                    advised=(),
                    with_faster=False,
                )
        except CoremlscopeError:  # nothing is known of what it computes
            return ()
        known = {(one.device, one.os, one.compute_units): one for one in found.estimates}
        return tuple(
            known[device.name, str(device.os), planned]
            for device in self._devices
            for planned in settings
            if (device.name, str(device.os), planned) in known
        )


def _speed(report: ProviderReport) -> tuple[float, int]:
    """Returns the least seconds of a report, or infinity; then the fewest Core ML models after a fix."""
    seconds = min((one.latency.value for one in report.estimates), default=float("inf"))
    return seconds, min((fix.models for fix in report.fixes if fix.models), default=0)


def _without_partitions(course: Course) -> Graph:
    """Returns a graph with the operators of partitions in place of what stands for them."""
    inside = [node for one in course.partitions for node in one.nodes]
    return msgspec.structs.replace(course.graph, nodes=sort_nodes([*inside, *course.outside]))


def _form(partition: Partition, types: Mapping[str, TensorType], graph: Graph) -> object:
    """Returns what determines the estimate of a partition: operators, attributes, shapes and connections."""
    numbers: dict[str, int] = {}
    rows = []
    for node in partition.nodes:
        names = [numbers.setdefault(name, len(numbers)) for name in (*node.inputs, *node.outputs)]
        shapes = [types.get(name) or graph.types.get(name) for name in (*node.inputs, *node.outputs)]
        rows.append((node.op, repr(sorted(node.attributes.items(), key=lambda one: one[0])), names, shapes))
    return repr(rows), tuple(numbers.get(name, -1) for name in (*partition.inputs, *partition.outputs))


def _placement(estimates: Sequence[Estimate]) -> dict[ComputeUnit, float]:
    """Returns the shares of units in the time of several predictions."""
    whole = sum(one.latency.value for one in estimates) or 1.0
    shares: dict[ComputeUnit, float] = {}
    for one in estimates:
        for unit, share in one.placement.items():
            shares[unit] = shares.get(unit, 0.0) + share * one.latency.value / whole
    return shares


def _nbytes(type_: TensorType | None) -> int:
    return (type_.nbytes or 0) if type_ is not None else 0


def decide(
    reports: Sequence[ProviderReport], cpu: Figure | None, device: Device, converted: Figure | None
) -> ProviderVerdict:
    """Decides whether the provider is faster than the CPU provider on a device.

    Args:
        reports: The reports of all formats.
        cpu: Seconds by the CPU provider alone; None where they are not known.
        device: The chip and system.
        converted: Seconds by the whole model, converted.
    """
    name, system = device.name, str(device.os)
    candidates = [
        (one.latency.value, report.format, one)
        for report in reports
        for one in report.estimates
        if (one.device, one.os) == (name, system)
    ]
    if not candidates or cpu is None:
        is_empty = all(not report.models for report in reports)
        return ProviderVerdict(
            device=name, os=system, outcome="cpu" if is_empty else "unknown", cpu=cpu, converted=converted
        )
    seconds, format_, best = min(candidates, key=lambda one: one[0])
    ratio = cpu.value / seconds
    low, high = _CLOSE
    return ProviderVerdict(
        device=name,
        os=system,
        outcome="close" if low < ratio < high else "provider" if ratio >= high else "cpu",
        format=format_,
        compute_units=best.compute_units,
        provider=best.latency,
        cpu=cpu,
        ratio=ratio,
        converted=converted,
    )
