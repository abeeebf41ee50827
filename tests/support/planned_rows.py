"""Operations of a plan with where they go under one setting, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec.structs

from coremlscope.planning.placement.search import Costs, Route, TransitionCosts, search
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, PlannedOps
from coremlscope.results.plan_encoding import PlanColumns, decode_ops, encode_ops

__all__ = ["route_of", "rows", "with_choices", "with_columns", "with_ops"]


def rows(plan: Plan, setting: str | None = None) -> list[Any]:
    """The operations with all that a plan says of them under a setting, by default the first."""
    name: Any = setting or plan.settings[0].compute_units
    return [
        SimpleNamespace(
            **{**msgspec.structs.asdict(op), **msgspec.structs.asdict(op.choices[name])},
            depth=op.depth,
            graph=op.graph,
        )
        for op in plan.ops
    ]


def with_ops(plan: Plan, changes: dict[str, dict[str, Any]]) -> Plan:
    """A plan whose operations have other fields, by id."""
    ops = (msgspec.structs.replace(op, **changes.get(op.id, {})) for op in plan.ops)
    return msgspec.structs.replace(plan, ops=PlannedOps(ops))


def with_choices(plan: Plan, setting: str, changes: dict[str, dict[str, Any]]) -> Plan:
    """A plan whose operations go elsewhere under a setting, by id."""
    key: Any = setting
    return with_ops(
        plan,
        {
            op.id: {
                "choices": {
                    **op.choices,
                    key: msgspec.structs.replace(op.choices[key], **changes.get(op.id, {})),
                }
            }
            for op in plan.ops
        },
    )


def with_columns(plan: Plan, table: OpTable, **changes: Any) -> Plan:
    """A plan whose columns differ.

    Raises:
        ValueError: They do not fit together.
    """
    columns: PlanColumns = msgspec.structs.replace(encode_ops(plan.ops), **changes)
    ops = decode_ops(columns)
    ops.over(table)
    return msgspec.structs.replace(plan, ops=ops)


def route_of(costs: Sequence[Costs], transition_costs: TransitionCosts) -> Route:
    """The cheapest path under one set of costs."""
    (route,) = search([costs], transition_costs)
    return route
