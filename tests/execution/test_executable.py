"""Compiling, loading and running executables."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from coremlscope.base.errors import EngineError, InputError, MissingWeightsError, UsageError
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.runtime.engines.base import GRAPH_FILE
from coremlscope.runtime.execution.artefact import MANIFEST_FILE, read_artefact
from coremlscope.runtime.execution.executable import CompileOptions, compile_model, load_compiled
from coremlscope.runtime.execution.state import State
from tests.support.ir_models import absent_weights, accumulator, adder, perceptron

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_feature_values_in_and_out(tmp_path: Path) -> None:
    executable = compile_model(adder(), tmp_path, function="times")
    assert executable.function == "times"
    np.testing.assert_array_equal(executable.predict({"x": X.tolist()})["y"], X * 3)


def test_a_copied_folder_loads_the_same_function(tmp_path: Path) -> None:
    model = adder(ir.RangeShapes(((1, 4), (3, 3))))
    compiled = compile_model(model, tmp_path / "a", shapes={"x": (1, 3)})
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    loaded = load_compiled(tmp_path / "b", model)
    assert loaded.manifest == compiled.manifest
    assert loaded.shapes == {"x": (1, 3)}
    assert loaded.bound.graph.outputs[0].type == compiled.bound.graph.outputs[0].type
    for column in ("owners", "folded", "inputs", "outputs", "states", "weights_bytes", "model"):
        assert getattr(loaded.program, column) == getattr(compiled.program, column)
    np.testing.assert_array_equal(loaded.predict({"x": X[:1]})["y"], X[:1] + 2)


def test_a_classifier_gives_its_label_and_probabilities(tmp_path: Path) -> None:
    model = sample_model(size=32, width=0.1, classes=5)
    compile_model(model, tmp_path).close()
    executable = load_compiled(tmp_path, model)  # The folder keeps the labels.
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    label, probabilities = executable.predict({"image": image}).values()
    assert len(probabilities) == 5
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-3)
    assert max(probabilities, key=probabilities.get) == label


@pytest.mark.parametrize("values", [{}, {"x": X[:1]}, {"x": X, "z": X}])
def test_wrong_inputs_are_input_errors(values: dict[str, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        compile_model(adder(), tmp_path).predict(values)


def test_wrong_tensors_are_input_errors(tmp_path: Path) -> None:
    executable = compile_model(adder(), tmp_path)
    with pytest.raises(InputError, match="'x' is missing"):
        executable.run({})
    with pytest.raises(InputError, match=r"\[2, 3\], but \[5\] was given"):
        executable.run({"x": np.zeros(5, np.float32)})
    np.testing.assert_array_equal(executable.run({"x": X.reshape(-1)})["y"], X + 2)


def test_states_persist_between_predictions(tmp_path: Path) -> None:
    executable = compile_model(accumulator(), tmp_path)
    state, other = executable.new_state(), executable.new_state()
    for step in (1, 2, 3):
        given = executable.predict({"x": [1.0, step]}, state)["y"]
        np.testing.assert_array_equal(given, np.float32([step, step * (step + 1) / 2]) * 10)
    np.testing.assert_array_equal(state.read("total"), [3, 6])
    np.testing.assert_array_equal(other.read("total"), [0, 0])
    np.testing.assert_array_equal(executable.predict({"x": [1.0, 1.0]})["y"], [10, 10])


def test_states_are_rounded_to_fp16(tmp_path: Path) -> None:
    executable = compile_model(accumulator(), tmp_path)
    state = executable.new_state()
    state.write("total", np.array([2048.0, 0.1]))
    assert state.read("total").tolist() == [2048.0, float(np.float16(0.1))]
    executable.predict({"x": [1.0, 0.0]}, state)
    assert state.read("total")[0] == 2048.0  # fp16 cannot represent 2049.


def test_state_names_and_shapes_are_checked(tmp_path: Path) -> None:
    state = compile_model(accumulator(), tmp_path).new_state()
    assert state.names == ("total",)
    with pytest.raises(InputError, match="unknown state 'sum'"):
        state.read("sum")
    with pytest.raises(InputError, match=r"shape \[2\], but \[3\]"):
        state.write("total", np.zeros(3))


def test_predictions_that_share_a_state_are_serialised(tmp_path: Path) -> None:
    executable = compile_model(accumulator(), tmp_path)
    state = executable.new_state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: executable.run({"x": np.ones(2, np.float32)}, state), range(200)))
    assert state.read("total").tolist() == [200, 200]


def test_a_model_without_states_has_an_empty_state(tmp_path: Path) -> None:
    state = compile_model(adder(), tmp_path).new_state()
    assert isinstance(state, State)
    assert state.names == ()


def test_missing_weights_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        MissingWeightsError, match=r"weights are missing: 1 constant .* weights/weight.bin is absent"
    ) as caught:
        compile_model(absent_weights(perceptron()), tmp_path)
    assert "--random-weights" in caught.value.hint


def test_missing_weights_are_replaced_on_request(tmp_path: Path) -> None:
    model, x = absent_weights(perceptron()), {"x": np.ones((1, 64), np.float32)}
    first, again, other = (
        compile_model(model, tmp_path / name, options=CompileOptions(random_weights=seed))
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.manifest.random_weights == 1
    results = [executable.run(x)["y"] for executable in (first, again, other)]
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_the_manifest_omits_the_seed_if_no_weights_are_missing(tmp_path: Path) -> None:
    executable = compile_model(perceptron(), tmp_path, options=CompileOptions(random_weights=1))
    assert executable.manifest.random_weights is None


def test_an_invalid_precision_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="invalid precision 'fp8'") as caught:
        CompileOptions(precision="fp8")  # type: ignore[arg-type]
    assert caught.value.hint == "use one of fp32, fp16"


@pytest.mark.parametrize("damage", ["{", "[]", '{"schema": "coremlscope.compiled/1"}'])
def test_a_damaged_folder_is_an_engine_error(damage: str, tmp_path: Path) -> None:
    compile_model(adder(), tmp_path).close()
    (tmp_path / MANIFEST_FILE).write_text(damage)
    with pytest.raises(EngineError, match="is damaged"):
        load_compiled(tmp_path, adder())


def test_a_damaged_graph_is_an_engine_error(tmp_path: Path) -> None:
    compile_model(adder(), tmp_path).close()
    (tmp_path / GRAPH_FILE).write_bytes(b"\xff\xff\xff")
    with pytest.raises(EngineError, match="is damaged"):
        load_compiled(tmp_path, adder())


def test_a_folder_of_another_version_is_an_engine_error(tmp_path: Path) -> None:
    compile_model(adder(), tmp_path).close()
    content = json.loads((tmp_path / MANIFEST_FILE).read_text())
    (tmp_path / MANIFEST_FILE).write_text(json.dumps({**content, "coremlscope": "0.0.0"}))
    with pytest.raises(EngineError, match="another version"):
        read_artefact(tmp_path)


def test_an_empty_folder_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="does not hold a compiled model"):
        load_compiled(tmp_path, adder())
