"""What a model is, for the console."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.describe.model import FeatureSummary, FunctionSummary, ModelSummary, OpSummary
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.terminal.stages import show_stages
from coremlscope.render.words import (
    KINDS,
    bits_each,
    compact_type,
    count,
    histogram,
    model_name,
    plural,
    shorten,
)
from coremlscope.units import format_bytes, format_count

__all__ = ["show_summary"]

#: Operation types in the overview; the rest is counted.
_LISTED_TYPES = 12
_WIDE = 110


def show_summary(page: Page, model: ModelSummary) -> None:
    """Prints everything that is known of a model."""
    page.title(model_name(model.path))
    page.pairs(_facts(model))
    if model.missing_weights:
        page.line(
            f"weights absent: {', '.join(model.missing_weights)} – sizes are those that the program declares",
            "yellow",
        )
    several = len(model.functions) > 1
    for function in model.functions:
        _show_function(page, model, function, several)
    if model.stages:
        show_stages(page, model.stages)
    if model.weights:
        _show_weights(page, model)
    if model.main.layers:
        _show_layers(page, model.main)
    elif model.main.ops:
        _show_histogram(page, model.main)
    if model.user_defined:
        page.heading("Metadata")
        page.pairs(model.user_defined.items(), indent=2)
    if model.op_list:
        _show_ops(page, model)
    page.line()
    ops = "" if model.op_list else "--ops lists every operation; "
    page.line(f"more: {ops}-o report.html, or .md, .csv, .json", "dim")


def _facts(model: ModelSummary) -> list[tuple[str, str]]:
    main, work = model.main, model.main.work
    kind = KINDS.get(model.kind, model.kind) + (", updatable" if model.is_updatable else "")
    opset = f", operations of {main.opset}" + (f" ({main.opset_os})" if main.opset_os else "")
    facts = [
        ("type", kind + (opset if main.opset else "")),
        ("needs", f"{model.platforms} (specification {model.spec_version})"),
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
        moved = format_bytes(work.read_bytes + work.written_bytes)
        at_least = "" if work.is_complete else "at least "
        facts.append(
            ("work", f"{at_least}{format_count(work.flops)} FLOPs, {moved} moved a prediction (declared)")
        )
        if work.unknown_ops:
            facts.append(("not counted", histogram(work.unknown_ops, 6)))
    return facts


def _storage(model: ModelSummary) -> str:
    by_storage: dict[str, int] = {}
    for group in model.weights:
        by_storage[group.storage] = by_storage.get(group.storage, 0) + group.nbytes
    return f"{_shares(by_storage)} of {format_bytes(model.weights_bytes)}"


def _shares(parts: Mapping[str, int]) -> str:
    """What part of the whole each is: `fp16 98%, fp32 2%`."""
    total = sum(parts.values()) or 1
    shares = ((name, part / total) for name, part in parts.items())
    return ", ".join(f"{name} {share:.0%}" if share >= 0.005 else f"{name} <1%" for name, share in shares)


def _show_function(page: Page, model: ModelSummary, function: FunctionSummary, is_named: bool) -> None:
    if is_named:
        default = " (shown in full)" if function is model.main else ""
        opset = f", {function.opset}" if function.opset else ""
        counts = f"{plural(sum(function.ops.values()), 'operation')}{opset}{default}"
        page.heading(f"Function {function.name}", counts)
    sections = (("Inputs", function.inputs), ("Outputs", function.outputs), ("States", function.states))
    for title, features in sections:
        if features:
            if is_named:
                page.line(title, indent=2)
            else:
                page.heading(title)
            _show_features(page, features, 4 if is_named else 2)
    if function is model.main and model.labels is not None:
        _show_labels(page, model)


def _show_labels(page: Page, model: ModelSummary) -> None:
    assert model.labels is not None
    page.heading("Classes", str(model.labels.count))
    first = ", ".join(map(str, model.labels.first))
    page.line(first + (", …" if model.labels.count > len(model.labels.first) else ""), indent=2)


def _show_features(page: Page, features: tuple[FeatureSummary, ...], indent: int) -> None:
    name_width = max(12, page.width // 3)
    rows = []
    for feature in features:
        remarks = [feature.doc] if feature.doc else []
        if feature.is_optional:
            remarks.insert(0, "optional")
        if feature.flexibility:
            remarks.insert(0, f"allows {feature.flexibility}")
        rows.append((feature.name, feature.type, "; ".join(remarks)))
    page.table((Column("", most=name_width, style="cyan"), Column(""), Column("")), rows, indent)
    for feature in features:
        if feature.preprocessing:
            name = shorten(feature.name, name_width)
            page.line(f"{name}: {feature.preprocessing}", "dim", indent)


def _show_weights(page: Page, model: ModelSummary) -> None:
    total = f"{format_count(model.parameters)} in {format_bytes(model.weights_bytes)}"
    page.heading("Parameters", f"{total}, {bits_each(model.weights_bytes, model.parameters)} bits each")
    columns = (
        Column("kept as"),
        Column("used as"),
        Column("tensors", is_number=True),
        Column("parameters", is_number=True),
        Column("bytes", is_number=True),
        Column("bits each", is_number=True),
    )
    rows = [
        (
            group.storage,
            group.dtype,
            str(group.tensors),
            format_count(group.parameters),
            format_bytes(group.nbytes),
            bits_each(group.nbytes, group.parameters),
        )
        for group in model.weights
    ]
    page.table(columns, rows)


def _show_histogram(page: Page, function: FunctionSummary) -> None:
    total = sum(function.ops.values())
    page.heading(
        "Operations",
        f"{total}, of {plural(len(function.ops), 'type')}; {plural(function.constants, 'constant')}",
    )
    _show_counts(page, function.ops)


def _show_layers(page: Page, function: FunctionSummary) -> None:
    total, operations = sum(function.layers.values()), sum(function.ops.values())
    kinds = plural(len(function.layers), "type")
    page.heading("Layers", f"{total}, of {kinds}; run here as {plural(operations, 'operation')}")
    _show_counts(page, function.layers)


def _show_counts(page: Page, counts: Mapping[str, int]) -> None:
    items = list(counts.items())
    digits = len(str(items[0][1]))
    cells = [f"{number:>{digits}} {name}" for name, number in items[:_LISTED_TYPES]]
    if len(items) > _LISTED_TYPES:
        rest = items[_LISTED_TYPES:]
        cells.append(f"{sum(number for _, number in rest):>{digits}} of {plural(len(rest), 'other type')}")
    page.cells(cells)


def _show_ops(page: Page, model: ModelSummary) -> None:
    page.heading("All operations", f"of {model.main.name}; FLOPs and bytes are declared by the file")
    is_wide = page.width >= _WIDE
    numbers = ("FLOPs", "read", "written") if is_wide else ()
    rows = [_op_row(op, is_wide) for op in model.op_list]
    taken = sum(max(len(row[column]) for row in rows) + 2 for column in (0, 1)) + 9 * len(numbers)
    free = max(30, page.width - taken - 2)
    columns = [
        Column("id", most=page.width // 3, style="dim"),
        Column("type", most=page.width // 3, style="cyan"),
        Column("name", most=free // 2),
        Column("results", most=free - free // 2),
        *(Column(title, is_number=True) for title in numbers),
    ]
    page.table(columns, rows, indent=0)
    page.line(f"{plural(model.main.constants, 'constant')} not listed", "dim")


def _op_row(op: OpSummary, is_wide: bool) -> tuple[str, ...]:
    row = (op.id, op.type, op.name, ", ".join(map(compact_type, op.outputs)))
    if not is_wide:
        return row
    moved = (op.read_bytes, op.written_bytes)
    return (
        *row,
        count(op.flops, op.work_is_complete),
        *("?" if n is None else format_bytes(n) for n in moved),
    )
