"""Finds normalizations written as a reduction, a root and a division: on a device they are one kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from coremlscope.model.ir import StateType, TensorType, Value
from coremlscope.ops import has_traits
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundValue, OpView

#: Operations between the reduction and the division, on one number per row.
_ON_ROWS = (
    *("add", "mul", "real_div", "maximum", "clip", "sqrt", "rsqrt", "pow", "inverse"),
    *("tile", "reshape", "expand_dims", "squeeze"),
)
_SQUARES = frozenset({"square", "pow", "mul", "abs"})


def find_norms(views: Sequence[OpView]) -> Mapping[str, tuple[str, ...]]:
    """Finds the normalizations among operations.

    Args:
        views: A graph's operations in order.

    Returns:
        For each normalization, by the id of its last operation (the division): the ids of all, in order.
    """
    finder = _Finder(views)
    found = {}
    for view in views:
        if view.op.type in ("mul", "real_div"):
            ids = finder.match(view)
            if ids:
                found[view.op.id] = tuple(sorted(ids, key=finder.order.__getitem__))
    return found


def over_maps(view: OpView) -> bool:
    """True where an operation reduces or normalizes over several axes: whole maps instead of rows."""
    type_ = view.bound("x").type if view.has("x") else None
    if not isinstance(type_, TensorType) or type_.shape is None:
        return False
    rank = len(type_.shape)
    if view.has("axes") and not view.is_known("axes"):
        return False
    axes = {axis % rank for axis in view.integers("axes", range(rank))} if rank else set()
    return sum(type_.shape[axis] != 1 for axis in axes) > 1


def tensors_of(view: OpView) -> list[tuple[str, int]]:
    """Names and sizes of the values that an operation reads at run time, each once."""
    return view.remember(tensors_of, lambda: _list_tensors(view))


def _list_tensors(view: OpView) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for parameter, given in view.op.inputs.items():
        for argument, bound in zip(given, view.inputs[parameter], strict=True):
            if isinstance(argument, Value) and bound.constant is None:
                found[argument.name] = size_of(bound)
    return list(found.items())


def size_of(value: BoundValue) -> int:
    """Returns the elements of a tensor or state; 0 where they are not known before run time."""
    type_ = value.type.wrapped if isinstance(value.type, StateType) else value.type
    return (type_.elements or 0) if isinstance(type_, TensorType) else 0


def _names(view: OpView) -> list[str]:
    """Names of the values that an operation reads at run time."""
    return [
        argument.name
        for parameter, given in view.op.inputs.items()
        for argument, bound in zip(given, view.inputs[parameter], strict=True)
        if isinstance(argument, Value) and bound.constant is None
    ]


def _operands(view: OpView) -> list[str]:
    """The names of `x` and `y` where both are only known at run time."""
    given = [view.op.inputs.get(parameter, ()) for parameter in ("x", "y")]
    names = [a.name for arguments in given for a in arguments if isinstance(a, Value)]
    return names if set(names) == set(_names(view)) else []


class _Finder:
    def __init__(self, views: Sequence[OpView]) -> None:
        self.made = {value.name: view for view in views for value in view.op.outputs}
        self.order = {view.op.id: place for place, view in enumerate(views)}
        self.users: dict[str, int] = defaultdict(int)
        for view in views:
            for name, _ in tensors_of(view) if view.inputs else ():
                self.users[name] += 1

    def root(self, name: str) -> str:
        """Returns the value before reshapes."""
        while (view := self.made.get(name)) is not None and has_traits(view.op.type, Trait.RESHAPE):
            name = _names(view)[0]
        return name

    def match(self, last: OpView) -> list[str]:
        """The operations of the normalization that ends here; empty where none does."""
        names = _operands(last)
        if len(names) != 2:
            return []
        orders = [names] if last.op.type == "real_div" else [names, names[::-1]]
        for subject, scale in orders:
            ids = self.reduction(self.root(subject), scale)
            if ids:
                return [*ids, *self.centring(self.root(subject)), last.op.id]
        return []

    def reduction(self, subject: str, scale: str) -> list[str]:
        """The operations that compute the scale from the subject; empty where it is not a norm."""
        ids: list[str] = []
        while (view := self.made.get(scale)) is not None and self.users[scale] == 1:
            names = _names(view)
            ids.append(view.op.id)
            if has_traits(view.op.type, Trait.SUMMATION):
                source = self.made.get(names[0])
                if self.root(names[0]) == subject:
                    return ids
                if source is not None and source.op.type in _SQUARES:
                    same = {self.root(name) for name in _names(source)} == {subject}
                    return [*ids, source.op.id] if same and self.users[names[0]] == 1 else []
                return []
            if view.op.type not in _ON_ROWS or len(names) != 1:
                return []
            scale = names[0]
        return []

    def centring(self, subject: str) -> list[str]:
        """The operations that subtract the mean first, if any."""
        view = self.made.get(subject)
        if view is None or view.op.type != "sub" or len(_operands(view)) != 2:
            return []
        value, mean = _operands(view)
        reduce = self.made.get(self.root(mean))
        if reduce is None or reduce.op.type != "reduce_mean" or self.users[mean] != 1:
            return []
        return [reduce.op.id, view.op.id] if self.root(_names(reduce)[0]) == self.root(value) else []
