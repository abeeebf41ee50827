"""The drop-in runtime behind coremltools' model classes."""

from __future__ import annotations

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ct = pytest.importorskip("coremltools")

from coremlscope.formats import container  # noqa: E402
from coremlscope.runtime.execution import predictor  # noqa: E402
from coremlscope.runtime.execution.cache import default_cache  # noqa: E402
from tests.support import converted_models  # noqa: E402
from tests.support.compiled_models import assert_same_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("drop_in")

_X = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mlp") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("functions") / "functions.mlpackage"
    converted_models.sine_and_cosine(path)
    return path


def test_a_package_without_its_weights_says_so(mlp: Path, tmp_path: Path) -> None:
    package = tmp_path / "mlp.mlpackage"
    shutil.copytree(mlp, package)
    shutil.rmtree(package / "Data" / "com.apple.CoreML" / "weights")
    with pytest.raises(RuntimeError) as caught:
        ct.models.MLModel(str(package))
    assert str(caught.value) == (
        f"Data/com.apple.CoreML/weights is missing in the package {package}, so coremltools cannot open it: "
        "copy or download the whole package again (`coremlscope inspect` describes it without weights)"
    )
    (package / "Manifest.json").write_text("{}")
    with pytest.raises(RuntimeError, match=r"^(?!.*copy or download)"):
        ct.models.MLModel(str(package))


class TestPredict:
    def test_predicts_the_expected_values(self, mlp: Path) -> None:
        result = ct.models.MLModel(str(mlp)).predict({"x": _X})
        assert list(result) == ["y"]
        assert result["y"].dtype == np.float32
        np.testing.assert_allclose(result["y"], converted_models.mlp_result(_X), rtol=1e-5, atol=1e-6)

    def test_takes_lists_doubles_and_half_floats(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        expected = converted_models.mlp_result(np.ones((2, 8), np.float32))
        for value in (np.ones((2, 8)).tolist(), np.ones((2, 8)), np.ones((2, 8), np.float16)):
            np.testing.assert_allclose(model.predict({"x": value})["y"], expected, rtol=1e-5)

    def test_batch(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        results = model.predict([{"x": _X}, {"x": -_X}])
        assert len(results) == 2
        np.testing.assert_allclose(results[1]["y"], converted_models.mlp_result(-_X), rtol=1e-5, atol=1e-6)

    def test_half_precision_comes_back_as_float32(self) -> None:
        result = converted_models.mlp(precision=ct.precision.FLOAT16).predict({"x": _X})["y"]
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, converted_models.mlp_result(_X), rtol=1e-2, atol=1e-2)

    def test_floats_for_integers_are_truncated(self) -> None:
        result = converted_models.counting().predict({"x": np.array([1.9, -1.9, 3.0], np.float32)})["y"]
        assert result.dtype == np.int32
        assert result.tolist() == [2, 0, 4]

    def test_flexible_shapes(self) -> None:
        model = converted_models.mlp(flexible=ct.Shape((ct.RangeDim(1, 4, default=2), 8)))
        for rows in (2, 1, 4, 2):
            x = np.full((rows, 8), 0.5, np.float32)
            np.testing.assert_allclose(
                model.predict({"x": x})["y"], converted_models.mlp_result(x), rtol=1e-5
            )

    def test_a_default_shape_that_the_program_rejects(self) -> None:
        model = converted_models.last_of_three()
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        assert model.predict({"x": x})["y"].tolist() == [2, 6]
        with pytest.raises(RuntimeError):
            model.predict({"x": x[:, :1]})

    def test_from_several_threads(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        inputs = [np.full((2, 8), float(i), np.float32) for i in range(32)]
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda x: model.predict({"x": x})["y"], inputs))
        for x, result in zip(inputs, results, strict=True):
            np.testing.assert_allclose(result, converted_models.mlp_result(x), rtol=1e-5)


class TestImages:
    def test_classifier(self) -> None:
        model = converted_models.classifier()
        label, probabilities = None, None
        for value in model.predict({"image": Image.new("RGB", (6, 4), (0, 255, 51))}).values():
            if isinstance(value, dict):
                probabilities = value
            else:
                label = value
        expected = np.exp([0, 1, 0.2]) / np.exp([0, 1, 0.2]).sum()
        assert label == "dog"
        assert probabilities == pytest.approx(
            dict(zip(converted_models.LABELS, expected, strict=True)), rel=1e-5
        )

    @pytest.mark.parametrize("color", ["RGB", "BGR"])
    def test_colour_out(self, color: str) -> None:
        model = converted_models.inverter(getattr(ct.colorlayout, color))
        result = model.predict({"image": Image.new("RGB", (6, 4), (0, 100, 255))})["inverted"]
        assert (result.mode, result.size) == ("RGBA", (6, 4))
        assert result.getpixel((5, 3)) == (255, 155, 0, 255)

    def test_grey_out(self) -> None:
        model = converted_models.inverter(ct.colorlayout.GRAYSCALE)
        result = model.predict({"image": Image.new("L", (6, 4), 55)})["inverted"]
        assert (result.mode, result.size, result.getpixel((0, 0))) == ("L", (6, 4), 200)

    def test_wrong_size(self) -> None:
        with pytest.raises(RuntimeError, match="not 4×7"):
            converted_models.inverter(ct.colorlayout.RGB).predict({"image": Image.new("RGB", (7, 4))})


