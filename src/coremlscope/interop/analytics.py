"""Imports `analytics.mil`: what Core ML planned when it compiled a program on a Mac.

Form and place of the file: see `placement.analytics`, which reads it, and published files of an M1 with macOS
14.5 (freedomtan) and an M4 with macOS 27. The setting of compute units is not in the file; it follows from
the backends that its header has costs of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from coremlscope.base.errors import CoremlscopeError, CorruptModelError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.site import page
from coremlscope.devices.unit import UNITS, ComputeUnit
from coremlscope.interop.listing import (
    Imported,
    ListedOp,
    ListingOrigin,
    plan_of,
    smallest_setting,
    table_of,
)
from coremlscope.interop.source import MOST_OPS, SourceFile
from coremlscope.planning.placement.analytics import AnalysedFunction, AnalysedOp, Analytics, read_analytics
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF, Backend
from coremlscope.results.plan import CORE_ML_RULE, FunctionCost, Reason, Support

#: By the names that the file uses.
_UNITS: Mapping[str, ComputeUnit] = {str(backend): unit for backend, unit in UNIT_OF.items()}
_HINT = f"copy analytics.mil from the cache of Core ML again; see {page('guides/mac-files')}"


def matches(source: SourceFile) -> bool:
    """By its name, or by its beginning as MIL text."""
    return source.name.endswith(".mil") or source.head.lstrip().startswith(b"program(")


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a file.

    Raises:
        UsageError: It holds no operation that Core ML analysed.
        CorruptModelError: It is truncated, or a cost is not a number.
    """
    content = source.content.decode("utf-8", "replace")
    try:
        analytics = read_analytics(content)
    except CoremlscopeError as error:
        raise CorruptModelError(f"{source.path}: {error.message}", error.hint) from error
    if not analytics.is_complete:
        raise CorruptModelError(f"{source.path} is truncated: a block is never closed", _HINT)
    if not 0 < len(analytics.ops) <= MOST_OPS:
        raise UsageError(f"{source.path} holds no operation that Core ML analysed", _HINT)
    considered = _considered(analytics)
    ops = [_listed(op, considered) for op in analytics.ops]
    units: set[ComputeUnit] = {UNIT_OF[backend] for backend in considered}
    plan = plan_of(
        ops,
        origin,
        smallest_setting(units),
        backends=_UNITS,
        functions=_costs(analytics),
        notes=_notes(analytics),
    )
    return Imported(
        origin=origin, ops=table_of(ops), plans=(plan,), findings=_findings(analytics, source.name)
    )


def _considered(analytics: Analytics) -> set[Backend]:
    """The backends that Core ML chose from: those of the headers, and those that occur."""
    named = {name for function in analytics.functions.values() for name in function.launch_ms}
    found = {backend for backend in UNIT_OF if backend in named}
    for op in analytics.ops:
        found |= {*op.supported, *op.estimated_ms, *([op.selected] if op.selected else [])}
    return found


def _listed(op: AnalysedOp, considered: set[Backend]) -> ListedOp:
    accepted = {*op.supported, *op.estimated_ms}
    return ListedOp(
        function=op.function,
        type=op.type,
        output_names=op.outputs,
        outputs=op.types,
        name=op.name,
        place=op.place,
        supported={unit: _support(unit, op, accepted, considered) for unit in UNITS},
        backend=op.selected,
        cost_ms={str(backend): ms for backend, ms in op.estimated_ms.items()},
        reasons=tuple(
            Reason(unit=UNIT_OF[backend], rule=CORE_ML_RULE, text=text, core_ml=text, source="Core ML")
            for backend, text in op.messages.items()
            if not accepted.intersection(BACKENDS_OF[UNIT_OF[backend]])
        ),
    )


def _support(unit: ComputeUnit, op: AnalysedOp, accepted: set[Backend], considered: set[Backend]) -> Support:
    """Whether a unit runs it. What no backend accepts follows another one: other units are unknown."""
    backends = set(BACKENDS_OF[unit])
    if op.selected in backends or accepted & backends:
        return "yes"
    return "no" if accepted and considered & backends else "unknown"


def _costs(analytics: Analytics) -> dict[str, FunctionCost]:
    """The cost of the path that Core ML selected, by the figures of the file.

    Estimates, the launch of each run of operations on one backend, and each switch, as the published cost
    model adds them up (M4, macOS 27). Functions whose header has no figures are left out.
    """
    found = {}
    for name, ops in itertools.groupby(analytics.ops, key=lambda op: op.function):
        header = analytics.functions.get(name)
        if header is not None and header.launch_ms:
            found[name] = _cost(header, list(ops))
    return found


def _cost(header: AnalysedFunction, ops: Sequence[AnalysedOp]) -> FunctionCost:
    path = [op for op in ops if op.selected is not None and len(op.place) <= 1]
    total = sum(op.estimated_ms.get(op.selected, 0.0) for op in path if op.selected is not None)
    runs = [backend for backend, _ in itertools.groupby(path, key=lambda op: op.selected_name)]
    total += sum(header.launch_ms.get(backend, 0.0) for backend in runs)
    total += sum(header.switch_ms.get(pair, 0.0) for pair in itertools.pairwise(runs))
    changes = sum(_UNITS[a] != _UNITS[b] for a, b in itertools.pairwise(runs))
    return FunctionCost(total, changes)


def _notes(analytics: Analytics) -> list[str]:
    notes = ["the setting of compute units follows from the backends that the file names"]
    version = analytics.build_info.get("coremlc-version")
    if version:
        converter = analytics.build_info.get("coremltools-version")
        with_ = f", converted by coremltools {converter}" if converter else ""
        notes.append(f"compiled by coremlc {version}{with_}")
    return notes


def _findings(analytics: Analytics, name: str) -> tuple[Finding, ...]:
    unknown = sorted({op.selected_name for op in analytics.ops if op.selected is None and op.selected_name})
    if not unknown:
        return ()
    count = sum(op.selected_name in unknown for op in analytics.ops)
    return (
        Finding(
            id="unknown-backend",
            severity="warning",
            text=f"{name} gives {count} operations to backends of unknown units: {', '.join(unknown)[:200]}",
        ),
    )
