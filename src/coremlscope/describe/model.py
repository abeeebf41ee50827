"""Describes a model: its interface, operations, weights and declared work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec.structs
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.escaping import path_text
from coremlscope.describe.arguments import ArgumentLister, Scope
from coremlscope.describe.dataflow import Flow, trace_dataflow
from coremlscope.describe.left_out import find_left_out, is_unknown
from coremlscope.describe.preprocessing import find_preprocessing
from coremlscope.describe.stages import (
    describe_external,
    list_blobs,
    programs_of,
    row_id,
    summarise_stages,
    trace_stages,
    weights_of,
    why_absent,
)
from coremlscope.describe.weights import find_short_files
from coremlscope.formats.compiled.metadata import read_metadata_file
from coremlscope.formats.platforms import describe_opset, describe_platforms
from coremlscope.model.features import (
    bind_shapes,
    default_shape,
    describe_feature,
    describe_shape,
    largest_shapes,
)
from coremlscope.model.features.description import describe_flexibility
from coremlscope.model.ir import (
    ArrayFeature,
    Constant,
    DType,
    Feature,
    FeatureType,
    FunctionDescription,
    Graph,
    ImageFeature,
    Layer,
    Model,
    Nested,
    Op,
    StateFeature,
    TensorType,
    Value,
    describe_type,
)
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.classical import classical_types
from coremlscope.ops.spec import Work, work_of
from coremlscope.ops.view import BoundGraph, OpView
from coremlscope.results.left_out import LeftOut
from coremlscope.results.model import (
    READ_BY,
    ClassLabels,
    FeatureSummary,
    FunctionSummary,
    ModelSummary,
    WorkSummary,
)
from coremlscope.results.operations import OpRow, OpTable
from coremlscope.runtime.execution.binding import bind_model, choose_function, program_of, share
from coremlscope.runtime.execution.wiring import StageFunction, bind_functions

# What Apple's compiler folded and fused in a compiled neural network, as far as its folder tells.

#: Functions that layers apply to their own result, by the operation that stands for them here.
_FUSED = ("relu", "tanh")
#: Layers that are folded into others, in the spelling of the source's counts and of the compiled file.
_FOLDED = {"BatchNorm": "batchnorm", "Scale": "scale", "Bias": "bias"}


def describe_compilation(model: Model) -> tuple[tuple[str, str], ...]:
    """Returns the fact of what was folded and fused; nothing for other models.

    An ML Program is compiled operation by operation: counts in its folder are those of the program in it, and
    Core ML fuses operations when it loads them. A compiled network has activations in the layers before them,
    and counts of the source's layers next to it (`metadata.json`, of newer compilers).
    """
    if model.container != "mlmodelc" or not model.kind.startswith("neuralNetwork"):
        return ()
    layers = {id(layer): layer for layer, _ in _ops(model)}
    found = [f"{count} {kind} fused into {into}" for (kind, into), count in _fused(model).most_common()]
    present = Counter(layer.type for layer in layers.values())
    for source, name in _FOLDED.items():
        gone = _histogram(model).get(source, 0) - present[name]
        if gone > 0:
            found.append(f"{gone} {source} folded into other layers")
    return (("compiled", "; ".join(found)),) if found else ()


def _ops(model: Model) -> Iterator[tuple[Layer, Op]]:
    for program in programs_of(model):
        for function in program.functions.values():
            for op in function.graph.walk():
                if op.layer is not None and op.constant is None:
                    yield op.layer, op


def _fused(model: Model) -> Counter[tuple[str, str]]:
    """Functions that end a layer of several operations, by the type of the layer."""
    by_layer: dict[int, list[tuple[Layer, Op]]] = {}
    for layer, op in _ops(model):
        by_layer.setdefault(id(layer), []).append((layer, op))
    ends = [listed[-1] for listed in by_layer.values() if len(listed) > 1]
    return Counter(
        (op.type, layer.type) for layer, op in ends if op.type in _FUSED and layer.type != "activation"
    )


def _histogram(model: Model) -> dict[str, int]:
    """The layers of the source by type; nothing where the folder does not say."""
    if model.source is None:
        return {}
    try:
        return dict(read_metadata_file(model.source / "metadata.json").histogram)
    except (CoremlscopeError, OSError):
        return {}


# Layers of neural networks that cannot be run here, and what was assumed when the model was read.

#: The number of reasons that are listed.
_MOST = 5


def describe_assumptions(model: Model) -> Iterator[tuple[str, str]]:
    """Yields label and text of what read a model, what was assumed, and why layers of it cannot be run."""
    if model.reader:
        yield READ_BY, model.reader
    yield from (("assumed", remark) for remark in model.remarks)
    layers = [layer for function in model.content.functions.values() for layer in function.layers]
    reasons = Counter(
        (layer.type, layer.problem or layer.doubt) for layer in layers if layer.problem or layer.doubt
    )
    for (type_, reason), count in reasons.most_common(_MOST):
        yield "cannot run", f"{type_} ×{count}: {reason}"
    rest = sum(count for _, count in reasons.most_common()[_MOST:])
    if rest:
        yield "cannot run", f"others ×{rest}"


# Finds the class labels of classifiers.

#: Class labels that a summary lists; the rest is counted.
_FIRST_LABELS = 8
#: The same for models that can only be described, not run.
_FIRST_LABELS_OF_EXTERNAL = 100


def find_labels(model: Model, function: str) -> ClassLabels | None:
    """Returns the classes of a function, or of a pipeline's last classifier; None where there are none."""
    content = model.content
    if content.functions:
        return _labels_of_graph(choose_function(model, function).function.graph)
    most = _FIRST_LABELS_OF_EXTERNAL if content.absent else _FIRST_LABELS
    if content.labels:
        return ClassLabels(len(content.labels), tuple(content.labels[:most]))
    found = (find_labels(stage, stage.description.default) for stage in reversed(content.models))
    return next((labels for labels in found if labels is not None), None)


