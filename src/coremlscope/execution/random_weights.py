"""Made-up weights, so that a model whose weight file is absent can still be timed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from coremlscope.ir import (
    Argument,
    Array,
    Constant,
    DType,
    Function,
    Graph,
    Model,
    Nested,
    Op,
    Program,
    TensorType,
    Value,
)

__all__ = ["MadeUp", "missing_weights", "with_random_weights"]

#: A mask and the elements that it places: as many bits are set as there are elements.
_MASKS = {"mask": "nonzero_data", "indices_mask": "indices_nonzero_data"}
#: Integers wider than this are indices and sizes rather than quantised weights.
_QUANTISED_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp:
    """Elements drawn from a seeded generator; the same each time.

    Attributes:
        type: The tensor's type; its shape is fully known.
        seed: Seeds the generator.
        ones: For a mask: how many of its bits are set.
    """

    type: TensorType
    seed: tuple[int, int]
    ones: int | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes that the real data would take in its file."""
        return self.type.nbytes or 0

    @property
    def is_available(self) -> bool:
        """Always true."""
        return True

    def numpy(self) -> Array:
        """Draws the elements.

        Floats of rank 2 and more are normal, scaled so that a product with them keeps its size (variance
        one over the elements of each row: LeCun's initialisation). Those of rank 0 and 1, which may be
        variances, are even between 0.5 and 1.5. Integers of up to 8 bits take their whole range; wider
        ones, which may index something, are 0 or 1.
        """
        generator = np.random.default_rng(self.seed)
        shape = tuple(d or 0 for d in self.type.shape or ())
        dtype = self.type.dtype
        if self.ones is not None:
            return self._mask(generator, shape)
        if dtype.is_float:
            if len(shape) < 2:
                return generator.uniform(0.5, 1.5, shape).astype(dtype.numpy)
            drawn = generator.standard_normal(shape, np.float32)
            drawn /= np.float32(math.sqrt(max(1, math.prod(shape[1:]))))
            return drawn.astype(dtype.numpy, copy=False)
        if dtype.is_int and dtype.bits <= _QUANTISED_BITS:
            low = 0 if dtype.value.startswith("u") else -(1 << (dtype.bits - 1))
            return generator.integers(low, low + (1 << dtype.bits), shape).astype(dtype.numpy)
        if dtype is DType.STRING:
            return np.full(shape, "", dtype=object)
        return generator.integers(0, 2, shape).astype(dtype.numpy)

    def _mask(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """A mask with `ones` bits set; bytes hold eight bits each, in the oldest form of the operation."""
        packed = self.type.dtype is DType.UINT8
        count = math.prod(shape) * (8 if packed else 1)
        bits = np.zeros(count, dtype=np.uint8)
        bits[generator.choice(count, min(self.ones or 0, count), replace=False)] = 1
        if packed:
            return np.packbits(bits, bitorder="little").reshape(shape)
        return bits.reshape(shape).astype(self.type.dtype.numpy)


def _constants(op: Op) -> list[Constant]:
    inline = [a for arguments in op.inputs.values() for a in arguments if isinstance(a, Constant)]
    return [*op.attributes.values(), *inline]


def missing_weights(function: Function) -> int:
    """How many constants of a function lie in files that are absent."""
    return sum(not c.is_available for op in function.graph.walk() for c in _constants(op))


def with_random_weights(model: Model, seed: int) -> Model:
    """The model with every constant that cannot be read replaced by a made-up one.

    Args:
        model: An ML Program.
        seed: Seeds what is made up; each constant's content depends on its place alone.
    """
    if not isinstance(model.content, Program):
        return model
    functions = {
        name: replace(function, graph=_Replacer(seed).graph(function.graph))
        for name, function in model.content.functions.items()
    }
    return replace(model, content=replace(model.content, functions=functions))


class _Replacer:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.consts: dict[str, Op] = {}

    def graph(self, graph: Graph) -> Graph:
        self.consts.update((op.outputs[0].name, op) for op in graph.ops if op.type == "const" and op.outputs)
        masks = self.masks(graph)
        return replace(graph, ops=tuple(self.op(op, masks) for op in graph.ops))

    def masks(self, graph: Graph) -> Mapping[str, int]:
        """How many bits are set in each mask that is a `const` of its own, by the value's name."""
        found = {}
        for op in graph.ops:
            for mask, data in _MASKS.items():
                ones = self.elements(op, data)
                arguments = op.inputs.get(mask, ())
                if ones is not None and arguments and isinstance(arguments[0], Value):
                    found[arguments[0].name] = ones
        return found

    def elements(self, op: Op, parameter: str) -> int | None:
        given: Argument | None = op.attributes.get(parameter) or next(
            iter(op.inputs.get(parameter, ())), None
        )
        return given.type.elements if given is not None and isinstance(given.type, TensorType) else None

    def op(self, op: Op, masks: Mapping[str, int]) -> Op:
        if not op.blocks and all(constant.is_available for constant in _constants(op)):
            return op
        own = masks.get(op.outputs[0].name) if op.type == "const" and op.outputs else None
        attributes = {
            name: self.constant(constant, f"{op.id}.{name}", self.ones(op, name) if own is None else own)
            for name, constant in op.attributes.items()
        }
        inputs = {
            name: tuple(
                self.constant(a, f"{op.id}.{name}.{index}", self.ones(op, name))
                if isinstance(a, Constant)
                else a
                for index, a in enumerate(arguments)
            )
            for name, arguments in op.inputs.items()
        }
        blocks = tuple(self.graph(block) for block in op.blocks)
        return replace(op, attributes=attributes, inputs=inputs, blocks=blocks)

    def ones(self, op: Op, parameter: str) -> int | None:
        data = _MASKS.get(parameter)
        return None if data is None else self.elements(op, data)

    def constant(self, constant: Constant, place: str, ones: int | None) -> Constant:
        if constant.is_available:
            return constant
        if isinstance(constant.data, Nested):
            items = constant.data.items
            made = tuple(self.constant(item, f"{place}.{index}", None) for index, item in enumerate(items))
            return Constant(constant.type, Nested(made))
        assert isinstance(constant.type, TensorType)  # lists, tuples and dictionaries are nested
        seed = (self.seed, zlib.crc32(place.encode()))
        return Constant(constant.type, MadeUp(constant.type, seed, ones))
