"""The tables of rules, joined."""

from __future__ import annotations

from coremlscope.placement.rule import GraphRule, Rule

__all__ = ["GRAPH_RULES", "RULES"]

RULES: tuple[Rule, ...] = ()

GRAPH_RULES: tuple[GraphRule, ...] = ()
