"""Image inputs instead of arrays, and linear layers as convolutions: written, read again, and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import coremlscope
from coremlscope import ir
from coremlscope.errors import UnsupportedModelError
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.variants.coremltools_steps import transform_file
from coremlscope.variants.evaluation import Question, write_samples
from coremlscope.variants.transforms import default_transforms, parse_transform, why_not
from coremlscope.variants.worker import VariantJob, make_variant
from tests.support.advised_models import F16, F32, Builder

_SIDE = 32


def _network(*, scales: bool, is_last: bool = False, channels: int = 3) -> ir.Model:
    """A convolution over a picture that may be scaled and transposed first."""
    first = (1, channels, _SIDE, _SIDE)
    shape = (1, _SIDE, _SIDE, channels) if is_last else first
    b = Builder({"image": (F32, shape)})
    x = b["image"]
    if is_last:
        x = b.op("transpose", "first", first, F32, x=x, perm=[0, 3, 1, 2])
    if scales:
        x = b.op("mul", "scaled", first, F32, x=x, y=np.float32(1 / 255))
        x = b.op("sub", "centred", first, F32, x=x, y=np.float32(0.5))
    return b.model(b.op("relu", "y", (1, 8, _SIDE, _SIDE), F32, x=b.conv("c", x, 8, dtype=F32)))


def _transformed(model: ir.Model, name: str, folder: Path) -> Path:
    path, target = folder / "m.mlpackage", folder / "v.mlpackage"
    write_mlpackage(model, path)
    transform_file(path, parse_transform(name), target, shapes={}, samples=[], folder=folder)
    return target


@pytest.mark.parametrize(
    ("model", "name", "prepare"),
    [
        (_network(scales=True), "image-inputs", lambda p: p),
        (_network(scales=True, is_last=True), "image-inputs", lambda p: p.transpose(0, 2, 3, 1)),
        (_network(scales=True, channels=1), "image-inputs", lambda p: p),
        (_network(scales=False), "image-inputs-unit", lambda p: p / np.float32(255)),
        (
            _network(scales=False),
            "image-inputs-imagenet",
            lambda p: (
                (p / 255 - np.reshape([0.485, 0.456, 0.406], (3, 1, 1)))
                / np.reshape([0.229, 0.224, 0.225], (3, 1, 1))
            ),
        ),
    ],
    ids=["pixels", "channels-last", "gray", "unit", "imagenet"],
)
def test_an_image_input_gives_the_outputs_of_the_array(
    model: ir.Model, name: str, prepare: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    from PIL import Image

    target = _transformed(model, name, tmp_path)
    feature = container.read(target).description.main.inputs[0]
    assert isinstance(feature.type, ir.ImageFeature)
    channels = 1 if feature.type.color_space == "GRAYSCALE" else 3
    pixels = np.random.default_rng(0).integers(0, 256, (1, channels, _SIDE, _SIDE)).astype(np.float32)
    plane = pixels[0].transpose(1, 2, 0).astype(np.uint8)
    image = Image.fromarray(plane[..., 0] if channels == 1 else plane)
    expected = coremlscope.predict(model, {"image": prepare(pixels).astype(np.float32)})["y"]
    found = coremlscope.predict(target, {"image": image})["y"]
    # The scale and the bias are applied to pixels in another order than in the app.
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))


def test_what_an_array_holds_is_not_guessed(tmp_path: Path) -> None:
    model = _network(scales=False)
    with pytest.raises(UnsupportedModelError, match="does not begin with a scale of pixels"):
        _transformed(model, "image-inputs", tmp_path)
    assert "image-inputs-unit" in why_not(parse_transform("image-inputs"), model)
    assert "image-inputs" not in {one.name for one in default_transforms(model, has_data=False)}
    assert "image-inputs" in {one.name for one in default_transforms(_network(scales=True), has_data=False)}


def test_variants_with_images_are_compared_on_the_same_pictures(tmp_path: Path) -> None:
    path, samples = tmp_path / "m.mlpackage", tmp_path / "samples"
    write_mlpackage(_network(scales=True), path)
    write_samples(samples, [{"image": np.zeros((1, 3, _SIDE, _SIDE), np.float32)}] * 2)
    question = Question(samples=samples, sample_count=2, synthetic=0, outputs=tmp_path / "outputs", threads=1)
    job = VariantJob(
        model=path, is_network=False, transform=parse_transform("image-inputs"), question=question
    )
    variant = make_variant(job, tmp_path)
    assert not variant.failure
    assert variant.difference is not None
    (output,) = variant.difference.outputs
    assert output.is_equal
    assert output.largest
    assert variant.difference.synthetic == 2
    assert any("drawn pixels" in note for note in variant.notes)


def _block(*, rank: int, dtype: ir.DType = F32) -> ir.Model:
    """Two linear layers with what transformers have around them, and a reader that needs the old layout."""
    lead = (1, 12) if rank == 3 else (12,)
    generator = np.random.default_rng(1)

    def weights(*shape: int) -> ir.Constant:
        return ir.constant(generator.standard_normal(shape).astype(dtype.numpy) / 4)

    b = Builder({"x": (dtype, (*lead, 16))})
    y = b.op("linear", "up", (*lead, 32), dtype, x=b["x"], weight=weights(32, 16), bias=weights(32))
    y = b.op("gelu", "act", (*lead, 32), dtype, x=y, mode="EXACT")
    y = b.op("mul", "gain", (*lead, 32), dtype, x=y, y=weights(32))
    y = b.op("linear", "down", (*lead, 16), dtype, x=y, weight=weights(16, 32), bias=weights(16))
    y = b.op("add", "shortcut", (*lead, 16), dtype, x=b["x"], y=y)
    y = b.op("add", "places", (*lead, 16), dtype, x=y, y=weights(*lead, 16))
    given = {"gamma": weights(16), "beta": weights(16), "epsilon": dtype.numpy.type(1e-5)}
    normed = b.op("layer_norm", "norm", (*lead, 16), dtype, x=y, axes=[-1], **given)
    flat = (12, 2, 8)
    heads = b.op("reshape", "heads", flat, dtype, x=normed, shape=list(flat))
    last = b.op("linear", "last", (*lead, 4), dtype, x=normed, weight=weights(4, 16), bias=weights(4))
    return b.model(b.op("relu", "y", flat, dtype, x=heads), b.op("tanh", "z", (*lead, 4), dtype, x=last), y)


def _types(path: Path) -> Sequence[str]:
    program = container.read(path).content
    assert isinstance(program, ir.Program)
    return [op.type for op in program.functions["main"].graph.ops if op.constant is None]


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", [F32, F16], ids=["fp32", "fp16"])
def test_linear_layers_as_convolutions_return_the_same(rank: int, dtype: ir.DType, tmp_path: Path) -> None:
    model = _block(rank=rank, dtype=dtype)
    target = _transformed(model, "linear-as-conv", tmp_path)
    types = _types(target)
    assert types.count("conv") == 3
    assert "linear" not in types
    # In and out: the shortcut and the first layer share what is turned, and only what is read is turned back.
    assert types.count("transpose") == (4 if rank == 3 else 0)
    shape = model.description.main.inputs[0].type.shape  # type: ignore[union-attr]
    values = {"x": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
    before, after = (coremlscope.predict(one, values) for one in (model, target))
    assert list(before) == list(after)
    for name, expected in before.items():
        np.testing.assert_allclose(after[name], expected, rtol=0, atol=1e-5 if dtype is F32 else 2e-3)


def test_layers_that_cannot_be_convolutions_get_a_sentence(tmp_path: Path) -> None:
    b = Builder({"x": (F32, (1, 2, 4, 16))})
    weight = ir.constant(np.ones((8, 16), np.float32))
    model = b.model(b.op("linear", "y", (1, 2, 4, 8), F32, x=b["x"], weight=weight))
    with pytest.raises(UnsupportedModelError, match="no linear layer"):
        _transformed(model, "linear-as-conv", tmp_path)


def _joined(*, kind: str) -> ir.Model:
    """Three convolutions joined at once, by a concat of a concat, or split and joined again first."""
    b = Builder({"x": (F32, (1, 4, 8, 8))})
    parts = [b.conv(f"c{place}", b["x"], 4, dtype=F32) for place in range(3)]
    if kind == "nested":
        first = b.op("concat", "inner", (1, 8, 8, 8), F32, values=tuple(parts[1:]), axis=1, interleave=False)
        parts = [parts[0], first]
    if kind == "undone":
        halves = b.ops_of(
            "split", [("s0", (1, 2, 8, 8)), ("s1", (1, 2, 8, 8))], F32, x=parts[0], num_splits=2, axis=1
        )
        parts[0] = b.op("concat", "whole", (1, 4, 8, 8), F32, values=halves, axis=1, interleave=False)
        parts[0] = b.op("relu", "positive", (1, 4, 8, 8), F32, x=parts[0])
    y = b.op("concat", "outer", (1, 12, 8, 8), F32, values=tuple(parts), axis=1, interleave=False)
    return b.model(b.op("relu", "y", (1, 12, 8, 8), F32, x=y))


@pytest.mark.parametrize("kind", ["nested", "undone"])
def test_joined_concats_return_the_same(kind: str, tmp_path: Path) -> None:
    model = _joined(kind=kind)
    target = _transformed(model, "join-concats", tmp_path)
    types = _types(target)
    assert types.count("concat") == 1
    assert "split" not in types
    values = {"x": np.random.default_rng(3).standard_normal((1, 4, 8, 8)).astype(np.float32)}
    before, after = (coremlscope.predict(one, values) for one in (model, target))
    np.testing.assert_array_equal(after["y"], before["y"])


def _swapped_image(*, swaps: bool, is_even: bool = True) -> ir.Model:
    shape = (1, 3, _SIDE, _SIDE)
    b = Builder({"image": (F32, shape)}, {"image": ir.ImageFeature("RGB", _SIDE, _SIDE)})
    scale = np.float32(1 / 255) if is_even else np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1) / 255
    x = b.op("mul", "scaled", shape, F32, x=b["image"], y=scale)
    if swaps:
        x = b.op("reverse", "swap", shape, F32, x=x, axes=[1])
    return b.model(b.op("relu", "y", (1, 8, _SIDE, _SIDE), F32, x=b.conv("c", x, 8, dtype=F32)))


def test_images_in_the_order_of_the_network_return_the_same(tmp_path: Path) -> None:
    model = _swapped_image(swaps=True)
    target = _transformed(model, "channel-order", tmp_path)
    assert "reverse" not in _types(target)
    image = container.read(target).description.main.inputs[0].type
    assert isinstance(image, ir.ImageFeature)
    assert image.color_space == "BGR"
    pixels = np.random.default_rng(4).integers(0, 256, (_SIDE, _SIDE, 3), dtype=np.uint8)
    values = {"image": Image.fromarray(pixels)}
    before, after = (coremlscope.predict(one, values) for one in (model, target))
    np.testing.assert_array_equal(after["y"], before["y"])


@pytest.mark.parametrize(
    ("model", "name", "reason"),
    [
        (_joined(kind="flat"), "join-concats", "no finding"),
        (_swapped_image(swaps=False), "channel-order", "no image input"),
        # A number for each channel comes first: it would belong to another channel.
        (_swapped_image(swaps=True, is_even=False), "channel-order", "no image input"),
    ],
)
def test_moves_that_are_needed_stay(model: ir.Model, name: str, reason: str) -> None:
    assert reason in why_not(parse_transform(name), model)
