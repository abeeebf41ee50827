"""Random weights, which let a model without its weight file be timed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Array,
    Constant,
    DType,
    Function,
    Graph,
    Model,
    Nested,
    Op,
    TensorType,
    Value,
)

#: The parameter of a mask and that of its elements: the mask has as many bits set as there are elements.
_MASKS = {"mask": "nonzero_data", "indices_mask": "indices_nonzero_data"}
#: Wider integers are indices and sizes rather than quantised weights.
_QUANTISED_BITS = 8


class RandomData(msgspec.Struct, frozen=True, eq=False):
    """Random elements of a constant; the same seed always draws the same elements.

    Attributes:
        type: The tensor's type, with a known shape.
        seed: The seed of the random number generator.
        ones: The number of bits set in a mask; None for other constants.
    """

    type: TensorType
    seed: tuple[int, int]
    ones: int | None = None

    @property
    def stored_bytes(self) -> int:
        """The size of the real data in its file, in bytes."""
        return self.type.nbytes or 0

    @property
    def is_available(self) -> bool:
        """Always true."""
        return True

    def numpy(self) -> Array:
        """Draws the elements.

        Floats of rank 2 and higher are normal with a variance of one over the elements of each row (LeCun's
        initialisation), so that products keep their magnitude. Floats of rank 0 and 1, which may be
        variances, are uniform between 0.5 and 1.5. Integers of up to 8 bits span their whole range. Wider
        integers, which may be indices, are 0 or 1.
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
        """A mask with `ones` bits set. A uint8 mask, of the oldest opset, holds eight bits per byte."""
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


def missing_weights(function: Function, *, with_doubted: bool = False) -> int:
    """The number of constants of a function whose data is missing from the weight files.

    Args:
        function: The function.
        with_doubted: Also counts weights that are there, but cannot be read.
    """
    return sum(
        not constant.is_available or (with_doubted and _is_doubted(op) and constant.is_weight)
        for op in function.graph.walk()
        for constant in _constants(op)
    )


def _is_doubted(op: Op) -> bool:
    return op.layer is not None and op.layer.is_timeable


def with_random_weights(model: Model, seed: int) -> Model:
    """Replaces every missing constant of a model by random data, and weights that are in doubt.

    Args:
        model: The model. Only programs have constants to replace.
        seed: The seed. A constant's data depends on the seed and on its place in the program.

    Returns:
        The model. Its size includes that of the data.
    """
    if not model.content.functions:
        return model
    replacers = {name: _Replacer(seed) for name in model.content.functions}
    functions = {
        name: replace(function, graph=replacers[name].graph(function.graph))
        for name, function in model.content.functions.items()
    }
    drawn = sum(replacer.drawn_bytes for replacer in replacers.values())
    return replace(model.with_functions(functions), size_bytes=model.size_bytes + drawn)


class _Replacer:
    """Replaces the missing constants of a graph and its nested graphs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.consts: dict[str, Op] = {}
        #: The size of the data that was drawn.
        self.drawn_bytes = 0

    def graph(self, graph: Graph) -> Graph:
        self.consts.update((op.outputs[0].name, op) for op in graph.ops if op.type == "const" and op.outputs)
        masks = self.masks(graph)
        return replace(graph, ops=tuple(self.op(op, masks) for op in graph.ops))

    def masks(self, graph: Graph) -> Mapping[str, int]:
        """The number of bits set in each mask that is a separate `const`, by the value's name."""
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
        is_doubted = _is_doubted(op)
        if not op.blocks and not is_doubted and all(constant.is_available for constant in _constants(op)):
            return op
        own = masks.get(op.outputs[0].name) if op.type == "const" and op.outputs else None
        attributes = {
            name: self.constant(constant, f"{op.id}.{name}", self.ones(op, name) if own is None else own)
            for name, constant in op.attributes.items()
        }
        inputs = {
            name: tuple(
                self.constant(a, f"{op.id}.{name}.{index}", self.ones(op, name), is_doubted=is_doubted)
                if isinstance(a, Constant)
                else a
                for index, a in enumerate(arguments)
            )
            for name, arguments in op.inputs.items()
        }
        blocks = tuple(self.graph(block) for block in op.blocks)
        layer = replace(op.layer, doubt="") if op.layer is not None and is_doubted else op.layer
        return replace(op, attributes=attributes, inputs=inputs, blocks=blocks, layer=layer)

    def ones(self, op: Op, parameter: str) -> int | None:
        data = _MASKS.get(parameter)
        return None if data is None else self.elements(op, data)

    def constant(
        self, constant: Constant, place: str, ones: int | None, *, is_doubted: bool = False
    ) -> Constant:
        if constant.is_available and not (is_doubted and constant.is_weight):
            return constant
        if isinstance(constant.data, Nested):
            items = constant.data.items
            drawn = tuple(self.constant(item, f"{place}.{index}", None) for index, item in enumerate(items))
            return Constant(constant.type, Nested(drawn))
        assert isinstance(constant.type, TensorType)  # Lists, tuples and dictionaries are nested.
        data = RandomData(constant.type, (self.seed, zlib.crc32(place.encode())), ones)
        self.drawn_bytes += data.stored_bytes
        return Constant(constant.type, data)
