"""The files of compiled networks: layers, shapes, weights, compression, the interface, and damage to them."""

from __future__ import annotations

import builtins
import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import (
    CoremlscopeError,
    CorruptModelError,
    MissingWeightsError,
    NotAModelError,
    UnsupportedModelError,
)
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.formats.espresso.compression import decompress
from coremlscope.model import ir
from coremlscope.runtime.execution.lowering import lower_function
from tests.support.compiled_networks import (
    WeightTable,
    exact,
    run_layers,
    shape,
    write_classifier,
    write_network,
)

_NET, _SHAPE, _WEIGHTS = "model.espresso.net", "model.espresso.shape", "model.espresso.weights"


def _network(folder: Path, **content: Any) -> Path:
    """A network of several layers."""
    weights = WeightTable()
    kernel, bias = weights.add(np.arange(18) - 9, "<f2"), weights.add([1, 2])
    matrix = weights.add(np.linspace(-1, 1, 24))
    layers = [
        {
            "type": "convolution",
            "C": 2,
            "K": 1,
            "Nx": 3,
            "Ny": 3,
            "pad_mode": 1,
            "has_biases": 1,
            "fused_relu": 1,
            "blob_weights_f16": kernel,
            "blob_biases": bias,
        },
        {"type": "pool", "avg_or_max": 1, "size_x": 2, "size_y": 2, "stride_x": 2, "stride_y": 2},
        {"type": "reshape", "dst_n": 0, "dst_k": 8, "dst_h": 1, "dst_w": 1},
        {"type": "inner_product", "nB": 8, "nC": 3, "blob_weights": matrix},
        {"type": "softmax", "C": 2},
    ]
    shapes = {
        "x": shape(1, 4, 4),
        "b1": shape(2, 4, 4),
        "b2": shape(2, 2, 2),
        "b3": shape(8, 1, 1),
        "b4": shape(3, 1, 1),
        "y": shape(3, 1, 1),
    }
    return write_network(folder, layers, shapes, weights, **content)


_X = np.arange(16, dtype=np.float32).reshape(1, 4, 4) / 16


# The interface


def test_interface_from_the_shapes_file(tmp_path: Path) -> None:
    model = container.read(_network(tmp_path / "m.mlmodelc"))
    (x,), (y,) = model.description.main.inputs, model.description.main.outputs
    assert (x.name, y.name, model.kind, model.container) == ("x", "y", "neuralNetwork", "mlmodelc")
    assert "shapes are from the shapes file" in model.remarks[0]
    assert ("assumed", model.remarks[0]) in coremlscope.inspect(model).facts
    assert x.type == ir.ArrayFeature(dtype=ir.DType.FP32, shape=(1, 4, 4), takes_sequences=True)
    assert y.type == ir.ArrayFeature(dtype=ir.DType.FP32, shape=(3,))
    assert model.weight_files == (
        ir.WeightFile(_WEIGHTS, (tmp_path / "m.mlmodelc" / _WEIGHTS).stat().st_size),
    )


def test_marked_outputs(tmp_path: Path) -> None:
    layers = [
        {"type": "activation", "mode": 0, "attributes": {"is_output": 1}, "top": "first"},
        {"type": "activation", "mode": 1, "bottom": "first", "attributes": {"is_output": 1}, "top": "second"},
        {"type": "activation", "mode": 1, "bottom": "first", "top": "unmarked"},
    ]
    model = container.read(write_network(tmp_path, layers, {"x": exact(2)}))
    assert [feature.name for feature in model.description.main.outputs] == ["first", "second"]