def _labels_of_graph(graph: Graph) -> ClassLabels | None:
    for op in (op for op in graph.walk() if op.type == "classify"):
        argument = next(iter(op.inputs.get("classes", ())), None)
        classes = _content(graph, argument.name) if isinstance(argument, Value) else argument
        if isinstance(classes, Constant) and classes.is_available:
            labels = _items(classes)
            return ClassLabels(len(labels), tuple(labels[:_FIRST_LABELS]))
    return None


def _content(graph: Graph, name: str) -> Constant | None:
    """Returns the value of a `const` operation of a graph by the name of its result."""
    return next(
        (op.constant for op in graph.walk() if op.constant and any(out.name == name for out in op.outputs)),
        None,
    )


def _items(classes: Constant) -> list[str | int]:
    if isinstance(classes.data, Nested):
        return [item for member in classes.data.items for item in _items(member)]
    return [
        item if isinstance(item, (str, int)) else str(item) for item in classes.numpy().reshape(-1).tolist()
    ]


def describe_model(
    model: Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    function: str | None = None,
    list_ops: bool = False,
    reads_weights: bool = False,
) -> ModelSummary:
    """Describes a model.

    Args:
        model: The model. Weights may be absent.
        shapes: Shapes of inputs of the function, instead of the defaults; FLOPs and bytes follow them.
        function: The function to put first, instead of the default one.
        list_ops: Lists every operation of that function.
        reads_weights: Summarises the values of the weights of these operations.

    Raises:
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    described = model.description.functions
    first = _first_function(model, function)
    bind_shapes(described.get(first, model.description.main), shapes)
    stages = bind_functions(model, None, shapes) if model.content.models else ()
    names = sorted(described, key=lambda name: name != first)
    functions = tuple(_function(model, name, shapes if name == first else None) for name in names)
    if stages:
        sizes = _sizes_of(described[names[0]], shapes)
        functions = (_merged(functions[0], stages, sizes), *functions[1:])
    metadata = model.metadata
    weights = weights_of(model)
    return ModelSummary(
        path="" if model.source is None else path_text(model.source),
        container=model.container,
        kind=model.kind,
        spec_version=model.spec_version,
        platforms=describe_platforms(model.spec_version),
        size_bytes=model.size_bytes,
        functions=functions,
        description=metadata.description,
        version=metadata.version,
        author=metadata.author,
        licence=metadata.licence,
        user_defined=dict(metadata.user_defined),
        is_updatable=model.is_updatable,
        stages=summarise_stages(stages),
        labels=find_labels(model, first),
        weights=weights,
        parameters=sum(group.parameters for group in weights),
        weights_bytes=sum(group.nbytes for group in weights),
        missing_weights=tuple(file.name for file in model.weight_files if file.size is None),
        short_weights=find_short_files(list_blobs(model)),
        facts=(*describe_external(model), *describe_compilation(model), *describe_assumptions(model)),
        absent=why_absent(model),
        ops=list_operations(model, shapes, functions=[first], reads_weights=reads_weights)
        if list_ops
        else OpTable(),
    )


def list_operations(
    model: Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    functions: Sequence[str] = (),
    reads_weights: bool = False,
    with_arguments: bool = True,
) -> OpTable:
    """Lists all operations of functions, or of all stages of a pipeline, except constants.

    A stage that cannot be run, or whose content is not read, is one row.

    Args:
        model: The model. Weights may be absent.
        shapes: Shapes of inputs of the first of the functions, instead of the defaults.
        functions: The functions; the default one if empty. Not applicable to pipelines.
        reads_weights: Summarises the values of weights, if their files are there.
        with_arguments: Lists the arguments of operations, which only reports show.

    Raises:
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    lister = ArgumentLister() if with_arguments else None
    first, *others = functions or [model.description.default]
    bound = [*bind_functions(model, first, shapes)]
    passed = trace_stages(bound)
    if not model.content.models:
        bound += (one for name in others for one in bind_functions(model, name))
    listed = (row for one in bound for row in _list_function(one, lister))
    rows = [(row, (*passed.get(row.id, ()), *makers)) for row, makers in listed]
    places = {row.id: place for place, (row, _) in enumerate(rows)}
    table = OpTable.of(
        replace(row, inputs=tuple(places[maker] for maker in makers if maker in places))
        for row, makers in rows
    )
    return table if lister is None else replace(table, details=lister.details(reads_weights=reads_weights))


