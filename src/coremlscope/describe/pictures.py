"""Image outputs with values from 0 to 1, or -1 to 1: black on a device, whose pixels are 0 to 255."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from coremlscope.model.ir import Argument, Constant, Function, Graph, ImageFeature, Model, Op

#: The least and the largest value that a result can have.
_Range = tuple[float, float]
#: An image whose largest value is at most this is taken for one of unscaled values.
_DARK = 2.0
#: Constants with more elements are not read.
_MOST_ELEMENTS = 4096
#: Operations up to which the producers of an output are followed.
_DEPTH = 64
#: Operations whose results are elements of the named parameter, or between them.
_PASS_THROUGH = {
    **dict.fromkeys(
        (
            *("avg_pool", "cast", "crop", "expand_dims", "flatten2d", "identity", "max_pool", "reduce_max"),
            *(
                "reduce_mean",
                "reduce_min",
                "reshape",
                "resize_bilinear",
                "resize_nearest_neighbor",
                "reverse",
            ),
            *("slice_by_index", "slice_by_size", "squeeze", "tile", "transpose", "upsample_bilinear"),
            *("upsample_nearest_neighbor", "pixel_shuffle", "depth_to_space", "space_to_depth", "split"),
        ),
        ("x",),
    ),
    "concat": ("values",),
    "stack": ("values",),
    "select": ("a", "b"),
}
_FIXED: Mapping[str, _Range] = {
    "sigmoid": (0, 1),
    "sigmoid_hard": (0, 1),
    "softmax": (0, 1),
    "tanh": (-1, 1),
    "softsign": (-1, 1),
    "sin": (-1, 1),
    "cos": (-1, 1),
    "erf": (-1, 1),
}


def describe_dark_pictures(model: Model) -> Iterator[str]:
    """Yields a clause for each image output of a program, no pipeline, that ends with values of at most 1."""
    functions = model.content.functions
    for name, interface in model.description.functions.items() if functions else ():
        function = functions.get(name) or next(iter(functions.values()))
        images = [
            feature.name
            for feature in interface.outputs
            if isinstance(feature.type, ImageFeature) and feature.type.color_space != "GRAYSCALE_FLOAT16"
        ]
        yield from _find(function, images) if images else ()


def _find(function: Function, images: list[str]) -> Iterator[str]:
    values = _Values(function.graph)
    for value in function.graph.outputs:
        found = values.range(value) if value.name in images else None
        if found is None or found[1] > _DARK or not -_DARK <= found[0] < found[1]:
            continue
        maker = values.computing(value.name)
        low, high = found
        scale = f"multiply by {255 / (high - low):g} and add {-low * 255 / (high - low):g}"
        by, scale = maker.type if maker else "the program", "multiply by 255" if low >= 0 else scale
        yield (
            f"{value.name} is an image, and {by} gives values from {low:g} to {high:g}: it is black on a"
            f" device, whose pixels are 0 to 255 ({scale})"
        )


class _Values:
    """The ranges of the results of a graph, as far as its last operations determine them."""

    def __init__(self, graph: Graph) -> None:
        self.makers: dict[str, Op] = {
            value.name: op for op in graph.ops if op.type != "const" for value in op.outputs
        }
        self.constants: dict[str, Constant] = {
            op.outputs[0].name: op.constant for op in graph.ops if op.constant is not None and op.outputs
        }

    def computing(self, name: str) -> Op | None:
        """Returns the operation that computed a value which others pass on."""
        op = self.makers.get(name)
        for _ in range(_DEPTH):
            passed = () if op is None else _PASS_THROUGH.get(op.type, ())
            given = op.inputs.get(passed[0], ()) if op is not None and len(passed) == 1 else ()
            if len(given) != 1 or isinstance(given[0], Constant) or given[0].name not in self.makers:
                break
            op = self.makers[given[0].name]
        return op

    def range(self, argument: Argument, depth: int = _DEPTH) -> _Range | None:
        """Returns the range of a value; None if it is not known."""
        constant = argument if isinstance(argument, Constant) else self.constants.get(argument.name)
        if constant is not None:
            return _range_of(constant)
        op = None if isinstance(argument, Constant) else self.makers.get(argument.name)
        if op is None or depth == 0:
            return None
        if op.type in _FIXED:
            return _FIXED[op.type]
        if op.type in _PASS_THROUGH:
            arguments = (a for name in _PASS_THROUGH[op.type] for a in op.inputs.get(name, ()))
            found = [self.range(a, depth - 1) for a in arguments]
            known = [one for one in found if one is not None]
            if not known or len(known) < len(found):
                return None
            return min(low for low, _ in known), max(high for _, high in known)
        return self._computed(op, depth - 1)

    def _computed(self, op: Op, depth: int) -> _Range | None:
        def given(name: str) -> _Range | None:
            arguments = op.inputs.get(name, ())
            return self.range(arguments[0], depth) if len(arguments) == 1 else None

        x, y = given("x"), given("y")
        alpha, beta = given("alpha"), given("beta")
        match op.type:
            case "clip" if alpha is not None and beta is not None:
                return alpha[0], beta[1]
            case "relu6":
                return 0, 6
            case "relu" if x is not None:
                return max(x[0], 0), max(x[1], 0)
            case "linear_activation" if x is not None and alpha is not None and beta is not None:
                return _combine(lambda a, b: a + b, _combine(lambda a, b: a * b, x, alpha), beta)
            case "scaled_tanh" if alpha is not None:
                most = max(map(abs, alpha))
                return -most, most
            case "real_div" if y is None or y[0] <= 0 <= y[1]:
                return None
        function = _ARITHMETIC.get(op.type)
        if function is not None and x is not None and y is not None:
            return _combine(function, x, y)
        return self._bounded(op.type, x, y)

    @staticmethod
    def _bounded(op_type: str, x: _Range | None, y: _Range | None) -> _Range | None:
        """Returns the range of a minimum or maximum of which one side is not known."""
        known = x or y
        if known is None or op_type not in ("minimum", "maximum"):
            return None
        return (-math.inf, known[1]) if op_type == "minimum" else (known[0], math.inf)


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "real_div": lambda a, b: a / b,
    "minimum": min,
    "maximum": max,
}


def _combine(function: Callable[[float, float], float], x: _Range | None, y: _Range | None) -> _Range | None:
    """Returns the range of a function that is monotonic in each argument."""
    if x is None or y is None:
        return None
    ends = [function(a, b) for a in x for b in y]
    return None if any(map(math.isnan, ends)) else (min(ends), max(ends))


def _range_of(constant: Constant) -> _Range | None:
    elements = getattr(constant.type, "elements", None)
    dtype = getattr(constant.type, "dtype", None)
    if dtype is None or not (dtype.is_float or dtype.is_int) or not constant.is_available:
        return None
    if elements is None or not 0 < elements <= _MOST_ELEMENTS:
        return None
    array = constant.numpy()
    return float(array.min()), float(array.max())
