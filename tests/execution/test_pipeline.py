"""Pipelines: predictions, conversions between stages, compiling and loading."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest
from PIL import Image

from coremlscope.base.errors import (
    CorruptModelError,
    EngineError,
    InputError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.formats.external import vision_feature_print
from coremlscope.model import ir
from coremlscope.runtime.execution.cache import ArtefactCache
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.pipeline import (
    PipelineExecutable,
    PipelinePredictor,
    StageRun,
    compile_whole,
    load_whole,
    open_predictor,
)
from coremlscope.runtime.execution.predictor import FunctionPredictor
from tests.support.classical_specs import classifier, read_spec, regressor
from tests.support.ir_models import absent_weights, array_feature, model, perceptron
from tests.support.pipelines import arithmetic, external, image_feature, pipeline, scene_print, tripler

X = np.array([1, 2, 3], np.float32)
A = [array_feature("a", (3,))]


def _outputs(*names: str) -> list[ir.Feature]:
    return [array_feature(name, (3,)) for name in names]


def _predict(given: ir.Model, values: dict[str, Any]) -> dict[str, Any]:
    with open_predictor(given) as predictor:
        return predictor.predict(values)


def test_each_stage_reads_earlier_features() -> None:
    stages = arithmetic("mul", "b", "a"), arithmetic("sub", "c", "b", "a"), arithmetic("add", "d", "c")
    with open_predictor(pipeline(A, _outputs("d", "b"), *stages)) as predictor:
        assert isinstance(predictor, PipelinePredictor)
        predictor.prepare()
        results = predictor.predict({"a": X})
        assert list(results) == ["d", "b"]
        np.testing.assert_allclose(results["d"], 9 * X + 10)
        np.testing.assert_allclose(results["b"], 10 * X)
        assert predictor.new_state().names == ()
    with pytest.raises(UsageError, match="the predictor is closed"):
        predictor.predict({"a": X})


def test_a_nested_pipeline() -> None:
    inner = pipeline(A, _outputs("b"), arithmetic("mul", "b", "a"))
    result = _predict(pipeline(A, _outputs("c"), inner, arithmetic("add", "c", "b")), {"a": X})
    np.testing.assert_allclose(result["c"], 10 * X + 10)


def test_features_of_a_nested_pipeline_are_local() -> None:
    inner = pipeline(A, _outputs("c"), arithmetic("mul", "b", "a"), arithmetic("mul", "c", "b"))
    with pytest.raises(CorruptModelError, match="reads 'b'"):
        open_predictor(pipeline(A, _outputs("d"), inner, arithmetic("add", "d", "b")))


def test_a_later_feature_shadows_an_earlier_one() -> None:
    stages = arithmetic("mul", "b", "a"), arithmetic("add", "b", "b"), arithmetic("sub", "c", "b")
    result = _predict(pipeline(A, _outputs("b", "c"), *stages), {"a": X})
    np.testing.assert_allclose(result["b"], 10 * X + 10)
    np.testing.assert_allclose(result["c"], 10 * X)


def test_wrong_inputs_are_input_errors() -> None:
    with open_predictor(pipeline(A, _outputs("b"), arithmetic("mul", "b", "a"))) as predictor:
        with pytest.raises(InputError, match="'a'"):
            predictor.predict({})
        with pytest.raises(InputError, match="no input 'z'"):
            predictor.predict({"a": X, "z": X})


def test_unknown_functions_and_unsupported_stages() -> None:
    good = pipeline(A, _outputs("b"), arithmetic("mul", "b", "a"))
    with pytest.raises(UsageError, match="unknown function 'other'"):
        open_predictor(good, "other")
    unread = msgspec.structs.replace(arithmetic("mul", "b", "a"), content=ir.Opaque("somethingNew"))
    with pytest.raises(UnsupportedModelError, match=r"stage 'model0' of the pipeline, .* somethingNew"):
        open_predictor(pipeline(A, _outputs("b"), unread))


def test_programs_have_a_function_predictor() -> None:
    with open_predictor(arithmetic("mul", "b", "a")) as predictor:
        assert isinstance(predictor, FunctionPredictor)


def test_fp16_ranges_of_all_stages() -> None:
    feature = [array_feature(name, (3,), ir.DType.FP16) for name in "abc"]
    stages = [tripler(a, b, ir.DType.FP16) for a, b in itertools.pairwise(feature)]
    with open_predictor(pipeline(feature[:1], feature[2:], *stages), precision="fp16") as predictor:
        result, ranges = predictor.predict_with_ranges({"a": np.float32([1, 2, 30000])})
    assert [(row.id, row.overflows) for row in ranges] == [("model0/main/0", 1), ("model1/main/0", 0)]
    np.testing.assert_array_equal(result["c"], [9, 18, np.inf])


# Conversions between stages


def test_numbers_become_arrays_of_one_element_and_back() -> None:
    array = {"multiArrayType": {"shape": [1], "dataType": 65600}}
    first = read_spec(regressor([[2]], [1]))  # a double from a double
    second = read_spec(regressor([[10]], [0], inputs={"y": array}))
    renamed = msgspec.structs.replace(first.description.main.outputs[0], type=ir.Int64Feature())
    given = pipeline(first.description.main.inputs, [renamed], first, second)
    assert _predict(given, {"x0": 3}) == {"y": 70}


@pytest.mark.parametrize("labels", [["a", "b"], [7, 3]])
def test_labels_and_probabilities_are_passed_on(labels: Any) -> None:
    stage = read_spec(classifier([[1, 0]], [0], labels))
    inner = pipeline(stage.description.main.inputs, stage.description.main.outputs, stage)
    result = _predict(
        pipeline(stage.description.main.inputs, stage.description.main.outputs, inner), {"x": [2.0, 5.0]}
    )
    probability = 1 / (1 + math.exp(-2))
    assert result["label"] == labels[1]
    assert result["probabilities"] == pytest.approx({labels[0]: 1 - probability, labels[1]: probability})


def test_images_are_rounded_between_stages() -> None:
    image, middle, last = (image_feature(name) for name in ("image", "middle", "last"))
    given = pipeline([image], [middle, last], tripler(image, middle), tripler(middle, last))
    pixels = np.full((4, 6, 3), (1, 20, 100), np.uint8)
    result = _predict(given, {"image": Image.fromarray(pixels)})
    assert set(np.asarray(result["middle"]).reshape(-1, 4)[:, :3].reshape(-1).tolist()) == {3, 60, 255}
    assert np.asarray(result["last"])[0, 0, :3].tolist() == [9, 180, 255]


def test_each_stage_gets_its_own_order_of_colour_planes() -> None:
    red_first, blue_first = image_feature("image"), image_feature("image", "BGR")
    out = array_feature("planes", (1, 3, 4, 6))
    picture = Image.fromarray(np.full((4, 6, 3), (1, 2, 3), np.uint8))
    for inside, expected in ((red_first, [3, 6, 9]), (blue_first, [9, 6, 3])):
        given = pipeline([red_first], [out], tripler(inside, out))
        assert _predict(given, {"image": picture})["planes"][0, :, 0, 0].tolist() == expected


def test_two_stages_read_one_image() -> None:
    image, first, second = (image_feature(name) for name in ("image", "first", "second"))
    given = pipeline([image], [first, second], tripler(image, first), tripler(image, second))
    result = _predict(given, {"image": Image.new("RGB", (6, 4), (10, 10, 10))})
    assert np.array_equal(np.asarray(result["first"]), np.asarray(result["second"]))


def test_an_omitted_input_is_omitted_in_its_stage() -> None:
    bias = ir.Feature("bias", ir.ArrayFeature(dtype=ir.DType.FP32, shape=(3,), default=4.0), is_optional=True)
    plain = msgspec.structs.replace(bias, type=ir.ArrayFeature(dtype=ir.DType.FP32, shape=(3,)))
    stage = arithmetic("add", "c", "a", "bias")
    interface = ir.FunctionDescription(inputs=(*A, bias), outputs=tuple(_outputs("c")))
    stage = msgspec.structs.replace(stage, description=ir.Description({"main": interface}, "main"))
    given = pipeline([*A, plain], _outputs("c"), stage)
    np.testing.assert_array_equal(_predict(given, {"a": X})["c"], X + 4)
    np.testing.assert_array_equal(_predict(given, {"a": X, "bias": X})["c"], 2 * X)


# Compiling and loading


def test_executables_and_predictors_agree(tmp_path: Path) -> None:
    given = pipeline(A, _outputs("c"), arithmetic("mul", "b", "a"), arithmetic("add", "c", "b"))
    compile_whole(given, tmp_path).close()
    executable = load_whole(tmp_path, given)
    assert isinstance(executable, PipelineExecutable)
    seen: list[StageRun] = []
    result = executable.run({"a": X}, watch=seen.append)
    np.testing.assert_allclose(result["c"].value(), 10 * X + 10)
    assert [(run.index, list(run.tensors)) for run in seen] == [(0, ["a"]), (1, ["b"])]
    assert all(run.run_s > 0 and run.convert_s >= 0 for run in seen)
    executable.close()
    (tmp_path / "pipeline.json").write_text("[]")
    with pytest.raises(EngineError, match="does not hold a compiled pipeline"):
        load_whole(tmp_path, given)


def test_shapes_propagate_from_stage_to_stage(tmp_path: Path) -> None:
    flexible = ir.RangeShapes(((4, 9), (6, 9)))
    image, middle, last = (image_feature(name, "RGB", flexible) for name in ("image", "middle", "last"))
    given = pipeline([image], [last], tripler(image, middle), tripler(middle, last))
    executable = compile_whole(given, tmp_path, shapes={"image": (5, 8)})
    assert isinstance(executable, PipelineExecutable)
    assert executable.shapes == {"image": (1, 3, 5, 8)}
    assert [step.shapes for step in executable.steps] == [{"image": (1, 3, 5, 8)}, {"middle": (1, 3, 5, 8)}]
    with pytest.raises(InputError, match="does not allow"):
        compile_whole(given, tmp_path, shapes={"image": (3, 8)})


def test_weights_of_a_stage_may_be_random(tmp_path: Path) -> None:
    stage = absent_weights(perceptron())
    main = stage.description.main
    given = pipeline(main.inputs, main.outputs, stage)
    executable = compile_whole(given, tmp_path, options=CompileOptions(random_weights=1))
    assert isinstance(executable, PipelineExecutable)
    assert executable.run({"x": np.ones((1, 64), np.float32)})["y"].value().shape == (1, 64)


# Placeholders


def _on_print(shape: tuple[int, ...] = (2048,)) -> ir.Model:
    source = array_feature("print", shape, ir.DType.FP64)
    target = array_feature("y", shape, ir.DType.FP64)
    return tripler(source, target)


def _with_placeholder(first: ir.Model, second: ir.Model, folder: Path) -> PipelineExecutable:
    given = pipeline(first.description.main.inputs, second.description.main.outputs, first, second)
    executable = compile_whole(given, folder)
    assert isinstance(executable, PipelineExecutable)
    return executable


def test_a_system_stage_gets_a_placeholder(tmp_path: Path) -> None:
    executable = _with_placeholder(scene_print(), _on_print(), tmp_path)
    image = np.zeros((1, 3, 4, 6), np.float32)
    first, again = (executable.run({"image": image})["y"].value() for _ in range(2))
    assert first.shape == (2048,)
    assert np.array_equal(first, again)
    with pytest.raises(
        UnsupportedModelError, match="'model0' of the pipeline, a Vision feature print"
    ) as caught:
        open_predictor(executable.model)
    assert "its network is part of Apple's systems" in caught.value.message


@pytest.mark.parametrize(("version", "size"), [(1, 2048), (2, 768)])
def test_shapes_from_the_specification(tmp_path: Path, version: int, size: int) -> None:
    source = ir.Feature("print", ir.ArrayFeature(dtype=ir.DType.FP64, shape=()))
    target = array_feature("y", (size,), ir.DType.FP64)
    x, y = (ir.Value(f.name, ir.TensorType(ir.DType.FP64, (None,))) for f in (source, target))
    row = ir.Op(id="main/0", type="mul", inputs={"x": (x,), "y": (ir.constant(np.float64(3)),)}, outputs=(y,))
    second = model([source], [target], {"main": ir.Graph(name="main", inputs=(x,), ops=(row,), outputs=(y,))})
    executable = _with_placeholder(scene_print("print", (), version), second, tmp_path)
    assert executable.run({"image": np.zeros((1, 3, 4, 6), np.float32)})["y"].value().shape == (size,)


def test_shapes_from_the_next_stage(tmp_path: Path) -> None:
    custom = ir.External(kind="customModel", absent="it is implemented by a class of an app")
    first = external(custom, A, [ir.Feature("print", ir.ArrayFeature(dtype=ir.DType.FP64, shape=()))])
    executable = _with_placeholder(first, _on_print((2, 5)), tmp_path)
    assert executable.run({"a": X})["y"].value().shape == (2, 5)


def test_two_outputs_of_the_network_for_objects(tmp_path: Path) -> None:
    content = vision_feature_print("objects", 1, ["low", "high"], ["high", "low"])
    outputs = [ir.Feature(name, ir.ArrayFeature(dtype=ir.DType.FP32, shape=())) for name in ("low", "high")]
    first = external(content, [image_feature("image")], outputs)
    second = tripler(array_feature("high", (288, 35, 35)), array_feature("y", (288, 35, 35)))
    executable = _with_placeholder(first, second, tmp_path)
    step = executable.steps[0]
    assert step.shapes == {"low": (768, 17, 17), "high": (288, 35, 35)}


def test_placeholders_of_labels_are_labels(tmp_path: Path) -> None:
    content = ir.External(kind="textClassifier", absent="it is in no file", labels=("no", "yes"))
    features = [ir.Feature("label", ir.StringFeature()), ir.Feature("odds", ir.DictionaryFeature("string"))]
    first = external(content, [ir.Feature("text", ir.StringFeature())], features)
    given = pipeline(
        [*first.description.main.inputs, *A], [*features, *_outputs("b")], first, arithmetic("mul", "b", "a")
    )
    executable = compile_whole(given, tmp_path)
    assert isinstance(executable, PipelineExecutable)
    result = executable.run({"text": np.array(["x"], object), "a": X})
    assert result["label"].value() == "no"
    assert result["odds"].value() == {"no": 0.5, "yes": 0.5}


def test_a_pipeline_of_placeholders_is_an_error(tmp_path: Path) -> None:
    first = scene_print()
    given = pipeline(first.description.main.inputs, first.description.main.outputs, first)
    with pytest.raises(UnsupportedModelError, match=r"no stage of this pipeline .* model0 \(Vision feature"):
        compile_whole(given, tmp_path)


def test_a_cache_holds_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "pipe.mlmodel"
    source.write_bytes(b"content")
    inner = pipeline(A, _outputs("b"), arithmetic("mul", "b", "a"))
    given = pipeline(A, _outputs("c"), inner, arithmetic("add", "c", "b"))
    given = msgspec.structs.replace(given, source=source)
    cache = ArtefactCache(tmp_path / "cache")
    for _ in range(2):
        with open_predictor(given, None, cache) as predictor:
            np.testing.assert_allclose(predictor.predict({"a": X})["c"], 10 * X + 10)
        monkeypatch.setattr("coremlscope.runtime.execution.predictor.compile_model", None)
    assert {entry.name for entry in cache.entries()} == {"pipe.mlmodel model0/model0", "pipe.mlmodel model1"}
