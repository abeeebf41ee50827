"""Formulas of the elements of vectors: sizes of tensors, numbers, and arithmetic of them.

Programs with variable sizes compute shapes and scales while they run. Elements with the same formula are
equal whatever the sizes are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from coremlscope.formats.aimodel.bytecode import EncodedValue
from coremlscope.formats.aimodel.content import Content, StoredOp
from coremlscope.model.ir import TensorType

#: A number, or a name with what it is applied to: `("size", tensor, axis)`, `("mul", formula, formula)`.
Formula = float | tuple[object, ...]

_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "divide": operator.truediv,
}
#: How many operations a formula follows; those of shapes have about ten.
_LONGEST = 64


def combine(name: str, a: Formula, b: Formula) -> Formula:
    """Returns the sum, difference, product or quotient of two formulas; that of numbers is a number."""
    if isinstance(a, float) and isinstance(b, float) and (name != "divide" or b):
        return _ARITHMETIC[name](a, b)
    if name in ("add", "mul") and isinstance(b, float):
        a, b = b, a
    return (name, a, b)


class Formulas:
    """Finds the formulas of elements.

    Args:
        content: The program.
        makers: The operations by their results.
    """

    def __init__(self, content: Content, makers: Mapping[EncodedValue, StoredOp]) -> None:
        self._content = content
        self._makers = makers

    def size(self, tensor: EncodedValue, axis: int) -> Formula:
        """Returns the formula of a dimension of a tensor."""
        type_ = self._content.type(tensor)
        shape = (type_.shape if isinstance(type_, TensorType) else None) or ()
        known = shape[axis] if axis < len(shape) else None
        return ("size", tensor, axis) if known is None else float(known)

    def element(self, vector: EncodedValue, index: int, left: int = _LONGEST) -> Formula:
        """Returns the formula of an element of a vector.

        Args:
            vector: The vector, or a number without axes.
            index: The place of the element.
            left: How many operations are followed at most.
        """
        op = self._makers.get(vector)
        found = None if op is None or not left else self._followed(op, vector, index, left - 1)
        return ("element", vector, index) if found is None else found

    def _followed(self, op: StoredOp, vector: EncodedValue, index: int, left: int) -> Formula | None:
        """Returns the formula by the operation that makes the vector; None if it is not known."""
        name, first = op.name.removeprefix("broadcasting_"), op.operands[0] if op.operands else vector
        if name == "constant":
            return self._number(vector, index)
        if name == "get_shape":
            return self.size(first, index)
        if name == "cast":
            formula = self.element(first, index, left)
            return formula if self._is_exact(formula, vector) else ("cast", formula)
        if name == "slice" and len(op.operands) == 4:
            begin, stride = self._number(op.operands[1], 0), self._number(op.operands[3], 0)
            if begin is None or stride is None or begin < 0:
                return None
            return self.element(first, int(begin + stride * index), left)
        if name == "concat":
            return self._joined(op.operands[1:], index, left)
        if name in _ARITHMETIC and len(op.operands) == 2:
            parts = (self.element(one, 0 if self._length(one) == 1 else index, left) for one in op.operands)
            return combine(name, *parts)
        is_same = name in ("reshape", "expand_dims", "shrink_dims") and self._length(first) == 1
        return self.element(first, 0, left) if is_same else None

    def _joined(self, parts: Sequence[EncodedValue], index: int, left: int) -> Formula | None:
        """Returns the formula of an element of joined vectors."""
        for part in parts:
            length = self._length(part)
            if length is None:
                return None
            if index < length:
                return self.element(part, index, left)
            index -= length
        return None

    def _length(self, value: EncodedValue) -> int | None:
        """Returns the number of elements of a vector; 1 for a number without axes."""
        type_ = self._content.type(value)
        return type_.elements if isinstance(type_, TensorType) else None

    def _number(self, value: EncodedValue, index: int) -> float | None:
        op = self._makers.get(value)
        if op is None or op.name != "constant":
            return None
        if index >= min(self._length(value) or 0, _LONGEST):
            return None
        return float(self._content.constant(op).numpy().reshape(-1)[index])

    def _is_exact(self, formula: Formula, target: EncodedValue) -> bool:
        """True if a cast changes nothing: to a float, or of a whole number."""
        type_ = self._content.type(target)
        return isinstance(type_, TensorType) and (type_.dtype.is_float or self._is_whole(formula))

    def _is_whole(self, formula: object) -> bool:
        match formula:
            case float():
                return formula.is_integer()
            case ("size", *_):
                return True
            case ("add" | "sub" | "mul", a, b):
                return self._is_whole(a) and self._is_whole(b)
            case ("element", EncodedValue() as vector, _):
                type_ = self._content.type(vector)
                return isinstance(type_, TensorType) and type_.dtype.is_int
            case _:
                return False
