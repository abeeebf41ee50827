"""Findings on inputs and outputs of a model: images, flexible shapes, redundant outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from coremlscope.base.errors import MissingWeightsError
from coremlscope.base.units import shown
from coremlscope.model.ir import ArrayFeature, DType, Feature, ImageFeature, StateType, Value
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView
from coremlscope.planning.advice.rule import (
    AdviceRule,
    Change,
    Found,
    FunctionView,
    arguments,
    has_trait,
    listed,
    plural,
    shape_of,
)
from coremlscope.planning.patterns.publications import APPLE_FAQ, MOBIUS

_CANNOT_TELL = (CannotInfer, CannotLower, MissingWeightsError, *CONTRADICTIONS)
#: Names of inputs that hold a picture.
_PICTURE = re.compile(r"image|img|pict|photo|pixel|frame|rgb|bgr", re.IGNORECASE)
_SMALLEST_SIDE = 16
#: Bytes of a pixel of an image: blue, green, red and alpha.
_PIXEL_BYTES = 4
#: Operations between an input and the first layer that prepare a picture.
_PREPARING = frozenset({"mul", "add", "sub", "real_div", "cast", "pad", "identity"})
_CONTROL = Trait.STATE_WRITE | Trait.CONTROL_FLOW | Trait.LIST


def _picture(function: FunctionView, feature: Feature) -> tuple[int, int] | None:
    """Returns height and width of an array that holds a picture; None for other inputs."""
    type_ = feature.type
    if not isinstance(type_, ArrayFeature) or type_.flexibility is not None:
        return None
    if type_.dtype not in (DType.FP16, DType.FP32, DType.FP64) or len(type_.shape) not in (3, 4):
        return None
    if len(type_.shape) == 4 and type_.shape[0] != 1:
        return None
    shape = type_.shape[-3:]
    channels, height, width = shape if shape[0] in (1, 3) else (shape[2], *shape[:2])
    if min(height, width) < _SMALLEST_SIDE or channels not in (1, 3):
        return None
    is_named = bool(_PICTURE.search(feature.name))
    is_seen = channels == 3 and _is_convolved(function, feature.name)
    return (height, width) if is_named or is_seen else None


def _is_convolved(function: FunctionView, name: str) -> bool:
    """True where the first layer over an input is a two-dimensional convolution over three channels."""
    seen = set()
    while name not in seen:
        seen.add(name)
        readers = function.readers.get(name, ())
        if len(readers) != 1:
            return False
        reader = readers[0]
        if has_trait(reader, Trait.CONVOLUTION) and reader.has("weight"):
            weight = shape_of(reader, "weight") or ()
            return len(weight) == 4 and weight[1] == 3 and min(weight[2:]) > 1
        if reader.op.type not in _PREPARING and not has_trait(reader, Trait.TRANSPOSITION | Trait.RESHAPE):
            return False
        name = reader.op.outputs[0].name
    return False


def find_pictures(function: FunctionView) -> list[tuple[Feature, int, int]]:
    """Returns the arrays that hold pictures, with their heights and widths."""
    found = ((feature, _picture(function, feature)) for feature in function.description.inputs)
    return [(feature, *size) for feature, size in found if size is not None]


def _array_images(function: FunctionView) -> Found | None:
    found = find_pictures(function)
    if not found:
        return None
    names = ", ".join(shown(feature.name) for feature, *_ in found[:3])
    saved = 0
    for feature, height, width in found:
        assert isinstance(feature.type, ArrayFeature)
        given = _converted_bytes(feature)
        saved += given - _PIXEL_BYTES * height * width if given else 0
    what = "input is a picture" if len(found) == 1 else "inputs are pictures"
    return Found(
        text=f"{len(found)} {what} but declared as an array, which the app has to fill from pixels: {names}.",
        change=Change(converted_bytes=max(saved, 0)),
    )


def _picture_preparation(function: FunctionView) -> Found | None:
    """Finds operations that put a picture's channels in order, which the type of an image input does."""
    names = [feature.name for feature, *_ in find_pictures(function)]
    names += [
        feature.name for feature in function.description.inputs if isinstance(feature.type, ImageFeature)
    ]
    found = [view for name in names for view in _arranging(function, name)]
    if not found:
        return None
    what = "arranges" if len(found) == 1 else "arrange"
    return Found(
        text=f"{plural(len(found), 'operation')} {what} the axes or channels of a picture, which an image"
        f" input does by its type: {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(removed=frozenset(view.op.id for view in found)),
        transform="image-inputs" if all(view.op.type == "transpose" for view in found) else "",
    )


