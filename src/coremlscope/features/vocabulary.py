"""Values out of what a model knows: the words of a dictionary, the categories of an encoder, items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coremlscope.ir import (
    ArrayFeature,
    Constant,
    DictionaryFeature,
    DoubleFeature,
    FeatureType,
    Function,
    Int64Feature,
    SequenceFeature,
    StringFeature,
)

__all__ = ["known_keys", "value_of_keys"]

Key = str | int
#: How many keys a dictionary or a sequence gets.
_FEW = 4


def known_keys(function: Function) -> dict[str, tuple[Key, ...]]:
    """By input of a function: the keys that it is looked up in; only inputs that are looked up.

    Operations of classical models have them as the parameter `keys`.
    """
    found: dict[str, tuple[Key, ...]] = {}
    for op in function.graph.ops:
        for keys in op.inputs.get("keys", ()):
            if isinstance(keys, Constant) and keys.is_available:
                taken = (argument for argument in op.inputs.get("features", ()))
                known = tuple(keys.numpy().reshape(-1).tolist())
                found.update(
                    {value.name: known for value in taken if not isinstance(value, Constant) and known}
                )
    return found


def value_of_keys(
    type_: FeatureType, keys: Sequence[Key], generator: np.random.Generator, shape: tuple[int, ...] = ()
) -> Any:
    """A made-up value of a feature that is looked up; None where the feature cannot hold such keys.

    Args:
        type_: The feature's type.
        keys: The keys, at least one.
        generator: Where randomness comes from.
        shape: The shape of an array.
    """
    chosen = [keys[int(place)] for place in generator.choice(len(keys), min(_FEW, len(keys)), replace=False)]
    is_text = isinstance(chosen[0], str)
    match type_:
        case DictionaryFeature():
            return {key: float(generator.random()) for key in chosen}
        case SequenceFeature(element, (low, high)) if (element == "string") == is_text:
            length = max(low, len(chosen) if high < 0 else min(high, len(chosen)))
            return [chosen[place % len(chosen)] for place in range(length)]
        case StringFeature() if is_text:
            return chosen[0]
        case Int64Feature() | DoubleFeature() if not is_text:
            return chosen[0]
        case ArrayFeature(dtype=dtype) if not is_text:
            return np.resize(np.array(chosen), shape or (len(chosen),)).astype(dtype.numpy)
        case _:
            return None
