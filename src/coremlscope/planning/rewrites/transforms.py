"""The transforms that make variants: their names, and which of them suit a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.formats.packaging import has_layers, spec_of
from coremlscope.model.features.names import nearest
from coremlscope.model.ir import (
    ArrayFeature,
    Content,
    DType,
    ImageFeature,
    Model,
    TensorType,
    kind_with_article,
)
from coremlscope.planning.advice import Remark, bind_default_function, find_remarks
from coremlscope.planning.rewrites.clips import with_clips
from coremlscope.planning.rewrites.pictures import Scaling, why_no_images

_JOIN = "+"
_BITS = (8, 6, 4, 3, 2, 1)
_LARGEST_GROUP = 4096
#: Elements of weights that coremltools clusters by itself where they are fp16.
_LARGE = 10_000
_TARGETS = (15, 16, 17, 18, 26)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One transform of coremltools.

    Attributes:
        kind: What it does: its name, or the word in front of a number.
        bits: Bits of an index or a number; for `target` the version of iOS.
        group: Channels that share a table, or elements that share a scale; 0 for a table per tensor and a
            scale per channel.
        percent: The share of weights that becomes zero.
        per_tensor: Whether there is one scale for the whole weight.
        scaling: What arrays hold that become images; empty for pixels.
    """

    kind: str
    bits: int = 0
    group: int = 0
    percent: float = 0.0
    per_tensor: bool = False
    scaling: Scaling | Literal[""] = ""

    @property
    def title(self) -> str:
        """The step in words."""
        return _PLAIN.get(self.kind) or _TITLES[self.kind](self)


class Transform(msgspec.Struct, frozen=True):
    """Steps that are applied one after the other.

    Attributes:
        name: The name on the command line: `prune-50+palettize-4`.
        steps: The steps. Where two compress weights, the second one compresses the result of the first.
    """

    name: str
    steps: tuple[Step, ...]

    @property
    def title(self) -> str:
        """The transform in words."""
        return ", then ".join(step.title for step in self.steps)

    def has(self, *kinds: str) -> bool:
        """Returns whether a step is of one of these kinds."""
        return any(step.kind in kinds for step in self.steps)


def _title_of_table(step: Step) -> str:
    each = f"a table for every {step.group} channels" if step.group else "a table for each weight"
    return f"weights as {step.bits}-bit indices, {each}"


def _title_of_scale(step: Step) -> str:
    each = f"block of {step.group}" if step.group else "weight" if step.per_tensor else "channel"
    return f"weights as int{step.bits}, a scale for each {each}"


_SCALINGS: Mapping[Scaling | Literal[""], str] = {
    "": "pictures as images instead of arrays of pixels",
    "unit": "pictures as images instead of arrays of 0 … 1",
    "imagenet": "pictures as images instead of arrays that are normalized as for ImageNet",
}
#: Transforms without a number, and what they do.
_PLAIN: Mapping[str, str] = {
    "fp16": "computed in fp16",
    "fp16-io": "fp16 inputs and outputs",
    "w8a8": "weights and activations as int8",
    "static": "fixed shapes",
    "enumerated": "enumerated shapes",
    "tidy": "without redundant moves, casts, copies and weights",
    "palettize-unique": "weights of few values as indices, without loss",
    "without-needless-outputs": "without outputs that repeat others",
    "linear-as-conv": "linear layers as 1×1 convolutions over (B, C, 1, S)",
    "relu6": "each ReLU6 as one layer",
}
_TITLES: Mapping[str, Callable[[Step], str]] = {
    "target": lambda step: f"operations of iOS {step.bits}",
    "palettize": _title_of_table,
    "quantize": _title_of_scale,
    "prune": lambda step: f"the smallest {step.percent:g} % of weights become zero",
    "image-inputs": lambda step: _SCALINGS[step.scaling],
}


def _table(match: re.Match[str]) -> Step | None:
    bits, group = int(match[1]), int(match[2] or 0)
    return Step(kind="palettize", bits=bits, group=group) if bits in _BITS and _is_group(match[2]) else None


