"""Small models of each kind, converted by coremltools from MIL programs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil import mil
from coremltools.converters.mil.mil import get_new_symbol, types

from coremlscope.dropin.installation import is_installed

LABELS = ["cat", "dog", "emu"]


def mlp_weights() -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of `mlp`; the weight is large enough for the weight file."""
    generator = np.random.default_rng(7)
    return generator.standard_normal((5, 8)).astype(np.float32), np.arange(5, dtype=np.float32)


def mlp(*, flexible: Any = None, precision: Any = ct.precision.FLOAT32) -> ct.models.MLModel:
    """`y = relu(W x + b)`: `x [2, 8]` or of the given shapes, `y [2, 5]`."""
    # A model that was converted without the drop-in never predicts.
    return _mlp(flexible, precision, is_installed())


@functools.cache
def _mlp(flexible: Any, precision: Any, _: bool) -> ct.models.MLModel:
    weight, bias = mlp_weights()
    shape = (2, 8) if flexible is None else flexible.symbolic_shape

    @mb.program(input_specs=[mb.TensorSpec(shape=shape)], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.relu(x=mb.linear(x=x, weight=weight, bias=bias), name="y")

    inputs = None if flexible is None else [ct.TensorType(name="x", shape=flexible)]
    return ct.convert(
        program,
        inputs=inputs,
        compute_precision=precision,
        minimum_deployment_target=ct.target.iOS16,
    )


def mlp_result(x: np.ndarray) -> np.ndarray:
    """The expected output of `mlp`."""
    weight, bias = mlp_weights()
    return np.maximum(x @ weight.T + bias, 0)


def classifier() -> ct.models.MLModel:
    """A softmax over the mean of each plane of an RGB image of 6 by 4 pixels."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 4, 6))], opset_version=ct.target.iOS16)
    def program(image: Any) -> Any:
        means = mb.reduce_mean(x=image, axes=[2, 3], keep_dims=False)
        return mb.softmax(x=means, axis=-1)

    return ct.convert(
        program,
        inputs=[ct.ImageType(name="image", shape=(1, 3, 4, 6), scale=1 / 255)],
        classifier_config=ct.ClassifierConfig(LABELS),
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=ct.target.iOS16,
    )


def inverter(color: Any) -> ct.models.MLModel:
    """Inverts an image: each value `v` becomes `255 - v`."""
    planes = 1 if color == ct.colorlayout.GRAYSCALE else 3

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, planes, 4, 6))], opset_version=ct.target.iOS16)
    def program(image: Any) -> Any:
        return mb.sub(x=np.float32(255), y=image, name="inverted")

    model = ct.convert(
        program,
        inputs=[ct.ImageType(name="image", shape=(1, planes, 4, 6), color_layout=color)],
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=ct.target.iOS16,
        skip_model_load=True,
    )
    spec = model.get_spec()
    spec.description.output[0].type.imageType.CopyFrom(spec.description.input[0].type.imageType)
    return ct.models.MLModel(spec, weights_dir=model.weights_dir)


def accumulator() -> ct.models.MLModel:
    """Adds its input to a state and returns the sum."""
    return _accumulator(is_installed())


@functools.cache
def _accumulator(_: bool) -> ct.models.MLModel:
    @mb.program(
        input_specs=[mb.TensorSpec((3,), dtype=types.fp16), mb.StateTensorSpec((3,), dtype=types.fp16)],
        opset_version=ct.target.iOS18,
    )
    def program(x: Any, total: Any) -> Any:
        summed = mb.add(x=mb.read_state(input=total), y=x, name="sum")
        mb.coreml_update_state(state=total, value=summed)
        return summed

    return ct.convert(program, minimum_deployment_target=ct.target.iOS18)


def sine_and_cosine(path: Path) -> None:
    """Writes a package with the functions `sine` (the default) and `cosine`."""
    program = mil.Program()
    trace = mb.function(input_specs=[mb.TensorSpec((4,))], opset_version=ct.target.iOS18)
    program.add_function("sine", trace(lambda x: mb.sin(x=x, name="y")))
    program.add_function("cosine", trace(lambda x: mb.cos(x=x, name="y")))
    program.default_function_name = "sine"
    program.export_as_multifunction = True
    program.skip_all_passes = True
    ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18).save(str(path))


def counting() -> ct.models.MLModel:
    """Integers in, integers out: `y = x + 1`."""

    @mb.program(input_specs=[mb.TensorSpec((3,), dtype=types.int32)], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.add(x=x, y=np.int32(1), name="y")

    return ct.convert(program, minimum_deployment_target=ct.target.iOS16)


def strict_gather() -> ct.models.MLModel:
    """Takes elements of `x [4]` by index; an index out of range is an error."""

    @mb.program(
        input_specs=[mb.TensorSpec((4,)), mb.TensorSpec((2,), dtype=types.int32)],
        opset_version=ct.target.iOS17,
    )
    def program(x: Any, indices: Any) -> Any:
        return mb.gather(x=x, indices=indices, axis=0, validate_indices=True, name="y")

    return ct.convert(program, minimum_deployment_target=ct.target.iOS17)


def last_of_three() -> ct.models.MLModel:
    """`y = x[:, 2]` of a matrix with 1 to 9 columns: not defined for the default shape, which has one."""

    @mb.program(input_specs=[mb.TensorSpec((2, get_new_symbol()))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.slice_by_index(x=x, begin=[0, 2], end=[2, 3], squeeze_mask=[False, True], name="y")

    return ct.convert(
        program,
        inputs=[ct.TensorType(name="x", shape=ct.Shape((2, ct.RangeDim(1, 9, default=1))))],
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=ct.target.iOS16,
    )


def text_classifier() -> Any:
    """The specification of a model with parameters that only Apple's Natural Language framework reads."""
    spec = ct.proto.Model_pb2.Model()
    spec.specificationVersion = 3
    for feature in (spec.description.input.add(name="text"), spec.description.output.add(name="label")):
        feature.type.stringType.SetInParent()
    spec.description.predictedFeatureName = "label"
    spec.textClassifier.revision = 1
    spec.textClassifier.stringClassLabels.vector.extend(["no", "yes"])
    return spec


def looping() -> ct.models.MLModel:
    """Writes the squares of 0 to 2, times `x [2]`, to a list in a loop and gathers them: `y [3, 2]`."""

    @mb.program(input_specs=[mb.TensorSpec((2,))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        found = mb.make_list(init_length=3, elem_shape=(2,))

        def body(index: Any, rows: Any) -> Any:
            factor = mb.cast(x=mb.mul(x=index, y=index), dtype="fp32")
            row = mb.cond(
                pred=mb.greater(x=index, y=0),
                _true_fn=lambda: mb.mul(x=x, y=factor),
                _false_fn=lambda: mb.mul(x=x, y=np.float32(0)),
            )
            return mb.add(x=index, y=1), mb.list_write(ls=rows, index=index, value=row)

        _, rows = mb.while_loop(
            _cond=lambda index, rows: mb.less(x=index, y=3), _body=body, loop_vars=(np.int32(0), found)
        )
        return mb.list_gather(ls=rows, indices=np.array([0, 1, 2], np.int32), name="y")

    return ct.convert(
        program, compute_precision=ct.precision.FLOAT32, minimum_deployment_target=ct.target.iOS16
    )
