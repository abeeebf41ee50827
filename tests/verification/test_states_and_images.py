"""What a model keeps for its next prediction, the functions it has, and the images it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from msgspec.structs import replace

from coremlscope import verify
from coremlscope.base.errors import UsageError
from coremlscope.formats import container
from coremlscope.model.ir import Model, Op, Pipeline, Program, constant
from coremlscope.model.subject import Subject
from tests.support.decoders import decoder


@pytest.fixture(scope="module")
def model() -> Model:
    return decoder(context=16, hidden=32, heads=2, layers=2)


def _edited(model: Model, edit: Callable[[list[Op]], list[Op]]) -> Model:
    assert isinstance(model.content, Program)
    ((name, function),) = model.content.functions.items()
    graph = replace(function.graph, ops=tuple(edit(list(function.graph.ops))))
    functions = {name: replace(function, graph=graph)}
    return replace(model, content=replace(model.content, functions=functions))


def test_the_content_of_states_is_compared(model: Model) -> None:
    found = verify(model, model)
    assert found.passed
    states = {feature.name for feature in model.description.main.states}
    assert states
    assert states <= {output.name for output in found.outputs}


def test_a_state_that_is_not_written_differs(model: Model) -> None:
    def without_last(ops: list[Op]) -> list[Op]:
        last = max(index for index, op in enumerate(ops) if op.type == "write_state")
        return [op for index, op in enumerate(ops) if index != last]

    found = verify(_edited(model, without_last), model)
    assert not found.passed
    states = {feature.name for feature in model.description.main.states}
    assert states & {output.name for output in found.outputs if not output.passed}


def test_rows_written_to_another_place_are_named(model: Model) -> None:
    def one_further(ops: list[Op]) -> list[Op]:
        place = next(index for index, op in enumerate(ops) if op.type == "slice_update")
        constants = {value.name: op.constant for op in ops if op.constant for value in op.outputs}
        inputs = dict(ops[place].inputs)
        for key in ("begin", "end"):
            (given,) = inputs[key]
            known = constants[given.name] if hasattr(given, "name") else given
            assert known is not None
            inputs[key] = (constant(known.numpy() + np.array([0, 0, 1, 0], np.int32)),)
        ops[place] = replace(ops[place], inputs=inputs)
        return ops

    found = verify(_edited(model, one_further), model)
    assert not found.passed
    assert found.faults[0].type == "slice_update"


def _average(share: float = 0.25, decay: float = 0.5) -> Model:
    """Builds a model that keeps a running average in a state."""

    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, 4)), mb.StateTensorSpec((1, 4), ct.converters.mil.mil.types.fp16)],
        opset_version=ct.target.iOS18,
    )
    def program(x: Any, kept: Any) -> Any:
        before = mb.cast(x=mb.read_state(input=kept), dtype="fp32")
        y = mb.tanh(x=mb.add(x=x, y=before), name="y")
        after = mb.add(x=mb.mul(x=before, y=decay, name="decayed"), y=mb.mul(x=x, y=share))
        mb.coreml_update_state(state=kept, value=mb.cast(x=after, dtype="fp16"))
        return y

    converted = ct.convert(program, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
    return container.read(converted.get_spec().SerializeToString())


def _average_module(share: float = 0.25, decay: float = 0.5) -> Any:
    torch = pytest.importorskip("torch")

    class Average(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(1, 4))

        def forward(self, x: Any) -> Any:
            y = torch.tanh(x + self.kept)
            self.kept.copy_(self.kept * decay + x * share)
            return y

    return Average().eval()


def test_buffers_of_a_module_are_states() -> None:
    wrong = _average_module(0.75)
    assert verify(_average(), _average_module()).passed
    found = verify(_average(), wrong)
    passed = {output.name: output.passed for output in found.outputs if output.run == "fp32"}
    assert passed == {"y": True, "kept": False}
    assert found.faults[0].cause == "scale"
    assert float(wrong.kept.abs().max()) == 0


@pytest.mark.parametrize("build", [_average, _average_module])
def test_later_calls_begin_with_the_states_of_the_one_before(build: Callable[[], Any]) -> None:
    reference = build()
    found = verify(_average(), reference)
    assert found.passed
    assert found.runs == ("fp32", "fp16", "fp32-call-4", "fp16-call-4")
    assert found.inputs[-1].startswith("calls 2 to 4: other synthetic inputs")
    # From zeros, the first call does not show what remains of the content.
    found = verify(_average(decay=0.9), reference)
    assert found.runs == ("fp32", "fp16", "fp32-call-2", "fp16-call-2")
    failed = {(output.run, output.name) for output in found.outputs if not output.passed}
    assert failed == {("fp32-call-2", "kept"), ("fp16-call-2", "kept")}
    [fault] = found.faults
    assert (fault.run, fault.name) == ("fp32-call-2", "decayed_cast_fp16")
    assert fault.cause in ("scale", "setting")
    assert fault.repairs


def test_later_calls_have_the_given_inputs() -> None:
    given = np.ones((1, 4), np.float32)
    found = verify(Subject(_average(), inputs={"x": given}), _average(decay=0.9))
    assert found.inputs[-1].startswith("call 2: the same inputs")
    assert not found.passed


def _chain(first: float = 0.5, second: float = 0.5) -> Model:
    """Builds a model with two states, the second of which follows the first one call later."""
    half = ct.converters.mil.mil.types.fp16

    @mb.program(  # type: ignore[untyped-decorator]
        input_specs=[mb.TensorSpec((1, 8)), *[mb.StateTensorSpec((1, 8), half) for _ in range(2)]],
        opset_version=ct.target.iOS18,
    )
    def program(x: Any, one: Any, two: Any) -> Any:
        before = mb.cast(x=mb.read_state(input=one), dtype="fp32")
        next_one = mb.add(x=mb.mul(x=before, y=first, name="first"), y=x)
        mb.coreml_update_state(state=one, value=mb.cast(x=next_one, dtype="fp16"))
        far = mb.cast(x=mb.read_state(input=two), dtype="fp32")
        next_two = mb.add(x=mb.mul(x=far, y=second, name="second"), y=before)
        mb.coreml_update_state(state=two, value=mb.cast(x=next_two, dtype="fp16"))
        return mb.tanh(x=mb.add(x=before, y=far), name="y")

    converted = ct.convert(program, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
    return container.read(converted.get_spec().SerializeToString())


def test_the_first_call_that_differs_is_searched() -> None:
    right = _chain()
    third = verify(_chain(second=0.9), right)
    assert [fault.run for fault in third.faults] == ["fp32-call-3"]
    both = verify(_chain(first=0.9, second=0.9), right)
    assert both.faults[0].run == "fp32-call-2"


def _one_operation(activation: Any) -> Any:
    @mb.program(input_specs=[mb.TensorSpec((1, 8))])  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return activation(x=x, name="y")

    return program


def _functions(activations: dict[str, Any], folder: Path) -> Path:
    described = ct.utils.MultiFunctionDescriptor()
    for name, activation in activations.items():
        program = _one_operation(activation)
        path = str(folder / f"{name}.mlpackage")
        ct.convert(program, minimum_deployment_target=ct.target.iOS17, skip_model_load=True).save(path)
        described.add_function(path, src_function_name="main", target_function_name=name)
    described.default_function_name = next(iter(activations))
    ct.utils.save_multifunction(described, str(folder / "all.mlpackage"))
    return folder / "all.mlpackage"


def test_a_reference_runs_the_function_of_the_same_name(tmp_path: Path) -> None:
    path = _functions({"first": mb.relu, "second": mb.tanh}, tmp_path)
    assert verify(Subject(path, function="second"), path).passed
    assert not verify(Subject(path, function="second"), tmp_path / "first.mlpackage").passed


def _of_images(layout: str, scale: float = 1 / 255) -> Model:
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)

    @mb.program(input_specs=[mb.TensorSpec((1, 3, 8, 8))])  # type: ignore[untyped-decorator]
    def program(image: Any) -> Any:
        return mb.conv(x=image, weight=weight, name="y")

    shape = ct.ImageType(name="image", shape=(1, 3, 8, 8), scale=scale, color_layout=layout)
    converted = ct.convert(program, inputs=[shape], convert_to="neuralnetwork")
    return container.read(converted.get_spec().SerializeToString())


def test_another_model_of_images_prepares_them_itself() -> None:
    right = _of_images("RGB")
    assert verify(right, right).passed
    scaled = verify(_of_images("RGB", 2 / 255), right)
    assert scaled.faults[0].cause == "scale"
    assert not verify(_of_images("BGR"), right).passed


def test_pipelines_are_compared_by_their_outputs(model: Model) -> None:
    pipeline = replace(model, content=Pipeline("pipeline", ("first",), (model,)))
    assert verify(pipeline, pipeline).passed
    assert not verify(pipeline, lambda inputs: {name: 0 * one for name, one in inputs.items()}).passed
    with pytest.raises(UsageError, match="a pipeline, or another model without operations"):
        verify(model, pipeline)


def test_statistics_of_normalizations_are_no_states() -> None:
    torch = pytest.importorskip("torch")
    norm = torch.nn.BatchNorm1d(8)

    @mb.program(input_specs=[mb.TensorSpec((4, 8))])  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return mb.mul(x=x, y=np.float32(1 / np.sqrt(1 + norm.eps)), name="y")

    converted = ct.convert(program, minimum_deployment_target=ct.target.iOS17, skip_model_load=True)
    read = container.read(converted.get_spec().SerializeToString())
    assert [finding.id for finding in verify(read, norm).findings] == ["reference-in-training-mode"]
    assert norm.training
    assert not verify(read, norm.eval()).findings
