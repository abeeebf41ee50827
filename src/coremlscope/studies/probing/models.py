"""From an expression to models of single layers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from coremlscope.base.errors import UsageError
from coremlscope.base.units import shown
from coremlscope.model.ir import DType, Model, TensorType
from coremlscope.studies.probing.building import LayerBuilder
from coremlscope.studies.probing.expression import OptionValue, Probe, describe_value
from coremlscope.studies.probing.layers import KINDS, LayerKind, Options

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


def check_probe(probe: Probe) -> Probe:
    """Returns an expression with the usual names of its kind and options.

    Raises:
        UsageError: There is no such kind or option.
    """
    name = _KINDS.get(probe.kind, probe.kind)
    kind = KINDS.get(name)
    if kind is None:
        known = sorted({*KINDS, *_KINDS})
        raise UsageError(
            f"there is no kind of layer {shown(probe.kind)!r}",
            _suggest(probe.kind, known) or "`coremlscope probe --list` lists them",
        )
    known = ["shape", *_COMMON, *kind.options]
    options = {}
    for given, values in probe.options.items():
        option = given if given in known else _OPTIONS.get(given, given)
        if option not in known:
            raise UsageError(
                f"{name} has no option {shown(given)!r}",
                _suggest(given, known) or f"its options are {', '.join(known)}",
            )
        if option in options:
            raise UsageError(f"the option {option!r} is given twice", "leave one of the two out")
        options[option] = values
    return Probe(name, options)


def build_layer(kind: str, given: Mapping[str, OptionValue]) -> Model:
    """Builds a model of one layer.

    Args:
        kind: The kind of layer.
        given: Options, checked by `check_probe`; the others have their defaults.

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
    return builder.model(results, label_of(kind, given))


def label_of(kind: str, options: Mapping[str, OptionValue]) -> str:
    """Returns an expression for one layer: `conv(dilations=4)`."""
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