def test_images_are_preprocessed(tmp_path: Path) -> None:
    transform = {"scale": 0.5, "bias_r": 1, "bias_g": 2, "bias_b": 3, "center_mean": 0, "is_network_bgr": 1}
    layers = [{"type": "copy"}]
    folder = write_network(
        tmp_path, layers, {"x": shape(3, 1, 2), "y": shape(3, 1, 2)}, transform_params={"x": transform}
    )
    model = container.read(folder)
    (feature,) = model.description.main.inputs
    assert feature.type == ir.ImageFeature("BGR", 2, 1)
    result = np.asarray(coremlscope.predict(model, {"x": np.full((1, 3, 1, 2), 10.0, np.float32)})["y"])
    # Blue comes first, with the bias of blue.
    np.testing.assert_array_equal(result.reshape(3, 2)[:, 0], [8, 7, 6])


def _tables(*numbers: float) -> bytes:
    """The content of `model/coremldata.bin` with one number per table."""
    return b"".join(struct.pack("<QQ", 1, 1) + b"x" + struct.pack("<f", number) for number in numbers)


@pytest.mark.parametrize(
    ("biases", "doubt"), [((2, 2, 2), ""), ((1, 2, 3), "order of its biases")], ids=["equal", "different"]
)
def test_preprocessing_in_the_other_file(tmp_path: Path, biases: tuple[int, ...], doubt: str) -> None:
    sizes = {name: shape(3, 1, 2) for name in "xy"}
    folder = write_network(tmp_path, [{"type": "copy"}], sizes)
    (folder / "model").mkdir()
    (folder / "model" / "coremldata.bin").write_bytes(_tables(1, 0, 0, *biases, 0, 0.5))
    model = container.read(folder)
    assert isinstance(model.content, ir.Program)
    assert doubt in "".join(layer.doubt for layer in model.content.functions["main"].layers)
    if not doubt:
        result = np.asarray(coremlscope.predict(model, {"x": np.full((1, 3, 1, 2), 10, np.float32)})["y"])
        np.testing.assert_array_equal(result, np.full(result.shape, 7))


@pytest.mark.parametrize(
    "data", [b"", bytes(64), bytes(63), bytes(72), b"\xff" * 64, _tables(1, 0, 0, 1, 1, 1, 0)], ids=len
)
def test_other_content_of_that_file(tmp_path: Path, data: bytes) -> None:
    folder = _network(tmp_path)
    (folder / "model").mkdir()
    (folder / "model" / "coremldata.bin").write_bytes(data)
    assert isinstance(container.read(folder).description.main.inputs[0].type, ir.ArrayFeature)


def test_bias_of_grey_images(tmp_path: Path) -> None:
    sizes = {name: shape(1, 1, 2) for name in "xy"}
    transform = {"x": {"scale": 1, "bias_r": 1, "bias_g": 2, "bias_b": 1}}
    folder = write_network(tmp_path, [{"type": "copy"}], sizes, transform_params=transform)
    with pytest.raises(UnsupportedModelError, match="applies to grey images"):
        coremlscope.predict(container.read(folder), {"x": np.zeros((1, 1, 1, 2), np.float32)})


def test_mean_image_is_refused(tmp_path: Path) -> None:
    folder = write_network(
        tmp_path, [{"type": "copy"}], {"x": shape(3, 1, 2)}, transform_params={"x": {"center_mean": 1}}
    )
    with pytest.raises(UnsupportedModelError, match="mean image"):
        container.read(folder)


def test_loose_files(tmp_path: Path) -> None:
    folder = _network(tmp_path / "loose")
    for path in folder.iterdir():
        path.rename(folder / path.name.replace("model", "hash"))
    model = container.read(folder / "hash.espresso.net")
    assert (model.container, model.size_bytes) == (
        "espresso",
        sum(p.stat().st_size for p in folder.iterdir()),
    )
    assert container.sniff(folder / "hash.espresso.net") == "espresso"
    assert np.asarray(coremlscope.predict(model, {"x": _X})["y"]).shape == (3,)
    for name, content in (("hash.espresso.shape", "shapes"), ("hash.espresso.weights", "weights")):
        with pytest.raises(NotAModelError, match=f"only the {content}") as caught:
            container.read(folder / name)
        assert "hash.espresso.net" in caught.value.hint
    with pytest.raises(NotAModelError) as caught:
        container.read(folder)
    assert "hash.espresso.net" in caught.value.hint


