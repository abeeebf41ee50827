"""Computes results before run time: shape arithmetic immediately, rearranged weights when written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, Constant, Derived, TensorType, ValueType, constant
from coremlscope.ops.view import OpView

Fold = Callable[[OpView], Sequence[Constant] | None]
Compute = Callable[[OpView], Array | Sequence[Array]]

#: Results and arguments of at most this many elements are computed while binding: shapes and indices.
_EAGER_ELEMENTS = 1024
#: Results may have at most this many elements more than the arguments: 1 MB of fp32, as in coremltools.
_GROWTH_ELEMENTS = 262_144


def named(function: str) -> Callable[..., Array]:
    """Returns NumPy's function of a name, which is looked up when it is called."""
    return lambda *arguments, **options: getattr(np, function)(*arguments, **options)


def folding(compute: Compute) -> Fold:
    """A folding rule for operations that rearrange elements or compute small integers.

    Small results are computed while binding, so that shapes are known. Large results of constant arguments
    become derived constants: nothing is read before the weight file is written. Results that would be much
    larger than their arguments are left to run time.

    Args:
        compute: Returns the results of the operation, all of whose arguments are known.
    """

    def fold(view: OpView) -> Sequence[Constant] | None:
        sources = _sources(view)
        types = [view.output_type(index) for index in range(len(view.outputs))]
        if sources is None or any(type_.elements is None for type_ in types):
            return None
        given = sum(_elements(source) for source in sources)
        made = sum(type_.elements or 0 for type_ in types)
        if max(given, made) <= _EAGER_ELEMENTS and all(source.is_available for source in sources):
            with np.errstate(all="ignore"):
                arrays = _as_list(compute(view))
            return [constant(a, t.dtype) for a, t in zip(arrays, types, strict=True)]
        if made - given > _GROWTH_ELEMENTS:
            return None
        return _derived(view, compute, types, sources)

    return fold


def fold_constexpr(compute: Compute) -> Fold:
    """A folding rule for `constexpr_*`: always derived constants, whatever their size.

    Args:
        compute: Returns the results of the operation.
    """

    def fold(view: OpView) -> Sequence[Constant] | None:
        sources = _sources(view)
        if sources is None:
            return None
        types = [view.output_type(index) for index in range(len(view.outputs))]
        return _derived(view, compute, types, sources)

    return fold


def _derived(
    view: OpView, compute: Compute, types: Sequence[TensorType], sources: tuple[Constant, ...]
) -> list[Constant]:
    def elements(index: int, type_: TensorType) -> Array:
        with np.errstate(all="ignore"):
            array = _as_list(compute(view))[index]
        return np.asarray(array).astype(type_.dtype.numpy, copy=False)

    roots = tuple({id(root): root for source in sources for root in _roots(source)}.values())
    effort = sum(map(_bytes, types)) + sum(map(effort_of, sources))

    def result(index: int, type_: TensorType) -> Constant:
        # Small results are read repeatedly while types are inferred.
        remember = functools.cache if (type_.elements or 0) <= _EAGER_ELEMENTS else _not_remembered
        return Constant(type_, Derived(remember(functools.partial(elements, index, type_)), roots, effort))

    return [result(index, type_) for index, type_ in enumerate(types)]


def _sources(view: OpView) -> tuple[Constant, ...] | None:
    """The content of every argument; None where one is only known at run time."""
    constants = [bound.constant for arguments in view.inputs.values() for bound in arguments]
    # Up to iOS 17 the arguments of `constexpr_*` are attributes.
    constants += [value for name, value in view.op.attributes.items() if name != "name"]
    known = tuple(c for c in constants if c is not None)
    return known if len(known) == len(constants) else None


def effort_of(source: Constant) -> int:
    """Returns the bytes that reading a constant computes; 0 for one that is not derived from others."""
    if not isinstance(source.data, Derived):
        return 0
    return source.data.effort_bytes or _bytes(source.type)


def _roots(source: Constant) -> Iterator[Constant]:
    """Yields the constants in the file from which a constant is derived, or the constant itself."""
    if isinstance(source.data, Derived) and source.data.effort_bytes:
        yield from source.data.sources
    else:
        yield source


def _not_remembered(compute: Callable[[], Array]) -> Callable[[], Array]:
    return compute


def _bytes(type_: ValueType) -> int:
    """The size of a tensor's unpacked elements."""
    if not isinstance(type_, TensorType):
        return 0
    return (type_.elements or 0) * type_.dtype.numpy.itemsize


def _elements(source: Constant) -> int:
    return (source.type.elements or 0) if isinstance(source.type, TensorType) else 0


def _as_list(result: Array | Sequence[Array]) -> Sequence[Array]:
    return [result] if isinstance(result, np.ndarray | np.generic) else result
