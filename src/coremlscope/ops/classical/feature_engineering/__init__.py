"""Models that prepare features for other models."""

from __future__ import annotations

from typing import Any

from coremlscope.ops.classical.contract import ClassicalType
from coremlscope.ops.classical.feature_engineering import (
    array_feature_extractor,
    categorical_mapping,
    dict_vectorizer,
    feature_vectorizer,
    identity,
    imputer,
    normalizer,
    one_hot_encoder,
    scaler,
)

__all__ = ["TYPES"]

#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    *array_feature_extractor.TYPES,
    *categorical_mapping.TYPES,
    *dict_vectorizer.TYPES,
    *feature_vectorizer.TYPES,
    *identity.TYPES,
    *imputer.TYPES,
    *normalizer.TYPES,
    *one_hot_encoder.TYPES,
    *scaler.TYPES,
)