def _arranging(function: FunctionView, name: str) -> Iterator[OpView]:
    """Yields the operations behind an input that arrange axes or channels, up to the first layer."""
    seen: set[str] = set()
    while name not in seen and len(readers := function.readers.get(name, ())) == 1:
        seen.add(name)
        view = readers[0]
        if view.op.type == "transpose":
            try:
                perm = [axis % 4 for axis in view.integers("perm")]
            except _CANNOT_TELL:
                return
            if perm != [0, 3, 1, 2]:
                return
            yield view
        elif view.op.type == "reverse":
            if not _reverses_channels(view):
                return
            yield view
        elif view.op.type not in _PREPARING:
            return
        if not view.op.outputs:
            return
        name = view.op.outputs[0].name


def _reverses_channels(view: OpView) -> bool:
    shape = shape_of(view, "x")
    try:
        axes = view.integers("axes")
    except _CANNOT_TELL:
        return False
    return shape is not None and len(axes) == 1 and shape[axes[0]] == 3


def _flexible_shapes(function: FunctionView) -> Found | None:
    found = [
        feature
        for feature in function.description.inputs
        if getattr(feature.type, "flexibility", None) is not None
    ]
    if not found:
        return None
    names = ", ".join(shown(feature.name) for feature in found[:3])
    what = "input takes" if len(found) == 1 else "inputs take"
    return Found(
        text=f"{len(found)} {what} several shapes: {names}.",
        change=Change(has_fixed_shapes=True),
    )


def _unused_operations(function: FunctionView) -> Found | None:
    used = _used(function)
    found = [view for view in function.views if view.op.id not in used and function.is_authored(view)]
    if not found:
        return None
    what = "operation computes" if len(found) == 1 else "operations compute"
    return Found(
        text=f"{len(found)} {what} what nothing reads: {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(removed=frozenset(view.op.id for view in found)),
    )


def _used(function: FunctionView) -> set[str]:
    """Returns the ids of the operations whose results are needed, directly or by others."""
    # The operation that holds each nested one.
    views = function.bound.graph.walk()
    owners = {inner.op.id: view for view in views for block in view.blocks for inner in block.ops}
    waiting = [view for view in function.views if not view.op.outputs or has_trait(view, _CONTROL)]
    waiting += [function.makers[name] for name in function.returned if name in function.makers]
    used: set[str] = set()
    while waiting:
        view = waiting.pop()
        if view.op.id in used:
            continue
        used.add(view.op.id)
        names = {value.name for value in arguments(view)}
        waiting += [function.makers[name] for name in names if name in function.makers]
        owner = owners.get(view.op.id)
        if owner is not None:
            waiting.append(owner)
    return used


def _needless_outputs(function: FunctionView) -> Found | None:
    found = list(_needless(function))
    if not found:
        return None
    listing = "; ".join(f"{shown(name)} {why}" for name, why, _ in found[:3])
    copies = [view for _, _, views in found for view in views]
    names = {name for name, *_ in found}
    converted = sum(_converted_bytes(one) for one in function.description.outputs if one.name in names)
    what = "output tells" if len(found) == 1 else "outputs tell"
    return Found(
        text=f"{len(found)} {what} nothing that the app does not have already: {listing}.",
        ops=tuple(view.op.id for view in copies),
        change=Change(removed=frozenset(view.op.id for view in copies), converted_bytes=converted),
    )


def _converted_bytes(feature: Feature) -> int:
    """Returns the bytes of an array that is converted from half precision; 0 for others."""
    type_ = feature.type
    if not isinstance(type_, ArrayFeature) or type_.dtype == DType.FP16:
        return 0
    return math.prod(max(extent, 1) for extent in type_.shape) * type_.dtype.bits // 8


def _single_precision(function: FunctionView) -> Found | None:
    """Finds float32 inputs and outputs of a program in half precision: Core ML converts them each time."""
    if function.is_network or not _computes_in_half(function):
        return None
    pictures = {feature.name for feature, *_ in find_pictures(function)}
    given = (*function.description.inputs, *function.description.outputs)
    found = [(one.name, _single_bytes(one)) for one in given if one.name not in pictures]
    named = [name for name, nbytes in found if nbytes]
    if not named:
        return None
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    what = "input or output is" if len(named) == 1 else "inputs and outputs are"
    return Found(
        text=f"{len(named)} {what} converted to or from float16 in each prediction:"
        f" {', '.join(map(shown, named[:3]))}{more}.",
        change=Change(
            removed=frozenset(_casts_at_edges(function, named)),
            converted_bytes=sum(nbytes for _, nbytes in found),
        ),
    )


def _casts_at_edges(function: FunctionView, names: Sequence[str]) -> Iterator[str]:
    """Yields the ids of casts between float32 inputs or outputs and half precision."""
    for name in names:
        near = (*function.readers.get(name, ()), function.makers.get(name))
        yield from (view.op.id for view in near if view is not None and view.op.type == "cast")


def _computes_in_half(function: FunctionView) -> bool:
    types = (getattr(value.type, "dtype", None) for view in function.views for value in view.outputs)
    return DType.FP16 in types


