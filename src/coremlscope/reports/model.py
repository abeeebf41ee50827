"""The description of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from coremlscope.base.units import format_bytes, format_count
from coremlscope.model.ir import kind_name
from coremlscope.reports.document import (
    Block,
    Column,
    Drawing,
    Facts,
    Folded,
    Heading,
    Hint,
    Table,
    Text,
    Title,
    findings,
    in_columns,
    numbers,
)
from coremlscope.reports.op_forms import op_forms
from coremlscope.reports.renderers import SUMMARY_RENDERERS, describe_formats
from coremlscope.reports.words import (
    bits_each,
    compact_type,
    count,
    describe_flops,
    elide,
    histogram,
    main_function,
    model_name,
    plural,
    truncate,
    weight_cells,
)
from coremlscope.results.model import FeatureSummary, FunctionSummary, ModelSummary, StageSummary, WorkSummary

#: Operation types in the overview; the rest is counted.
_LISTED_TYPES = 12
#: Operations that `--ops` lists.
_LISTED_OPS = 10_000
#: Inputs, outputs or states of a function that are listed; tree ensembles can have a thousand inputs.
_LISTED_FEATURES = 40
#: Features of a stage, and stages, that are listed; the rest is counted.
_LISTED_STAGE_FEATURES, _LISTED_STAGES = 4, 20
#: Characters of a metadata value that are shown.
_LONGEST_VALUE = 240


def model_document(model: ModelSummary) -> Iterator[Block]:
    """Yields everything that is known of a model."""
    main = main_function(model)
    yield Title(model_name(model.path))
    yield Facts(_facts(model, main))
    for what, files, why in (
        ("absent", model.missing_weights, "sizes are those that the program declares"),
        ("truncated", model.short_weights, "the file is too short; download it again"),
    ):
        if files:
            listed, more = elide(files, "file", 8)
            yield Text(f"weights {what}: {', '.join(filter(None, (*listed, more)))} – {why}", "warning", 0)
    functions, more = elide(model.functions, "function")
    for function in functions:
        yield from _function(model, function, len(functions) > 1)
    yield from _rest(more)
    if model.stages:
        yield from _stages(model.stages)
    if model.weights:
        yield from _weights(model)
    yield from _counts(main)
    if model.user_defined:
        yield Heading("Metadata")
        pairs, more = elide(list(model.user_defined.items()), "entry")
        yield Facts([(name, truncate(value, _LONGEST_VALUE)) for name, value in pairs], 2)
        yield from _rest(more)
    yield from findings(model.findings)
    if model.ops:
        yield from _operations(model, main)
    ops = "" if model.ops or not main.ops else "--ops lists every operation; "
    yield Hint(f"more: {ops}{describe_formats(SUMMARY_RENDERERS)}")


def _rest(text: str) -> Iterator[Block]:
    """Yields what is left out of a list, if anything is."""
    if text:
        yield Text(f"… {text}")


def _facts(model: ModelSummary, main: FunctionSummary) -> list[tuple[str, str]]:
    version = f" (specification {model.spec_version})" if model.spec_version > 0 else ""
    kind = kind_name(model.kind) + (", updatable" if model.is_updatable else "")
    opset = f", operations of {main.opset}" + (f" ({main.opset_os})" if main.opset_os else "")
    results = f" of {plural(sum(main.compute.values()), 'result')}" if main.compute else ""
    return [
        ("type", kind + (opset if main.opset else "")),
        ("needs", f"{model.platforms}{version}" if model.platforms else ""),
        ("size", f"{format_bytes(model.size_bytes)} ({model.container})" if model.size_bytes else ""),
        ("about", model.description),
        ("author", model.author),
        ("licence", model.licence),
        ("version", model.version),
        *model.facts,
        ("cannot run", f"here: {model.absent}" if model.absent else ""),
        ("computes in", f"{_shares(main.compute)}{results}" if main.compute else ""),
        ("stores in", _storage(model) if model.weights else ""),
        *_work_of(model, main),
    ]


def _work_of(model: ModelSummary, main: FunctionSummary) -> Iterator[tuple[str, str]]:
    work, largest = main.work, main.largest_work
    if work is None:
        return
    yield from _work_facts(model, work)
    if largest is not None and largest.sizes != work.sizes:
        yield from _work_facts(model, largest)
    if work.unknown_ops:
        yield "not counted", histogram(work.unknown_ops, 6)


def _work_facts(model: ModelSummary, work: WorkSummary) -> Iterator[tuple[str, str]]:
    """Yields the work and the memory of a prediction, at the sizes of flexible inputs."""
    at = f" at {work.sizes}" if work.sizes else ""
    if work.is_too_incomplete:
        yield (
            "work",
            f"unknown: operations that are not counted read {work.left_out_share:.0%} of the parameters",
        )
        return
    moved = format_bytes(work.read_bytes + work.written_bytes)
    yield "work", f"{describe_flops(work)} FLOPs, {moved} moved a prediction{at} (declared)"
    if work.live_bytes is not None:
        stored, alive = format_bytes(model.weights_bytes), format_bytes(work.live_bytes)
        at_least, most = ("", "up to ") if work.is_complete else ("at least ", "")
        known = f"{at_least}{stored} of weights, and {most}{alive} of inputs and results at once"
        yield "memory", f"{known}{at} (declared)"


def _storage(model: ModelSummary) -> str:
    by_storage: dict[str, int] = {}
    for group in model.weights:
        by_storage[group.storage] = by_storage.get(group.storage, 0) + group.nbytes
    return f"{_shares(by_storage)} of {format_bytes(model.weights_bytes)}"


def _shares(parts: Mapping[str, int]) -> str:
    """Formats the share of each part in the total: `fp16 98%, fp32 2%`."""
    total = sum(parts.values()) or 1
    shares = ((name, part / total) for name, part in parts.items())
    return ", ".join(f"{name} {share:.0%}" if share >= 0.005 else f"{name} <1%" for name, share in shares)


def _function(model: ModelSummary, function: FunctionSummary, is_named: bool) -> Iterator[Block]:
    """Yields the features of a function, which is named if there are several."""
    is_main = function is main_function(model)
    if is_named:
        opset = f", {function.opset}" if function.opset else ""
        operations = plural(sum(function.ops.values()), "operation")
        yield Heading(
            f"Function {function.name}", f"{operations}{opset}{' (shown in full)' if is_main else ''}"
        )
    of = f" of {function.name}" if is_named else ""
    sections = (("Inputs", function.inputs), ("Outputs", function.outputs), ("States", function.states))
    for title, features in sections:
        if features:
            yield Heading(f"{title}{of}")
            columns = (Column("name", style="cyan", is_code=True), Column("type"), Column("about"))
            yield Table(columns, [_feature_row(f) for f in features], _LISTED_FEATURES, "feature")
    if is_main and model.labels is not None:
        yield Heading("Classes", str(model.labels.count))
        first = ", ".join(map(str, model.labels.first))
        yield Text(first + (", …" if model.labels.count > len(model.labels.first) else ""), "")


def _feature_row(feature: FeatureSummary) -> tuple[str, ...]:
    allows = f"allows {feature.flexibility}" if feature.flexibility else ""
    optional = "optional" if feature.is_optional else ""
    about = "; ".join(filter(None, (allows, optional, feature.doc, feature.preprocessing)))
    return feature.name, feature.type, about


def _stages(stages: Sequence[StageSummary]) -> Iterator[Block]:
    """Yields each stage: one row, and below the table what else its file holds."""
    yield Heading("Stages", f"{len(stages)}, one after the other")
    rows = [
        (
            stage.name,
            kind_name(stage.kind),
            "" if stage.operations is None else str(stage.operations),
            format_count(stage.parameters) if stage.parameters else "",
            format_bytes(stage.weights_bytes) if stage.parameters else "",
        )
        for stage in stages
    ]
    name = Column("", style="cyan", is_code=True)
    yield Table((name, Column("type", most=28), *numbers("operations", "parameters", "bytes")), rows)
    for stage in stages[:_LISTED_STAGES]:
        yield Text(f"{stage.name} takes {_features(stage.inputs)}; gives {_features(stage.outputs)}")
        if stage.facts:
            yield Text("; ".join(f"{what}: {how}" for what, how in stage.facts), indent=4)
        if stage.absent:
            yield Text(f"cannot run here: {stage.absent}", "warning", 4)


def _features(pairs: Sequence[tuple[str, str]]) -> str:
    named = [f"{name} ({type_})" for name, type_ in pairs[:_LISTED_STAGE_FEATURES]]
    rest = len(pairs) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")


def _weights(model: ModelSummary) -> Iterator[Block]:
    total = f"{format_count(model.parameters)} in {format_bytes(model.weights_bytes)}"
    yield Heading("Parameters", f"{total}, {bits_each(model.weights_bytes, model.parameters)} bits each")
    columns = (
        Column("stored as"),
        Column("used as"),
        *numbers("tensors", "parameters", "bytes", "bits each"),
    )
    yield Table(columns, [weight_cells(group) for group in model.weights])


def _counts(main: FunctionSummary) -> Iterator[Block]:
    """Yields how many operations of each type there are, or layers of a neural network."""
    counts, operations = main.layers or main.ops, sum(main.ops.values())
    if not counts:
        return
    kinds = plural(len(counts), "type")
    if main.layers:
        remark = f"{sum(counts.values())}, of {kinds}; run here as {plural(operations, 'operation')}"
        yield Heading("Layers", remark)
    else:
        yield Heading("Operations", f"{operations}, of {kinds}; {plural(main.constants, 'constant')}")
    items = list(counts.items())
    digits = len(str(items[0][1]))
    cells = [f"{number:>{digits}} {name}" for name, number in items[:_LISTED_TYPES]]
    rest = items[_LISTED_TYPES:]
    if rest:
        cells.append(f"{sum(number for _, number in rest):>{digits}} of {plural(len(rest), 'other type')}")
    yield Drawing(lambda width: in_columns(cells, width))


def _operations(model: ModelSummary, main: FunctionSummary) -> Iterator[Block]:
    rows = [
        (
            op.id,
            op.type,
            form,
            op.name,
            ", ".join(map(compact_type, op.outputs)),
            count(op.flops, op.work_is_complete),
            *("?" if n is None else format_bytes(n) for n in (op.read_bytes, op.written_bytes)),
        )
        for op, form in islice(zip(model.ops, op_forms(model.ops), strict=True), _LISTED_OPS)
    ]
    columns = (
        Column("id", most=40, least=14, style="dim", is_code=True),
        Column("type", most=40, least=10, style="cyan", rank=-1),
        Column("form", most=30, least=20, rank=-1),
        Column("name", most=80, least=14, rank=-1, is_code=True),
        Column("results", most=80, rank=-1),
        Column("FLOPs", is_number=True, rank=2),
        Column("read", is_number=True, rank=3),
        Column("written", is_number=True, rank=3),
    )
    remark = f"of {main.name}; FLOPs and bytes are declared by the file"
    listed = Table(
        columns, rows, noun="operation", more=", which JSON lists", others=len(model.ops) - len(rows)
    )
    yield Folded("All operations", remark, (listed, Text(f"{plural(main.constants, 'constant')} not listed")))
