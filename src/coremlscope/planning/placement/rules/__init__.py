"""All tables of rules, joined."""

from __future__ import annotations

from collections.abc import Iterable

from coremlscope.planning.hazards import HAZARD_RULES
from coremlscope.planning.patterns.rule import GraphRule, Rule
from coremlscope.planning.placement.rules import cpu, gpu
from coremlscope.planning.placement.rules.model import program as model_rules
from coremlscope.planning.placement.rules.model import weights as weight_rules
from coremlscope.planning.placement.rules.neural_engine import absent as neural_engine_absent
from coremlscope.planning.placement.rules.neural_engine import advice as neural_engine_advice
from coremlscope.planning.placement.rules.neural_engine import generations as neural_engine_generations
from coremlscope.planning.placement.rules.neural_engine import runs as neural_engine_runs
from coremlscope.planning.placement.rules.neural_engine import shapes as neural_engine_shapes
from coremlscope.planning.placement.rules.neural_engine import tensors as neural_engine_tensors
from coremlscope.planning.placement.rules.neural_engine import types as neural_engine_types
from coremlscope.planning.placement.rules.neural_engine import windows as neural_engine_windows

__all__ = ["GRAPH_RULES", "RULES", "join_rules"]


def join_rules(*families: Iterable[Rule | GraphRule]) -> tuple[Rule | GraphRule, ...]:
    """All rules of several tables, in order.

    Raises:
        ValueError: Two rules have the same id.
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
    HAZARD_RULES,
    weight_rules.GRAPH_RULES,
    model_rules.GRAPH_RULES,
)

#: Rules about single operations.
RULES: tuple[Rule, ...] = tuple(rule for rule in _ALL if isinstance(rule, Rule))

#: Rules about whole functions.
GRAPH_RULES: tuple[GraphRule, ...] = tuple(rule for rule in _ALL if isinstance(rule, GraphRule))
