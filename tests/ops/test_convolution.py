from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build, run_onnx
from tests.support.sliding_windows import convolve, spread

RANDOM = np.random.default_rng(5)
SIZES = (9, 8, 7)
KERNEL = (3, 2, 4)


def _numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def _same(size, kernel, stride, lower_=False):
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    less, more = total // 2, total - total // 2
    return (more, less) if lower_ else (less, more)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank):
    x, kernel, bias = _numbers(2, 4, *SIZES[:rank]), KERNEL[:rank], _numbers(6)
    ones, custom = [1] * rank, [(1, 0), (2, 1), (0, 2)][:rank]
    cases = {}

    def add(name, groups, strides, dilations, pads, **more):
        weight = _numbers(6, 4 // groups, *kernel)
        given = {"weight": weight, "groups": groups, "strides": strides, "dilations": dilations, **more}
        expected = convolve(x, weight, pads, strides, dilations, groups)
        if "bias" in more:
            expected += bias.reshape(1, 6, *ones)
        cases[name] = (lambda x, given=given: mb.conv(x=x, **given), expected)

    twos = [2] * rank
    add("plain", 1, ones, ones, [(0, 0)] * rank)
    add("grouped, dilated, bias", 2, ones, twos, [(0, 0)] * rank, bias=bias, pad_type="valid")
    add("custom", 1, twos, ones, custom, pad_type="custom", pad=np.ravel(custom))
    for pad_type in ("same", "same_lower"):
        for strides in (ones, twos):
            pads = [
                _same(*each, pad_type == "same_lower") for each in zip(SIZES, kernel, strides, strict=False)
            ]
            add(f"{pad_type} {strides}", 1, strides, ones, pads, pad_type=pad_type)
    check(cases, {"x": x}, tolerance=1e-4)


def test_weights_that_are_computed():
    x, weight, bias = _numbers(1, 3, 6, 6), _numbers(4, 3, 3, 3), _numbers(4)
    expected = convolve(x, weight, [(0, 0)] * 2, [1, 1], [1, 1], 1)
    cases = {
        "weight": (lambda x, w, b: mb.conv(x=x, weight=w), expected),
        "bias": (lambda x, w, b: mb.conv(x=x, weight=w, bias=b), expected + bias.reshape(1, 4, 1, 1)),
    }
    check(cases, {"x": x, "w": weight, "b": bias}, target=ct.target.iOS17, tolerance=1e-4)


def test_quantized_weights():
    x = _numbers(1, 2, 5, 5)
    weight = RANDOM.integers(0, 256, (3, 2, 3, 3)).astype(np.uint8)
    scale, bias = np.array([0.01, 0.02, 0.03], np.float32), np.array([-1, -2, -3], np.float32)
    whole = weight * scale.reshape(3, 1, 1, 1) + bias.reshape(3, 1, 1, 1)

    def quantized(x):
        return mb.conv_quantized(
            x=x, weight=weight, quantization_type="linear", quant_scale=scale, quant_bias=bias
        )

    expected = convolve(x, whole, [(0, 0)] * 2, [1, 1], [1, 1], 1)
    check({"linear": (quantized, expected)}, {"x": x}, target=ct.target.iOS15, tolerance=1e-4)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank):
    sizes, kernel = (4, 3, 2)[:rank], KERNEL[:rank]
    x, bias = _numbers(2, 4, *sizes), _numbers(6)
    ones, twos, threes = [1] * rank, [2] * rank, [3] * rank
    cases = {}

    def add(name, groups, strides, dilations, cut, **more):
        weight = _numbers(4, 6 // groups, *kernel)
        given = {"weight": weight, "groups": groups, "strides": strides, "dilations": dilations, **more}
        full = spread(x, weight, strides, dilations, groups)
        expected = cut(full)
        if "bias" in more:
            expected = expected + bias.reshape(1, 6, *ones)
        cases[name] = (lambda x, given=given: mb.conv_transpose(x=x, **given), expected)

    def to_size(size, before=None):
        """Cuts or fills to `size`: half of what is too much before, unless `before` says how much."""

        def cut(full):
            for axis, wanted in enumerate(size, 2):
                extra = full.shape[axis] - wanted
                first = max(extra, 0) // 2 if before is None else before[axis - 2]
                full = np.pad(
                    full, [(0, max(-extra + first, 0) if a == axis else 0) for a in range(full.ndim)]
                )
                full = full.take(range(first, first + wanted), axis)
            return full

        return cut

    def whole(full):
        return full

    same = [n * 2 for n in sizes]
    add("plain", 1, ones, ones, whole)
    add("strided, grouped, bias", 2, twos, ones, whole, bias=bias)
    add("dilated", 1, twos, twos, whole)
    cut = [1, 0, 1][:rank]
    pads = np.ravel([(c, 1) for c in cut])
    size = [(n - 1) * 2 + k - c - 1 for n, k, c in zip(sizes, kernel, cut, strict=True)]
    add("custom", 1, twos, ones, to_size(size, cut), pad_type="custom", pad=pads)
    add("same", 1, twos, ones, to_size(same), pad_type="same")
    add("same with gaps", 1, threes, ones, to_size([n * 3 for n in sizes]), pad_type="same", bias=bias)
    add("size", 1, twos, ones, to_size(same), pad_type="same", output_shape=[2, 6, *same])
    longer = [(n - 1) * 2 + k + 1 for n, k in zip(sizes, kernel, strict=True)]
    add("longer", 1, twos, ones, to_size(longer, [0] * rank), pad_type="valid", output_shape=[2, 6, *longer])
    much = [n + 2 for n in longer]
    add("beyond", 1, twos, ones, to_size(much, [0] * rank), output_shape=[2, 6, *much], bias=bias)
    check(cases, {"x": x}, tolerance=1e-4)


@pytest.mark.parametrize("pad_type", ["valid", "same", "same_lower"])
def test_sizes_that_are_only_known_at_run_time(pad_type):
    x, weight = _numbers(1, 3, 7, 9), _numbers(4, 3, 3, 2)

    def body(x):
        y = mb.conv(x=x, weight=weight, strides=[2, 2], pad_type=pad_type)
        return y, mb.avg_pool(x=x, kernel_sizes=[2, 3], strides=[2, 2], pad_type=pad_type)

    model = build(body, {"x": x})
    given = {"x": x}
    fixed = run_onnx(lower(bind_main(model)), given)
    open_ = run_onnx(lower(bind_main(model, {"x": (1, 3, None, None)})), given)
    for name, result in fixed.items():
        np.testing.assert_allclose(open_[name], result, rtol=1e-5, atol=1e-5)


def test_one_node_each():
    model = build(
        lambda x: mb.conv(x=x, weight=_numbers(2, 3, 3, 3), bias=_numbers(2)), {"x": _numbers(1, 3, 5, 5)}
    )
    nodes = lower(bind_main(model)).model.graph.node
    assert [node.op_type for node in nodes] == ["Conv"]


def test_weights_for_other_channels_are_named():
    from coremlscope.ops import OPS
    from coremlscope.ops.bind import bind

    model = build(lambda x: mb.conv(x=x, weight=_numbers(2, 3, 3, 3)), {"x": _numbers(1, 3, 5, 5)})
    ((_, text),) = bind(model.content.functions["main"], OPS, {"x": (1, 4, 5, 5)}).problems
    assert text == "weights for 3 channels in 1 groups, but x has 4 channels"


def test_work():
    x, weight = np.zeros((1, 4, 8, 8), np.float32), np.zeros((6, 2, 3, 3), np.float32)

    def body(x):
        y = mb.conv(
            x=x, weight=weight, bias=np.ones(6, np.float32), groups=2, strides=[2, 2], pad_type="same"
        )
        return mb.conv_transpose(x=y, weight=np.ones((6, 5, 2, 2), np.float32), strides=[2, 2])

    found = works(body, {"x": x})
    # 6·4·4 results of 2·3·3 multiply-adds and a bias each.
    assert found["conv"].flops == 96 * (2 * 18 + 1)
    assert found["conv"].written_bytes == 96 * 4
    # 6·4·4 inputs that 5·2·2 weights each spread; no bias.
    assert found["conv_transpose"].flops == 96 * 2 * 20
