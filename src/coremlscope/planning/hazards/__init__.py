"""Known hazards: one table that every verb asks for the rows that answer its question.

A row is a `KnownHazard`. Patterns on a unit are rules of placement as well (`HAZARD_RULES`), so plans name
them at their operations; checks look at the whole model, as Core ML's validators do. `find` says which rows a
model meets.
"""

from __future__ import annotations

from coremlscope.planning.hazards import crashes, interfaces, loads, programs, providers, values
from coremlscope.planning.hazards.hazard import KnownHazard
from coremlscope.planning.patterns.rule import GraphRule, Rule

__all__ = ["HAZARDS", "HAZARD_OF_RULE", "HAZARD_RULES", "KnownHazard"]

#: Every row.
HAZARDS: tuple[KnownHazard, ...] = (
    *interfaces.HAZARDS,
    *programs.HAZARDS,
    *loads.HAZARDS,
    *crashes.HAZARDS,
    *values.HAZARDS,
    *providers.HAZARDS,
)

#: The rows on units as rules of placement.
HAZARD_RULES: tuple[Rule | GraphRule, ...] = tuple(rule for row in HAZARDS for rule in row.rules)

#: The row of each of these rules, by its id.
HAZARD_OF_RULE = {rule.id: row for row in HAZARDS for rule in row.rules}
