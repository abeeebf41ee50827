from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import run, run_onnx

RNG = np.random.default_rng(17)
X = RNG.permutation(60).astype(np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("ascending", [True, False])
def test_topk_and_argsort(axis, ascending):
    order = np.argsort(X if ascending else -X, axis)
    first = np.take(order, range(2), axis)
    given = {"axis": axis, "ascending": ascending}
    cases = {
        "values": (lambda x: mb.topk(x=x, k=2, **given)[0], np.take_along_axis(X, first, axis)),
        "indices": (lambda x: mb.topk(x=x, k=2, **given)[1], first.astype(np.int32)),
        "integers": (
            lambda x: mb.topk(x=mb.cast(x=x, dtype="int32"), k=1, **given)[0],
            np.take_along_axis(X, order, axis).take([0], axis).astype(np.int32),
        ),
        "argsort": (lambda x: mb.argsort(x=x, **given), order.astype(np.int32)),
    }
    check(cases, {"x": X})


def test_topk_since_ios17():
    order = np.argsort(-X, -1)
    cases = {
        "only values": (
            lambda x: mb.topk(x=x, k=3, return_indices=False, sort=False),
            np.take_along_axis(X, order[..., :3], -1),
        ),
        "uint16": (
            lambda x: mb.cast(x=mb.topk(x=x, k=4, output_indices_dtype="uint16")[1], dtype="int32"),
            order[..., :4].astype(np.int32),
        ),
    }
    check(cases, {"x": X}, target=ct.target.iOS17)


def test_of_equals_the_first_comes_first():
    x = np.array([[2, 1, 2, 1, 2]], np.float32)
    cases = {
        "largest": (lambda x: mb.topk(x=x, k=5)[1], np.array([[0, 2, 4, 1, 3]], np.int32)),
        "smallest": (lambda x: mb.argsort(x=x, ascending=True), np.array([[1, 3, 0, 2, 4]], np.int32)),
    }
    check(cases, {"x": x})


def suppressed(boxes, scores, overlap, threshold, most, by_class):
    """Greedy non-maximum suppression of one image, in the order of the scores."""
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    best, classes, kept = scores.max(1), scores.argmax(1), []
    for box in np.argsort(-best):
        if best[box] < threshold:
            continue
        for other in kept:
            if by_class and classes[other] != classes[box]:
                continue
            shared = np.prod(
                np.maximum(0, np.minimum(high[box], high[other]) - np.maximum(low[box], low[other]))
            )
            if shared / (boxes[box, 2:].prod() + boxes[other, 2:].prod() - shared) > overlap:
                break
        else:
            kept.append(box)
    return (kept or [best.argmax()])[:most]


@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize(("threshold", "most"), [(-100.0, 7), (0.5, 20), (9.0, 3)])
def test_non_maximum_suppression(by_class, threshold, most):
    boxes = RNG.uniform(1, 10, (2, 15, 4)).astype(np.float32)
    scores = RNG.uniform(-1, 1, (2, 15, 3)).astype(np.float32)
    new = threshold == -100.0
    coordinates, ranks = np.zeros((2, most, 4)), np.zeros((2, most, 3))
    indices, counts = np.full((2, most), -1, np.int32), np.zeros(2, np.int32)
    for image in range(2):
        kept = suppressed(boxes[image], scores[image], 0.3, threshold, most, by_class)
        counts[image] = len(kept)
        indices[image, : len(kept)] = kept
        coordinates[image, : len(kept)] = boxes[image, kept]
        ranks[image, : len(kept)] = scores[image, kept]
    given = {"iou_threshold": 0.3, "max_boxes": most, "per_class_suppression": by_class}
    inputs = {"boxes": boxes, "scores": scores}
    results = run(
        lambda boxes, scores: mb.non_maximum_suppression(
            boxes=boxes, scores=scores, score_threshold=threshold, **given
        ),
        inputs,
    )
    for result, expected in zip(results, (coordinates, ranks, indices, counts), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    if new:
        turned = {name: array.transpose(0, 2, 1).copy() for name, array in inputs.items()}
        results = run(
            lambda boxes, scores: mb.non_maximum_suppression(boxes=boxes, scores=scores, **given),
            turned,
            target=ct.target.iOS17,
        )
        expected = (coordinates.transpose(0, 2, 1), ranks.transpose(0, 2, 1), indices)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize("labels", [["cat", "dog", "bird"], [7, 5, 3]])
def test_classify(labels):
    dtype = ir.DType.STRING if isinstance(labels[0], str) else ir.DType.INT64
    label = ir.TensorType(dtype, ())
    items = ir.Nested(tuple(ir.constant(item, dtype) for item in labels))
    classes = ir.Constant(ir.ListType(label, 3), items)
    taken = ir.Value("p", ir.TensorType(ir.DType.FP32, (1, 3)))
    given = ir.Value("label", label), ir.Value("scores", ir.DictType(label, ir.TensorType(ir.DType.FP64, ())))
    op = ir.Op(
        id="main/0", type="classify", inputs={"probabilities": (taken,), "classes": (classes,)}, outputs=given
    )
    bound = bind(
        ir.Function(
            name="main",
            opset="CoreML5",
            graph=ir.Graph(name="main", inputs=(taken,), ops=(op,), outputs=given),
        ),
        OPS,
    )
    assert [out.type for out in bound.graph.outputs] == [value.type for value in given]
    program = lower(bound)
    probabilities = np.array([[0.2, 0.5, 0.3]], np.float32)
    best, scores = run_onnx(program, {"p": probabilities}).values()
    assert [port.labels for port in program.outputs] == [tuple(labels)] * 2
    assert labels[best.item()] == labels[1]
    np.testing.assert_array_equal(scores, probabilities[0])


def test_work():
    done = works(lambda x: mb.topk(x=x, k=2), {"x": X})
    assert done["topk"].flops == 60 * 3
    assert done["topk"].written_bytes == 2 * 3 * 4 * 2 * 4
