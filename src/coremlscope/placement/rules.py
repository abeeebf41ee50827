"""The tables of rules, joined."""

from __future__ import annotations

from collections.abc import Iterable

from coremlscope.placement import (
    cpu,
    gpu,
    model_rules,
    neural_engine_absent,
    neural_engine_advice,
    neural_engine_generations,
    neural_engine_runs,
    neural_engine_shapes,
    neural_engine_tensors,
    neural_engine_types,
    neural_engine_windows,
    weight_rules,
)
from coremlscope.placement.rule import GraphRule, Rule

__all__ = ["GRAPH_RULES", "RULES", "join_rules"]


def join_rules(*families: Iterable[Rule | GraphRule]) -> tuple[Rule | GraphRule, ...]:
    """All rules of several tables, in order.

    Raises:
        ValueError: Two rules have one id.
    """
    joined = tuple(rule for family in families for rule in family)
    seen: set[str] = set()
    for rule in joined:
        if rule.id in seen:
            raise ValueError(f"two rules with the id {rule.id}")
        seen.add(rule.id)
    return joined


_ALL = join_rules(
    neural_engine_types.RULES,
    neural_engine_shapes.RULES,
    neural_engine_absent.RULES,
    neural_engine_generations.RULES,
    neural_engine_windows.RULES,
    neural_engine_tensors.RULES,
    neural_engine_runs.RULES,
    neural_engine_advice.RULES,
    gpu.RULES,
    cpu.RULES,
    weight_rules.GRAPH_RULES,
    model_rules.GRAPH_RULES,
)

#: Rules about single operations.
RULES: tuple[Rule, ...] = tuple(rule for rule in _ALL if isinstance(rule, Rule))

#: Rules about whole functions.
GRAPH_RULES: tuple[GraphRule, ...] = tuple(rule for rule in _ALL if isinstance(rule, GraphRule))
