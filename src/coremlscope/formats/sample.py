"""A sample model: MobileNetV2 with random weights, built without coremltools."""

from __future__ import annotations

import os

import numpy as np

from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir

_SPEC_VERSION, _OPSET = 7, "CoreML6"

#: Expansion, channels, repeats and first stride of each stage (table 2 of https://arxiv.org/abs/1801.04381).
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_STEM_CHANNELS, _HEAD_CHANNELS = 32, 1280

#: ImageNet's mean and standard deviation of each channel, for pixels in 0 … 1.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: The common standard deviation of all channels, because an image's scale is a single number.
_SCALE_STD = 0.226

_DESCRIPTION = (
    "A sample with MobileNetV2's structure and random weights: for timing only, results are meaningless."
)


def write_sample(path: str | os.PathLike[str], seed: int = 0, *, overwrite: bool = False) -> None:
    """Writes the sample as a `.mlpackage` (7 MB). Equal seeds give equal packages.

    Raises:
        OutputError: As in `write_mlpackage`.
    """
    write_mlpackage(sample_model(seed), path, overwrite=overwrite)


def sample_model(seed: int = 0, *, size: int = 224, width: float = 1.0, classes: int = 1000) -> ir.Model:
    """Builds MobileNetV2 as in torchvision, with batch normalisation folded into the convolutions.

    The input is an RGB image. The outputs are the label and the probability of each class. Weights are fp16,
    with a variance that preserves the scale of the activations (https://arxiv.org/abs/1502.01852).

    Args:
        seed: The seed of the weights.
        size: Height and width of the image in pixels, a multiple of 32.
        width: Multiplier of the number of channels.
        classes: Number of classes.
    """
    net = _Network(seed)
    image = ir.Value("image", ir.TensorType(ir.DType.FP32, (1, 3, size, size)))
    x = _normalise(net, image)
    channels = _round_channels(_STEM_CHANNELS * width)
    x = net.conv("stem", x, channels, kernel=3, stride=2)
    for stage, (expansion, stage_channels, repeats, first_stride) in enumerate(_STAGES):
        channels = _round_channels(stage_channels * width)
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = _inverted_residual(net, f"block_{stage}_{repeat}", x, channels, expansion, stride)
    x = net.conv("head", x, _round_channels(_HEAD_CHANNELS * max(1.0, width)), kernel=1)
    outputs = _classify(net, x, classes)
    graph = ir.Graph(name="main", inputs=(image,), ops=tuple(net.ops), outputs=outputs)
    label, probabilities = (value.name for value in outputs)
    interface = ir.FunctionDescription(
        inputs=(ir.Feature("image", ir.ImageFeature("RGB", size, size), doc="The image to classify"),),
        outputs=(
            ir.Feature(label, ir.StringFeature(), doc="The most probable class"),
            ir.Feature(probabilities, ir.DictionaryFeature("string"), doc="The probability of each class"),
        ),
        predicted_feature=label,
        predicted_probabilities=probabilities,
    )
    return ir.Model(
        spec_version=_SPEC_VERSION,
        description=ir.Description({"main": interface}, "main"),
        content=ir.Program(functions={"main": ir.Function(name="main", opset=_OPSET, graph=graph)}),
        metadata=ir.Metadata(description=_DESCRIPTION, author="coremlscope", licence="Apache-2.0"),
    )


