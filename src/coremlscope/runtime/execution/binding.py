"""Selects a function of a model and binds it to input shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from coremlscope.base.budget import Budget
from coremlscope.base.errors import CorruptModelError, UnsupportedModelError, UsageError
from coremlscope.model.features import bind_shapes, check_combination, nearest
from coremlscope.model.ir import (
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
    kind_with_article,
)
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction, bind
from coremlscope.ops.classical.function import as_function
from coremlscope.ops.view import OpView

_Made = TypeVar("_Made")

#: What is made from models, by the model and a key; None outside `sharing_bindings`.
_SHARED: ContextVar[dict[object, tuple[Model | None, Any]] | None] = ContextVar("shared", default=None)


class Chosen(msgspec.Struct, frozen=True):
    """A function of a model and its interface.

    Attributes:
        name: The function's name in the model's description.
        function: The function's body.
        description: The function's inputs, outputs and states.
    """

    name: str
    function: Function
    description: FunctionDescription


def program_of(model: Model) -> Program | None:
    """The model as a program, or None if it is neither a program nor a classical model.

    A classical model becomes a program with one function of one operation.

    Raises:
        ModelError: The description of a classical model does not match its content.
    """
    content = model.content
    if isinstance(content, Program):
        return content
    if isinstance(content, Classical):
        name = model.description.default
        return Program(functions={name: as_function(content, name, model.description.main)})
    return None


def choose_function(model: Model, name: str | None = None) -> Chosen:
    """Selects a function of a model.

    Args:
        model: The model.
        name: The function's name; None selects the default function.

    Raises:
        UsageError: The function is unknown.
        UnsupportedModelError: Models of this kind cannot be run.
        CorruptModelError: The model describes the function but does not hold it.
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
        raise UsageError(f"unknown function {wanted!r}", f"{hint}functions: {known}")
    body = functions.get(wanted)
    if body is None and len(functions) == 1:
        body = next(iter(functions.values()))
    if body is None:
        raise CorruptModelError(f"the model describes the function {wanted!r} but does not hold it")
    interface = described.get(wanted) or next(iter(described.values()))
    return Chosen(wanted, _of_stage(body, model.stage) if model.stage else body, interface)


def _cannot_run(model: Model) -> UnsupportedModelError:
    if isinstance(model.content, External):
        others = ", and `coremlscope profile` runs the other stages" if model.stage else ""
        return UnsupportedModelError(
            f"{kind_with_article(model.kind)} cannot be run here: {model.content.absent}",
            f"{model.content.how_to_run}; `coremlscope inspect` shows what the file contains{others}",
        )
    return UnsupportedModelError(
        f"{kind_with_article(model.kind)} cannot be run here",
        "`coremlscope inspect` works on every type of model",
    )


def _of_stage(function: Function, stage: str) -> Function:
    """Prefixes the name of a function and the ids of its operations with the name of a stage."""

    def of_graph(graph: Graph) -> Graph:
        return replace(graph, ops=tuple(map(of_op, graph.ops)))

    def of_op(op: Op) -> Op:
        return replace(op, id=f"{stage}/{op.id}", blocks=tuple(map(of_graph, op.blocks)))

    specialise = function.specialise
    return replace(
        function,
        name=f"{stage}/{function.name}",
        graph=of_graph(function.graph),
        specialise=None if specialise is None else lambda shapes: _of_stage(specialise(shapes), stage),
    )


def bind_model(
    model: Model,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> BoundFunction:
    """Binds a function of a model to input shapes.

    Args:
        model: The model.
        function: The function's name; None selects the default function.
        shapes: Shapes of inputs and states by name. The others get the defaults of the description.

    Raises:
        InputError: A name is unknown, or a shape is not allowed.
        UsageError: The function is unknown.
        UnsupportedModelError: Models of this kind cannot be run.
    """
    body, fitting = _prepare(choose_function(model, function), shapes)
    key = body.name, tuple(sorted(fitting.items())), id(body.graph)

    def make() -> BoundFunction:
        # What is made of a model binds most of its operations as they are.
        known: dict[str, OpView] = share(None, (bind,), dict)
        return bind(body, OPS, fitting, Budget.of_model(model.size_bytes), known)

    return share(model, key, make)


def share(model: Model | None, key: tuple[object, ...], make: Callable[[], _Made]) -> _Made:
    """Returns what is made from a model, or for all models (None).

    Inside `sharing_bindings`, it is made once for equal keys.
    """
    shared = _SHARED.get()
    if shared is None:
        return make()
    key = id(model), *key
    if key not in shared:
        # The model stays alive, and so do the ids.
        shared[key] = model, make()
    made: _Made = shared[key][1]
    return made


@contextmanager
def sharing_bindings() -> Iterator[None]:
    """Binds each function once for equal shapes until the context ends, which keeps what was bound in memory.

    The description of a model and its plans bind the same function, in a third of the time together. Inside
    another such context, bindings are shared with that one.
    """
    token = _SHARED.set({} if (outer := _SHARED.get()) is None else outer)
    try:
        yield
    finally:
        _SHARED.reset(token)


def _prepare(chosen: Chosen, shapes: Mapping[str, Sequence[int]] | None) -> tuple[Function, dict[str, Shape]]:
    """Returns a function, specialised for shapes, and the shapes that are to be bound."""
    wanted = bind_shapes(chosen.description, shapes)
    if chosen.function.specialise is None and wanted != bind_shapes(chosen.description):
        check_combination(chosen.description, wanted)
    body = _specialised(chosen.function, wanted)
    types = ((value.name, value.type) for value in body.graph.inputs)
    return body, {
        name: wanted[name] for name, type_ in types if name in wanted and _fits(type_, wanted[name])
    }


def _specialised(function: Function, wanted: Mapping[str, Shape]) -> Function:
    """Specialises a function for input shapes, if it supports that and a shape differs from its own."""
    if function.specialise is None:
        return function
    types = ((value.type, wanted.get(value.name)) for value in function.graph.inputs)
    if all(
        shape is None or (isinstance(type_, TensorType) and type_.shape == tuple(shape))
        for type_, shape in types
    ):
        return function
    return function.specialise(wanted)


def _fits(type_: ValueType, shape: Shape) -> bool:
    """True if the program leaves dimensions unknown and the shape matches the known ones.

    A shape that the program declares completely takes precedence over the description.
    """
    if isinstance(type_, StateType):
        type_ = type_.wrapped
    if not isinstance(type_, TensorType) or type_.is_static:
        return False
    if type_.shape is None:
        return True
    return len(type_.shape) == len(shape) and all(
        declared in (None, size) for declared, size in zip(type_.shape, shape, strict=True)
    )
