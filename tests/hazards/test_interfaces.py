"""Models that Core ML refuses, and models next to them that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CoremlscopeError, InputError, UnsupportedModelError
from coremlscope.dropin.errors import check_accepted
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.planning.hazards import interfaces
from coremlscope.planning.hazards.find import find_on_model
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.runtime.execution.binding import bind_model
from coremlscope.studies.doctor.model import find_problems
from tests.support.classical_specs import array_type, classifier, model_spec, read_spec
from tests.support.graphs import op, tensor, value
from tests.support.ir_models import array_feature, model
from tests.support.networks import network, read
from tests.support.pipelines import arithmetic, image_feature, pipeline

_FP16, _FP32, _FP64, _INT32 = 65552, 65568, 65600, 131104


def _ids(one: ir.Model) -> list[str]:
    rows = {row.id for row in interfaces.HAZARDS}
    return [finding.id for finding in find_on_model(one) if finding.id in rows]


def _identity(feature: ir.Feature, version: int = 9) -> ir.Model:
    assert isinstance(feature.type, ir.ArrayFeature)
    shape = (None,) * len(feature.type.shape)
    x, y = (value(name, ir.TensorType(feature.type.dtype, shape)) for name in (feature.name, "y"))
    body = ir.Graph(name="main", inputs=(x,), ops=(op("relu", y, x=x),), outputs=(y,))
    return msgspec.structs.replace(
        model([feature], [array_feature("y", ())], {"main": body}), spec_version=version
    )


def _enumerated(*shapes: tuple[int, ...]) -> ir.EnumeratedShapes:
    return ir.EnumeratedShapes(shapes)


@pytest.mark.parametrize(
    ("shape", "flexibility", "refused"),
    [
        ((2, 3), _enumerated((2, 3), (4, 3)), False),
        ((2, 3), _enumerated((4, 3), (6, 3)), True),
        ((2, 3), _enumerated(), True),
        ((2, 3), ir.RangeShapes(((1, 4), (3, 3))), False),
        ((2, 3), ir.RangeShapes(((1, -1), (3, 3))), False),
        ((2, 3), ir.RangeShapes(((3, 4), (3, 3))), True),
        ((2, 3), ir.RangeShapes(((1, 4), (3, 3), (1, 1))), True),
        ((2, 3), ir.RangeShapes(((4, 1), (3, 3))), True),
    ],
    ids=str,
)
def test_flexible_shapes(shape: tuple[int, ...], flexibility: ir.ShapeFlexibility, refused: bool) -> None:
    found = _ids(_identity(array_feature("x", shape, flexibility=flexibility)))
    assert found == ["refused-flexible-shape"] * refused
    old = _identity(array_feature("x", shape, flexibility=flexibility), version=2)
    assert _ids(old) == []


@pytest.mark.parametrize(("version", "refused"), [(6, True), (7, False), (9, False)])
def test_float16_needs_ios_16(version: int, refused: bool) -> None:
    found = _identity(array_feature("x", (2,), ir.DType.FP16), version)
    assert _ids(found) == ["refused-newer-type"] * refused


def _classifier(batch: int | None, classes: int = 3) -> ir.Model:
    x = value("x", tensor(batch, 3))
    label = value("label", ir.TensorType(ir.DType.STRING, ()))
    probabilities = value("p", ir.DictType(label.type, tensor(dtype=ir.DType.FP64)))
    named = ir.Nested(tuple(ir.constant(name) for name in "abcdef"[:classes]))
    labels = ir.Constant(ir.ListType(label.type, classes), named)
    body = ir.Graph(
        name="main",
        inputs=(x,),
        ops=(op("classify", (label, probabilities), probabilities=x, classes=labels),),
        outputs=(label, probabilities),
    )
    outputs = [ir.Feature("label", ir.StringFeature()), ir.Feature("p", ir.DictionaryFeature("string"))]
    flexible = _enumerated((1, 3), (4, 3)) if batch is None else None
    return model([array_feature("x", (batch or 1, 3), flexibility=flexible)], outputs, {"main": body})


def test_classifiers_take_one_sample() -> None:
    assert _ids(_classifier(1)) == []
    assert _ids(_classifier(None)) == ["refused-classifier-batch"]
    assert _ids(_classifier(4)) == ["refused-classifier-batch"]
    with pytest.raises(CoremlscopeError, match="gets 12 probabilities for 3 classes"):
        coremlscope.predict(_classifier(4), {"x": np.ones((4, 3), np.float32)})


def test_a_predicted_feature_is_an_output() -> None:
    spec = classifier([[1.0]], [0.0], ["a", "b"])
    assert _ids(read_spec(spec)) == []
    spec.description.predictedFeatureName = "other"
    assert _ids(read_spec(spec)) == ["refused-predicted-feature"]
    spec.description.predictedFeatureName = ""
    assert _ids(read_spec(spec)) == ["refused-predicted-feature"]


@pytest.mark.parametrize(
    ("dtype", "version", "refused"),
    [
        (_FP16, 7, True),
        (_FP32, 7, False),
        (_FP64, 7, False),
        (_FP32, 4, True),
        (_FP64, 4, False),
        (_INT32, 7, True),
    ],
)
def test_types_of_a_suppression(dtype: int, version: int, refused: bool) -> None:
    assert _ids(_suppressor(dtype, dtype, version)) == ["refused-suppression"] * refused


def test_a_suppression_has_one_type() -> None:
    assert _ids(_suppressor(_FP32, _FP64, 7)) == ["refused-suppression"]


def _suppressor(confidence: int, coordinates: int, version: int) -> ir.Model:
    given = {
        "pickTop": {"perClass": True},
        "confidenceInputFeatureName": "raw_c",
        "coordinatesInputFeatureName": "raw_b",
        "confidenceOutputFeatureName": "c",
        "coordinatesOutputFeatureName": "b",
    }

    def arrays(first: str, second: str) -> Mapping[str, Any]:
        return {first: array_type(5, 2, dtype=confidence), second: array_type(5, 4, dtype=coordinates)}

    spec = model_spec("nonMaximumSuppression", given, dict(arrays("raw_c", "raw_b")), dict(arrays("c", "b")))
    spec.specificationVersion = version
    return read_spec(spec)


def _network(exact: bool, shape: tuple[int, ...], add: Callable[[Any], None]) -> ir.Model:
    builder = network({"x": shape}, exact=exact)
    add(builder)
    return read(builder)


def _add_relu(builder: Any) -> None:
    builder.add_activation("relu", "RELU", "x", "y")


def _add_erf(builder: Any) -> None:
    builder.add_erf("erf", "x", "y")


@pytest.mark.parametrize(
    ("exact", "shape", "add", "refused"),
    [
        (False, (3,), _add_relu, False),
        (False, (3, 4, 5), _add_relu, False),
        (False, (1, 3), _add_relu, True),
        (True, (1, 3, 4, 5), _add_relu, False),
        (True, (3,), _add_erf, False),
        (False, (3,), _add_erf, True),
    ],
)
def test_inputs_of_networks(
    exact: bool, shape: tuple[int, ...], add: Callable[[Any], None], refused: bool
) -> None:
    assert _ids(_network(exact, shape, add)) == ["refused-network-input"] * refused


@pytest.mark.parametrize(
    ("state", "first", "second", "refused"),
    [
        (None, None, None, False),
        (None, ir.RangeShapes(((1, 8),)), ir.RangeShapes(((1, 8),)), False),
        (None, ir.RangeShapes(((1, 8),)), None, True),
        (ir.EnumeratedShapes(((4,), (8,))), None, None, True),
    ],
)
def test_flexible_shapes_next_to_states(
    state: ir.ShapeFlexibility | None,
    first: ir.ShapeFlexibility | None,
    second: ir.ShapeFlexibility | None,
    refused: bool,
) -> None:
    held = array_feature("s", (4,), ir.DType.FP16, state).type
    assert isinstance(held, ir.ArrayFeature)
    inputs = [array_feature("a", (4,), flexibility=first), array_feature("b", (4,), flexibility=second)]
    one = model(inputs, [], {"main": ir.Graph(name="main", inputs=(), ops=(), outputs=())})
    interface = msgspec.structs.replace(
        one.description.main, states=(ir.Feature("s", ir.StateFeature(array=held)),)
    )
    described = msgspec.structs.replace(one.description, functions={"main": interface})
    one = msgspec.structs.replace(one, description=described, spec_version=9)
    assert _ids(one) == ["refused-flexible-state"] * refused
    without = model(inputs, [], {"main": ir.Graph(name="main", inputs=(), ops=(), outputs=())})
    assert "refused-flexible-state" not in _ids(without)


@pytest.mark.parametrize(("shape", "refused"), [((1, 2, 3, 2, 2), False), ((1, 2, 3, 1, 2, 2), True)])
def test_tensors_have_five_dimensions(shape: tuple[int, ...], refused: bool) -> None:
    x, y = value("x", tensor(1, 2, 3, 4)), value("y", tensor(*shape))
    body = ir.Graph(name="main", inputs=(x,), ops=(op("reshape", y, x=x),), outputs=(y,))
    one = model([array_feature("x", (1, 2, 3, 4))], [array_feature("y", ())], {"main": body})
    assert _ids(one) == ["refused-rank"] * refused

    def add(builder: Any) -> None:
        builder.add_reshape_static("r", "x", "y", shape)

    assert _ids(_network(True, (1, 2, 3, 4), add)) == ["refused-rank"] * refused


@pytest.mark.parametrize(
    ("channels", "space", "refused"),
    [(3, "RGB", False), (2, "RGB", True), (1, "GRAYSCALE", False), (3, "GRAYSCALE", True)],
)
def test_image_outputs_have_the_channels_of_their_colors(channels: int, space: str, refused: bool) -> None:
    x, y = (value(name, tensor(1, channels, 4, 6)) for name in "xy")
    body = ir.Graph(name="main", inputs=(x,), ops=(op("relu", y, x=x),), outputs=(y,))
    one = model([array_feature("x", (1, channels, 4, 6))], [image_feature("y", space)], {"main": body})
    assert _ids(one) == ["refused-image-output"] * refused


def test_values_between_stages_have_one_type() -> None:
    first, second = arithmetic("add", "m", "x"), arithmetic("mul", "y", "m")
    given, result = array_feature("x", (3,)), array_feature("y", (3,))
    assert _ids(pipeline([given], [result], first, second)) == []
    assert _ids(pipeline([given], [array_feature("y", (3,), ir.DType.FP64)], first, second)) == [
        "refused-pipeline-value"
    ]
    assert _ids(pipeline([image_feature("x")], [result], first, second)) == ["refused-pipeline-value"]
    number = ir.Feature("x", ir.DoubleFeature())
    assert _ids(pipeline([number], [result], first, second)) == ["refused-pipeline-value"]


def test_rules_hold_for_stages() -> None:
    inner = _suppressor(_FP16, _FP16, 7)
    (found,) = find_on_model(pipeline(inner.description.main.inputs, inner.description.main.outputs, inner))[
        -1:
    ]
    assert (found.id, "in stage 0" in found.text) == ("refused-suppression", True)


def test_all_views_show_the_refusal() -> None:
    refused = _classifier(None)
    assert [finding.id for finding in describe_model(refused).findings] == ["refused-classifier-batch"]
    assert ("refused-classifier-batch", "not in Core ML") in [
        (problem.id, problem.effect) for problem in find_problems(refused)
    ]
    with pytest.raises(UnsupportedModelError, match="probabilities is not fixed"):
        check_accepted(refused, loads=False)
    check_accepted(_classifier(1), loads=False)


def test_enumerated_inputs_have_shapes_of_one_index() -> None:
    def feature(name: str, *sizes: int) -> ir.Feature:
        return array_feature(name, (sizes[0],), flexibility=_enumerated(*((size,) for size in sizes)))

    values = {name: value(name, tensor(None)) for name in ("a", "b", "y", "z")}
    ops = (op("relu", values["y"], x=values["a"]), op("relu", values["z"], x=values["b"]))
    body = ir.Graph(
        name="main", inputs=(values["a"], values["b"]), ops=ops, outputs=(values["y"], values["z"])
    )
    outputs = [array_feature("y", ()), array_feature("z", ())]
    both = model([feature("a", 2, 4), feature("b", 3, 5)], outputs, {"main": body})
    bind_model(both, shapes={"a": (4,), "b": (5,)})
    with pytest.raises(InputError, match="combination of enumerated shapes"):
        bind_model(both, shapes={"a": (4,), "b": (3,)})
    with pytest.raises(InputError, match="combination of enumerated shapes"):
        coremlscope.predict(both, {"a": np.ones(4, np.float32), "b": np.ones(3, np.float32)})
    assert (
        len(coremlscope.predict(both, {"a": np.ones(4, np.float32), "b": np.ones(5, np.float32)})["y"]) == 4
    )
    # Of a list with equal shapes, and of lists of different lengths, the order tells nothing.
    for sizes in ((2, 4, 4), (2, 4)):
        other = model([feature("a", *sizes), feature("b", 3, 5, 7)], outputs, {"main": body})
        bind_model(other, shapes={"a": (4,), "b": (3,)})


def test_no_published_model_is_refused(corpus: Path) -> None:
    refused = {}
    for path in sorted(corpus.glob("*/*")):
        try:
            found = _ids(container.read(path))
        except CoremlscopeError:
            continue
        if found:
            refused[path.name] = found
    assert refused == {}