def test_operations_keep_the_names_of_layers(tmp_path: Path) -> None:
    content = container.read(_network(tmp_path)).content
    assert isinstance(content, ir.Program)
    (function,) = content.functions.values()
    assert [layer.name for layer in function.layers] == [f"layer{i}" for i in range(5)]
    relu = next(op for op in function.graph.ops if op.type == "relu")
    assert relu.layer == ir.Layer(name="layer0", type="convolution")


def test_other_shapes_of_inputs(tmp_path: Path) -> None:
    folder = write_network(
        tmp_path, [{"type": "activation", "mode": 0}], {"x": shape(1, 2, 2), "y": shape(1, 2, 2)}
    )
    result = run_layers(folder, x=np.full((3, 1, 1, 2, 2), -1))["y"]
    assert np.asarray(result).shape == (3, 1, 1, 2, 2)


def test_classifier_finds_its_probabilities(tmp_path: Path) -> None:
    """The output of the network has another name than the probabilities, and is not the last one."""
    layers = [
        {"type": "softmax_nd", "nd_axis": 0, "top": "unnamed"},
        {"type": "activation", "mode": 6, "alpha": 2, "bottom": "x", "top": "wide"},
        {"type": "reduce", "mode": 0, "nd_axis": 0, "bottom": "wide", "top": "total"},
    ]
    shapes = {"x": exact(3), "unnamed": exact(3), "wide": exact(3), "total": exact(1)}
    folder = write_network(tmp_path / "m.mlmodelc", layers, shapes)
    write_classifier(folder, ["cat", "dog", "emu"], 3)
    model = container.read(folder)
    assert (model.kind, model.remarks) == ("neuralNetworkClassifier", ())
    result = coremlscope.predict(model, {"x": np.log([1, 6, 3]).astype(np.float32)})
    assert result["label"] == "dog"
    assert result["scores"] == pytest.approx({"cat": 0.1, "dog": 0.6, "emu": 0.3})


def test_reasons_why_layers_cannot_be_run(tmp_path: Path) -> None:
    layers = [{"type": "warp"}, {"type": "elementwise", "operation": 3, "beta": 1}]
    model = container.read(write_network(tmp_path, layers, {name: exact(2) for name in ("x", "b1", "y")}))
    facts = [text for label, text in coremlscope.inspect(model).facts if label == "cannot run"]
    assert facts == [
        "warp ×1: this layer type is not supported",
        "elementwise ×1: the meaning of beta = 1 in its operation is not established",
    ]


def test_shapes_file_for_other_inputs_is_not_compared(tmp_path: Path) -> None:
    folder = _network(tmp_path)
    (folder / "metadata.json").write_text(json.dumps([_metadata("[1, 6, 6]")]))
    net = json.loads((folder / _NET).read_text())
    net["layers"] = [{**net["layers"][0], "top": "y"}]
    (folder / _NET).write_text(json.dumps(net))
    model = container.read(folder)
    assert model.remarks == ()
    assert np.asarray(coremlscope.predict(model, {"x": np.zeros((1, 6, 6))})["y"]).shape == (2, 6, 6)


def _metadata(shape_text: str, kind: str = "neuralNetwork", **more: Any) -> dict[str, Any]:
    """The content of a compiled model's `metadata.json`."""
    array = {"type": "MultiArray", "dataType": "Float32", "shortDescription": ""}
    return {
        "metadataOutputVersion": "3.0",
        "specificationVersion": 1,
        "modelType": {"name": f"MLModelType_{kind}"},
        "inputSchema": [{**array, "name": "x", "shape": shape_text}],
        "outputSchema": [{**array, "name": "y", "shape": "[]"}],
        **more,
    }


# Weights


