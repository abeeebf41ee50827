"""Inputs that a reference may not have had, has under other names, or that hide nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types
from onnx import TensorProto, helper

from coremlscope import verify
from coremlscope.base.errors import EngineError, InputError
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.results.verification import Verification
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.inputs import choose_inputs
from tests.support.faulty_programs import save_program


def _ids(found: Verification) -> list[str]:
    return [finding.id for finding in found.findings]


def _read(program: Any, folder: Path) -> Model:
    return container.read(save_program(program, folder / "m.mlpackage", fp16=False))


@pytest.fixture(scope="module")
def difference(tmp_path_factory: pytest.TempPathFactory) -> Model:
    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, 8)), mb.TensorSpec((1, 8))], opset_version=ct.target.iOS17
    )
    def program(first: Any, second: Any) -> Any:
        return mb.sub(x=mb.mul(x=first, y=2.0), y=second, name="y")

    return _read(program, tmp_path_factory.mktemp("difference"))


def test_inputs_that_were_drawn_are_named(difference: Model) -> None:
    drawn = choose_inputs(choose_function(difference), {"first": np.ones((1, 8), np.float32)})
    assert drawn.synthetic == ("second",)


def test_recorded_outputs_of_other_inputs_blame_no_operation(difference: Model) -> None:
    x, y = np.random.default_rng(5).standard_normal((2, 1, 8)).astype(np.float32)
    for recorded, names in (({}, ": first, second"), ({"first": x}, ": second")):
        found = verify(difference, {"y": 2 * x - y, **recorded})
        assert not found.passed
        assert not found.faults
        assert _ids(found) == ["recorded-for-other-inputs"]
        assert names in found.findings[0].text
        assert "--input" in found.findings[0].hint
        alike = verify(difference, {"y": 2 * x - y, **recorded}, atol=100)
        assert alike.passed
        assert _ids(alike) == ["recorded-for-other-inputs"]
    assert not verify(difference, {"y": 2 * x - y, "first": x, "second": y}).findings


def test_recorded_outputs_of_the_same_inputs_are_searched(difference: Model) -> None:
    drawn = dict(choose_inputs(choose_function(difference), {}).tensors)
    right = 2 * drawn["first"] - drawn["second"]
    assert not verify(difference, {"y": right}).findings
    doubled = verify(difference, {"mul_0": 2 * drawn["first"], "y": 2 * right})
    assert doubled.faults[0].type == "sub"


def _saved(path: Path, names: tuple[str, str]) -> Path:
    """Writes 2 · first − second of two inputs, in the order of the model."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in names]
    nodes = [
        helper.make_node("Add", [names[0], names[0]], ["twice"]),
        helper.make_node("Sub", ["twice", names[1]], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])
    graph = helper.make_graph(nodes, "main", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_inputs_of_one_size_and_other_names_are_noted(difference: Model, tmp_path: Path) -> None:
    found = verify(difference, _saved(tmp_path / "other.onnx", ("a", "b")))
    assert found.passed
    assert _ids(found) == ["inputs-in-order"]
    assert "first as a, second as b" in found.findings[0].text
    assert found.findings[0].severity == "info"
    assert not verify(difference, _saved(tmp_path / "same.onnx", ("first", "second"))).findings


def test_inputs_are_taken_in_the_order_that_agrees(tmp_path: Path) -> None:
    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, 8)), mb.TensorSpec((1, 8))], opset_version=ct.target.iOS17
    )
    def program(second: Any, first: Any) -> Any:
        return mb.sub(x=mb.add(x=first, y=first), y=second, name="y")

    found = verify(_read(program, tmp_path), _saved(tmp_path / "other.onnx", ("a", "b")))
    assert found.passed
    assert found.contract == "the reference gets second and first in the other order"