def _first_function(model: Model, function: str | None) -> str:
    described = model.description.functions
    first = function or model.description.default
    if program_of(model) is not None:
        return choose_function(model, function).name
    if first not in described:
        raise UsageError(f"unknown function {first!r}", f"functions: {', '.join(described)}")
    return first


def _merged(whole: FunctionSummary, stages: Sequence[StageFunction], sizes: str) -> FunctionSummary:
    """Returns the interface of a pipeline with the totals over its stages."""
    parts = [_function(one.stage.model, one.stage.model.description.default, one.shapes) for one in stages]
    ops, compute = (sum((Counter(getattr(p, name)) for p in parts), Counter()) for name in ("ops", "compute"))
    work = sum((p.work for p in parts if p.work is not None), WorkSummary(live_bytes=0))
    is_complete = work.is_complete and all(p.work is not None for p in parts)
    return msgspec.structs.replace(
        whole,
        ops=dict(ops.most_common()),
        constants=sum(p.constants for p in parts),
        compute=dict(compute.most_common()),
        work=msgspec.structs.replace(work, is_complete=is_complete, sizes=sizes),
    )


#: A row without its inputs, and the ids of the operations whose results it reads.
_Listed = tuple[OpRow, tuple[str, ...]]


def _list_function(one: StageFunction, lister: ArgumentLister | None) -> Iterator[_Listed]:
    """Yields the operations of a function; a stage that cannot be run, or is not read, is a single row."""
    stage = one.stage
    if one.bound is not None:
        yield from _list_ops(one.bound.graph, one.key, lister, _flows(stage.model, one.bound.graph))
        return
    if not stage.name:  # a whole model of which nothing is known has no rows
        return
    id_ = row_id(stage)
    outputs = tuple(describe_feature(feature.type) for feature in stage.description.outputs)
    names = tuple(feature.name for feature in stage.description.outputs)
    row = OpRow(
        id=id_, type=stage.model.kind, name=stage.name, function=id_, outputs=outputs, output_names=names
    )
    if lister is not None:
        lister.add_unknown(len(names))
    yield row, ()


