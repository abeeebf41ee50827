"""The pairing of the work of two conversions that cut a network in different ways."""

from __future__ import annotations

from msgspec.structs import replace

from coremlscope.describe.comparison.work import pair_work
from coremlscope.results.operations import OpDetails, OpRow, OpTable, Signature, WeightKind, WeightTable


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


def _with_arguments(table: OpTable, *given: tuple[int | str, ...]) -> OpTable:
    """Returns a table with the arguments of its operations; each has a weight as well."""
    arguments = tuple((*one, -1) for one in given)
    signatures = tuple(Signature(parameters=tuple(map(str, range(len(one))))) for one in arguments)
    weights = WeightTable(
        kinds=(WeightKind(type="tensor<fp32, [8, 8]>", storage=""),),
        name=("w",),
        kind=(0,),
        stored_bytes=(256,),
        looked_at=(0,),
        least=(None,),
        greatest=(None,),
        histogram=((),),
    )
    details = OpDetails(
        signatures=signatures,
        signature=tuple(range(len(arguments))),
        arguments=arguments,
        weights=weights,
    )
    names = tuple((f"result_{row}",) for row in range(len(table)))
    return replace(table, output_names=names, details=details)


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


def test_linear_is_a_product_with_a_weight() -> None:
    row = "tensor<fp32, [1, 8]>"
    base = _table(("linear", row, 100, ()), ("exp", row, 8, (0,)))
    other = _table(("matmul", row, 90, ()), ("add", row, 10, (0,)), ("exp", row, 8, (1,)))
    work = pair_work(base, other)
    assert work.share == 1.0
    assert [group.types for group in work.groups] == [("linear", "matmul + add")]


def test_work_on_weights_alone_is_told_apart() -> None:
    row = "tensor<fp32, [1, 8]>"
    base = _table(("matmul", row, 100, ()))
    other = _table(("linear", row, 300, ()), ("add", row, 8, (0,)), ("matmul", row, 100, (1,)))
    base, other = _with_arguments(base, ("image",)), _with_arguments(other, (), (0,), ("image", 1))
    work = pair_work(base, other)
    assert work.share == 1.0
    assert (work.other_flops, work.fixed_flops, work.other_fixed_flops) == (100, 0, 308)
    reading = _with_arguments(other, ("keys",), (0,), ("image", 1))
    assert pair_work(base, reading).other_flops == 408


def _written_out(steps: int, flops: int) -> OpTable:
    """Returns a recurrent network with an operation for each step, whose results are slices and a list."""
    slices = [("slice_by_index", "tensor<fp32, [1, 8]>", 0, ()) for _ in range(steps)]
    products = [
        ("linear", "tensor<fp32, [1, 8]>", flops, (step, steps + step - 1)[: 1 + bool(step)])
        for step in range(steps)
    ]
    results = tuple(range(steps, 2 * steps))
    return _table(
        *slices,
        *products,
        ("concat", f"tensor<fp32, [{steps}, 1, 8]>", 0, results),
        ("linear", f"tensor<fp32, [{steps}, 1, 3]>", 70, (2 * steps,)),
    )


def test_steps_written_out_are_the_work_of_one_recurrent_operation() -> None:
    whole = _table(
        ("transpose", "tensor<fp32, [4, 1, 8]>", 0, ()),
        ("lstm", "tensor<fp32, [4, 1, 8]>", 400, (0,)),
        ("linear", "tensor<fp32, [1, 4, 3]>", 70, (1,)),
    )
    assert pair_work(whole, _written_out(4, 100)).share == 1.0
    half = pair_work(whole, _written_out(4, 50)).share
    assert half is not None
    assert half < 0.6


def test_a_loop_counts_once_and_never_as_work_on_weights() -> None:
    loop = _table(
        ("while_loop", "tensor<fp32, [4, 8]>", 400, ()),
        ("linear", "tensor<fp32, [1, 8]>", 100, ()),
        ("linear", "tensor<fp32, [1, 4, 3]>", 70, (0,)),
    )
    loop = replace(_with_arguments(loop, (), ("state",), (0,)), id=("main/0", "main/0/body/1", "main/2"))
    work = pair_work(loop, _written_out(4, 100))
    assert (work.flops, work.other_flops, work.share, work.fixed_flops) == (470, 470, 1.0, 0)


def test_projections_in_another_order() -> None:
    given, row, gate = (), "tensor<fp32, [10, 8]>", "tensor<fp32, [10, 2]>"
    base = _table(
        ("linear", row, 100, given),
        ("silu", row, 8, (0,)),
        ("linear", row, 100, given),
        ("mul", row, 8, (1, 2)),
    )
    other = _table(
        ("linear", row, 100, given),
        ("linear", row, 100, given),
        ("silu", row, 8, (1,)),
        ("mul", row, 8, (0, 2)),
    )
    assert pair_work(base, other).share == 1.0
    changed = _table(("linear", row, 100, given), ("linear", gate, 25, given), ("exp", row, 8, (0,)))
    share = pair_work(base, changed).share
    assert share is not None
    assert share < 0.95


def test_work_on_weights_that_the_other_model_repeats() -> None:
    row = "tensor<fp32, [1, 8]>"
    whole = _with_arguments(_table(("lstm", row, 400, ()), ("linear", row, 100, (0,))), ("x",), (0,))
    split = _table(("linear", row, 100, ()), ("mul", row, 300, (0,)), ("linear", row, 100, (1,)))
    split = _with_arguments(split, (), ("x", 0), (1,))
    work = pair_work(whole, split)
    assert (work.share, work.other_flops, work.other_fixed_flops) == (1.0, 500, 0)
