"""Which ONNX operators an operation's lowering can write, found in its code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from coremlscope.ops.emit import Lowering
from coremlscope.ops.spec import OpSpec


def onnx_nodes(spec: OpSpec) -> tuple[str, ...]:
    """The ONNX operators that an operation may become, in the order in which its code names them.

    One form of the operation uses some of them. Casts and constants that any operation may need are not
    listed, nor operators that other modules write for it.
    """
    return _operators(spec.lower, False) or _operators(spec.lower, True)


def _operators(lower: Callable[..., Any], with_methods: bool) -> tuple[str, ...]:
    import onnx

    texts = _texts(lower, with_methods, set())
    return tuple(dict.fromkeys(text for text in texts if text[:1].isupper() and onnx.defs.has(text)))


def _texts(function: Callable[..., Any], with_methods: bool, seen: set[int]) -> Iterator[str]:
    """Every string in a function, in its nested functions and in the functions that it calls in `ops`.

    Args:
        function: Where to begin.
        with_methods: Whether to include methods of `Lowering`, which write single nodes.
        seen: Functions already visited.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    for cell in function.__closure__ or ():
        yield from _held(cell.cell_contents, with_methods, seen)
    for value in function.__defaults__ or ():
        yield from _held(value, with_methods, seen)
    names: list[str] = []
    yield from _constants(function.__code__, names)
    for name in names:
        called = function.__globals__.get(name)
        if called is not None:
            yield from _held(called, with_methods, seen)
        elif with_methods:
            yield from _held(getattr(Lowering, name, None), with_methods, seen)


def _held(value: Any, with_methods: bool, seen: set[int]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, FunctionType):
        is_emitting = value.__module__ == Lowering.__module__
        if value.__module__.startswith("coremlscope.ops") and (with_methods or not is_emitting):
            yield from _texts(value, with_methods, seen)
    elif isinstance(value, type) and value.__module__.startswith("coremlscope.ops") and value is not Lowering:
        for member in vars(value).values():
            yield from _held(member, with_methods, seen)
    elif isinstance(value, (tuple, list, frozenset)):
        for item in value:
            yield from _held(item, with_methods, seen)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _held(item, with_methods, seen)


def _constants(code: CodeType, names: list[str]) -> Iterator[str]:
    names.extend(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from (item for item in constant if isinstance(item, str))
        elif isinstance(constant, CodeType):
            yield from _constants(constant, names)
