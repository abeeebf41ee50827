"""Which function of a model is meant, and the shapes that it is bound to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from coremlscope.classical.function import as_function
from coremlscope.errors import CorruptModelError, UnsupportedModelError, UsageError
from coremlscope.features import bind_shapes, nearest
from coremlscope.ir import (
    Classical,
    External,
    Function,
    FunctionDescription,
    Graph,
    Model,
    Op,
    Program,
    Shape,
    StateType,
    TensorType,
    ValueType,
)
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction, bind

__all__ = ["Chosen", "bind_model", "choose_function", "program_of"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A function of a model and its interface.

    Attributes:
        name: The name by which the description knows it.
        function: Its body.
        description: Its interface.
    """

    name: str
    function: Function
    description: FunctionDescription


def program_of(model: Model) -> Program | None:
    """The model as a program: a classical one is a function of one operation. None for other kinds.

    Raises:
        ModelError: A classical model is described to take or give what it cannot.
    """
    content = model.content
    if isinstance(content, Program):
        return content
    if isinstance(content, Classical):
        name = model.description.default
        return Program(functions={name: as_function(content, name, model.description.main)})
    return None


def choose_function(model: Model, name: str | None = None) -> Chosen:
    """The function called `name`, or the default one.

    Raises:
        UsageError: The model has no such function.
        UnsupportedModelError: The model is of a kind that cannot be run.
        CorruptModelError: The model describes a function that it does not hold.
    """
    program = program_of(model)
    if program is None:
        raise _cannot_run(model)
    functions, described = program.functions, model.description.functions
    wanted = name or model.description.default
    if wanted not in described and not (wanted in functions and len(described) == 1):
        known = ", ".join(described)
        near = nearest(wanted, described)
        hint = f"did you mean {near!r}? " if near else ""
        raise UsageError(f"the model has no function {wanted!r}", f"{hint}functions: {known}")
    body = functions.get(wanted)
    if body is None and len(functions) == 1:
        body = next(iter(functions.values()))
    if body is None:
        raise CorruptModelError(f"the model describes the function {wanted!r} but does not hold it")
    interface = described.get(wanted) or next(iter(described.values()))
    return Chosen(wanted, _of_stage(body, model.stage) if model.stage else body, interface)


def _cannot_run(model: Model) -> UnsupportedModelError:
    if isinstance(model.content, External):
        return UnsupportedModelError(
            f"a {model.kind} cannot be run here: {model.content.absent}",
            "`coremlscope inspect` tells what the file holds; of a pipeline, `profile` runs the other stages",
        )
    return UnsupportedModelError(
        f"a model of the kind {model.kind} cannot be run here",
        "`coremlscope inspect` works on every kind",
    )


def _of_stage(function: Function, stage: str) -> Function:
    """The function with names that begin with the stage: its own and the ids of its operations."""

    def of_graph(graph: Graph) -> Graph:
        return replace(graph, ops=tuple(map(of_op, graph.ops)))

    def of_op(op: Op) -> Op:
        return replace(op, id=f"{stage}/{op.id}", blocks=tuple(map(of_graph, op.blocks)))

    again = function.specialise
    return replace(
        function,
        name=f"{stage}/{function.name}",
        graph=of_graph(function.graph),
        specialise=None if again is None else lambda shapes: _of_stage(again(shapes), stage),
    )


def bind_model(
    model: Model, function: str | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> BoundFunction:
    """Binds a function of a model to shapes: those asked for, else the defaults of its description.

    Args:
        model: The model.
        function: The function's name; None for the default one.
        shapes: Shapes of inputs and states by name.

    Raises:
        InputError: A name is unknown, or a shape is not allowed.
        UsageError: The model has no such function.
        UnsupportedModelError: The model is of a kind that cannot be run.
    """
    chosen = choose_function(model, function)
    wanted = bind_shapes(chosen.description, shapes)
    body = _specialised(chosen.function, wanted)
    inputs = {value.name: value.type for value in body.graph.inputs}
    fitting = {name: shape for name, shape in wanted.items() if _fits(inputs.get(name), shape)}
    return bind(body, OPS, fitting)


def _specialised(function: Function, wanted: Mapping[str, Shape]) -> Function:
    """The function as it is for these shapes of its inputs."""
    types = [(value.type, wanted.get(value.name)) for value in function.graph.inputs]
    if function.specialise is None or all(
        shape is None or (isinstance(type_, TensorType) and type_.shape == tuple(shape))
        for type_, shape in types
    ):
        return function
    return function.specialise(wanted)


def _fits(type_: ValueType | None, shape: Shape) -> bool:
    """True where the program leaves a shape open that this one fits; a shape it declares in full stands."""
    if isinstance(type_, StateType):
        type_ = type_.wrapped
    if not isinstance(type_, TensorType) or type_.is_static:
        return False
    if type_.shape is None:
        return True
    return len(type_.shape) == len(shape) and all(
        declared in (None, size) for declared, size in zip(type_.shape, shape, strict=True)
    )
