"""Image inputs instead of arrays, and linear layers as convolutions: written, read again, and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import coremlscope
from coremlscope.base.errors import UnsupportedModelError
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.planning.rewrites.clips import with_clips
from coremlscope.planning.rewrites.transforms import default_transforms, parse_transform, why_not
from coremlscope.studies.variants.coremltools_steps import transform_file
from coremlscope.studies.variants.evaluation import Question, write_samples
from coremlscope.studies.variants.worker import VariantJob, make_variant
from tests.support.advised_models import F16, F32, Builder
from tests.support.networks import hard_sigmoid_clip, random, relu6_layers
from tests.support.pipelines import image_feature, tripler

_SIDE = 32


def _network(*, scales: bool, is_last: bool = False, channels: int = 3, dtype: ir.DType = F32) -> ir.Model:
    """A convolution over a picture that may be scaled and transposed first."""
    first, number = (1, channels, _SIDE, _SIDE), dtype.numpy.type
    shape = (1, _SIDE, _SIDE, channels) if is_last else first
    b = Builder({"image": (dtype, shape)})
    x = b["image"]
    if is_last:
        x = b.op("transpose", "first", first, dtype, x=x, perm=[0, 3, 1, 2])
    if scales:
        x = b.op("mul", "scaled", first, dtype, x=x, y=number(1 / 255))
        x = b.op("sub", "centred", first, dtype, x=x, y=number(0.5))
    return b.model(b.op("relu", "y", (1, 8, _SIDE, _SIDE), dtype, x=b.conv("c", x, 8, dtype=dtype)))


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
        (_network(scales=True, dtype=F16), "image-inputs", lambda p: p),
        (_network(scales=True, is_last=True, dtype=F16), "image-inputs", lambda p: p.transpose(0, 2, 3, 1)),
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
    ids=["pixels", "channels-last", "gray", "half", "half-channels-last", "unit", "imagenet"],
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
    (function,) = program.functions.values()
    return [op.type for op in function.graph.ops if op.constant is None]


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
    with pytest.raises(UnsupportedModelError, match="nothing to change"):
        _transformed(model, "linear-as-conv", tmp_path)


@pytest.mark.parametrize("sizes", [ir.EnumeratedShapes(((4, 6), (8, 12))), ir.RangeShapes(((4, 8), (6, 12)))])
def test_images_of_several_sizes_get_one(sizes: ir.ShapeFlexibility, tmp_path: Path) -> None:
    model = tripler(image_feature("x", flexibility=sizes), image_feature("y", flexibility=sizes))
    path, target = tmp_path / "m.mlpackage", tmp_path / "v.mlpackage"
    write_mlpackage(model, path)
    shapes = {"x": [(1, 3, 8, 12)]}
    transform_file(path, parse_transform("static"), target, shapes=shapes, samples=[], folder=tmp_path)
    described = container.read(target).description.main
    fixed = ir.ImageFeature("RGB", 12, 8)
    assert [feature.type for feature in (*described.inputs, *described.outputs)] == [fixed, fixed]
    image = Image.fromarray(np.random.default_rng(0).integers(0, 80, (8, 12, 3)).astype(np.uint8))
    found = coremlscope.predict(target, {"x": image})["y"]
    np.testing.assert_array_equal(np.asarray(found)[..., :3], np.asarray(image) * 3)


@pytest.mark.parametrize(
    ("blob", "is_read_twice", "expected"), [("a", False, 1), ("same", False, 1), ("a", True, 0)]
)
def test_a_relu6_of_a_network_is_one_layer(
    blob: str, is_read_twice: bool, expected: int, tmp_path: Path
) -> None:
    spec = relu6_layers(blob=blob, is_read_twice=is_read_twice).spec
    path = tmp_path / "m.mlmodel"
    path.write_bytes(spec.SerializeToString())
    model = container.read(path)
    if not expected:
        assert with_clips(path.read_bytes())[1] == 0
        return
    assert "relu6" in [one.name for one in default_transforms(model, has_data=False)]
    target = tmp_path / "v.mlmodel"
    transform_file(path, parse_transform("relu6"), target, shapes={}, samples=[], folder=tmp_path)
    types = _types(target)
    assert (types.count("clip"), types.count("threshold"), types.count("linear_activation")) == (1, 0, 0)
    values = {"x": 3 * random(4, 6, 6)}
    before, after = (coremlscope.predict(one, values) for one in (path, target))
    assert float(before["y"].max()) == pytest.approx(3.0)
    np.testing.assert_array_equal(after["y"], before["y"])


def test_a_hard_sigmoid_and_a_factor_are_a_clip(tmp_path: Path) -> None:
    source, target = tmp_path / "m.mlmodel", tmp_path / "v.mlmodel"
    source.write_bytes(hard_sigmoid_clip().spec.SerializeToString())
    data, count = with_clips(source.read_bytes())
    target.write_bytes(data)
    assert count == 1
    values = {"x": 6 * random(4, 6, 6)}
    before, after = (coremlscope.predict(one, values) for one in (source, target))
    np.testing.assert_allclose(after["y"], before["y"], atol=1e-5)
    assert (float(after["y"].min()), float(after["y"].max())) == (0.0, 6.0)


def test_edges_in_half_precision_keep_names_and_what_is_read_inside(tmp_path: Path) -> None:
    shape = (1, 8)
    b = Builder({"x": (F32, shape)})
    half = b.op("cast", "half", shape, F16, x=b["x"], dtype="fp16")
    y = b.op("cast", "y", shape, F32, x=b.op("relu", "r", shape, F16, x=half), dtype="fp32")
    z = b.op("add", "z", shape, F32, x=b.op("mul", "m", shape, F32, x=y, y=y), y=b["x"])
    model = b.model(y, z)
    target = _transformed(model, "fp16-io", tmp_path)
    main = container.read(target).description.main
    assert [(one.name, one.type.dtype) for one in main.outputs] == [("y", F16), ("z", F16)]  # type: ignore[union-attr]
    values = {"x": random(*shape)}
    before, after = (coremlscope.predict(one, values) for one in (model, target))
    for name in ("y", "z"):
        np.testing.assert_allclose(after[name], before[name], rtol=2e-3, atol=2e-3)