def _round_channels(channels: float) -> int:
    """Rounds to the nearest multiple of 8 that is at most 10 % smaller."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _normalise(net: _Network, image: ir.Value) -> ir.Value:
    """Appends coremltools' preprocessing for an image's scale and bias: pixels 0 … 255 to about ±2."""
    scale = net.constant("scale", np.float32(1 / (255 * _SCALE_STD)))
    scaled = net.op("mul", "image_scaled", image.type, x=image, y=scale)
    bias = np.array([-mean / std for mean, std in zip(_MEAN, _STD, strict=True)], np.float32)
    shift = net.constant("bias", bias.reshape(1, 3, 1, 1))
    shifted = net.op("add", "image_shifted", image.type, x=scaled, y=shift)
    return net.cast("image_fp16", shifted, ir.DType.FP16)


def _inverted_residual(
    net: _Network, name: str, x: ir.Value, channels: int, expansion: int, stride: int
) -> ir.Value:
    """Appends expansion, depthwise convolution and projection, with a shortcut if the shapes allow it."""
    inner = expansion * _channels(x)
    y = x if expansion == 1 else net.conv(f"{name}_expand", x, inner, kernel=1)
    y = net.conv(f"{name}_depthwise", y, inner, kernel=3, stride=stride, groups=inner)
    y = net.conv(f"{name}_project", y, channels, kernel=1, activation=False)
    return net.op("add", f"{name}_add", x.type, x=x, y=y) if x.type == y.type else y


def _classify(net: _Network, x: ir.Value, classes: int) -> tuple[ir.Value, ...]:
    features = _channels(x)
    pooled_type = ir.TensorType(ir.DType.FP16, (1, features))
    axes, keep = net.constant("pool_axes", [2, 3]), net.constant("pool_keep_dims", False)
    pooled = net.op("reduce_mean", "pool", pooled_type, x=x, axes=axes, keep_dims=keep)
    weight = net.weight("classifier_weight", (classes, features), 4 / features)
    logits_type = ir.TensorType(ir.DType.FP16, (1, classes))
    bias = net.weight("classifier_bias", (classes,), 0.01)
    logits = net.op("linear", "classifier", logits_type, x=pooled, weight=weight, bias=bias)
    axis = net.constant("softmax_axis", -1)
    softmax = net.op("softmax", "softmax", logits_type, x=logits, axis=axis)
    probabilities = net.cast("probabilities", softmax, ir.DType.FP32)
    string = ir.TensorType(ir.DType.STRING, ())
    labels = ir.Nested(tuple(ir.constant(f"class {index}") for index in range(classes)))
    outputs = (
        ir.Value("classLabel", string),
        ir.Value("classLabel_probs", ir.DictType(string, ir.TensorType(ir.DType.FP64, ()))),
    )
    net.append(
        "classify",
        "classify",
        outputs,
        {"probabilities": probabilities, "classes": ir.Constant(ir.ListType(string, classes), labels)},
    )
    return outputs


def _channels(value: ir.Value) -> int:
    assert isinstance(value.type, ir.TensorType)
    assert value.type.shape is not None
    channels = value.type.shape[1]
    assert channels is not None
    return channels


class _Network:
    """A graph under construction, and the generator of its weights."""

    def __init__(self, seed: int) -> None:
        self.ops: list[ir.Op] = []
        self._random = np.random.default_rng(seed)

    def append(
        self,
        type_: str,
        name: str,
        outputs: tuple[ir.Value, ...],
        inputs: dict[str, ir.Argument],
        **attributes: ir.Constant,
    ) -> None:
        """Adds an operation with its name and its id."""
        arguments = {parameter: (argument,) for parameter, argument in inputs.items()}
        named = {"name": ir.constant(name), **attributes}
        self.ops.append(
            ir.Op(id=f"main/{len(self.ops)}", type=type_, inputs=arguments, outputs=outputs, attributes=named)
        )

    def op(self, op_type: str, name: str, type_: ir.ValueType, **inputs: ir.Argument) -> ir.Value:
        """Adds an operation with one result."""
        output = ir.Value(name, type_)
        self.append(op_type, name, (output,), inputs)
        return output

    def constant(self, name: str, value: object) -> ir.Value:
        """Adds a `const`."""
        content = ir.constant(value)
        output = ir.Value(name, content.type)
        self.append("const", name, (output,), {}, val=content)
        return output

    def weight(self, name: str, shape: tuple[int, ...], variance: float) -> ir.Value:
        """Adds an fp16 `const` with normally distributed elements."""
        elements = self._random.standard_normal(shape, np.float32) * np.float32(variance**0.5)
        return self.constant(name, elements.astype(np.float16))

    def cast(self, name: str, x: ir.Value, dtype: ir.DType) -> ir.Value:
        """Adds a `cast`."""
        assert isinstance(x.type, ir.TensorType)
        target = self.constant(f"{name}_dtype", dtype.value)
        return self.op("cast", name, ir.TensorType(dtype, x.type.shape), x=x, dtype=target)

    def conv(
        self,
        name: str,
        x: ir.Value,
        channels: int,
        *,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        activation: bool = True,
    ) -> ir.Value:
        """Adds a padded convolution with a bias and optionally ReLU6."""
        assert isinstance(x.type, ir.TensorType)
        assert x.type.shape is not None
        batch, fan_in, *sides = x.type.shape
        assert fan_in is not None
        weight_shape = channels, fan_in // groups, kernel, kernel
        gain = 2 if activation else 1
        weight = self.weight(f"{name}_weight", weight_shape, gain / (fan_in // groups * kernel**2))
        shape = batch, channels, *(-(-side // stride) if side else None for side in sides)
        result = self.op(
            "conv",
            name,
            ir.TensorType(ir.DType.FP16, shape),
            x=x,
            weight=weight,
            bias=self.weight(f"{name}_bias", (channels,), 0.01),
            strides=self.constant(f"{name}_strides", [stride, stride]),
            pad_type=self.constant(f"{name}_pad_type", "custom"),
            pad=self.constant(f"{name}_pad", [kernel // 2] * 4),
            dilations=self.constant(f"{name}_dilations", [1, 1]),
            groups=self.constant(f"{name}_groups", groups),
        )
        if not activation:
            return result
        low, high = self.constant(f"{name}_low", np.float16(0)), self.constant(f"{name}_high", np.float16(6))
        return self.op("clip", f"{name}_relu6", result.type, x=result, alpha=low, beta=high)
