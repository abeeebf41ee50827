"""Classical models: everything about a model type in one place, joined into one explicit table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coremlscope.ops.classical import (
    feature_engineering,
    linear,
    neighbors,
    probit,
    recommender,
    support_vectors,
    suppression,
    trees,
)
from coremlscope.ops.classical.contract import ClassicalType

__all__ = ["CLASSICAL_TYPES"]

_FAMILIES: tuple[tuple[ClassicalType[Any], ...], ...] = (
    feature_engineering.TYPES,
    linear.TYPES,
    neighbors.TYPES,
    probit.TYPES,
    recommender.TYPES,
    support_vectors.TYPES,
    suppression.TYPES,
    trees.TYPES,
)


def _table() -> Mapping[str, ClassicalType[Any]]:
    table: dict[str, ClassicalType[Any]] = {}
    for family in _FAMILIES:
        for row in family:
            if row.kind in table:
                raise ValueError(f"two rows for the model type {row.kind}")
            table[row.kind] = row
    return table


#: Every type of classical model, by Apple's name.
CLASSICAL_TYPES: Mapping[str, ClassicalType[Any]] = _table()
