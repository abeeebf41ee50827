"""Finds the operations of unknown size, which figures of a model do not include."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from coremlscope.model.ir import Constant, Function, Op, TensorType
from coremlscope.ops import OPS
from coremlscope.ops.classical import classical_types
from coremlscope.results.left_out import LeftOut


def is_unknown(op: Op) -> bool:
    """Returns whether an operation has no definition, or is a layer that could not be translated."""
    if op.layer is not None and op.layer.problem:
        return True
    return op.type != "const" and op.type not in OPS and op.type not in classical_types()


def find_left_out(functions: Iterable[Function]) -> LeftOut:
    """Returns the operations of unknown size in functions, and their share of the parameters."""
    found = Counter[str]()
    total = unknown_parameters = parameters = 0
    for function in functions:
        unknown = [op for op in function.graph.walk() if is_unknown(op)]
        total += sum(op.type != "const" for op in function.graph.walk())
        if not unknown:
            continue
        found.update(op.type for op in unknown)
        weights = {
            value.name: op.constant for op in function.graph.walk() if op.constant for value in op.outputs
        }
        for op in function.graph.walk():
            size = sum(_elements(constant) for constant in _weights(op, weights))
            parameters += size
            unknown_parameters += size if is_unknown(op) else 0
    return LeftOut(
        operations=found.total(),
        total=total,
        types=tuple(found.most_common()),
        share=unknown_parameters / parameters if parameters else 0.0,
    )


def _weights(op: Op, constants: dict[str, Constant]) -> Iterator[Constant]:
    for arguments in op.inputs.values():
        for argument in arguments:
            constant = argument if isinstance(argument, Constant) else constants.get(argument.name)
            if constant is not None and constant.is_weight:
                yield constant


def _elements(constant: Constant) -> int:
    return (constant.type.elements or 0) if isinstance(constant.type, TensorType) else 0
