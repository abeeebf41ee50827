"""Merges normalizations that converters spell out, because their formats have few operations for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import onnx
import onnx.helper
from onnx import numpy_helper

from coremlscope.model.ir import Array, Constant, Derived, DType, TensorType
from coremlscope.ops.emit import F32, Emitter
from coremlscope.ops.program import MERGED


def join_layer_norms(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], emitter: Emitter
) -> list[onnx.NodeProto]:
    """Replaces each spelled-out layer or group normalization by one node.

    Converters use three forms: a normalization of rows that are reshaped to images, followed by a factor and
    a summand; separate operations for mean, difference, square, sum, quotient and root; and the same with
    averages, of groups of channels.
    """
    finder = _Finder(nodes, emitter)
    joined: list[onnx.NodeProto] = []
    for node in nodes:
        found = finder.rows(node) or finder.spelled_out(node) or finder.groups(node)
        joined.extend(found or [node])
    return joined


class _Scaled(msgspec.Struct, frozen=True):
    """`value * gamma + beta`, and the names of the intermediate values."""

    value: str
    gamma: str
    beta: str
    through: tuple[str, ...]


class _Norm(msgspec.Struct, frozen=True):
    """A normalization of `x` over the last axes, whose sizes are `shape`."""

    x: str
    shape: tuple[int, ...]
    epsilon: float
    through: tuple[str, ...]


class _Finder:
    """Matches the nodes that compute a value."""

    def __init__(self, nodes: Sequence[onnx.NodeProto], emitter: Emitter) -> None:
        self.emitter = emitter
        self.makers = {name: node for node in nodes for name in node.output}
        self.small = {tensor.name: tensor for tensor in emitter.initializers}
        self.large = {slot.name: slot for slot in emitter.weights}

    # Constants

    def array(self, name: str) -> Array | None:
        if name in self.small:
            return np.asarray(numpy_helper.to_array(self.small[name]))
        return self.large[name].constant.numpy() if name in self.large else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        if name in self.small:
            return tuple(self.small[name].dims)
        return self.large[name].shape if name in self.large else None

    def number(self, name: str) -> float | None:
        shape = self.shape(name)
        array = self.array(name) if shape is not None and math.prod(shape) == 1 else None
        return None if array is None else float(array.reshape(-1)[0])

    def numbers(self, name: str) -> list[int]:
        array = self.array(name)
        return [] if array is None else [int(n) for n in array.reshape(-1)]

    def reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """A constant with the elements of `name` in another shape."""
        if name in self.small:
            array = np.asarray(numpy_helper.to_array(self.small[name]))
            return self.emitter.array(array.reshape(shape)).name
        source = self.large[name].constant
        derived = Derived(lambda: source.numpy().astype(F32).reshape(shape), (source,))
        key = ("reshaped", shape, id(source))
        constant = self.emitter.shared.setdefault(key, Constant(TensorType(DType.FP32, shape), derived))
        return self.emitter.weight(constant, F32, name).name

    # Nodes

    def made_by(self, name: str, op_type: str) -> onnx.NodeProto | None:
        maker = self.makers.get(name)
        return maker if maker is not None and maker.op_type == op_type else None

    def with_constant(self, node: onnx.NodeProto | None, op_type: str) -> tuple[str, str] | None:
        """The operands of a binary node, the constant operand last; None if neither is constant."""
        if node is None or node.op_type != op_type:
            return None
        first, second = node.input
        if self.shape(second) is not None:
            return first, second
        is_first = op_type in ("Add", "Mul") and self.shape(first) is not None
        return (second, first) if is_first else None

    def scaled(self, node: onnx.NodeProto | None) -> _Scaled | None:
        summed = self.with_constant(node, "Add")
        factor = self.with_constant(self.makers.get(summed[0]), "Mul") if summed else None
        if not summed or not factor:
            return None
        return _Scaled(factor[0], factor[1], summed[1], (summed[0], factor[0]))

    # The three forms

    def rows(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Matches rows that are reshaped to images, normalized, scaled and reshaped back."""
        if node.op_type != "Reshape":
            return None
        scaled = self.scaled(self.makers.get(node.input[0]))
        norm = self.made_by(scaled.value, "LayerNormalization") if scaled else None
        source = self.made_by(norm.input[0], "Reshape") if norm else None
        if scaled is None or norm is None or source is None:
            return None
        inner, outer = self.numbers(source.input[1]), self.numbers(node.input[1])
        width = inner[-1] if len(inner) > 2 else 0
        ones = self.array(norm.input[1])
        fits = (
            width > 0
            and inner[-2] == 1
            and outer == [*inner[:-2], width]
            and len(norm.input) == 2
            and _attribute(norm, "axis") in (-2, len(inner) - 2)
            and ones is not None
            and bool((ones == 1).all())
            and all(self.is_row(name, width) for name in (scaled.gamma, scaled.beta))
        )
        if not fits:
            return None
        flat = f"{source.output[0]}.rows"
        through = (node.input[0], *scaled.through, norm.input[0])
        epsilon = float(_attribute(norm, "epsilon") or 0.0)
        before = onnx.helper.make_node(
            "Reshape", [source.input[0], node.input[1]], [flat], name=f"{source.name}.rows"
        )
        self.emitter.owners[flat] = self.emitter.owners.get(source.output[0], "")
        return [before, self.joined(node, scaled, _Norm(flat, (width,), epsilon, through))]

    def is_row(self, name: str, width: int) -> bool:
        shape = self.shape(name) or ()
        return bool(shape) and shape[-1] == width == math.prod(shape)

    def spelled_out(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Matches `(x - mean) / sqrt(sum((x - mean)²) / n + epsilon)`, scaled, over the last axes."""
        if not (
            (scaled := self.scaled(node))
            and (quotient := self.made_by(scaled.value, "Div"))
            and (root := self.made_by(quotient.input[1], "Sqrt"))
            and (variance := self.with_constant(self.makers.get(root.input[0]), "Add"))
            and (mean_square := self.with_constant(self.makers.get(variance[0]), "Div"))
            and (total := self.made_by(mean_square[0], "ReduceSum"))
            and (difference := self.made_by(quotient.input[0], "Sub"))
            and (mean := self.made_by(difference.input[1], "ReduceMean"))
            and mean.input[0] == difference.input[0]
        ):
            return None
        shape = self.shape(scaled.gamma) or ()
        axes = [axis % max(len(shape), 1) for axis in self.numbers(total.input[1])]
        epsilon, count = self.number(variance[1]), self.number(mean_square[1])
        fits = (
            axes == list(range(len(shape) - len(axes), len(shape)))
            and self.shape(scaled.beta) == shape
            and self.numbers(mean.input[1]) == self.numbers(total.input[1])
            and self.is_square(total.input[0], difference.output[0])
            and count == math.prod(shape)
            and epsilon is not None
            and bool(axes)
        )
        if not fits or epsilon is None:
            return None
        through = (
            *scaled.through,
            root.output[0],
            root.input[0],
            variance[0],
            mean_square[0],
            total.input[0],
            difference.output[0],
            mean.output[0],
        )
        norm = _Norm(mean.input[0], shape[-len(axes) :], epsilon, through)
        return [self.joined(node, scaled, norm)]

    def groups(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Matches `(x - mean) / sqrt(mean of (x - mean)² + epsilon)` of channels that a reshape groups."""
        if not (
            node.op_type == "Div"
            and (root := self.made_by(node.input[1], "Sqrt"))
            and (variance := self.with_constant(self.makers.get(root.input[0]), "Add"))
            and (mean_square := self.made_by(variance[0], "GlobalAveragePool"))
            and (difference := self.made_by(node.input[0], "Sub"))
            and self.is_square(mean_square.input[0], difference.output[0])
            and (mean := self.made_by(difference.input[1], "GlobalAveragePool"))
            and mean.input[0] == difference.input[0]
            and (grouped := self.made_by(mean.input[0], "Reshape"))
        ):
            return None
        sizes, epsilon = self.numbers(grouped.input[1]), self.number(variance[1])
        if len(sizes) < 4 or sizes[1] < 1 or epsilon is None:
            return None
        parameters = [self.emitter.array(np.full(sizes[1], value, F32)).name for value in (1, 0)]
        merged = onnx.helper.make_node(
            "InstanceNormalization",
            [mean.input[0], *parameters],
            list(node.output),
            name=node.name,
            epsilon=epsilon,
        )
        inside = (root, self.makers[root.input[0]], mean_square, self.makers[mean_square.input[0]])
        through = [one.output[0] for one in (*inside, difference, mean)]
        merged.metadata_props.add(key=MERGED, value="\n".join(through))
        return [merged]

    def is_square(self, name: str, of: str) -> bool:
        maker = self.makers.get(name)
        if maker is None or maker.input[0] != of:
            return False
        if maker.op_type == "Mul":
            return bool(maker.input[1] == of)
        return bool(maker.op_type == "Pow" and self.number(maker.input[1]) == 2)

    def joined(self, node: onnx.NodeProto, scaled: _Scaled, norm: _Norm) -> onnx.NodeProto:
        """One node that computes the outputs of `node`."""
        parameters = [self.reshaped(name, norm.shape) for name in (scaled.gamma, scaled.beta)]
        merged = onnx.helper.make_node(
            "LayerNormalization",
            [norm.x, *parameters],
            list(node.output),
            name=node.name,
            axis=-len(norm.shape),
            epsilon=norm.epsilon,
        )
        merged.metadata_props.add(key=MERGED, value="\n".join(norm.through))
        return merged


def _attribute(node: onnx.NodeProto, name: str) -> float | int | None:
    for attribute in node.attribute:
        if attribute.name == name:
            value = onnx.helper.get_attribute_value(attribute)
            return value if isinstance(value, int | float) else None
    return None
