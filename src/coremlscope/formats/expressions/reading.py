"""From an expression to models of single layers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.base.scratch import new_scratch
from coremlscope.base.units import shown
from coremlscope.formats.expressions.building import LayerBuilder
from coremlscope.formats.expressions.kinds import KINDS, LayerKind, Options
from coremlscope.formats.expressions.parsing import (
    Expression,
    OptionValue,
    combinations,
    describe_value,
    parse,
)
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model.ir import DType, Model, TensorType

#: Other names of kinds and options.
_KINDS: Mapping[str, str] = {
    "attention": "sdpa",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv3d": "conv",
    "deconv": "conv_transpose",
    "dense": "linear",
    "depthwise_conv": "depthwise",
    "scaled_dot_product_attention": "sdpa",
    "slice": "slice_by_size",
}
_OPTIONS: Mapping[str, str] = {
    "dilation": "dilations",
    "filters": "channels",
    "kernel_size": "kernel",
    "kernels": "kernel",
    "out": "channels",
    "out_channels": "channels",
    "padding": "pad",
    "strides": "stride",
}
_DTYPES = {"fp16": DType.FP16, "fp32": DType.FP32, "float16": DType.FP16, "float32": DType.FP32}
_COMMON: Mapping[str, OptionValue] = {"dtype": "fp16", "repeat": 1}
_MOST_REPEATS = 100


def list_layers(path: Path) -> list[Path]:
    """Returns the expression of each layer that an expression describes, at most 1,000.

    Raises:
        UsageError: The expression is wrong.
    """
    asked = _check(parse(path.name))
    return [Path(_label(asked.kind, options)) for options in combinations(asked)]


def read_expression(path: Path) -> Model:
    """Reads the model of one layer.

    Raises:
        UsageError: The expression is wrong, or describes several layers.
    """
    asked = _check(parse(path.name))
    first, *others = combinations(asked)
    label = _label(asked.kind, first)
    if others:
        raise UsageError(
            f"{shown(path.name)} describes {len(others) + 1} layers",
            f"name one, such as {label!r}; plan, estimate and compare take several",
        )
    return msgspec.structs.replace(build_layer(asked.kind, first), source=Path(label))


def write_expression(path: Path) -> Path:
    """Writes the model of one layer as a package into a temporary folder of this process.

    Raises:
        UsageError: The expression is wrong, or describes several layers.
        OutputError: The package cannot be written.
    """
    model = read_expression(path)
    package = new_scratch() / f"{model.source}.mlpackage"
    write_mlpackage(model, package)
    return package


def _check(asked: Expression) -> Expression:
    """Returns an expression with the usual names of its kind and options."""
    name = _KINDS.get(asked.kind, asked.kind)
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(
            f"there is no such file, and no kind of layer {shown(asked.kind)!r}",
            _suggest(asked.kind, [*KINDS, *_KINDS]) or "name a model, or a layer such as conv(kernel=3)",
        )
    known = ["shape", *_COMMON, *kind.options]
    options = {}
    for given, values in asked.options.items():
        option = given if given in known else _OPTIONS.get(given, given)
        if option not in known:
            raise UsageError(
                f"{name} has no option {shown(given)!r}",
                _suggest(given, known) or f"its options are {', '.join(known)}",
            )
        if option in options:
            raise UsageError(f"the option {option!r} is given twice", "leave one of the two out")
        options[option] = values
    return Expression(name, options)


def build_layer(kind: str, given: Mapping[str, OptionValue]) -> Model:
    """Builds a model of one layer.

    Args:
        kind: The kind of layer.
        given: Options, the others have their defaults.

    Raises:
        UsageError: An option has a value of the wrong kind, or the options contradict each other.
    """
    row = KINDS[kind]
    options = Options(kind, {"shape": row.shape, **_COMMON, **row.options, **given})
    dtype = _DTYPES[options.word("dtype", *_DTYPES)]
    repeat = options.integer("repeat")
    if not 1 <= repeat <= _MOST_REPEATS:
        raise UsageError(f"a layer cannot be repeated {repeat} times", f"give 1 to {_MOST_REPEATS}")
    builder = LayerBuilder(dtype)
    value = builder.input("x", options.sizes("shape"), row.takes)
    results = [value]
    for _ in range(repeat):
        _check_next(row, results[0].type, value.type)
        results = row.build(builder, results[0], options)
    return builder.model(results, _label(kind, given))


def _label(kind: str, options: Mapping[str, OptionValue]) -> str:
    given = ", ".join(f"{name}={describe_value(value)}" for name, value in options.items())
    return f"{kind}({given})"


def _check_next(row: LayerKind, found: object, first: object) -> None:
    is_same = isinstance(found, TensorType) and isinstance(first, TensorType) and found.dtype is first.dtype
    if not is_same:
        raise UsageError(
            f"{row.name} cannot be repeated: its result has another element type than its input",
            "leave repeat out",
        )


def _suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(near)}?" if near else ""
