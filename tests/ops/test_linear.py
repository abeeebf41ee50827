from __future__ import annotations

from functools import partial

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.base.errors import UnsupportedOpError
from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

RANDOM = np.random.default_rng(8)


def _numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def _whole(*shape):
    return RANDOM.integers(-5, 6, shape).astype(np.int32)


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
def test_linear(shape, target):
    x, weight, bias = _numbers(*shape), _numbers(4, 6), _numbers(4)
    cases = {
        "bias": (lambda x: mb.linear(x=x, weight=weight, bias=bias), x @ weight.T + bias),
        "no bias": (lambda x: mb.linear(x=x, weight=weight), x @ weight.T),
    }
    check(cases, {"x": x}, target=target)


@pytest.mark.parametrize("shape", [(3, 6), (2, 3, 6)])
def test_linear_of_integers(shape):
    x, weight, bias = _whole(*shape), _whole(4, 6), _whole(4)
    check({"int": (lambda x: mb.linear(x=x, weight=weight, bias=bias), x @ weight.T + bias)}, {"x": x})


def test_nodes_of_linear():
    weight, bias = _numbers(4, 6), _numbers(4)

    def body(x, y):
        return mb.linear(x=x, weight=weight, bias=bias), mb.linear(x=y, weight=weight)

    nodes = lower(bind_main(build(body, {"x": _numbers(3, 6), "y": _numbers(2, 3, 6)}))).model.graph.node
    # A bias of zeros, which coremltools writes where there is none, costs nothing.
    assert [node.op_type for node in nodes] == ["Gemm", "MatMul"]


MATRICES = {
    "plain": ((3, 4), (4, 5), False, False),
    "transposed y": ((3, 4), (5, 4), False, True),
    "transposed x": ((4, 3), (4, 5), True, False),
    "both": ((4, 3), (5, 4), True, True),
    "batched": ((2, 3, 4), (2, 4, 5), False, False),
    "broadcast": ((2, 1, 3, 4), (6, 5, 4), False, True),
    "broadcast x": ((3, 4), (2, 4, 5), False, False),
    "vector x": ((4,), (4, 5), False, False),
}


@pytest.mark.parametrize("make", [_numbers, _whole], ids=["float", "int"])
def test_matmul(make):
    cases, inputs = {}, {}
    for index, (name, (left, right, swap_x, swap_y)) in enumerate(MATRICES.items()):
        x, y = make(*left), make(*right)
        inputs |= {f"x{index}": x, f"y{index}": y}
        expected = np.matmul(x.swapaxes(-1, -2) if swap_x else x, y.swapaxes(-1, -2) if swap_y else y)

        def product(index=index, swaps=(swap_x, swap_y), known=None, **given):
            operands = {"x": given[f"x{index}"], "y": given[f"y{index}"]} | (known or {})
            return mb.matmul(**operands, transpose_x=swaps[0], transpose_y=swaps[1])

        cases[name] = (product, expected)
        cases[f"{name}, x known"] = (partial(product, known={"x": x}), expected)
        cases[f"{name}, y known"] = (partial(product, known={"y": y}), expected)
    check(cases, inputs)


def test_products_with_vectors_end_the_app_on_a_device():
    x, y = _numbers(4), _numbers(2, 4, 5)
    with pytest.raises(UnsupportedOpError, match="product with a vector"):
        check({"vector": (lambda x: mb.matmul(x=x, y=y), np.matmul(x, y))}, {"x": x})


def test_matmul_takes_the_element_type_of_what_is_not_constant():
    x, y = _whole(3, 4), _whole(4, 5).astype(np.float32)
    check(
        {"int": (lambda x: mb.matmul(x=x, y=y), (x @ y).astype(np.int32))}, {"x": x}, target=ct.target.iOS17
    )


EQUATIONS = {
    "nchw,nwhu->nchu": ((2, 3, 4, 5), (2, 5, 4, 6)),
    "abcd,adce->abce": ((1, 3, 4, 5), (2, 5, 1, 6)),
    "chw,whr->chr": ((3, 4, 5), (5, 4, 2)),
    "abc,cbd->abd": ((3, 1, 5), (5, 4, 2)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation):
    left, right = EQUATIONS[equation]
    x, y = _numbers(*left), _numbers(*right)
    sizes = [max(a, b) for a, b in zip((left[0], left[-2]), (right[0], right[-2]), strict=True)]
    wide_x = np.broadcast_to(x, (sizes[0], left[1], sizes[1], left[3])) if x.ndim == 4 else x
    wide_y = np.broadcast_to(y, (sizes[0], right[1], sizes[1], right[3])) if y.ndim == 4 else y
    if x.ndim == 3:
        wide_x = np.broadcast_to(x, (left[0], sizes[1], left[2]))
    expected = np.einsum(equation, wide_x, wide_y)
    check({equation: (lambda x, y: mb.einsum(values=(x, y), equation=equation), expected)}, {"x": x, "y": y})


@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_attention(batch):
    query, key, value = _numbers(*batch, 4, 8), _numbers(*batch, 5, 8), _numbers(*batch, 5, 6)
    added, allowed = _numbers(4, 5), RANDOM.integers(0, 2, (4, 5)).astype(bool)
    allowed[:, 0] = True

    def expected(mask):
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(8) + mask
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True) @ value

    def attention(mask=None):
        more = {} if mask is None else {"attn_mask": mask}
        return lambda q, k, v: mb.scaled_dot_product_attention(query=q, key=k, value=v, **more)

    cases = {
        "plain": (attention(), expected(0)),
        "added mask": (attention(added), expected(added)),
        "bool mask": (attention(allowed), expected(np.where(allowed, 0, -np.inf))),
        "key mask": (attention(allowed[:1]), expected(np.where(allowed[:1], 0, -np.inf))),
    }
    check(cases, {"q": query, "k": key, "v": value}, target=ct.target.iOS18)


def test_work_of_products():
    def body(x):
        y = mb.linear(x=x, weight=_numbers(5, 4), bias=_numbers(5))
        return mb.matmul(x=y, y=_numbers(2, 5, 6))

    found = works(body, {"x": _numbers(2, 3, 4)})
    # 2·3·5 sums of 4 products and a bias; 2·3·6 sums of 5 products.
    assert (found["linear"].flops, found["matmul"].flops) == (30 * 9, 36 * 10)
    assert found["linear"].weight_bytes == (20 + 5) * 4


def test_work_of_outer_products():
    found = works(lambda x, y: mb.matmul(x=x, y=y), {"x": _numbers(2, 3, 1), "y": _numbers(2, 1, 6)})
    assert found["matmul"].flops == 2 * 3 * 6  # One multiplication each: there is nothing to add.


def test_work_of_einsum_and_attention():
    found = works(
        lambda x, y: mb.einsum(values=(x, y), equation="chw,whu->chu"),
        {"x": _numbers(3, 4, 5), "y": _numbers(5, 4, 2)},
    )
    assert found["einsum"].flops == 2 * 3 * 4 * 5 * 2

    def attention(q, k, v):
        return mb.scaled_dot_product_attention(query=q, key=k, value=v)

    given = {"q": _numbers(2, 4, 8), "k": _numbers(2, 5, 8), "v": _numbers(2, 5, 6)}
    found = works(attention, given, target=ct.target.iOS18)
    # 2·4·5 scores: 8 and 6 multiply-adds, a scaling and a softmax of 5 each.
    assert found["scaled_dot_product_attention"].flops == 40 * (16 + 12 + 1 + 5)