def _function(model: Model, name: str, shapes: Mapping[str, Sequence[int]] | None) -> FunctionSummary:
    interface = model.description.functions[name]
    preprocessing: dict[str, str] = {}
    bound: BoundFunction | None = None
    if program_of(model) is not None:
        bound = bind_model(model, name, shapes)
        body = bound.function
        preprocessing = {found.input: found.text for found in find_preprocessing(body, interface)}
    summary = FunctionSummary(
        name=name,
        inputs=tuple(_feature(feature, preprocessing.get(feature.name, "")) for feature in interface.inputs),
        outputs=tuple(map(_feature, _outputs(interface, bound))),
        states=tuple(map(_feature, interface.states)),
        predicted_feature=interface.predicted_feature,
        predicted_probabilities=interface.predicted_probabilities,
    )
    if bound is None:
        return summary
    types, compute = _count(body.graph)
    constants = types.pop("const", 0)
    left_out = find_left_out([body])
    largest = largest_shapes(interface) or None
    at_largest = None if largest is None else _bound_at(model, name, largest)
    sizes = {} if at_largest is None else _varying_outputs(bound, at_largest)
    return msgspec.structs.replace(
        summary,
        outputs=tuple(
            msgspec.structs.replace(one, flexibility=f"other sizes with the inputs, up to {sizes[one.name]}")
            if one.name in sizes and not one.flexibility
            else one
            for one in summary.outputs
        ),
        # The operations of a neural network are a translation: the file does not require an operation set.
        opset="" if body.layers else body.opset,
        opset_os="" if body.layers else describe_opset(body.opset),
        layers=dict(Counter(layer.type for layer in body.layers).most_common()),
        ops=dict(types.most_common()),
        constants=constants,
        compute=dict(compute.most_common()),
        work=_work(model, bound, left_out, _sizes_of(interface, shapes)),
        largest_work=None
        if at_largest is None
        else _work(model, at_largest, left_out, _sizes_of(interface, largest)),
    )


def _bound_at(model: Model, name: str, shapes: Mapping[str, Sequence[int]]) -> BoundFunction | None:
    """Binds a function to shapes; None if its operations contradict them."""
    try:
        bound = bind_model(model, name, shapes)
    except CoremlscopeError:
        return None
    return None if bound.problems else bound


def _sizes_of(interface: FunctionDescription, shapes: Mapping[str, Sequence[int]] | None) -> str:
    """Names the sizes of the flexible inputs: `x 768×768`."""
    bound = bind_shapes(interface, shapes)
    parts = []
    for feature in interface.inputs:
        if getattr(feature.type, "flexibility", None) is not None and feature.name in bound:
            shape = bound[feature.name]
            size = shape[-2:] if isinstance(feature.type, ImageFeature) else shape
            parts.append(f"{feature.name} {describe_shape(size)}")
    return ", ".join(parts)


def _varying_outputs(bound: BoundFunction, largest: BoundFunction) -> dict[str, str]:
    """Returns the largest shapes of the outputs whose shapes follow those of the inputs, by name."""
    values = zip(bound.function.graph.outputs, bound.graph.outputs, largest.graph.outputs, strict=False)
    return {
        value.name: describe_shape(after.type.shape)
        for value, before, after in values
        if isinstance(before.type, TensorType)
        and isinstance(after.type, TensorType)
        and after.type.shape is not None
        and before.type.shape != after.type.shape
    }


def _outputs(interface: FunctionDescription, bound: BoundFunction | None) -> Sequence[Feature]:
    """Returns the outputs; shapes missing in the description are inferred from the inputs' shapes."""
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
            feature = msgspec.structs.replace(
                feature, type=msgspec.structs.replace(feature.type, shape=shape)
            )
        outputs.append(feature)
    return outputs


def _feature(feature: Feature, preprocessing: str = "") -> FeatureSummary:
    inner = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
    return FeatureSummary(
        name=feature.name,
        type=describe_feature(feature.type),
        shape=default_shape(feature.type),
        flexibility=_allowed(inner),
        is_optional=feature.is_optional,
        doc=feature.doc,
        preprocessing=preprocessing,
    )


