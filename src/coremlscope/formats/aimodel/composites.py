"""Composites: graphs that stand for an operation which Core ML has too.

A composite is emitted as that operation where both mean the same. All others are emitted part by part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from coremlscope.formats.aimodel.content import GraphContent
from coremlscope.formats.aimodel.dialect import Attribute
from coremlscope.formats.aimodel.translation import Operand, dims_of, known
from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.model.ir import Constant, DType, TensorType

#: The largest difference of a scale of attention from the usual one, which is stored as float32.
_TOLERANCE = 1e-6


class Arguments:
    """The arguments and attributes of a composite, by name.

    Args:
        graph: The composite.
        operands: Its arguments.
    """

    def __init__(self, graph: GraphContent, operands: list[Operand]) -> None:
        names = graph.composite_inputs or tuple(feature.name for feature in graph.inputs)
        self._operands = dict(zip(names, operands, strict=False))
        self._attributes: Mapping[str, Attribute] = graph.composite_attributes
        self.count = len(operands)

    def tensor(self, name: str) -> Blob | Constant:
        """Returns an argument.

        Raises:
            CannotTranslate: There is none with this name.
        """
        operand = self._operands.get(name)
        if not isinstance(operand, (Blob, Constant)):
            raise CannotTranslate(f"the composite has no argument {name}")
        return operand

    def has(self, name: str) -> bool:
        """True if the argument is given."""
        return name in self._operands

    def vector(self, name: str) -> np.ndarray:
        """Returns the content of an argument as a vector.

        Raises:
            CannotTranslate: It is not known before run time.
        """
        found = known(self.tensor(name))
        if found is None:
            raise CannotTranslate(f"the argument {name} is not known before run time")
        return found.reshape(-1)

    def number(self, name: str) -> float:
        """Returns an attribute that is a number.

        Raises:
            CannotTranslate: There is none with this name.
        """
        value = self._attributes.get(name)
        if not isinstance(value, (int, float)):
            raise CannotTranslate(f"the composite has no attribute {name}")
        return value

    def get(self, name: str) -> Attribute | None:
        """Returns an attribute; None for none."""
        return self._attributes.get(name)


def _dtype(x: Blob | Constant) -> DType:
    type_ = x.bound.type if isinstance(x, Blob) else x.type
    assert isinstance(type_, TensorType)
    return type_.dtype


def _number(value: float, x: Blob | Constant) -> np.ndarray:
    return np.asarray(value, _dtype(x).numpy)


def _layer_norm(b: Builder, a: Arguments) -> Operand:
    x, axes = a.tensor("input"), a.get("axes")
    if not isinstance(axes, tuple) or not all(isinstance(axis, int) for axis in axes):
        raise CannotTranslate("the axes of the normalisation are missing")
    dims = dims_of(x)
    shape = [dims[int(str(axis))] or 0 for axis in axes]
    gamma, beta = (a.vector(name).reshape(shape) if a.has(name) else None for name in ("gamma", "beta"))
    return b.op(
        "layer_norm",
        x=x,
        axes=[int(str(axis)) for axis in axes],
        gamma=gamma,
        beta=beta,
        epsilon=_number(a.number("eps"), x),
    )


def _attention(b: Builder, a: Arguments) -> Operand:
    query, key = a.tensor("query"), a.tensor("key")
    depth, queries, keys = dims_of(query)[-1], dims_of(query), dims_of(key)
    scale = a.get("scale")
    is_usual = depth is not None and (
        scale is None
        or (isinstance(scale, float) and math.isclose(scale, 1 / math.sqrt(depth), rel_tol=_TOLERANCE))
    )
    if not is_usual or a.get("is_causal") is not False or a.get("window_size") not in (0, None):
        raise CannotTranslate("Core ML has no attention of this form")
    if queries[:-2] != keys[:-2]:
        raise CannotTranslate("Core ML has no attention whose keys are shared by heads")
    mask = a.tensor("attn_mask") if a.has("attn_mask") else None
    return b.op("scaled_dot_product_attention", query=query, key=key, value=a.tensor("value"), attn_mask=mask)


def _batch_norm(b: Builder, a: Arguments) -> Operand:
    x = a.tensor("input")
    return b.op(
        "batch_norm",
        x=x,
        mean=a.vector("mean"),
        variance=a.vector("variance"),
        gamma=a.vector("gamma"),
        beta=a.vector("beta"),
        epsilon=_number(a.number("eps"), x),
    )


def _instance_norm(b: Builder, a: Arguments) -> Operand:
    x = a.tensor("input")
    if len(dims_of(x)) not in (3, 4):
        raise CannotTranslate("Core ML normalises instances of rank 3 and 4")
    return b.op(
        "instance_norm",
        x=x,
        gamma=a.vector("gamma"),
        beta=a.vector("beta"),
        epsilon=_number(a.number("eps"), x),
    )


def _pixel_shuffle(b: Builder, a: Arguments) -> Operand:
    return b.op("pixel_shuffle", x=a.tensor("input"), upscale_factor=int(a.number("upscale_factor")))


def _hard_sigmoid(b: Builder, a: Arguments) -> Operand:
    x = a.tensor("input")
    return b.op("sigmoid_hard", x=x, alpha=_number(1 / 6, x), beta=_number(0.5, x))


#: Operations that Core ML has too, by their names in Core AI.
COMPOSITES: Mapping[str, Callable[[Builder, Arguments], Operand]] = {
    "layer_norm": _layer_norm,
    "scaled_dot_product_attention": _attention,
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    "pixel_shuffle": _pixel_shuffle,
    "hard_sigmoid": _hard_sigmoid,
}