class TestStates:
    def test_predictions_update_the_state(self) -> None:
        model = converted_models.accumulator()
        state, other = model.make_state(), model.make_state()
        ones = np.ones(3, np.float32)
        totals = [model.predict({"x": ones}, state=state)["sum"].tolist() for _ in range(3)]
        assert totals == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]
        assert state.read_state("total").tolist() == [3, 3, 3]
        assert state.read_state("total").dtype == np.float32
        assert other.read_state("total").tolist() == [0, 0, 0]

    def test_a_prediction_without_a_state_is_refused(self) -> None:
        model = converted_models.accumulator()
        for given in ({"x": np.ones(3)}, [{"x": np.ones(3)}]):
            with pytest.raises(RuntimeError, match="feature for total must be an MLState, but it was not"):
                model.predict(given)

    def test_a_state_can_be_written(self) -> None:
        model = converted_models.accumulator()
        state = model.make_state()
        state.write_state("total", np.array([1.0, 2.0, 1 / 3]))
        assert state.read_state("total").tolist() == [1, 2, float(np.float16(1 / 3))]
        assert model.predict({"x": np.ones(3)}, state=state)["sum"].tolist()[:2] == [2, 3]

    def test_wrong_names_and_shapes(self) -> None:
        state = converted_models.accumulator().make_state()
        with pytest.raises(RuntimeError, match="nothing"):
            state.read_state("nothing")
        with pytest.raises(RuntimeError, match="total"):
            state.write_state("total", np.ones(4))

    def test_threads_that_share_a_state_are_serialised(self) -> None:
        model = converted_models.accumulator()
        state = model.make_state()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: model.predict({"x": np.ones(3)}, state=state), range(64)))
        assert state.read_state("total").tolist() == [64, 64, 64]


class TestFunctions:
    def test_each_can_be_loaded(self, functions: Path) -> None:
        x = np.array([0, 0.5, 1, 2], np.float32)
        for name, function in ((None, np.sin), ("sine", np.sin), ("cosine", np.cos)):
            model = ct.models.MLModel(str(functions), function_name=name)
            np.testing.assert_allclose(model.predict({"x": x})["y"], function(x), atol=2e-3)
            assert model.function_name == (name or "sine")

    def test_of_a_compiled_model(self, functions: Path) -> None:
        compiled = ct.models.MLModel(str(functions))
        path = compiled.get_compiled_model_path()
        x = np.array([0, 0.5, 1, 2], np.float32)
        for name, function in ((None, np.sin), ("cosine", np.cos)):
            model = ct.models.CompiledMLModel(path, function_name=name)
            np.testing.assert_allclose(model.predict({"x": x})["y"], function(x), atol=2e-3)
        with pytest.raises(RuntimeError, match="tangent"):
            ct.models.CompiledMLModel(path, function_name="tangent")

    def test_main_selects_the_only_function(self, mlp: Path) -> None:
        assert ct.models.MLModel(str(mlp), function_name="main").predict({"x": _X})["y"].shape == (2, 5)


