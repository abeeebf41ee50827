"""What a model is, as plain data: everything that `inspect` shows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coremlscope.classical import CLASSICAL_TYPES
from coremlscope.describe.dataflow import Flow, trace_dataflow
from coremlscope.describe.labels import ClassLabels, find_labels
from coremlscope.describe.platforms import describe_opset, describe_platforms
from coremlscope.describe.preprocessing import find_preprocessing
from coremlscope.describe.stages import (
    StageSummary,
    describe_external,
    programs_of,
    row_id,
    summarise_stages,
    trace_stages,
    why_absent,
)
from coremlscope.describe.weights import WeightGroup, group_weights
from coremlscope.errors import UsageError
from coremlscope.execution.binding import bind_model, choose_function, program_of
from coremlscope.execution.wiring import BoundStage, bind_stages
from coremlscope.features import bind_shapes, default_shape, describe_feature
from coremlscope.features.description import describe_flexibility
from coremlscope.ir import (
    ArrayFeature,
    DType,
    External,
    Feature,
    FeatureType,
    FunctionDescription,
    Graph,
    ImageFeature,
    Model,
    Opaque,
    Pipeline,
    StateFeature,
    TensorType,
    describe_type,
)
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.spec import Work, work_of
from coremlscope.ops.view import BoundGraph, OpView

__all__ = [
    "SCHEMA",
    "ClassLabels",
    "FeatureSummary",
    "FunctionSummary",
    "ModelSummary",
    "OpSummary",
    "WorkSummary",
    "summarise",
]

SCHEMA = "coremlscope.model/1"


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """An input, output or state.

    Attributes:
        type: In words: `float16 1×3×224×224`.
        shape: The default tensor shape, where there is one.
        flexibility: The shapes that are allowed, in words; empty for a fixed shape.
        preprocessing: Of an image of a program: what is done to its pixels first.
    """

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    flexibility: str = ""
    is_optional: bool = False
    doc: str = ""
    preprocessing: str = ""


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """What one prediction costs by nature, at the default shapes; declared by the file, not measured.

    Attributes:
        flops: A multiply-add counts as two.
        is_complete: False where a shape or an operation is not known, so that the figures are lower bounds.
        unknown_ops: Operations that nothing is known of: how many of each type.
    """

    flops: int
    read_bytes: int
    weight_bytes: int
    written_bytes: int
    is_complete: bool
    unknown_ops: Mapping[str, int]

    def __add__(self, other: WorkSummary) -> WorkSummary:
        return WorkSummary(
            self.flops + other.flops,
            self.read_bytes + other.read_bytes,
            self.weight_bytes + other.weight_bytes,
            self.written_bytes + other.written_bytes,
            self.is_complete and other.is_complete,
            dict((Counter(self.unknown_ops) + Counter(other.unknown_ops)).most_common()),
        )


@dataclass(frozen=True, slots=True)
class OpSummary:
    """One operation, with the types of its results once shapes are bound.

    Unknown work is None. Work that is not complete is a lower bound: a shape or a number of passes is not
    known before run time. The layer is the author's, of a neural network; for inputs and live bytes see
    `dataflow.Flow`.
    """

    id: str
    type: str
    name: str
    outputs: tuple[str, ...]
    flops: int | None
    read_bytes: int | None
    written_bytes: int | None
    weight_bytes: int | None
    work_is_complete: bool = True
    layer: str | None = None
    layer_type: str | None = None
    inputs: tuple[str, ...] = ()
    live_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """One function of a model.

    Attributes:
        opset: Apple's name of its operation set; empty where the model is no program.
        opset_os: The first iOS that knows that set.
        ops: How many operations of each type, most frequent first, constants left out, nested ones included.
        constants: How many constants.
        compute: How many results of operations there are of each element type.
        work: None where the model is no program.
        layers: Of a neural network: how many layers of each type, as its author knows them, most frequent
            first.
    """

    name: str
    inputs: tuple[FeatureSummary, ...]
    outputs: tuple[FeatureSummary, ...]
    states: tuple[FeatureSummary, ...] = ()
    predicted_feature: str = ""
    predicted_probabilities: str = ""
    opset: str = ""
    opset_os: str = ""
    ops: Mapping[str, int] = dataclasses.field(default_factory=dict)
    constants: int = 0
    compute: Mapping[str, int] = dataclasses.field(default_factory=dict)
    work: WorkSummary | None = None
    layers: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What a model is.

    Attributes:
        path: Where it was read from; empty for bytes.
        container: `mlpackage`, `mlmodel` or `mlmodelc`.
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, …
        platforms: The oldest systems that read it.
        functions: The default one first.
        stages: Of a pipeline: its models in order, those of pipelines within it included.
        weights: The parameters, by how they are kept.
        missing_weights: Names of weight files that are absent.
        op_list: Every operation of the default function but constants, where it was asked for; of a pipeline
            those of all stages. A stage that cannot be run is a row.
        facts: What else the file tells, of a classical model and of one that it does not hold: pairs of what
            and how.
        absent: Why such a model cannot be run here, going on from a name; empty for others.
    """

    path: str
    container: str
    kind: str
    spec_version: int
    platforms: str
    size_bytes: int
    functions: tuple[FunctionSummary, ...]
    description: str = ""
    version: str = ""
    author: str = ""
    licence: str = ""
    user_defined: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_updatable: bool = False
    stages: tuple[StageSummary, ...] = ()
    labels: ClassLabels | None = None
    weights: tuple[WeightGroup, ...] = ()
    missing_weights: tuple[str, ...] = ()
    op_list: tuple[OpSummary, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    absent: str = ""

    @property
    def main(self) -> FunctionSummary:
        """The default function."""
        return self.functions[0]

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(group.parameters for group in self.weights)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all parameters in the file."""
        return sum(group.nbytes for group in self.weights)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; the sums over all weights are added for readers that do not add up."""
        sums = {"parameters": self.parameters, "weights_bytes": self.weights_bytes}
        return {"schema": SCHEMA, **dataclasses.asdict(self), **sums}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelSummary:
        """The inverse of `to_json`, whether or not the values went through JSON text.

        Raises:
            ValueError: The data follow another schema.
        """
        values = dict(data)
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise ValueError(f"{schema!r} is not {SCHEMA!r}")
        del values["parameters"], values["weights_bytes"]
        labels = values["labels"]
        values["functions"] = tuple(map(_function_from_json, values["functions"]))
        values["stages"] = tuple(map(StageSummary.from_json, values["stages"]))
        values["facts"] = tuple((what, how) for what, how in values.get("facts", ()))
        values["labels"] = labels and ClassLabels(labels["count"], tuple(labels["first"]))
        values["weights"] = tuple(WeightGroup(**group) for group in values["weights"])
        values["missing_weights"] = tuple(values["missing_weights"])
        values["op_list"] = tuple(
            OpSummary(**{**op, "outputs": tuple(op["outputs"]), "inputs": tuple(op.get("inputs", ()))})
            for op in values["op_list"]
        )
        return cls(**values)


def _function_from_json(data: Mapping[str, Any]) -> FunctionSummary:
    values = dict(data)
    for key in ("inputs", "outputs", "states"):
        values[key] = tuple(
            FeatureSummary(**{**f, "shape": None if f["shape"] is None else tuple(f["shape"])})
            for f in values[key]
        )
    if values["work"] is not None:
        values["work"] = WorkSummary(**values["work"])
    return FunctionSummary(**values)


def summarise(
    model: Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    function: str | None = None,
    list_ops: bool = False,
) -> ModelSummary:
    """What a model is.

    Args:
        model: The model. Weights that are absent do not matter.
        shapes: Shapes of inputs of the function, instead of the defaults; FLOPs and bytes follow them.
        function: The function to put first, instead of the default one.
        list_ops: Lists every operation of that function.

    Raises:
        InputError: A shape is not allowed.
        UsageError: There is no such function.
    """
    program = program_of(model)
    described = model.description.functions
    first = function or model.description.default
    if program is not None:
        first = choose_function(model, function).name
    elif first not in described:
        raise UsageError(f"unknown function {first!r}", f"functions: {', '.join(described)}")
    bind_shapes(described.get(first, model.description.main), shapes)
    stages = bind_stages(model, shapes) if isinstance(model.content, Pipeline) else []
    names = sorted(described, key=lambda name: name != first)
    functions = tuple(_function(model, name, shapes if name == first else None) for name in names)
    if stages:
        functions = (_merged(functions[0], stages), *functions[1:])
    op_list: tuple[OpSummary, ...] = ()
    if list_ops and program is not None:
        op_list = tuple(_list_ops(bind_model(model, first, shapes).graph))
    elif list_ops:
        passed = trace_stages(stages)
        rows = (row for stage in stages for row in _list_stage(stage))
        op_list = tuple(replace(row, inputs=(*passed.get(row.id, ()), *row.inputs)) for row in rows)
    metadata = model.metadata
    return ModelSummary(
        "" if model.source is None else str(model.source),
        model.container,
        model.kind,
        model.spec_version,
        describe_platforms(model.spec_version),
        model.size_bytes,
        functions,
        metadata.description,
        metadata.version,
        metadata.author,
        metadata.licence,
        dict(metadata.user_defined),
        model.is_updatable,
        summarise_stages(stages),
        find_labels(model, first),
        group_weights(*programs_of(model)),
        tuple(file.name for file in model.weight_files if file.size is None),
        op_list,
        describe_external(model),
        why_absent(model),
    )


def _merged(whole: FunctionSummary, stages: Sequence[BoundStage]) -> FunctionSummary:
    """The interface of a pipeline with what its stages come to together."""
    parts = [_function(one.stage.model, one.stage.model.description.default, one.shapes) for one in stages]
    ops, compute = (sum((Counter(getattr(p, name)) for p in parts), Counter()) for name in ("ops", "compute"))
    work = sum((p.work for p in parts if p.work is not None), WorkSummary(0, 0, 0, 0, True, {}))
    is_complete = work.is_complete and all(p.work is not None for p in parts)
    return dataclasses.replace(
        whole,
        ops=dict(ops.most_common()),
        constants=sum(p.constants for p in parts),
        compute=dict(compute.most_common()),
        work=dataclasses.replace(work, is_complete=is_complete),
    )


def _list_stage(bound: BoundStage) -> list[OpSummary]:
    """The operations of a stage; one that cannot be run, or is not read, is a row by itself."""
    if bound.bound is not None:
        return _list_ops(bound.bound.graph)
    stage = bound.stage
    outputs = tuple(describe_feature(feature.type) for feature in stage.description.outputs)
    return [OpSummary(row_id(stage), stage.model.kind, stage.name, outputs, None, None, None, None)]


def _function(model: Model, name: str, shapes: Mapping[str, Sequence[int]] | None) -> FunctionSummary:
    interface = model.description.functions[name]
    preprocessing: dict[str, str] = {}
    bound: BoundFunction | None = None
    if not isinstance(model.content, (Pipeline, Opaque, External)):
        bound = bind_model(model, name, shapes)
        body = bound.function
        preprocessing = {found.input: found.text for found in find_preprocessing(body, interface)}
    summary = FunctionSummary(
        name,
        tuple(_feature(feature, preprocessing.get(feature.name, "")) for feature in interface.inputs),
        tuple(map(_feature, _outputs(interface, bound))),
        tuple(map(_feature, interface.states)),
        interface.predicted_feature,
        interface.predicted_probabilities,
    )
    if bound is None:
        return summary
    types = Counter(op.type for op in body.graph.walk())
    constants = types.pop("const", 0)
    return dataclasses.replace(
        summary,
        # The operations of a neural network are a translation: the file asks for no operation set.
        opset="" if body.layers else body.opset,
        opset_os="" if body.layers else describe_opset(body.opset),
        layers=dict(Counter(layer.type for layer in body.layers).most_common()),
        ops=dict(types.most_common()),
        constants=constants,
        compute=_compute(body.graph),
        work=_work(bound),
    )


def _outputs(interface: FunctionDescription, bound: BoundFunction | None) -> Sequence[Feature]:
    """The outputs; shapes that the description leaves open are those that follow from the inputs' shapes."""
    if bound is None:
        return interface.outputs
    values = zip(bound.function.graph.outputs, bound.graph.outputs, strict=True)
    inferred = {value.name: given.type for value, given in values}
    outputs = []
    for feature in interface.outputs:
        type_ = inferred.get(feature.name)
        if (
            isinstance(feature.type, ArrayFeature)
            and not feature.type.shape
            and isinstance(type_, TensorType)
            and type_.is_static
        ):
            shape = tuple(d for d in type_.shape or () if d is not None)
            feature = dataclasses.replace(feature, type=dataclasses.replace(feature.type, shape=shape))
        outputs.append(feature)
    return outputs


def _feature(feature: Feature, preprocessing: str = "") -> FeatureSummary:
    inner = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
    return FeatureSummary(
        feature.name,
        describe_feature(feature.type),
        default_shape(feature.type),
        _allowed(inner),
        feature.is_optional,
        feature.doc,
        preprocessing,
    )


def _allowed(type_: FeatureType) -> str:
    """The shapes that a feature may have besides its default one, in words."""
    parts = []
    if isinstance(type_, (ArrayFeature, ImageFeature)) and type_.flexibility is not None:
        parts.append(describe_flexibility(type_.flexibility))
    if isinstance(type_, ArrayFeature) and type_.takes_sequences:
        sizes = type_.shape if len(type_.shape) != 1 else (*type_.shape, 1, 1)
        padded = (*(1,) * (3 - len(sizes)), *sizes) if sizes else ("channels", "height", "width")
        parts.append("×".join(map(str, ("sequence", "batch", *padded))))
    return " or ".join(parts)


def _compute(graph: Graph) -> dict[str, int]:
    """The element types of what operations compute, by number of results; decompression computes nothing."""
    counts = Counter(
        output.type.dtype.value
        for op in graph.walk()
        if op.constant is None and not op.type.startswith("constexpr_")
        for output in op.outputs
        if isinstance(output.type, TensorType) and output.type.dtype is not DType.STRING
    )
    return dict(counts.most_common())


def _work(bound: BoundFunction) -> WorkSummary:
    total = Work()
    # What is inside nested blocks is part of their owner's work.
    for view in bound.graph.ops:
        work = _work_of(view)
        total += work if work is not None else Work(is_complete=view.op.constant is not None)
    unknown = Counter(op.type for op in bound.function.graph.walk() if _is_unknown(op.type))
    return WorkSummary(
        total.flops,
        total.read_bytes,
        total.weight_bytes,
        total.written_bytes,
        total.is_complete and not unknown,
        dict(unknown.most_common()),
    )


def _work_of(view: OpView) -> Work | None:
    spec = OPS.get(view.op.type)
    if spec is not None:
        return work_of(spec, view)
    row = CLASSICAL_TYPES.get(view.op.type)
    return None if row is None else row.work(view)


def _is_unknown(op_type: str) -> bool:
    return op_type not in OPS and op_type not in CLASSICAL_TYPES and op_type != "const"


def _list_ops(graph: BoundGraph, flows: Mapping[str, Flow] | None = None) -> list[OpSummary]:
    rows = []
    flows = trace_dataflow(graph) if flows is None else flows
    for view in graph.ops:
        if view.op.constant is None:
            rows.append(_op(view, flows[view.op.id]))
        for block in view.blocks:
            rows += _list_ops(block, flows)
    return rows


def _op(view: OpView, flow: Flow) -> OpSummary:
    op, work = view.op, _work_of(view)
    flops = read = written = weights = None
    if work is not None:
        flops, read, written, weights = work.flops, work.read_bytes, work.written_bytes, work.weight_bytes
    return OpSummary(
        op.id, op.type, op.name, tuple(describe_type(bound.type) for bound in view.outputs),
        flops, read, written, weights, work is None or work.is_complete,
        op.layer.name if op.layer else None, op.layer.type if op.layer else None,
        flow.inputs, flow.live_bytes,
    )  # fmt: skip
