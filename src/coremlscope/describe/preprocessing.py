"""Detects image preprocessing at the start of a program."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from coremlscope.model.ir import (
    Constant,
    DType,
    Function,
    FunctionDescription,
    Graph,
    ImageFeature,
    Op,
    TensorType,
    Value,
)

#: Mean and standard deviation of ImageNet's pixels, red, green, blue, from 0 to 1: the normalization
#: of most networks for photographs.
_IMAGENET_MEAN, _IMAGENET_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
#: Converters allow one scale for all channels, so one deviation represents the three.
_TOLERANCE = 0.03


class Preprocessing(msgspec.Struct, frozen=True, kw_only=True):
    """A pixel `p` of each channel becomes `scale × p + bias`.

    Attributes:
        input: Name of the image input.
        channels: Names of the channels: `RGB`, `BGR`, or one blank for grayscale.
        scale: One factor per channel, or one for all.
        bias: One offset per channel, or one for all.
        ops: Ids of the operations that compute it.
        is_half: Whether the pixels are float16, which may be of any range.
        has_mean_image: True where an image is subtracted at the end.
    """

    input: str
    channels: str
    scale: tuple[float, ...]
    bias: tuple[float, ...]
    ops: tuple[str, ...]
    is_half: bool = False
    has_mean_image: bool = False

    @property
    def text(self) -> str:
        """One line: `pixels × 0.00784 − 1: 0…255 becomes −1…1`."""
        mean = ", then minus a mean image" if self.has_mean_image else ""
        return self._text + mean

    @property
    def _text(self) -> str:
        if self.is_half:
            how = _formula(self.scale[0], self.bias[0]) if self.ops else ", unchanged"
            return f"float16 pixels of any range{how}"
        if not self.ops:
            return "pixels 0…255, unchanged"
        scale, bias = np.broadcast_arrays(np.array(self.scale), np.array(self.bias))
        low, high = (scale * 255 * edge + bias for edge in (0, 1))
        ends = f"0…255 becomes {_number(min(*low, *high))}…{_number(max(*low, *high))}"
        known = " (ImageNet's mean and deviation)" if self._is_imagenet(scale, bias) else ""
        if len(scale) == 1:
            return f"pixels{_formula(scale[0], bias[0])}: {ends}{known}"
        each = ", ".join(
            f"{channel}{_formula(a, b)}" for channel, a, b in zip(self.channels, scale, bias, strict=True)
        )
        return f"{each}: {ends}{known}"

    def _is_imagenet(self, scale: np.ndarray, bias: np.ndarray) -> bool:
        if len(scale) != 3:
            return False
        order = slice(None, None, -1 if self.channels == "BGR" else 1)
        mean, std = _IMAGENET_MEAN[order], _IMAGENET_STD[order]
        return bool(
            np.allclose(1 / (255 * scale), std, rtol=_TOLERANCE)
            and np.allclose(-bias / (255 * scale), mean, rtol=_TOLERANCE)
        )


def _number(value: float) -> str:
    text = f"{value:.3g}"
    return "0" if text == "-0" else text.replace("-", "−")


def _formula(scale: float, bias: float) -> str:
    text = "" if scale == 1 else f" × {_number(scale)}"
    if abs(bias) < 1e-9:
        return text
    return f"{text} {'−' if bias < 0 else '+'} {_number(abs(bias))}"


def find_preprocessing(function: Function, description: FunctionDescription) -> tuple[Preprocessing, ...]:
    """Detects the preprocessing of each image input.

    It consists of multiplications, additions, subtractions and divisions by constants, one for all channels
    or one each, and casts between them.
    """
    images = [
        (feature.name, feature.type)
        for feature in description.inputs
        if isinstance(feature.type, ImageFeature)
    ]
    if not images:
        return ()
    graph = function.graph
    constants = {
        value.name: op.constant for op in graph.ops for value in op.outputs if op.constant is not None
    }
    return tuple(_follow(graph, constants, name, image) for name, image in images)


def _follow(graph: Graph, constants: dict[str, Constant], name: str, image: ImageFeature) -> Preprocessing:
    users: dict[str, list[Op]] = defaultdict(list)
    for op in graph.walk():
        for arguments in op.inputs.values():
            for argument in arguments:
                if isinstance(argument, Value):
                    users[argument.name].append(op)
    channels = image.color_space if image.color_space in ("RGB", "BGR") else " "
    scale, bias = np.ones(1), np.zeros(1)
    found: list[str] = []
    pending: list[str] = []
    current = name
    has_mean_image = False
    while len(users[current]) == 1:
        op = users[current][0]
        if not op.outputs:
            break
        if op.type == "cast":
            pending.append(op.id)
        else:
            step = _step(op, current, constants, len(channels))
            if step is None:
                has_mean_image = _is_mean_image(op, current, image, len(channels))
                break
            scale, bias = scale * step[0], bias * step[0] + step[1]
            found += [*pending, op.id]
            pending = []
        current = op.outputs[0].name
    factors, summands = tuple(scale.tolist()), tuple(bias.tolist())
    return Preprocessing(
        input=name,
        channels=channels,
        scale=factors,
        bias=summands,
        ops=tuple(found),
        is_half=image.color_space == "GRAYSCALE_FLOAT16",
        has_mean_image=has_mean_image,
    )


def _is_mean_image(op: Op, current: str, image: ImageFeature, planes: int) -> bool:
    if op.type != "sub":
        return False
    x, y = (next(iter(op.inputs.get(name, ())), None) for name in ("x", "y"))
    is_image = isinstance(y, Constant) and y.type == TensorType(
        DType.FP32, (planes, image.height, image.width)
    )
    return is_image and isinstance(x, Value) and x.name == current


def _step(
    op: Op, current: str, constants: dict[str, Constant], channels: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns scale and offset of one operation; None for other operations."""
    if op.type not in ("mul", "add", "sub", "real_div"):
        return None
    x, y = (next(iter(op.inputs.get(side, ())), None) for side in ("x", "y"))
    is_first = isinstance(x, Value) and x.name == current
    other = y if is_first else x
    constant = constants.get(other.name) if isinstance(other, Value) else other
    operand = None if constant is None else _per_channel(constant, channels)
    if operand is None:
        return None
    zero = np.zeros(1)
    match op.type:
        case "mul":
            return operand, zero
        case "add":
            return np.ones(1), operand
        case "sub":
            return (np.ones(1), -operand) if is_first else (-np.ones(1), operand)
        case _ if is_first and operand.all():
            return 1 / operand, zero
    return None


def _per_channel(constant: Constant, channels: int) -> np.ndarray | None:
    """Returns a constant as one number, or as one for each channel of `[1, channels, height, width]`."""
    type_ = constant.type
    if not isinstance(type_, TensorType) or not type_.is_static or not constant.is_available:
        return None
    shape = type_.shape or ()
    if type_.elements == 1 or (type_.elements == channels and len(shape) >= 3 and shape[-3] == channels):
        return constant.numpy().astype(np.float64).reshape(-1)
    return None