def _single_bytes(feature: Feature) -> int:
    """Returns the bytes of what float16 could be declared for: float32 arrays and grayscale images."""
    match feature.type:
        case ArrayFeature(dtype=DType.FP32 | DType.FP64):
            return _converted_bytes(feature)
        case ImageFeature(width=width, height=height, color_space="GRAYSCALE"):
            return _PIXEL_BYTES * width * height
        case _:
            return 0


def find_needless_outputs(function: FunctionView) -> list[str]:
    """Returns the names of the outputs that are constants, inputs, or other outputs under a second name."""
    return [name for name, *_ in _needless(function)]


def _needless(function: FunctionView) -> Iterator[tuple[str, str, list[OpView]]]:
    """Yields the name of each such output, what it is, and the operations that copy it."""
    graph = function.bound.graph
    constants = {
        value.name
        for value, known in zip(graph.graph.outputs, graph.outputs, strict=True)
        if known.constant is not None
    }
    inputs = {value.name for value in graph.graph.inputs if not isinstance(value.type, StateType)}
    origins: dict[str, str] = {}
    for value in graph.graph.outputs:
        origin, copies = _origin(function, value)
        if value.name in constants:
            yield value.name, "is a constant", []
        elif origin in inputs:
            yield value.name, f"is the input {shown(origin)}", copies
        elif origin in origins:
            yield value.name, f"equals {shown(origins[origin])}", copies
        else:
            origins[origin] = value.name


def _origin(function: FunctionView, value: Value) -> tuple[str, list[OpView]]:
    """Returns the value that another one is a copy of, and the operations that copy it for this alone."""
    copies = []
    name = value.name
    seen: set[str] = set()
    while name not in seen and (view := function.makers.get(name)) is not None:
        seen.add(name)
        if view.op.type != "identity":
            break
        given = view.op.inputs["x"][0]
        if not isinstance(given, Value):
            break
        if not function.readers.get(name):
            copies.append(view)
        name = given.name
    return name, copies


RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="image-as-array",
        doc="An input of three channels into a convolution, or with the name of a picture, that is declared"
        " as an array of floats. The app has to convert every pixel, and an array of float32 has three times"
        " the bytes of the image, which Core ML converts once more. Arrays of float16 cost no conversion in"
        " Core ML, so no saving is shown for them; `what-if` declares them as images as well.",
        find=_array_images,
        fix="declare the picture as an image: ct.ImageType(name=…, shape=…, scale=…, bias=…)",
        source="apple/coremltools: guide to image inputs",
        confidence="documented",
        transform="image-inputs",
    ),
    AdviceRule(
        id="image-preparation",
        doc="Operations at the beginning of a model that turn a picture's axes from height, width, channel to"
        " channel, height, width, or that swap red and blue. An image input delivers either order of the"
        " channels, channels first. Scale and bias of an image are operations of an ML Program in either"
        " case.",
        find=_picture_preparation,
        fix="declare the picture as an image, channels first, in the wanted order:"
        " ct.ImageType(color_layout=…)",
        source="apple/coremltools: guide to image inputs",
        confidence="documented",
    ),
    AdviceRule(
        id="float32-interface",
        doc="Inputs and outputs in float32, or images in 8-bit gray, of a program that computes in float16."
        " Core ML converts them in every prediction. From iOS 16 and macOS 13 an app can give and take"
        " float16.",
        find=_single_precision,
        fix="declare inputs and outputs as dtype=np.float16, gray images as"
        " ct.colorlayout.GRAYSCALE_FLOAT16, with minimum_deployment_target=ct.target.iOS16",
        source="apple/coremltools: guide to typed execution, and to image inputs (float16 from iOS 16)",
        confidence="documented",
        transform="fp16-io",
    ),
    AdviceRule(
        id="flexible-shapes",
        doc="Inputs with enumerated shapes or a range of them. Some operations leave the Neural Engine in"
        " such models, and before iOS 26 and macOS 26 ranges ran there with the default shape only. The"
        " saving is that of the same shapes, fixed.",
        find=_flexible_shapes,
        fix="use fixed shapes, if need be one function or model for each",
        source=f"{APPLE_FAQ}; {MOBIUS}",
        confidence="documented",
        transform="static",
    ),
    AdviceRule(
        id="unused-operations",
        doc="Operations whose results neither an output nor another operation needs. Core ML may remove them"
        " when it compiles a model; its plans list and price them.",
        find=_unused_operations,
        fix="remove unused operations, for instance by coremltools' pass dead_code_elimination",
        source="apple/coremltools: graph pass dead_code_elimination",
        confidence="static analysis",
        transform="tidy",
    ),
    AdviceRule(
        id="needless-outputs",
        doc="Outputs that are constants, inputs passed through, or other outputs under a second name.",
        find=_needless_outputs,
        fix="leave out outputs that repeat others",
        source="the dataflow of the program",
        confidence="static analysis",
        transform="without-needless-outputs",
    ),
)