def _scale(match: re.Match[str]) -> Step | None:
    per_tensor = match[2] == "-tensor"
    step = Step(kind="quantize", bits=int(match[1]), group=int(match[3] or 0), per_tensor=per_tensor)
    return step if _is_group(match[3]) else None


def _is_group(text: str | None) -> bool:
    return text is None or 1 <= int(text) <= _LARGEST_GROUP


def _images(match: re.Match[str]) -> Step:
    scaling: Scaling | Literal[""] = "unit" if match[1] == "unit" else "imagenet" if match[1] else ""
    return Step(kind="image-inputs", scaling=scaling)


def _prune(match: re.Match[str]) -> Step | None:
    percent = float(match[1])
    return Step(kind="prune", percent=percent) if 0 < percent < 100 else None


def _target(match: re.Match[str]) -> Step | None:
    return Step(kind="target", bits=int(match[1])) if int(match[1]) in _TARGETS else None


#: A pattern of names, and what makes a step of it.
_GRAMMAR: tuple[tuple[str, Callable[[re.Match[str]], Step | None]], ...] = (
    ("|".join(_PLAIN), lambda match: Step(kind=match[0])),
    (r"ios(\d{1,2})", _target),
    (r"palettize-(\d)(?:-group-(\d{1,5}))?", _table),
    (r"int(8|4)(-tensor|-block-(\d{1,5}))?", _scale),
    (r"prune-(\d{1,2}(?:\.\d{1,2})?)", _prune),
    (r"image-inputs(?:-(unit|imagenet))?", _images),
)


def parse_transform(name: str) -> Transform:
    """Returns the transform of a name.

    Raises:
        UsageError: There is none of that name.
    """
    steps = []
    for part in name.split(_JOIN):
        found = next(
            (make(match) for pattern, make in _GRAMMAR if (match := re.fullmatch(pattern, part))), None
        )
        if found is None:
            near = nearest(part, _PROGRAM)
            hint = f"did you mean {near}? " if near else ""
            known = ", ".join((*_PLAIN, "palettize-4", "int4-block-32", "prune-50", "ios18", "image-inputs"))
            hint += f"use {known}; several joined by +: prune-50+palettize-4"
            raise UsageError(f"unknown transform {part[:40]!r}", hint)
        steps.append(found)
    return Transform(name, tuple(steps))


#: Transforms that are tried where none is named.
_COMPRESSIONS = (
    *("palettize-8", "palettize-6", "palettize-4", "palettize-3", "palettize-2", "palettize-1"),
    *("palettize-4-group-16", "int8", "int4", "int8-block-32", "int4-block-32", "prune-50", "prune-75"),
    *("prune-50+palettize-4", "prune-50+int8", "palettize-4+int8-tensor", "ios18", "image-inputs"),
)
_PROGRAM = ("fp16", "fp16-io", *_COMPRESSIONS, *(name for name in _PLAIN if not name.startswith("fp16")))


def default_transforms(model: Model, *, has_data: bool) -> tuple[Transform, ...]:
    """Returns the transforms that suit a model.

    Large float32 weights are made fp16 before they are clustered: coremltools clusters fp16 weights by
    an exact algorithm, others with scikit-learn, which takes ten times as long for 256 values.

    Args:
        model: The model.
        has_data: Whether real inputs are given: quantised activations need them.
    """
    is_float32 = model.content.is_typed and _has_fp32_weights(model.content)
    is_float32 = is_float32 and not why_not(parse_transform("fp16"), model)
    found = []
    for name in _PROGRAM:
        one = parse_transform(name)
        if is_float32 and one.has("palettize"):
            one = parse_transform(f"fp16{_JOIN}{name}")
        if not why_not(one, model) and (has_data or not one.has("w8a8")):
            found.append(one)
    return tuple(found)