def test_absent_weights_do_not_stop_reading(tmp_path: Path) -> None:
    folder = _network(tmp_path / "m.mlmodelc")
    (folder / _WEIGHTS).unlink()
    model = container.read(folder)
    assert model.weight_files == (ir.WeightFile(_WEIGHTS, None),)
    summary = coremlscope.inspect(model)
    assert sum(group.nbytes for group in summary.weights) == 2 * 18 + 4 * 2 + 4 * 24
    assert coremlscope.plan(folder, "m1").plans
    assert coremlscope.estimate(folder, "m1").estimates
    with pytest.raises(MissingWeightsError):
        coremlscope.predict(model, {"x": _X})


def test_weight_file_outside_the_folder(tmp_path: Path) -> None:
    with pytest.raises(CorruptModelError, match="outside the model"):
        container.read(_network(tmp_path, storage="../../etc/passwd"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:5], "has only 5 bytes"),
        (lambda data: struct.pack("<Q", 2**61) + data[8:], "declares 2305843009213693952 blobs"),
        (lambda data: data[:-4], "its blobs need"),
        (lambda data: data[:24] + data[8:24] + data[40:], "two blobs 0"),
        (lambda data: data[:16] + struct.pack("<Q", 2**63) + data[24:], "its blobs need"),
    ],
    ids=["empty", "count", "truncated", "twice", "size"],
)
def test_damaged_weight_table(tmp_path: Path, change: Any, message: str) -> None:
    folder = _network(tmp_path)
    (folder / _WEIGHTS).write_bytes(change((folder / _WEIGHTS).read_bytes()))
    with pytest.raises(CorruptModelError, match=message):
        container.read(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"Nx": None}, "Nx is missing"),
        ({"Nx": float("nan")}, "not a valid number"),
        ({"Nx": 10**400}, "not a valid number"),
        ({"Nx": 2.5}, "not an integer"),
        ({"Nx": -1}, "not a positive size"),
        ({"pad_mode": 7}, "pad_mode = 7 is unknown"),
        ({"n_groups": 5}, "cannot be divided"),
        ({"stride_x": 0}, "not a positive size"),
        ({"bottom": "x,x,x"}, "it has 3 inputs"),
        ({"top": "b1,other"}, "2 outputs instead of 1"),
        ({"stride_x": 2}, "instead of [1, 1, 2, 4, 4] in the shapes file"),
    ],
    ids=str,
)
def test_inconsistent_layer_is_kept_with_the_reason(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    folder = _network(tmp_path)
    net = json.loads((folder / _NET).read_text())
    net["layers"][0] |= change
    (folder / _NET).write_text(json.dumps(net))
    content = container.read(folder).content
    assert isinstance(content, ir.Program)
    (function,) = content.functions.values()
    assert problem in function.layers[0].problem
    assert not any(layer.problem for layer in function.layers[1:])
    assert function.graph.ops[0].type in ("convolution", "reshape")


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"blob_weights_f16": 2}, "bytes instead of"),
        ({"blob_weights_f16": 99}, "blob 99 is not in the weight file"),
        ({"blob_weights_f16": "one"}, "the number of one of its blobs is 'one'"),
    ],
    ids=str,
)
def test_layer_whose_weights_cannot_be_read_is_counted_and_planned(
    tmp_path: Path, change: dict[str, Any], doubt: str
) -> None:
    folder = _network(tmp_path)
    known = describe_model(container.read(folder))
    net = json.loads((folder / _NET).read_text())
    net["layers"][0] |= change
    (folder / _NET).write_text(json.dumps(net))
    model = container.read(folder)
    assert isinstance(model.content, ir.Program)
    (function,) = model.content.functions.values()
    assert (function.layers[0].problem, doubt in function.layers[0].doubt) == ("", True)
    described = describe_model(model)
    assert described.parameters == known.parameters > 0
    assert described.main.work is not None
    assert known.main.work is not None
    assert described.main.work.flops == known.main.work.flops > 0


