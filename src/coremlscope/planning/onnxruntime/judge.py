"""Judges each operator of a graph by the provider's rules, as one round of partitioning does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from coremlscope.formats.onnx.graph import Graph, Node
from coremlscope.planning.onnxruntime.case import Case, ProviderSettings
from coremlscope.planning.onnxruntime.quantisation import is_dequantised_constant
from coremlscope.planning.onnxruntime.rules.definitions import definition_of
from coremlscope.planning.onnxruntime.rules.general import CONDITIONS, DEFAULT, EARLY_INT64
from coremlscope.planning.onnxruntime.rules.rule import USE_FORMAT, Condition, Operator
from coremlscope.planning.onnxruntime.rules.table import FLOAT_MODEL, FORMAT_NAMES, OPERATORS, REPLACEMENTS
from coremlscope.results.provider import LeftRule

#: The rules on operators as a whole.
NO_BUILDER, WRONG_FORMAT, TOO_EARLY, OLD_OPSET, WRONG_TYPE = (
    "no-builder",
    "other-format",
    "newer-release",
    "opset-too-old",
    "input-type",
)


class Judgement(msgspec.Struct, frozen=True):
    """Which operators of a graph are supported, and why the others are not.

    Attributes:
        taken: Whether each operator is supported.
        reasons: The rule that keeps an operator out, by its index.
    """

    taken: tuple[bool, ...]
    reasons: Mapping[int, LeftRule]


def judge(
    graph: Graph, opset: int, settings: ProviderSettings, *, outer: tuple[Graph, ...] = (), overridable: bool
) -> Judgement:
    """Judges the operators of a graph.

    Args:
        graph: The graph.
        opset: The version of ONNX's own operators.
        settings: How a session uses the provider.
        outer: The graphs around it.
        overridable: Whether constants that are also inputs may be overridden (version 4 of the format on).
    """
    consumers: dict[str, list[Node]] = {}
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        for name in node.outputs:
            makers[name] = node
        for name in dict.fromkeys(node.reads()):
            consumers.setdefault(name, []).append(node)
    readers = {name: tuple(nodes) for name, nodes in consumers.items()}
    given = frozenset(one.name for one in graph.inputs) if overridable else frozenset[str]()
    states: dict[int, bool] = {}
    reasons: dict[int, LeftRule] = {}
    for index, node in enumerate(graph.nodes):
        case = Case(
            node=node,
            since=definition_of(node, opset),
            settings=settings,
            graph=graph,
            outer=outer,
            consumers=readers,
            makers=makers,
            is_taken=lambda one: states.get(id(one), False),
            given=given,
        )
        reason = _reason(case)
        states[id(node)] = reason is None
        if reason is not None:
            reasons[index] = reason
    return Judgement(tuple(states[id(node)] for node in graph.nodes), reasons)


def _reason(case: Case) -> LeftRule | None:
    """Returns the first rule that an operator does not meet, in the provider's order."""
    row = OPERATORS.get(case.node.op)
    if row is None:
        return LeftRule(
            NO_BUILDER,
            "the provider has no builder for it",
            REPLACEMENTS.get(case.node.op, ""),
            "onnxruntime/core/providers/coreml/builders/op_builder_factory.cc",
        )
    reason = _of_operator(case, row)
    if reason is not None:
        return reason
    for condition in _conditions(row):
        if condition.applies(case.settings.format, case.settings.release) and condition.fails(case):
            fix = FLOAT_MODEL if _reads_quantised(case) else condition.fix
            return LeftRule(condition.id, condition.reason, fix, condition.source or row.source)
        if condition is CONDITIONS[-1] and (reason := _of_type(case, row)) is not None:
            return reason
    return None


def _reads_quantised(case: Case) -> bool:
    """True for an operator with a weight that another makes floats of."""
    makers = (case.makers.get(name) for name in case.node.inputs[1:])
    return any(is_dequantised_constant(maker, case.graph) for maker in makers)


def _conditions(row: Operator) -> Iterator[Condition]:
    yield from CONDITIONS
    if row.types is DEFAULT:
        yield EARLY_INT64
    yield from row.conditions


def _of_operator(case: Case, row: Operator) -> LeftRule | None:
    format_, release = case.settings.format, case.settings.release
    first = row.formats.get(format_)
    earliest = min(row.formats.values())
    if first is None:
        (other,) = row.formats
        return LeftRule(
            WRONG_FORMAT,
            f"the provider takes it with {FORMAT_NAMES[other]} only",
            REPLACEMENTS.get(case.node.op)
            or f"{USE_FORMAT} {FORMAT_NAMES[other]}"
            + (f" with ONNX Runtime {_text(earliest)} or later" if release < earliest else ""),
            row.source,
        )
    if release < first:
        return LeftRule(
            TOO_EARLY,
            f"ONNX Runtime {_text(first)} is the first to take it",
            f"use ONNX Runtime {_text(first)} or later",
            row.source,
        )
    if case.since < row.least_opset:
        return LeftRule(
            OLD_OPSET,
            f"its definition is older than opset {row.least_opset}",
            f"export with opset {row.least_opset} or later",
            row.source,
        )
    return None


def _of_type(case: Case, row: Operator) -> LeftRule | None:
    if row.types is None:
        return None
    allowed, given = row.types[case.settings.format], case.dtype(0)
    if given is None or given in allowed:
        return None
    elsewhere = [
        FORMAT_NAMES[format_]
        for format_, taken in row.types.items()
        if given in taken and format_ in row.formats
    ]
    return LeftRule(
        WRONG_TYPE,
        f"its first input is of {given.value}, not of {' or '.join(sorted(one.value for one in allowed))}",
        f"{USE_FORMAT} {elsewhere[0]}" if elsewhere else "cast it to float32",
        row.source,
    )


def _text(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