def why_not(transform: Transform, model: Model) -> str:
    """Returns why a transform does not suit a model, as a sentence; empty if it does."""
    for step in transform.steps:
        reason = _why_not(step, model)
        if reason:
            return reason
    return ""


def _why_not(step: Step, model: Model) -> str:
    program = model.content
    if not program.functions:
        return f"coremltools transforms ML Programs and neural networks, not {kind_with_article(model.kind)}"
    if program.is_network and not _suits_networks(step):
        return "coremltools applies this to ML Programs only, not neural networks"
    if program.is_network and step.kind not in _FOUND:
        return ""
    if step.kind == "target" and model.spec_version >= _specification(step.bits):
        return f"the model needs iOS {step.bits} or later already"
    if step.kind in _FOUND and not any(one.transform == step.kind for one in _remarks(model)):
        return "no finding on the model asks for it"
    if step.kind == "image-inputs":
        return why_no_images(model, step.scaling or None)
    applies, otherwise = _APPLIES.get(step.kind, (None, ""))
    return otherwise if applies and not applies(model) else ""


def _suits_networks(step: Step) -> bool:
    """Returns whether coremltools applies a step to neural networks."""
    if step.kind == "palettize":
        return not step.group and step.bits != 3
    is_linear = step.kind == "quantize" and step.bits == 8 and not step.group and not step.per_tensor
    return step.kind in ("fp16", "relu6") or is_linear


def _remarks(model: Model) -> Sequence[Remark]:
    """Returns what there is to say about a program; nothing where its function cannot be bound."""
    try:
        return find_remarks(bind_default_function(model))
    except CoremlscopeError:
        return ()


#: Transforms that only findings ask for.
_FOUND = frozenset(
    {"tidy", "palettize-unique", "without-needless-outputs", "image-inputs", "linear-as-conv"} | {"relu6"}
)

#: Whether a kind of step applies to a program, and what is said where it does not.
_APPLIES: Mapping[str, tuple[Callable[[Model], object], str]] = {
    "fp16": (lambda model: _computes_in_fp32(model.content), "the model computes in fp16 already"),
    "fp16-io": (lambda model: _has_fp32_edges(model), "no input or output is a float32 array"),
    "static": (lambda model: flexible_inputs(model), "no input has a flexible shape"),
    "enumerated": (lambda model: flexible_inputs(model), "no input has a flexible shape"),
    "relu6": (
        lambda model: model.content.is_network and has_layers(model) and with_clips(spec_of(model))[1],
        "only networks are changed so, whose bounds are layers of their own",
    ),
}


def _specification(ios: int) -> int:
    """Returns the version of the specification of a version of iOS (source: coremltools' `target`)."""
    return 10 if ios == 26 else ios - 9


def _computes_in_fp32(program: Content) -> bool:
    ops = [op for function in program.functions.values() for op in function.graph.walk()]
    types = [
        getattr(value.type, "dtype", None)
        for op in ops
        if op.constant is None and op.type != "cast" and not op.type.startswith("constexpr_")
        for value in op.outputs
    ]
    return DType.FP32 in types


def _has_fp32_weights(program: Content) -> bool:
    """Returns whether weights that coremltools clusters are float32."""
    types = (
        op.constant.type
        for function in program.functions.values()
        for op in function.graph.walk()
        if op.constant is not None
    )
    return any(
        isinstance(type_, TensorType) and type_.dtype is DType.FP32 and (type_.elements or 0) >= _LARGE
        for type_ in types
    )


def _has_fp32_edges(model: Model) -> bool:
    main = model.description.main
    return any(
        isinstance(f.type, ArrayFeature) and f.type.dtype == DType.FP32 for f in (*main.inputs, *main.outputs)
    )


def flexible_inputs(model: Model) -> Sequence[str]:
    """Returns the inputs with flexible shapes."""
    return [
        feature.name
        for feature in model.description.main.inputs
        if isinstance(feature.type, (ArrayFeature, ImageFeature)) and feature.type.flexibility is not None
    ]
