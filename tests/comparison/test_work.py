"""The pairing of the work of two conversions that cut a network in different ways."""

from __future__ import annotations

from coremlscope.comparison.work import pair_work
from coremlscope.results.operations import OpRow, OpTable


def _table(*rows: tuple[str, str, int, tuple[int, ...]]) -> OpTable:
    return OpTable.of(
        OpRow(
            id=f"main/{place}",
            type=type_,
            name=f"{type_}_{place}",
            function="main",
            outputs=(shape,),
            flops=flops,
            inputs=inputs,
        )
        for place, (type_, shape, flops, inputs) in enumerate(rows)
    )


_SCORES, _ROWS = "tensor<fp32, [1, 4, 8, 8]>", "tensor<fp32, [1, 4, 8, 16]>"


def test_attention_as_one_operation_and_as_four() -> None:
    split = _table(
        ("conv", "tensor<fp32, [1, 64, 8]>", 100, ()),
        ("mul", _ROWS, 5, (0,)),
        ("matmul", _SCORES, 200, (1,)),
        ("softmax", _SCORES, 10, (2,)),
        ("matmul", _ROWS, 200, (3,)),
        ("reshape", "tensor<fp32, [1, 8, 64]>", 0, (4,)),
    )
    whole = _table(
        ("conv", "tensor<fp32, [1, 64, 8]>", 100, ()),
        ("scaled_dot_product_attention", _ROWS, 410, (0,)),
        ("reshape", "tensor<fp32, [1, 8, 64]>", 0, (1,)),
    )
    work = pair_work(split, whole)
    assert (work.flops, work.other_flops, work.shared_flops) == (515, 510, 510)
    assert work.share == 510 / 515
    (group,) = work.groups
    assert group.types == (
        "mul + matmul + softmax + matmul + reshape",
        "scaled_dot_product_attention + reshape",
    )
    assert group.after == ("main/1", "main/2")


def test_work_without_a_counterpart_is_not_paired() -> None:
    base = _table(("conv", "tensor<fp32, [1, 8]>", 100, ()), ("gelu", "tensor<fp32, [1, 8]>", 8, (0,)))
    other = _table(("conv", "tensor<fp32, [1, 8]>", 100, ()), ("linear", "tensor<fp32, [1, 3]>", 300, (0,)))
    work = pair_work(base, other)
    assert work.shared_flops == 108 - 8 + 8
    assert work.share is not None
    assert work.share < 0.3
    assert work.other_unpaired == ("main/1",)


def test_tables_without_work() -> None:
    assert pair_work(OpTable(), OpTable()).share is None