def test_weights_of_unknown_encoding_are_planned_but_not_run(tmp_path: Path) -> None:
    folder = _network(tmp_path / "m.mlmodelc")
    net = json.loads((folder / _NET).read_text())
    del net["layers"][0]["blob_weights_f16"]
    net["layers"][0]["weights"] = {"W_int8": 1, "Q": 3}
    (folder / _NET).write_text(json.dumps(net))
    model = container.read(folder)
    assert isinstance(model.content, ir.Program)
    (conv,) = (op for op in model.content.functions["main"].graph.ops if op.type == "conv")
    assert conv.layer is not None
    assert conv.layer.doubt == "the encoding of its weights (Q, W_int8) is unknown"
    groups = {group.storage: group.nbytes for group in coremlscope.inspect(model).weights}
    assert groups["unknown encoding"] == 2 * 18 + 4 * 2
    assert coremlscope.plan(folder, "m1").plans
    with pytest.raises(UnsupportedModelError, match="encoding of its weights"):
        coremlscope.predict(model, {"x": _X})


def test_quantised_weights_are_counted(tmp_path: Path) -> None:
    weights = WeightTable()
    codes, scale, bias = weights.add(np.zeros(8), "u1"), weights.add([1, 1]), weights.add([0, 0])
    roles = {"W_U8": codes, "per_ch_qscale": scale, "per_ch_qbias": bias}
    layer = {"type": "inner_product", "nB": 4, "nC": 2, "weights": roles}
    model = container.read(write_network(tmp_path, [layer], {"x": exact(4), "y": exact(2)}, weights))
    (group,) = coremlscope.inspect(model).weights
    assert (group.storage, group.parameters, group.nbytes) == ("affine uint8", 8, 8 + 2 * 8)


# Damage to the layers and shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ('{"layers": [', "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not a JSON object"),
        ("{}", "no list of layers"),
        ('{"layers": []}', "has no layers"),
        ('{"layers": [1]}', "layer 0 of .* is not an object"),
        ('{"layers": [{"name": "a"}]}', "layer 0 of .* has no valid type"),
        ('{"layers": [{"type": "copy", "top": 3}]}', "has no valid top"),
        (
            '{"layers": [{"type": "copy", "name": "a", "bottom": "y", "top": "y"}, '
            '{"type": "copy", "name": "b", "bottom": "z", "top": "w"}, '
            '{"type": "copy", "name": "c", "bottom": "w", "top": "z"}]}',
            None,
        ),
    ],
    ids=["empty", "truncated", "deep", "array", "layers", "none", "number", "type", "top", "cycle"],
)
def test_damaged_layers(tmp_path: Path, text: str, message: str | None) -> None:
    folder = _network(tmp_path)
    (folder / _NET).write_text(text)
    if message is None:  # The blobs of a cycle are inputs.
        model = container.read(folder)
        assert [feature.name for feature in model.description.main.inputs] == ["y", "z"]
        return
    with pytest.raises(CorruptModelError, match=message):
        container.read(folder)


def test_missing_layers_and_shapes(tmp_path: Path) -> None:
    folder = _network(tmp_path / "m.mlmodelc")
    (folder / _SHAPE).write_text(
        '{"layer_shapes": {"x": {"k": NaN}, "y": 3, "b1": {"w": 1e99}, "b2": {"h": -1}}}'
    )
    (x,) = container.read(folder).description.main.inputs
    assert isinstance(x.type, ir.ArrayFeature)
    assert x.type.shape == ()
    (folder / _SHAPE).write_text("{}")
    with pytest.raises(CorruptModelError, match="no shapes"):
        container.read(folder)
    (folder / _SHAPE).unlink()
    assert container.read(folder).description.main.inputs[0].name == "x"
    (folder / _NET).unlink()
    with pytest.raises(CorruptModelError, match=r"has no model\.espresso\.net"):
        container.read(folder)