def _allowed(type_: FeatureType) -> str:
    """Returns a text on the shapes that a feature may have besides its default one."""
    parts = []
    if isinstance(type_, (ArrayFeature, ImageFeature)) and type_.flexibility is not None:
        parts.append(describe_flexibility(type_.flexibility))
    if isinstance(type_, ArrayFeature) and type_.takes_sequences:
        sizes = type_.shape if len(type_.shape) != 1 else (*type_.shape, 1, 1)
        padded = (*(1,) * (3 - len(sizes)), *sizes) if sizes else ("channels", "height", "width")
        parts.append("×".join(map(str, ("sequence", "batch", *padded))))
    return " or ".join(parts)


def _count(graph: Graph) -> tuple[Counter[str], Counter[str]]:
    """Counts operations by type, and their results by element type, without constants and decompression."""
    types = Counter(op.type for op in graph.walk())
    results: Counter[DType] = Counter()
    for op in graph.walk():
        if op.type == "const" or op.type.startswith("constexpr_"):
            continue
        for value in op.outputs:
            if isinstance(value.type, TensorType) and value.type.dtype is not DType.STRING:
                results[value.type.dtype] += 1
    return types, Counter({dtype.value: number for dtype, number in results.items()})


def _work(model: Model, bound: BoundFunction, left_out: LeftOut, sizes: str = "") -> WorkSummary:
    total = Work()
    # What is inside nested blocks is part of their owner's work.
    for view in bound.graph.ops:
        if view.op.constant is None:
            total += _work_of(view) or Work(is_complete=False)
    return WorkSummary(
        flops=total.flops,
        read_bytes=total.read_bytes,
        weight_bytes=total.weight_bytes,
        written_bytes=total.written_bytes,
        is_complete=total.is_complete and not left_out.operations,
        unknown_ops=dict(left_out.types),
        left_out_share=left_out.share,
        sizes=sizes,
        live_bytes=_live_bytes(_flows(model, bound.graph)),
    )


def _flows(model: Model, graph: BoundGraph) -> Mapping[str, Flow]:
    return share(model, (trace_dataflow, id(graph)), lambda: trace_dataflow(graph))


def _live_bytes(flows: Mapping[str, Flow]) -> int | None:
    """Returns the most bytes that are alive at an operation; None where a size is not known."""
    sizes = [flow.live_bytes for flow in flows.values()]
    return None if None in sizes else max((size for size in sizes if size is not None), default=0)


def _work_of(view: OpView) -> Work | None:
    spec = OPS.get(view.op.type)
    if is_unknown(view.op):
        return None
    if spec is not None:
        return work_of(spec, view)
    row = classical_types().get(view.op.type)
    return None if row is None else row.work(view)


def _list_ops(
    graph: BoundGraph,
    function: str,
    lister: ArgumentLister | None,
    flows: Mapping[str, Flow] | None = None,
    around: Scope | None = None,
) -> Iterator[_Listed]:
    flows = trace_dataflow(graph) if flows is None else flows
    scope = {} if lister is None else lister.enter(graph.graph, around)
    for view in graph.ops:
        if lister is not None:
            lister.add(view.op, scope)
        if view.op.constant is None:
            flow = flows[view.op.id]
            yield _op(view, function, flow), flow.inputs
        for block in view.blocks:
            yield from _list_ops(block, function, lister, flows, scope)


def _op(view: OpView, function: str, flow: Flow) -> OpRow:
    op, work = view.op, _work_of(view)
    return OpRow(
        id=op.id,
        type=op.type,
        name=op.name,
        function=function,
        outputs=tuple(describe_type(bound.type) for bound in view.outputs),
        output_names=tuple(value.name for value in op.outputs),
        flops=None if work is None else work.flops,
        read_bytes=None if work is None else work.read_bytes,
        written_bytes=None if work is None else work.written_bytes,
        weight_bytes=None if work is None else work.weight_bytes,
        work_is_complete=work is None or work.is_complete,
        layer=op.layer.name if op.layer else None,
        layer_type=op.layer.type if op.layer else None,
        live_bytes=flow.live_bytes,
    )