class TestCompiled:
    def test_can_be_moved_and_copied(self, mlp: Path, tmp_path: Path) -> None:
        package = tmp_path / "gone.mlpackage"
        shutil.copytree(mlp, package)
        (tmp_path / "elsewhere").mkdir()
        first = ct.models.utils.compile_model(str(package), str(tmp_path / "first.mlmodelc"))
        shutil.rmtree(package)
        assert first == str(tmp_path / "first.mlmodelc")
        assert Path(first).stat().st_mode == tmp_path.joinpath("elsewhere").stat().st_mode
        expected = converted_models.mlp_result(_X)
        np.testing.assert_allclose(
            ct.models.CompiledMLModel(first).predict({"x": _X})["y"], expected, rtol=1e-5, atol=1e-6
        )
        second = tmp_path / "elsewhere" / "second.mlmodelc"
        shutil.copytree(first, second)
        shutil.rmtree(first)
        model = ct.models.CompiledMLModel(str(second), compute_units=ct.ComputeUnit.CPU_ONLY)
        np.testing.assert_allclose(model.predict({"x": _X})["y"], expected, rtol=1e-5, atol=1e-6)
        assert len(model.predict([{"x": _X}] * 3)) == 3

    def test_contains_the_model_and_its_description(self, mlp: Path, tmp_path: Path) -> None:
        path = Path(ct.models.utils.compile_model(str(mlp), str(tmp_path / "m.mlmodelc")))
        assert container.sniff(path) == "mlmodelc"
        assert_same_model(container.read(path), container.read(mlp))
        assert not (path / "coremlscope.json").exists()
        [about] = json.loads((path / "metadata.json").read_text())
        assert about["modelType"] == {"name": "MLModelType_mlProgram"}
        assert about["inputSchema"][0]["formattedType"] == "MultiArray (Float32 2 × 8)"
        assert about["mlProgramOperationTypeHistogram"] == {"Ios16.linear": 1, "Ios16.relu": 1}
        text = (path / "model.mil").read_text()
        assert "= linear(bias = " in text
        assert '"@model_path/weights/weight.bin"' in text

    def test_is_independent_of_its_package(self, mlp: Path, tmp_path: Path) -> None:
        package = tmp_path / "m.mlpackage"
        shutil.copytree(mlp, package)
        compiled = ct.models.utils.compile_model(str(package), str(tmp_path / "m.mlmodelc"))
        next(package.rglob("weight.bin")).write_bytes(b"")
        result = ct.models.CompiledMLModel(compiled).predict({"x": _X})["y"]
        np.testing.assert_allclose(result, converted_models.mlp_result(_X), rtol=1e-5, atol=1e-6)

    def test_a_loaded_model_removes_its_compiled_model(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        path = Path(model.get_compiled_model_path())
        assert path.suffix == ".mlmodelc"
        assert (path / "metadata.json").is_file()
        assert ct.models.CompiledMLModel(str(path)).predict({"x": _X})["y"].shape == (2, 5)
        del model
        assert not path.exists()

    def test_loads_from_the_cache_the_second_time(
        self, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COREMLSCOPE_CACHE", str(tmp_path / "cache"))
        path = ct.models.utils.compile_model(str(mlp), str(tmp_path / "m.mlmodelc"))
        before = sorted(Path(path).rglob("*"))
        assert ct.models.CompiledMLModel(path).predict({"x": _X})["y"].shape == (2, 5)
        assert sorted(Path(path).rglob("*")) == before
        assert [entry.name for entry in default_cache().entries()] == ["m.mlmodelc"]
        monkeypatch.setattr(predictor, "compile_model", None)
        copy = shutil.copytree(path, tmp_path / "copy.mlmodelc")
        for place in (path, str(copy)):
            loaded = ct.models.CompiledMLModel(place)
            np.testing.assert_allclose(
                loaded.predict({"x": _X})["y"], converted_models.mlp_result(_X), rtol=1e-5, atol=1e-6
            )

    def test_packages_are_cached_unless_they_are_temporary(
        self, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (temporary := tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        monkeypatch.setenv("COREMLSCOPE_CACHE", str(tmp_path / "cache"))
        ct.models.MLModel(str(shutil.copytree(mlp, temporary / "m.mlpackage")))
        assert default_cache().entries() == []
        path = shutil.copytree(mlp, tmp_path / "m.mlpackage")
        ct.models.MLModel(str(path))
        assert [entry.name for entry in default_cache().entries()] == ["m.mlmodelc"]
        assert list(temporary.rglob("*.mlmodelc")) == []
        with monkeypatch.context() as patch:
            patch.setattr(predictor, "compile_model", None)
            loaded = ct.models.MLModel(str(path)).predict({"x": _X})["y"]
        np.testing.assert_allclose(loaded, converted_models.mlp_result(_X), rtol=1e-5, atol=1e-6)
        # Other weights in a file of the same name are another model.
        (weights,) = path.rglob("weight.bin")
        content = bytearray(weights.read_bytes())
        content[-64:] = bytes(64)
        weights.write_bytes(content)
        assert not np.allclose(ct.models.MLModel(str(path)).predict({"x": _X})["y"], loaded)

    def test_loads_without_a_writable_cache(
        self, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("COREMLSCOPE_CACHE", str(tmp_path / "file" / "cache"))
        path = ct.models.utils.compile_model(str(mlp), str(tmp_path / "m.mlmodelc"))
        assert ct.models.CompiledMLModel(path).predict({"x": _X})["y"].shape == (2, 5)

    def test_a_folder_of_apples_compiler(self, corpus: Path) -> None:
        path = str(corpus / "models/apple__coremltools/add_model.mlmodelc")
        x, y = np.full((1, 10), 3, np.float32), np.full((1, 10), 4, np.float32)
        asset = ct.models.model.MLModelAsset.from_path(path)
        for model in (ct.models.CompiledMLModel(path), ct.models.CompiledMLModel.from_asset(asset)):
            assert model.predict({"x": x, "y": y})["var_3"].tolist() == [[12] * 10]
        plan = ct.models.compute_plan.MLComputePlan.load_from_path(path)
        (operation,) = plan.model_structure.program.functions["main"].block.operations
        assert operation.operator_name == "mul"
        assert plan.get_estimated_cost_for_mlprogram_operation(operation).weight == 1

    def test_in_memory(self) -> None:
        model = converted_models.mlp()
        weights = Path(model.weights_dir, "weight.bin").read_bytes()
        asset = ct.models.model.MLModelAsset.from_memory(
            spec_data=model.get_spec().SerializeToString(), blob_mapping={"weights/weight.bin": weights}
        )
        loaded = ct.models.CompiledMLModel.from_asset(asset)
        np.testing.assert_allclose(
            loaded.predict({"x": _X})["y"], converted_models.mlp_result(_X), rtol=1e-5, atol=1e-6
        )

    def test_asset_from_path(self, mlp: Path, tmp_path: Path) -> None:
        path = ct.models.utils.compile_model(str(mlp), str(tmp_path / "m.mlmodelc"))
        asset = ct.models.model.MLModelAsset.from_path(path)
        assert ct.models.CompiledMLModel.from_asset(asset).predict({"x": _X})["y"].shape == (2, 5)

    def test_weight_names_may_not_point_outside(self) -> None:
        spec = converted_models.mlp().get_spec().SerializeToString()
        with pytest.raises(RuntimeError, match="outside the model"):
            ct.models.model.MLModelAsset.from_memory(spec, {"../../weight.bin": b""})


class TestRefusals:
    def test_a_fixed_shape(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        with pytest.raises(RuntimeError, match=r"shape \(3 x 8\) does not match the shape \(2 x 8\)"):
            model.predict({"x": np.zeros((3, 8))})

    def test_a_range(self) -> None:
        model = converted_models.mlp(flexible=ct.Shape((ct.RangeDim(1, 4, default=2), 8)))
        with pytest.raises(
            RuntimeError, match=r"Size \(5\) of dimension \(0\) is not in allowed range \(1\.\.4\)"
        ):
            model.predict({"x": np.zeros((5, 8))})

    def test_enumerated_shapes(self) -> None:
        model = converted_models.mlp(flexible=ct.EnumeratedShapes([(1, 8), (4, 8)], default=(1, 8)))
        assert model.predict({"x": np.zeros((4, 8))})["y"].shape == (4, 5)
        with pytest.raises(
            RuntimeError, match=r"MultiArray Shape \(2 x 8\) was not in enumerated set of allowed shapes"
        ):
            model.predict({"x": np.zeros((2, 8))})

    @pytest.mark.parametrize("allowed", ["one", "several", "a range"])
    def test_the_size_of_an_image(self, allowed: str) -> None:
        mb = ct.converters.mil.Builder

        @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 8, 6))], opset_version=ct.target.iOS16)
        def network(x: Any) -> Any:
            return mb.relu(x=x, name="y")

        image = ct.ImageType(name="x", shape=(1, 3, 8, 6))
        made = ct.convert(network, inputs=[image], minimum_deployment_target=ct.target.iOS16)
        spec = made.get_spec()
        type_ = spec.description.input[0].type.imageType
        if allowed == "several":
            for width, height in ((6, 8), (12, 16)):
                type_.enumeratedSizes.sizes.add(width=width, height=height)
        elif allowed == "a range":
            for bounds in (type_.imageSizeRange.widthRange, type_.imageSizeRange.heightRange):
                bounds.lowerBound, bounds.upperBound = 4, 8
        model = ct.models.MLModel(spec, weights_dir=made.weights_dir)
        assert model.predict({"x": Image.new("RGB", (6, 8))})
        with pytest.raises(RuntimeError, match="Image size 12 x 8 not in allowed set of image sizes"):
            model.predict({"x": Image.new("RGB", (12, 8))})

    def test_an_image_for_an_array(self, mlp: Path) -> None:
        model = ct.models.CompiledMLModel(ct.models.utils.compile_model(str(mlp)))
        with pytest.raises(RuntimeError, match="MultiArrayConstraint only allows MultiArrays"):
            model.predict({"x": Image.new("L", (8, 2))})

    def test_a_missing_input(self, mlp: Path) -> None:
        with pytest.raises(RuntimeError, match="'x'"):
            ct.models.MLModel(str(mlp)).predict({})

    def test_an_unknown_input(self, mlp: Path) -> None:
        with pytest.raises(KeyError):
            ct.models.MLModel(str(mlp)).predict({"x": _X, "z": _X})

    def test_runtime_failures(self) -> None:
        model = converted_models.strict_gather()
        x = np.arange(4, dtype=np.float32)
        assert model.predict({"x": x, "indices": np.array([3, 0])})["y"].tolist() == [3, 0]
        with pytest.raises(RuntimeError, match="Unable to compute the prediction using ML Program"):
            model.predict({"x": x, "indices": np.array([4, 0])})

    def test_unsupported_model_types(self, tmp_path: Path) -> None:
        spec = converted_models.text_classifier()
        with pytest.warns(RuntimeWarning, match="text classifier cannot be run here"):
            model = ct.models.MLModel(spec)
        assert model.get_spec() == spec
        with pytest.raises(RuntimeError, match="text classifier cannot be run here"):
            model.predict({"text": "yes or no"})
        with pytest.raises(RuntimeError, match="text classifier cannot be run here"):
            ct.models.CompiledMLModel(ct.models.utils.compile_model(spec, str(tmp_path / "m.mlmodelc")))

    def test_files_that_are_not_models(self, tmp_path: Path) -> None:
        (tmp_path / "m.mlmodel").write_bytes(b"nothing of the kind")
        with pytest.raises(RuntimeError, match="Error compiling model"):
            ct.models.utils.compile_model(str(tmp_path / "m.mlmodel"))
        with pytest.raises(RuntimeError, match="does not exist"):
            ct.models.CompiledMLModel(str(tmp_path / "absent.mlmodelc"))


class TestDurations:
    def test_durations(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        assert model.load_duration_in_nano_seconds > 0
        assert model.last_predict_duration_in_nano_seconds is None
        model.predict({"x": _X})
        assert 0 < model.last_predict_duration_in_nano_seconds < 60e9

    def test_benchmarker(self) -> None:
        from coremltools.models.ml_program.experimental.perf_utils import MLModelBenchmarker

        async def measure() -> tuple[Any, Any]:
            benchmarker = MLModelBenchmarker(model=converted_models.mlp())
            return (
                await benchmarker.benchmark_load(iterations=2),
                await benchmarker.benchmark_predict(iterations=3, warmup=True),
            )

        load, predict = asyncio.run(measure())
        assert (len(load.samples), len(predict.samples)) == (2, 3)
        assert min(load.samples + predict.samples) > 0

    def test_optimization_hints_are_accepted(self, mlp: Path) -> None:
        hints = {
            "reshapeFrequency": ct.ReshapeFrequency.Infrequent,
            "specializationStrategy": ct.SpecializationStrategy.FastPrediction,
            "allowLowPrecisionAccumulationOnGPU": True,
        }
        for units in ct.ComputeUnit:
            model = ct.models.MLModel(str(mlp), compute_units=units, optimization_hints=hints)
            assert model.predict({"x": _X})["y"].shape == (2, 5)


class TestDescriptions:
    def test_structure(self, mlp: Path) -> None:
        model = ct.models.MLModel(str(mlp))
        structure = ct.models.compute_plan.MLModelStructure.load_from_path(model.get_compiled_model_path())
        assert (structure.neuralnetwork, structure.pipeline) == (None, None)
        function = structure.program.functions["main"]
        assert [value.name for value in function.inputs] == ["x"]
        assert function.block.output_names == ["y"]
        operations = {op.operator_name: op for op in function.block.operations}
        assert {"linear", "relu"} <= set(operations)
        assert operations["linear"].inputs["x"].bindings[0].name == "x"
        assert [value.name for value in operations["relu"].outputs] == ["y"]

    def test_devices(self) -> None:
        from coremltools.models.compute_device import (
            MLComputeDevice,
            MLCPUComputeDevice,
            MLGPUComputeDevice,
            MLNeuralEngineComputeDevice,
        )

        kinds = [MLCPUComputeDevice, MLGPUComputeDevice, MLNeuralEngineComputeDevice]
        devices = MLComputeDevice.get_all_compute_devices()
        assert [type(device) for device in devices] == kinds
        assert devices[2].total_core_count == 16
        assert [type(d) for d in ct.models.MLModel.get_available_compute_devices()] == kinds