def test_the_kind_of_numbers_tells_inputs_apart(tmp_path: Path) -> None:
    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, 8)), mb.TensorSpec((1, 8), dtype=types.int32)],
        opset_version=ct.target.iOS17,
    )
    def program(picture: Any, words: Any) -> Any:
        return mb.add(x=picture, y=mb.cast(x=words, dtype="fp32"), name="y")

    nodes = [
        helper.make_node("Cast", ["a"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    kinds = {"a": TensorProto.INT32, "b": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kind, [1, 8]) for name, kind in kinds.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])
    graph = helper.make_graph(nodes, "main", inputs, [output])
    path = tmp_path / "other.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    found = verify(_read(program, tmp_path), path)
    assert found.passed
    assert not found.findings


def test_parameters_of_a_module_take_the_inputs_of_their_names(difference: Model) -> None:
    torch = pytest.importorskip("torch")

    class Difference(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, second: Any, scale: float = 2.0, first: Any = None) -> Any:
            return scale * first - second

    class Unnamed(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, a: Any, b: Any) -> Any:
            return 2 * a - b

    found = verify(difference, Difference().eval())
    assert found.passed
    assert not found.findings
    found = verify(difference, Unnamed().eval())
    assert found.passed
    assert _ids(found) == ["inputs-in-order"]


def _masked(dtype: Any, width: int, *, is_compared: bool) -> Any:
    """Builds scores that a mask of 0 and 1 hides, by a comparison or by a large number."""

    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, width)), mb.TensorSpec((1, width), dtype=dtype)],
        opset_version=ct.target.iOS17,
    )
    def program(x: Any, mask: Any) -> Any:
        seen = mb.cast(x=mask, dtype="fp32")
        if is_compared:
            hidden = mb.equal(x=seen, y=0.0)
            return mb.softmax(x=mb.select(cond=hidden, a=np.float32(-1e4), b=x), axis=-1, name="y")
        far = mb.mul(x=mb.sub(x=1.0, y=seen), y=-1e4)
        return mb.softmax(x=mb.add(x=x, y=far), axis=-1, name="y")

    return program


@pytest.mark.parametrize("is_compared", [True, False])
@pytest.mark.parametrize("dtype", [types.int32, types.fp32])
def test_synthetic_masks_hide_some_elements(dtype: Any, is_compared: bool, tmp_path: Path) -> None:
    model = _read(_masked(dtype, 2, is_compared=is_compared), tmp_path)
    for seed in range(8):
        drawn = choose_inputs(choose_function(model), {}, seed=seed)
        assert sorted(drawn.tensors["mask"].reshape(-1)) == [0, 1]
        assert "mask: synthetic: 0 and 1" in drawn.notes
    assert not verify(model, model).findings


def test_indices_that_may_be_negative_are_no_mask(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)

    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, 6), dtype=types.int32)], opset_version=ct.target.iOS17
    )
    def program(words: Any) -> Any:
        places = mb.select(cond=mb.greater_equal(x=words, y=0), a=words, b=mb.add(x=words, y=10))
        return mb.gather(x=table, indices=places, axis=0, name="y")

    model = _read(program, tmp_path)
    assert not verify(model, model).findings


def test_the_same_input_of_another_shape_is_refused_by_name(difference: Model, tmp_path: Path) -> None:
    @mb.program(input_specs=[mb.TensorSpec((1, 4))], opset_version=ct.target.iOS17)  # type: ignore[untyped-decorator]
    def program(first: Any) -> Any:
        return mb.relu(x=first, name="y")

    with pytest.raises(InputError, match="has an input 'first' of shape 1×4, which is 1×8 in the model"):
        verify(difference, _read(program, tmp_path))


def test_modules_that_fail_without_a_message_get_a_sentence(difference: Model) -> None:
    torch = pytest.importorskip("torch")

    class Failing(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, first: Any, second: Any) -> Any:
            raise AssertionError

    with pytest.raises(EngineError, match="PyTorch cannot run Failing: AssertionError"):
        verify(difference, Failing().eval())
