"""References that say little: outputs alone, another network, no numbers; and inputs without numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from onnx import TensorProto, helper, numpy_helper

from coremlscope import verify
from coremlscope.base.errors import EngineError, InputError
from coremlscope.model.subject import Subject
from tests.support.faulty_programs import _program, save_program

_STEPS = 60


def _long(_: Any, x: Any) -> Any:
    """Builds a chain that is too long to search without values on the way."""
    for step in range(1, _STEPS):
        x = mb.mul(x=x, y=1 + 0.01 * step, name=f"step_{step}")
    return x


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_program(_program((1, 8), _long), tmp_path_factory.mktemp("m") / "m.mlpackage", fp16=False)


def test_without_values_on_the_way_no_operation_is_blamed(long_model: Path) -> None:
    last = f"step_{_STEPS - 1}"
    found = verify(long_model, {"x": np.ones((1, 8), np.float32), last: np.zeros((1, 8), np.float32)})
    assert not found.passed
    assert not found.faults
    assert [finding.id for finding in found.findings] == ["no-intermediates"]


def test_another_network_is_named_as_such(long_model: Path) -> None:
    noise = np.random.default_rng(0).standard_normal((3, 1, 5))
    other = {f"hidden_{place}": row for place, row in enumerate(noise)}
    found = verify(long_model, {**other, f"step_{_STEPS - 1}": np.zeros((1, 8), np.float32)})
    assert not found.faults
    assert "another network" in found.findings[0].text


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array([{}] * 8), "objects"),
        (np.zeros((1, 8), np.complex64), "complex64"),
    ],
)
def test_other_things_than_numbers_are_refused(long_model: Path, array: np.ndarray, word: str) -> None:
    with pytest.raises(InputError, match=f"holds {word}"):
        verify(long_model, {"out": array})
    with pytest.raises(InputError, match=f"holds {word}"):
        verify(long_model, lambda _: {"out": array})


def test_text_beside_numbers_is_left_out(long_model: Path) -> None:
    name = f"step_{_STEPS - 1}"
    reference = {name: np.zeros((1, 8), np.float32), "label": np.array("cat")}
    for given, label in ((reference, "saved values"), (lambda _: reference, "<lambda>")):
        found = verify(long_model, given)
        assert [output.name for output in found.outputs] == [name] * len(found.outputs)
        assert found.reference == label


def test_text_alone_is_refused(long_model: Path) -> None:
    for given in ({"label": np.array("cat")}, lambda _: {"label": np.array("cat")}):
        with pytest.raises(InputError, match="no numbers"):
            verify(long_model, given)


def test_a_function_that_fails_without_a_message_gets_a_sentence(long_model: Path) -> None:
    def reference(_: Any) -> Any:
        raise AssertionError

    with pytest.raises(EngineError, match="the reference reference failed: AssertionError"):
        verify(long_model, reference)


def test_inputs_must_be_numbers(long_model: Path) -> None:
    given = np.ones((1, 8), np.float32)
    given[0, :3] = np.nan
    with pytest.raises(InputError, match="3 of the 8 elements given for the input 'x' are NaN"):
        verify(Subject(long_model, inputs={"x": given}), long_model)


def test_limits_for_other_kinds_of_outputs_are_noted(long_model: Path) -> None:
    found = verify(long_model, long_model, top_k=3, min_psnr=20.0)
    assert found.passed
    assert [finding.id for finding in found.findings] == ["limit-without-effect"] * 2


def _images(_: Any, x: Any) -> Any:
    return mb.mul(x=x, y=np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1), name="y")


def test_channels_may_be_last_in_the_reference(tmp_path: Path) -> None:
    model = save_program(_program((1, 3, 4, 5), _images), tmp_path / "m.mlpackage", fp16=False)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factors"], ["y"])],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 5, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 5, 3])],
        [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "factors")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "last.onnx"
    path.write_bytes(made.SerializeToString())
    assert verify(model, path).passed
    graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 2, 4], np.float32), "factors"))
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )
    assert not verify(model, path).passed


def _two_heads(swaps: bool) -> Any:
    def body(_: Any, x: Any) -> Any:
        shared = mb.tanh(x=x, name="shared")
        names = ("second", "first") if swaps else ("first", "second")
        first = mb.mul(x=shared, y=2.0, name=names[0])
        second = mb.exp(x=shared, name=names[1])
        third = mb.add(x=first, y=3.0, name="third")
        return (second, first, third) if swaps else (first, second, third)

    return _program((1, 8), body)


def test_outputs_under_each_others_names_are_one_cause(tmp_path: Path) -> None:
    right = save_program(_two_heads(False), tmp_path / "right.mlpackage", fp16=False)
    wrong = save_program(_two_heads(True), tmp_path / "wrong.mlpackage", fp16=False)
    found = verify(wrong, right)
    [fault] = found.faults
    assert fault.cause == "swapped outputs"
    assert "first holds second and second holds first" in fault.text
    assert fault.advice == "return first as second, second as first"
    assert fault.repairs
    # Without intermediate values it is named as well.
    x = np.ones((1, 8), np.float32)
    first = 2 * np.tanh(x)
    saved = {"x": x, "first": first, "second": np.exp(np.tanh(x)), "third": first + 3}
    assert [one.cause for one in verify(wrong, saved).faults] == ["swapped outputs"]
    assert [one.cause for one in verify(Subject(wrong, inputs={"x": x}), lambda _: saved).faults] == [
        "swapped outputs"
    ]
