"""Flattening pipelines: names, sources of features, and contradictory pipelines."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope.base.errors import CorruptModelError
from coremlscope.model import ir
from coremlscope.runtime.execution.wiring import bind_functions, stage_names, wire
from tests.support.ir_models import array_feature
from tests.support.pipelines import arithmetic, described, image_feature, pipeline, scene_print, tripler

A = [array_feature("a", (3,))]
B = [array_feature("b", (3,))]


def _one(source: ir.Feature, target: ir.Feature) -> ir.Model:
    """A stage with an interface and no content."""
    return described(ir.Opaque("identity"), [source], [target])


def test_names_are_unique_with_apples_defaults() -> None:
    stages = [arithmetic("mul", "a", "a") for _ in range(4)]
    inner = pipeline(A, A, *stages[:2])
    whole = pipeline(A, A, *stages, inner, names=("one", "", "same", "same", "inner"))
    names = [stage.name for stage in wire(whole).stages]
    assert names == ["one", "model1", "same.2", "same.3", "inner/model0", "inner/model1"]


def test_names_like_apples_defaults_stay_unique() -> None:
    stages = [arithmetic("mul", "a", "a") for _ in range(4)]
    content = pipeline(A, A, *stages, names=("model1", "", "model1.1", "model3")).content
    assert isinstance(content, ir.Pipeline)
    names = stage_names(content)
    assert len(set(names)) == 4
    assert names[3] == "model3"


def test_ids_begin_with_the_stage() -> None:
    whole = pipeline(A, B, pipeline(A, B, arithmetic("mul", "b", "a")), names=("outer",))
    (found,) = bind_functions(whole)
    assert found.bound is not None
    assert [op.id for op in found.bound.function.graph.ops] == ["outer/model0/main/0"]
    assert found.bound.function.name == "outer/model0/main"


def test_a_single_model_is_one_stage() -> None:
    (stage,) = wire(arithmetic("mul", "b", "a")).stages
    assert stage.name == ""
    assert stage.wires["a"].is_outside


def test_features_need_a_source() -> None:
    with pytest.raises(CorruptModelError, match="stage 'model1' reads 'q', which no earlier stage computes"):
        wire(pipeline(A, B, arithmetic("mul", "b", "a"), arithmetic("add", "c", "q")))
    with pytest.raises(CorruptModelError, match="the pipeline outputs 'c', which no earlier stage"):
        wire(pipeline(A, [array_feature("c", (3,))], arithmetic("mul", "b", "a")))
    inner = pipeline(A, [array_feature("c", (3,))], arithmetic("mul", "b", "a"))
    with pytest.raises(CorruptModelError, match="the pipeline 'model0' outputs 'c'"):
        wire(pipeline(A, B, inner))


STRING, NUMBER = ir.Feature("b", ir.StringFeature()), ir.Feature("b", ir.DoubleFeature())
STRING_KEYS, INTEGER_KEYS = (ir.Feature("b", ir.DictionaryFeature(key)) for key in ("string", "int64"))
STRINGS, INTEGERS = (ir.Feature("b", ir.SequenceFeature(element)) for element in ("string", "int64"))


@pytest.mark.parametrize(
    ("output", "input_", "words"),
    [
        (STRING, NUMBER, "'b' as double, but the output of 'model0' is string"),
        (B[0], STRING, "as string, but the output of 'model0' is float32 3"),
        (B[0], NUMBER, "as double"),
        (B[0], array_feature("b", (4,)), "as float32 4, but the output of 'model0' is float32 3"),
        (image_feature("b"), B[0], "the output of 'model0' is image RGB 6×4"),
        (image_feature("b"), ir.Feature("b", ir.ImageFeature("RGB", 5, 4)), "as image RGB 5×4"),
        (STRING_KEYS, INTEGER_KEYS, "dictionary int64"),
        (STRINGS, INTEGERS, "sequence"),
    ],
)
def test_wrong_types_between_stages(output: ir.Feature, input_: ir.Feature, words: str) -> None:
    end = array_feature("c", (3,))
    whole = pipeline(A, [end], _one(A[0], output), _one(input_, end))
    with pytest.raises(CorruptModelError, match="stage 'model1' reads") as caught:
        wire(whole)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("output", "input_"),
    [
        (B[0], array_feature("b", (1, 3, 1), ir.DType.FP64)),
        (B[0], array_feature("b", (), ir.DType.FP16)),
        (NUMBER, array_feature("b", (1,))),
        (array_feature("b", (1, 1)), ir.Feature("b", ir.Int64Feature())),
        (image_feature("b"), ir.Feature("b", ir.ImageFeature("BGR", 6, 4))),
        (image_feature("b"), ir.Feature("b", ir.ImageFeature("RGB", 5, 4, ir.RangeShapes(((1, 9), (1, 9)))))),
    ],
)
def test_types_that_can_pass(output: ir.Feature, input_: ir.Feature) -> None:
    end = array_feature("c", (3,))
    assert len(wire(pipeline(A, [end], _one(A[0], output), _one(input_, end))).stages) == 2


def test_empty_and_deep_pipelines() -> None:
    with pytest.raises(CorruptModelError, match="the pipeline has no models"):
        wire(pipeline(A, A))
    with pytest.raises(CorruptModelError, match="the pipeline 'model0' has no models"):
        wire(pipeline(A, A, pipeline(A, A)))
    deep = arithmetic("mul", "a", "a")
    for _ in range(1000):
        deep = pipeline(A, A, deep)
    with pytest.raises(CorruptModelError, match="nested more than 64 deep"):
        wire(deep)


def test_shapes_follow_from_the_requested_ones() -> None:
    flexible = ir.RangeShapes(((4, 9), (6, 9)))
    image, middle = (image_feature(name, "RGB", flexible) for name in ("image", "middle"))
    # The description of the second stage allows one size only.
    stages = tripler(image, middle), tripler(image_feature("middle"), image_feature("last"))
    found = bind_functions(pipeline([image], [image_feature("last")], *stages), None, {"image": (4, 6)})
    assert [bound.shapes for bound in found] == [{"image": (4, 6)}, {}]
    unread = bind_functions(
        pipeline([image_feature("image")], [array_feature("print", (2048,))], scene_print())
    )
    assert [bound.bound for bound in unread] == [None]


def test_the_model_itself_is_unchanged() -> None:
    stage = arithmetic("mul", "b", "a")
    wire(pipeline(A, B, stage))
    assert stage.stage == ""
    assert isinstance(stage.content, ir.Program)
    np.testing.assert_array_equal([op.id for op in stage.content.functions["main"].graph.ops], ["main/0"])
