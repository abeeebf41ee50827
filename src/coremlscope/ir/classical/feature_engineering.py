"""Models that prepare features for others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from coremlscope.ir.data import Constant

__all__ = [
    "ArrayFeatureExtractor",
    "CategoricalMapping",
    "DictVectorizer",
    "FeatureVectorizer",
    "Identity",
    "Imputer",
    "Norm",
    "Normalizer",
    "OneHotEncoder",
    "Scaler",
]

#: What an array is divided by: its largest magnitude, the sum of magnitudes, the root of the sum of squares.
Norm = Literal["LMax", "L1", "L2"]


@dataclass(frozen=True, slots=True)
class ArrayFeatureExtractor:
    """Some elements of an array. `indices` is int64 `[elements]`, of the array laid out in a row."""

    kind: ClassVar[str] = "arrayFeatureExtractor"
    indices: Constant


@dataclass(frozen=True, slots=True)
class CategoricalMapping:
    """A value for each key: numbers for strings, or strings for numbers.

    Attributes:
        keys: Strings or int64 `[entries]`.
        mapped: int64 or strings `[entries]`.
        default: What other keys become; None where they are an error.
    """

    kind: ClassVar[str] = "categoricalMapping"
    keys: Constant
    mapped: Constant
    default: str | int | None


@dataclass(frozen=True, slots=True)
class DictVectorizer:
    """A dictionary laid out as an array, in the order of `keys`; absent keys are 0, others are left out.

    Attributes:
        keys: Strings or int64 `[elements]`.
    """

    kind: ClassVar[str] = "dictVectorizer"
    keys: Constant


@dataclass(frozen=True, slots=True)
class FeatureVectorizer:
    """Features one after the other, as one array. `columns` holds the name and size of each."""

    kind: ClassVar[str] = "featureVectorizer"
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Features as they are."""

    kind: ClassVar[str] = "identity"


@dataclass(frozen=True, slots=True)
class Imputer:
    """A value for what is missing.

    Attributes:
        imputed: The value: a number, a string, or an array; of a dictionary, the numbers of `keys`.
        keys: Of a dictionary: strings or int64 `[entries]`.
        replaced: The value that stands for a missing one; None for NaN.
    """

    kind: ClassVar[str] = "imputer"
    imputed: Constant
    keys: Constant | None
    replaced: float | int | str | None


@dataclass(frozen=True, slots=True)
class Normalizer:
    """An array divided by its norm; zeros stay zeros."""

    kind: ClassVar[str] = "normalizer"
    norm: Norm


@dataclass(frozen=True, slots=True)
class OneHotEncoder:
    """An array with a 1 at the place of a category, and 0 elsewhere.

    Attributes:
        keys: The categories: strings or int64 `[categories]`.
        is_sparse: The array is given as a dictionary of its one entry.
        ignores_unknown: Other categories give zeros; otherwise they are an error.
    """

    kind: ClassVar[str] = "oneHotEncoder"
    keys: Constant
    is_sparse: bool
    ignores_unknown: bool


@dataclass(frozen=True, slots=True)
class Scaler:
    """`(x + shift) · scale`. Both are fp64 `[1]` or `[elements]`."""

    kind: ClassVar[str] = "scaler"
    shift: Constant
    scale: Constant
