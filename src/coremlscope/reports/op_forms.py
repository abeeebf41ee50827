"""The form of convolutions, poolings and linear layers in a few signs: `3×3 s2 p1 g96 96→192`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from coremlscope.results.operations import OpTable

_SIZES = re.compile(r"\[([\d, ]+)\]")
_POOLS = ("avg_pool", "l2_pool", "max_pool")


def op_forms(ops: OpTable) -> Iterator[str]:
    """Yields the form of each operation: the kernel, strides, padding, dilations, groups and channels.

    Strides and dilations of 1, no padding and a single group are left out; padding that differs between sides
    is in the order of the file: the start and the end of each dimension.
    """
    details = ops.details
    types = [type_ for outputs in ops.outputs for type_ in outputs]
    weights = [details.weights.kinds[kind].type for kind in details.weights.kind]
    for row, type_ in enumerate(ops.type):
        number = details.signature[row] if row < len(details.signature) else -1
        if number < 0 or not (type_ in ("conv", "conv_transpose", "linear") or type_ in _POOLS):
            yield ""
            continue
        signature = details.signatures[number]
        attributes = dict(signature.attributes)
        read = dict(zip(signature.parameters, details.arguments[row], strict=False))
        place = read.get("weight")
        text = attributes.get("weight", "")
        if isinstance(place, int):
            text = weights[-1 - place] if place < 0 else types[place]
        yield " ".join(_parts(type_, _numbers(text), attributes))


def _parts(type_: str, weight: Sequence[int], attributes: Mapping[str, str]) -> Iterator[str]:
    kernel = weight[2:] if weight else _numbers(attributes.get("kernel_sizes", ""))
    if type_ == "linear":
        if len(weight) == 2:
            yield f"{weight[1]}→{weight[0]}"
        return
    if kernel:
        yield _joined(kernel)
    for letter, name in (("s", "strides"), ("d", "dilations")):
        values = _numbers(attributes.get(name, ""))
        if any(value != 1 for value in values):
            yield f"{letter}{_joined(values, equal=True)}"
    padding = attributes.get("pad_type", "").strip('"')
    values = _numbers(attributes.get("pad", ""))
    if padding.startswith("same"):
        yield "same"
    elif padding in ("custom", "") and any(values):
        yield f"p{_joined(values, equal=True, sign=',')}"
    groups = int(attributes.get("groups", "1")) if attributes.get("groups", "1").isdecimal() else 1
    if groups > 1:
        yield f"g{groups}"
    if len(weight) > 1:
        first, second = weight[:2]
        yield f"{first}→{second * groups}" if type_ == "conv_transpose" else f"{second * groups}→{first}"


def _joined(values: Sequence[int], *, equal: bool = False, sign: str = "×") -> str:
    return str(values[0]) if equal and len(set(values)) == 1 else sign.join(map(str, values))


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a list, or of the shape of a type; empty if a size is not known."""
    found = _SIZES.search(text)
    return tuple(int(part) for part in found[1].split(",") if part.strip()) if found else ()