def test_pointer_of_git_lfs(tmp_path: Path) -> None:
    folder = _network(tmp_path)
    (folder / _NET).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(NotAModelError, match="Git LFS pointer"):
        container.read(folder)


def test_mutated_files_give_a_model_or_a_clear_error(tmp_path: Path) -> None:
    whole = _network(tmp_path / "whole")
    seeded = random.Random(7)
    for index in range(150):
        folder = tmp_path / "mutated"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        path = folder / seeded.choice((_NET, _NET, _SHAPE, _WEIGHTS))
        path.write_bytes(mutate(path.read_bytes(), seeded))
        try:
            lower_function(container.read(folder))
        except CoremlscopeError as error:
            if not error.message or not error.message.isprintable():
                raise AssertionError(f"mutation {index}: {error.message!r}") from error


def mutate(data: bytes, seeded: random.Random) -> bytes:
    """Changes, removes or repeats a few bytes, or replaces a number of a text."""
    changed = bytearray(data)
    for _ in range(seeded.randint(1, 3)):
        place, kind = seeded.randrange(max(len(changed), 1)), seeded.randrange(5)
        if kind == 0:
            changed[place : place + 1] = bytes([seeded.randrange(256)])
        elif kind == 1:
            del changed[place : place + seeded.randint(1, 40)]
        elif kind == 2:
            changed[place:place] = changed[place : place + seeded.randint(1, 40)]
        elif kind == 3:
            del changed[place:]
        else:
            digits = [i for i, byte in enumerate(changed) if chr(byte).isdigit()]
            if digits:
                start = seeded.choice(digits)
                numbers = (
                    b"-1",
                    b"0",
                    b"NaN",
                    b"1e400",
                    b"99999999999",
                    b"null",
                    b'"a"',
                    b"{}",
                    b"[]",
                    b"2.5",
                )
                changed[start : start + 1] = seeded.choice(numbers)
    return bytes(changed)


# Compression


def _packed(data: bytes, *, chunk: int = 1 << 30) -> bytes:
    lzfse = pytest.importorskip("lzfse")
    packed = b"pbze" + struct.pack(">Q", chunk)
    for start in range(0, len(data), chunk):
        part = data[start : start + chunk]
        stored = lzfse.compress(part)
        packed += struct.pack(">QQ", len(part), len(stored)) + stored
    return packed


def test_compressed_files(tmp_path: Path) -> None:
    folder = _network(tmp_path)
    expected = run_layers(folder, x=_X)["y"]
    for name in (_NET, _SHAPE):
        (folder / name).write_bytes(_packed((folder / name).read_bytes(), chunk=500))
    np.testing.assert_array_equal(run_layers(folder, x=_X)["y"], expected)


def test_stored_chunk() -> None:
    assert decompress(b"pbze" + struct.pack(">QQQ", 9, 3, 3) + b"abc", "f") == b"abc"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"pbze", "ends in its header"),
        (b"pbze" + bytes(8) + b"1234", "ends in the header of a chunk"),
        (b"pbze" + struct.pack(">QQQ", 9, 30, 20) + b"abc", "ends in a chunk"),
        (b"pbze" + struct.pack(">QQQ", 9, 2**62, 3) + b"abc", "declares a content of"),
        (b"pbze" + struct.pack(">QQQ", 9, 30, 3) + b"abc", "damaged"),
    ],
    ids=["header", "chunk header", "chunk", "size", "content"],
)
def test_damaged_compression(data: bytes, message: str) -> None:
    pytest.importorskip("lzfse")
    with pytest.raises(CorruptModelError, match=message):
        decompress(data, "f")


def test_absent_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _network(tmp_path)
    (folder / _NET).write_bytes(b"pbze" + struct.pack(">QQQ", 9, 30, 3) + b"abc")
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "lzfse":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UnsupportedModelError, match="compressed with LZFSE") as caught:
        container.read(folder)
    assert "[lzfse]'" in caught.value.hint
