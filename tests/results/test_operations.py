"""The table of operations: columns of equal length, and rows."""

from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope.results.operations import OpDetails, OpRow, OpTable, Signature, WeightKind, WeightTable
from tests.support.profiles import small_ops

COLUMNS = list(OpTable.columns())


def test_rows_there_and_back() -> None:
    table = small_ops()
    rows = list(table)
    assert len(table) == len(rows) == 6
    assert [row.id for row in rows] == list(table.id)
    assert rows[2] == OpRow(**{name: getattr(table, name)[2] for name in COLUMNS})
    assert OpTable.of(rows) == OpTable.of(iter(rows)) == table


def test_rows_have_the_columns_of_the_table() -> None:
    assert list(OpRow.__struct_fields__) == COLUMNS


def test_an_empty_table() -> None:
    assert OpTable.of([]) == OpTable()
    assert (len(OpTable()), list(OpTable()), OpTable().functions) == (0, [], ())


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("change", ["one less", "one more", "none"])
def test_columns_of_another_length_are_refused(column: str, change: str) -> None:
    table = small_ops()
    values = getattr(table, column)
    wrong = {"one less": values[:-1], "one more": (*values, values[-1]), "none": ()}[change]
    with pytest.raises(ValueError, match=r"column \w+ does not have \d rows"):
        msgspec.structs.replace(table, **{column: wrong})


def test_functions_in_the_order_of_their_first_operation() -> None:
    row = next(iter(small_ops()))
    names = ["model0/main", "model1/main", "model0/main"]
    table = OpTable.of(
        msgspec.structs.replace(row, id=f"main/{index}", function=name) for index, name in enumerate(names)
    )
    assert table.functions == ("model0/main", "model1/main")


def test_what_is_not_known_has_a_default() -> None:
    row = OpRow(id="main/0", type="relu", name="y", function="main", outputs=())
    (only,) = OpTable.of([row])
    assert only == row
    assert (row.flops, row.inputs, row.live_bytes, row.layer, row.work_is_complete) == (
        None,
        None,
        None,
        None,
        True,
    )


WEIGHTS = WeightTable(
    kinds=(WeightKind(type="tensor<fp16, [2]>", storage="fp16"),),
    name=("w",),
    kind=(0,),
    stored_bytes=(4,),
    looked_at=(0,),
    least=(None,),
    greatest=(None,),
    histogram=((),),
)


def detailed(**changes: object) -> OpTable:
    """One operation that adds a weight to an input."""
    row = OpRow(id="main/1", type="add", name="a", function="main", outputs=("",), output_names=("a",))
    details = OpDetails(
        signatures=(Signature(parameters=("x", "y")),),
        signature=(0,),
        arguments=(("in", -1),),
        weights=WEIGHTS,
    )
    return msgspec.structs.replace(OpTable.of([row]), details=msgspec.structs.replace(details, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"signature": (0, 0), "arguments": ((), ())}, "do not have 1 rows"),
        ({"arguments": ()}, "do not match their signatures"),
        ({"signature": (1,)}, "signature that is out of range"),
        ({"arguments": (("in",),)}, "do not match its parameters"),
        ({"arguments": (("in", -2),)}, "argument that is out of range"),
        ({"arguments": (("in", 1),)}, "argument that is out of range"),
    ],
)
def test_details_that_contradict_the_table_are_refused(changes: dict[str, object], message: str) -> None:
    assert len(detailed()) == 1
    with pytest.raises(ValueError, match=message):
        detailed(**changes)


def test_columns_of_weights_are_equally_long() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        msgspec.structs.replace(WEIGHTS, name=())
    with pytest.raises(ValueError, match="kind that is out of range"):
        msgspec.structs.replace(WEIGHTS, kind=(1,))
