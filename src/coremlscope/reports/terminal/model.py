"""Renders the description of a model for the console."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from coremlscope.base.units import format_bytes, format_count
from coremlscope.model.ir import kind_name
from coremlscope.reports.op_forms import op_forms
from coremlscope.reports.terminal.findings import show_findings
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.terminal.stages import show_stages
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
    shorten,
    truncate,
    weight_cells,
)
from coremlscope.results.model import FeatureSummary, FunctionSummary, ModelSummary, WorkSummary
from coremlscope.results.operations import OpRow

__all__ = ["show_summary"]

#: Operation types in the overview; the rest is counted.
_LISTED_TYPES = 12
#: Operations that `--ops` lists.
_LISTED_OPS = 10_000
#: Inputs, outputs or states of a function that are listed; tree ensembles can have a thousand inputs.
_LISTED_FEATURES = 40
#: Characters of a metadata value that are shown.
_LONGEST_VALUE = 240
_WIDE = 110


def show_summary(screen: Screen, model: ModelSummary) -> None:
    """Prints everything that is known of a model."""
    screen.title(model_name(model.path))
    screen.pairs(_facts(model))
    if model.missing_weights:
        screen.line(
            f"weights absent: {_few(model.missing_weights)} – sizes are those that the program declares",
            "yellow",
        )
    if model.short_weights:
        screen.line(
            f"weights truncated: {_few(model.short_weights)} – the file is too short; download it again",
            "yellow",
        )
    functions, more = elide(model.functions, "function")
    for function in functions:
        _show_function(screen, model, function, len(functions) > 1)
    _show_rest(screen, more)
    if model.stages:
        show_stages(screen, model.stages)
    if model.weights:
        _show_weights(screen, model)
    main = main_function(model)
    if main.layers:
        _show_layers(screen, main)
    elif main.ops:
        _show_histogram(screen, main)
    if model.user_defined:
        screen.heading("Metadata")
        pairs, more = elide(list(model.user_defined.items()), "entry")
        screen.pairs([(name, truncate(value, _LONGEST_VALUE)) for name, value in pairs], indent=2)
        _show_rest(screen, more, 2)
    show_findings(screen, model.findings)
    if model.ops:
        _show_ops(screen, model)
    screen.line()
    ops = "" if model.ops or not main.ops else "--ops lists every operation; "
    screen.line(f"more: {ops}-o report.html, or .md, .csv, .json", "dim")


def _few(names: Sequence[str]) -> str:
    listed, more = elide(names, "file", 8)
    return ", ".join(filter(None, (*listed, more)))


def _show_rest(screen: Screen, text: str, indent: int = 0) -> None:
    """Prints what is left out of a list, if anything is."""
    if text:
        screen.line(f"… {text}", "dim", indent)


def _facts(model: ModelSummary) -> list[tuple[str, str]]:
    main = main_function(model)
    work = main.work
    version = f" (specification {model.spec_version})" if model.spec_version else ""
    platforms = f"{model.platforms}{version}" if model.platforms else ""
    kind = kind_name(model.kind) + (", updatable" if model.is_updatable else "")
    opset = f", operations of {main.opset}" + (f" ({main.opset_os})" if main.opset_os else "")
    facts = [
        ("type", kind + (opset if main.opset else "")),
        ("needs", platforms),
        ("size", f"{format_bytes(model.size_bytes)} ({model.container})" if model.size_bytes else ""),
        ("about", model.description),
        ("author", model.author),
        ("licence", model.licence),
        ("version", model.version),
    ]
    facts += [(what, how) for what, how in model.facts]
    if model.absent:
        facts.append(("cannot run", f"here: {model.absent}"))
    if main.compute:
        results = sum(main.compute.values())
        facts.append(("computes in", f"{_shares(main.compute)} of {plural(results, 'result')}"))
    if model.weights:
        facts.append(("stores in", _storage(model)))
    if work is not None:
        facts += _work_facts(model, work)
        if main.largest_work is not None and main.largest_work.sizes != work.sizes:
            facts += _work_facts(model, main.largest_work)
        if work.unknown_ops:
            facts.append(("not counted", histogram(work.unknown_ops, 6)))
    return facts


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


def _show_function(screen: Screen, model: ModelSummary, function: FunctionSummary, is_named: bool) -> None:
    if is_named:
        default = " (shown in full)" if function is main_function(model) else ""
        opset = f", {function.opset}" if function.opset else ""
        counts = f"{plural(sum(function.ops.values()), 'operation')}{opset}{default}"
        screen.heading(f"Function {function.name}", counts)
    sections = (("Inputs", function.inputs), ("Outputs", function.outputs), ("States", function.states))
    for title, features in sections:
        if features:
            if is_named:
                screen.line(title, indent=2)
            else:
                screen.heading(title)
            _show_features(screen, features, 4 if is_named else 2)
    if function is main_function(model) and model.labels is not None:
        _show_labels(screen, model)


def _show_labels(screen: Screen, model: ModelSummary) -> None:
    assert model.labels is not None
    screen.heading("Classes", str(model.labels.count))
    first = ", ".join(map(str, model.labels.first))
    screen.line(first + (", …" if model.labels.count > len(model.labels.first) else ""), indent=2)


def _show_features(screen: Screen, features: tuple[FeatureSummary, ...], indent: int) -> None:
    name_width = max(12, screen.width // 3)
    rows = []
    listed, more = elide(features, "feature", _LISTED_FEATURES)
    for feature in listed:
        remarks = [feature.doc] if feature.doc else []
        if feature.is_optional:
            remarks.insert(0, "optional")
        if feature.flexibility:
            remarks.insert(0, f"allows {feature.flexibility}")
        rows.append((feature.name, feature.type, "; ".join(remarks)))
    screen.table((Column("", style="cyan"), Column(""), Column("")), rows, indent)
    _show_rest(screen, more, indent)
    for feature in listed:
        if feature.preprocessing:
            name = shorten(feature.name, name_width)
            screen.line(f"{name}: {feature.preprocessing}", "dim", indent)


def _show_weights(screen: Screen, model: ModelSummary) -> None:
    total = f"{format_count(model.parameters)} in {format_bytes(model.weights_bytes)}"
    screen.heading("Parameters", f"{total}, {bits_each(model.weights_bytes, model.parameters)} bits each")
    columns = (
        Column("stored as"),
        Column("used as"),
        Column("tensors", is_number=True),
        Column("parameters", is_number=True),
        Column("bytes", is_number=True),
        Column("bits each", is_number=True),
    )
    rows = [weight_cells(group) for group in model.weights]
    screen.table(columns, rows)


def _show_histogram(screen: Screen, function: FunctionSummary) -> None:
    total = sum(function.ops.values())
    screen.heading(
        "Operations",
        f"{total}, of {plural(len(function.ops), 'type')}; {plural(function.constants, 'constant')}",
    )
    _show_counts(screen, function.ops)


def _show_layers(screen: Screen, function: FunctionSummary) -> None:
    total, operations = sum(function.layers.values()), sum(function.ops.values())
    kinds = plural(len(function.layers), "type")
    screen.heading("Layers", f"{total}, of {kinds}; run here as {plural(operations, 'operation')}")
    _show_counts(screen, function.layers)


def _show_counts(screen: Screen, counts: Mapping[str, int]) -> None:
    items = list(counts.items())
    digits = len(str(items[0][1]))
    cells = [f"{number:>{digits}} {name}" for name, number in items[:_LISTED_TYPES]]
    if len(items) > _LISTED_TYPES:
        rest = items[_LISTED_TYPES:]
        cells.append(f"{sum(number for _, number in rest):>{digits}} of {plural(len(rest), 'other type')}")
    screen.cells(cells)


def _show_ops(screen: Screen, model: ModelSummary) -> None:
    screen.heading(
        "All operations", f"of {main_function(model).name}; FLOPs and bytes are declared by the file"
    )
    is_wide = screen.width >= _WIDE
    numbers = ("FLOPs", "read", "written") if is_wide else ()
    listed = islice(zip(model.ops, op_forms(model.ops), strict=True), _LISTED_OPS)
    rows = [_op_row(op, form, is_wide) for op, form in listed]
    taken = sum(max(len(row[column]) for row in rows) + 2 for column in (0, 1, 2)) + 9 * len(numbers)
    free = max(16, screen.width - taken - 2)
    columns = [
        Column("id", most=screen.width // 3, style="dim"),
        Column("type", most=screen.width // 3, style="cyan"),
        Column("form"),
        Column("name", most=free // 2),
        Column("results", most=free - free // 2),
        *(Column(title, is_number=True) for title in numbers),
    ]
    screen.table(columns, rows, indent=0)
    _show_rest(screen, elide(range(len(model.ops)), "operation", _LISTED_OPS)[1])
    screen.line(f"{plural(main_function(model).constants, 'constant')} not listed", "dim")


def _op_row(op: OpRow, form: str, is_wide: bool) -> tuple[str, ...]:
    row = (op.id, op.type, form, op.name, ", ".join(map(compact_type, op.outputs)))
    if not is_wide:
        return row
    moved = (op.read_bytes, op.written_bytes)
    return (
        *row,
        count(op.flops, op.work_is_complete),
        *("?" if n is None else format_bytes(n) for n in moved),
    )
