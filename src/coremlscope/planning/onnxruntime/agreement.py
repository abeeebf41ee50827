"""How what ONNX Runtime wrote of a session agrees with a division by the rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from coremlscope.formats.onnx.graph import Node
from coremlscope.planning.onnxruntime.division import DROPPED, Division
from coremlscope.results.provider import LoggedNode, ProviderAgreement, ProviderLog, RuleAgreement

#: The rule of operators that the provider takes.
TAKEN = "taken"


def compare_with_log(log: ProviderLog, nodes: Sequence[Node], division: Division) -> ProviderAgreement:
    """Compares a division with what ONNX Runtime wrote, operator by operator where that names them.

    Args:
        log: What ONNX Runtime wrote.
        nodes: The operators of the graph that was divided, in order.
        division: The division.
    """
    said: dict[tuple[str, str], list[LoggedNode]] = defaultdict(list)
    for one in log.nodes:
        said[one.op, one.name].append(one)
    agreed, differing = Counter[tuple[str, str]](), defaultdict[tuple[str, str], list[LoggedNode]](list)
    only_judged = 0
    for node, rule in zip(nodes, division.verdicts, strict=True):
        queue = said.get((node.op, node.name))
        if not queue:
            only_judged += 1
            continue
        logged, row = queue.pop(0), (node.op, rule or TAKEN)
        # The line of an operator is about the operator alone; groups are dropped after it.
        is_taken = not rule or (rule == DROPPED.id and bool(log.rounds))
        if logged.is_taken == is_taken:
            agreed[row] += 1
        else:
            differing[row].append(logged)
    report = division.report
    return ProviderAgreement(
        format=report.format,
        release=report.release,
        models=report.models,
        rounds=report.rounds,
        rules=tuple(
            RuleAgreement(op=op, rule=rule, agreed=agreed[op, rule], differing=tuple(differing[op, rule]))
            for op, rule in sorted({*agreed, *differing}, key=lambda row: (-len(differing[row]), row))
        )
        if log.nodes
        else (),
        only_logged=sum(map(len, said.values())),
        only_judged=only_judged if log.nodes else 0,
    )


def count_differences(log: ProviderLog, agreement: ProviderAgreement) -> tuple[int, int]:
    """Returns how far a log and a division are apart: by operators, then by counts of partitions."""
    operators = sum(len(one.differing) for one in agreement.rules)
    operators += agreement.only_logged + agreement.only_judged
    if not log.rounds:
        return operators, abs((log.models or 0) - agreement.models)
    pairs = zip(log.rounds, agreement.rounds, strict=False)
    apart = sum(
        abs(one.partitions - other.partitions)
        + abs(one.nodes - other.nodes)
        + abs(one.supported - other.supported)
        for one, other in pairs
    )
    return operators, apart + abs(len(log.rounds) - len(agreement.rounds))
