"""Values from a model's vocabulary: the words of a dictionary, the categories of an encoder, items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.model.ir import (
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

Key = str | int
#: Number of keys in a dictionary or a sequence.
_KEY_COUNT = 4


def known_keys(function: Function) -> dict[str, tuple[Key, ...]]:
    """Returns the vocabulary of each input whose value is looked up in one.

    It is the parameter `keys` of the operations of classical models.
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
    """Generates a value from a vocabulary. Returns None if the feature's type does not match the keys.

    Args:
        type_: The feature's type.
        keys: The vocabulary; not empty.
        generator: The source of randomness.
        shape: The shape of an array.
    """
    count = min(_KEY_COUNT, len(keys))
    chosen = [keys[int(index)] for index in generator.choice(len(keys), count, replace=False)]
    is_text = isinstance(chosen[0], str)
    match type_:
        case DictionaryFeature():
            return {key: float(generator.random()) for key in chosen}
        case SequenceFeature(element, (low, high)) if (element == "string") == is_text:
            length = max(low, len(chosen) if high < 0 else min(high, len(chosen)))
            return [chosen[index % len(chosen)] for index in range(length)]
        case StringFeature() if is_text:
            return chosen[0]
        case Int64Feature() | DoubleFeature() if not is_text:
            return chosen[0]
        case ArrayFeature(dtype=dtype) if not is_text:
            return np.resize(np.array(chosen), shape or (len(chosen),)).astype(dtype.numpy)
        case _:
            return None
