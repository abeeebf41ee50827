"""Fusion of operations into kernels, and the numbers of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.planning.cost.latency.kernels import Kernel, fuse
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS
from tests.support import programs

MAP = np.zeros((1, 8, 16, 16), np.float16)
TOKENS = np.zeros((1, 12, 8), np.float16)
HEADS = np.zeros((1, 2, 12, 8), np.float16)


def kernels(body: Callable[..., Any], **inputs: np.ndarray) -> tuple[Kernel, ...]:
    """The kernels of a program whose operations are those of `body`."""
    return fuse(programs.bind_main(programs.build(body, inputs)).graph)


def weight(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float16)


def conv(x: Any, out: int = 8, k: int = 3, groups: int = 1) -> Any:
    return mb.conv(x=x, weight=weight(out, x.shape[1] // groups, k, k), pad_type="same", groups=groups)


def kinds(found: tuple[Kernel, ...]) -> list[str]:
    return [kernel.kind for kernel in found]


@pytest.mark.parametrize(
    ("out", "k", "groups", "kind", "macs"),
    [
        (16, 3, 1, "conv", 16 * 16 * 16 * 8 * 9),
        (16, 1, 1, "pointwise", 16 * 16 * 16 * 8),
        (8, 3, 8, "depthwise", 16 * 16 * 8 * 9),
        (8, 3, 2, "grouped", 16 * 16 * 8 * 4 * 9),
    ],
)
def test_convolutions_by_their_shape(out: int, k: int, groups: int, kind: str, macs: int) -> None:
    (kernel,) = kernels(lambda x: conv(x, out, k, groups), x=MAP)
    assert (kernel.kind, kernel.geometry.macs) == (kind, macs)
    assert (kernel.inputs, kernel.outputs) == (8 * 256, out * 256)
    assert kernel.weights == out * (8 // groups) * k * k
    assert kernel.weight_bytes == 2 * kernel.weights


def test_activation_norm_and_shortcut_join_a_convolution() -> None:
    def body(x: Any) -> Any:
        y = conv(x)
        y = mb.batch_norm(x=y, mean=weight(8), variance=weight(8))
        return mb.add(x=x, y=mb.relu(x=y))

    (kernel,) = kernels(body, x=MAP)
    assert kernel.kind == "conv"
    assert len(kernel.ops) == 4
    # The shortcut is read in addition to the input; the folded normalization is free, the others are not.
    assert kernel.inputs == 2 * MAP.size - MAP.size
    assert kernel.vector == 2 * MAP.size


def test_a_shortcut_from_elsewhere_is_read() -> None:
    (kernel,) = kernels(lambda x, y: mb.add(x=conv(x), y=y), x=MAP, y=MAP)
    assert kernel.inputs == 2 * MAP.size


def test_a_value_with_two_users_keeps_its_kernel_apart() -> None:
    def body(x: Any) -> Any:
        y = conv(x)
        return mb.relu(x=y), mb.tanh(x=y)

    assert kinds(kernels(body, x=MAP)) == ["conv", "elementwise", "elementwise"]


def gate_of(x: Any) -> Any:
    return mb.sigmoid_hard(x=x, alpha=np.float16(0.2), beta=np.float16(0.5))


def test_a_gate_is_one_activation() -> None:
    def body(x: Any) -> Any:
        y = conv(x)
        return mb.mul(x=gate_of(y), y=y)

    (kernel,) = kernels(body, x=MAP)
    assert len(kernel.ops) == 3
    assert kernel.gated == MAP.size


def test_silu_is_a_gate() -> None:
    (kernel,) = kernels(lambda x: mb.silu(x=conv(x)), x=MAP)
    assert kernel.gated == MAP.size


def test_a_value_used_twice_is_not_a_gate() -> None:
    def body(x: Any) -> Any:
        y = conv(x)
        gate = gate_of(y)
        return mb.mul(x=gate, y=y), mb.relu(x=gate)

    assert all(kernel.gated == 0 for kernel in kernels(body, x=MAP))


def test_squeeze_and_excite_stays_in_parts() -> None:
    def body(x: Any) -> Any:
        squeezed = mb.reduce_mean(x=x, axes=[2, 3], keep_dims=True)
        return mb.mul(x=x, y=mb.sigmoid(x=conv(squeezed, 8, 1)))

    assert kinds(kernels(body, x=MAP)) == ["reduce", "pointwise", "elementwise"]


def layer_norm(x: Any) -> Any:
    centred = mb.sub(x=x, y=mb.reduce_mean(x=x, axes=[-1], keep_dims=True))
    variance = mb.reduce_mean(x=mb.square(x=centred), axes=[-1], keep_dims=True)
    return mb.real_div(x=centred, y=mb.sqrt(x=mb.add(x=variance, y=np.float16(1e-3))))


def rms_norm(x: Any) -> Any:
    mean = mb.reduce_mean(x=mb.mul(x=x, y=x), axes=[-1], keep_dims=True)
    return mb.mul(x=x, y=mb.rsqrt(x=mb.add(x=mean, y=np.float16(1e-3)), epsilon=np.float16(1e-3)))


@pytest.mark.parametrize(("norm", "ops"), [(layer_norm, 7), (rms_norm, 5)])
def test_a_norm_written_as_several_operations_is_one_kernel(norm: Callable[[Any], Any], ops: int) -> None:
    (kernel,) = kernels(norm, x=TOKENS)
    assert kernel.kind == "norm"
    assert len(kernel.ops) == ops
    assert kernel.inputs == kernel.outputs == TOKENS.size


def map_norm(x: Any, axes: list[int]) -> Any:
    centred = mb.sub(x=x, y=mb.reduce_mean(x=x, axes=axes, keep_dims=True))
    variance = mb.reduce_mean(x=mb.square(x=centred), axes=axes, keep_dims=True)
    return mb.real_div(x=centred, y=mb.sqrt(x=mb.add(x=variance, y=np.float16(1e-3))))


def test_norms_of_whole_maps_differ_from_norms_of_rows() -> None:
    def instance(x: Any) -> Any:
        return mb.instance_norm(x=x, gamma=weight(8), beta=weight(8))

    assert kinds(kernels(lambda x: map_norm(x, [1, 2, 3]), x=MAP)) == ["map_norm"]
    assert kinds(kernels(lambda x: map_norm(x, [-2, -1]), x=MAP)) == ["map_norm"]
    assert kinds(kernels(lambda x: map_norm(x, [1]), x=MAP)) == ["norm"]
    assert kinds(kernels(instance, x=MAP)) == ["map_norm"]
    assert kinds(kernels(lambda x: mb.layer_norm(x=x, axes=[1, 2, 3]), x=MAP)) == ["map_norm"]
    assert kinds(kernels(lambda x: mb.layer_norm(x=x, axes=[-1]), x=MAP)) == ["norm"]


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_every_rank_has_kernels_with_finite_numbers(rank: int) -> None:
    def body(x: Any) -> Any:
        y = mb.relu(x=mb.add(x=x, y=np.float16(1)))
        moved = mb.transpose(x=y, perm=list(range(rank))[::-1])
        return mb.softmax(x=moved, axis=-1), mb.reduce_sum(x=y, axes=[0], keep_dims=False)

    for kernel in kernels(body, x=np.zeros((2, 3, 1, 5, 4)[:rank], np.float16)):
        assert kernel.kind in KERNEL_KINDS
        assert kernel.inputs > 0


def test_a_division_by_another_value_is_not_a_norm() -> None:
    def body(x: Any, y: Any) -> Any:
        return mb.real_div(x=x, y=mb.sqrt(x=mb.reduce_mean(x=mb.square(x=y), axes=[-1], keep_dims=True)))

    assert "norm" not in kinds(kernels(body, x=TOKENS, y=TOKENS))


def test_attention_is_one_kernel() -> None:
    def body(q: Any, k: Any, v: Any) -> Any:
        scores = mb.mul(x=mb.matmul(x=q, y=k, transpose_y=True), y=np.float16(0.5))
        return mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v)

    (kernel,) = kernels(body, q=HEADS, k=HEADS, v=HEADS)
    assert kernel.kind == "attention"
    assert kernel.geometry.macs == 2 * 2 * 12 * 12 * 8
    assert kernel.vector == 2 * 12 * 12
    assert kernel.inputs == 3 * HEADS.size
    assert kernel.outputs == HEADS.size


def test_products_without_their_softmax_are_not_attention() -> None:
    def body(q: Any, k: Any) -> Any:
        return mb.matmul(x=mb.matmul(x=q, y=k, transpose_y=True), y=k)

    assert kinds(kernels(body, q=HEADS, k=HEADS)) == ["matmul", "matmul"]


def test_kinds_of_data_movement() -> None:
    def body(x: Any) -> Any:
        back = mb.transpose(x=x, perm=[0, 2, 3, 1])
        left, right = mb.split(x=mb.relu(x=x), axis=1, num_splits=2)
        rows = mb.slice_by_index(x=x, begin=[0, 0, 0, 0], end=[1, 8, 16, 4])
        return back, mb.tanh(x=left), mb.tanh(x=right), rows, mb.transpose(x=x, perm=[0, 2, 1, 3])

    found = {kernel.kind for kernel in kernels(body, x=MAP)}
    assert found == {"channels", "elementwise", "copy", "layout"}


def test_dimensions_of_one_are_free() -> None:
    found = kernels(lambda x: mb.tanh(x=mb.expand_dims(x=mb.squeeze(x=x, axes=[0]), axes=[1])), x=MAP)
    assert kinds(found) == ["elementwise"]


def test_flat_and_planar_rows_of_linear() -> None:
    flat, plane = (
        kernels(lambda x: mb.linear(x=x, weight=weight(4, 8)), x=np.zeros(shape, np.float16))[0].geometry
        for shape in ((1, 12, 8), (1, 3, 4, 8))
    )
    assert (flat.height, flat.width, flat.macs) == (1, 12, 12 * 4 * 8)
    assert (plane.height, plane.width, plane.macs) == (3, 4, 12 * 4 * 8)


def test_palettized_weights_count_their_bytes_in_the_file() -> None:
    def body(x: Any) -> Any:
        lut = mb.constexpr_lut_to_dense(
            indices=np.zeros(16 * 8 // 2, np.uint8),
            lut=np.zeros(16, np.float16),
            shape=np.array([16, 8, 1, 1], np.uint32),
        )
        return mb.conv(x=x, weight=lut, pad_type="valid")

    (kernel,) = kernels(body, x=MAP)
    assert kernel.weights == 16 * 8
    assert 64 <= kernel.weight_bytes < 2 * 16 * 8


def test_a_gather_reads_its_rows_and_not_the_whole_table() -> None:
    table = np.zeros((30522, 384), np.float16)
    indices = np.zeros((1, 77), np.int32)
    graph = programs.bind_main(
        programs.build(lambda x: mb.gather(x=table, indices=x, axis=0), {"x": indices})
    ).graph
    (made,) = [kernel for kernel in fuse(graph) if kernel.weights]
    assert made.weights == 77 * 384
    assert made.weight_bytes == 2 * 77 * 384
