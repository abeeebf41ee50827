"""Classical models: everything about a model type in one place, joined into one explicit table."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coremlscope.ops.classical.contract import ClassicalType

__all__ = ["classical_types"]


@functools.cache
def classical_types() -> Mapping[str, ClassicalType[Any]]:
    """Returns every type of classical model, by Apple's name.

    Most models are programs: the types are imported when a classical model is read.
    """
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

    families: tuple[tuple[ClassicalType[Any], ...], ...] = (
        feature_engineering.TYPES,
        linear.TYPES,
        neighbors.TYPES,
        probit.TYPES,
        recommender.TYPES,
        support_vectors.TYPES,
        suppression.TYPES,
        trees.TYPES,
    )
    table: dict[str, ClassicalType[Any]] = {}
    for family in families:
        for row in family:
            if row.kind in table:
                raise ValueError(f"two rows for the model type {row.kind}")
            table[row.kind] = row
    return table
