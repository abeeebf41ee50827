"""The table of operations: columns of equal length, and rows."""

from __future__ import annotations

import dataclasses

import pytest

from coremlscope.results.operations import OpRow, OpTable
from tests.support.profiles import small_ops

COLUMNS = [column.name for column in dataclasses.fields(OpTable)]


def test_rows_there_and_back() -> None:
    table = small_ops()
    rows = list(table)
    assert len(table) == len(rows) == 6
    assert [row.id for row in rows] == list(table.id)
    assert rows[2] == OpRow(**{name: getattr(table, name)[2] for name in COLUMNS})
    assert OpTable.of(rows) == OpTable.of(iter(rows)) == table


def test_rows_have_the_columns_of_the_table() -> None:
    assert [field.name for field in dataclasses.fields(OpRow)] == COLUMNS


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
        dataclasses.replace(table, **{column: wrong})


def test_functions_in_the_order_of_their_first_operation() -> None:
    row = next(iter(small_ops()))
    names = ["model0/main", "model1/main", "model0/main"]
    table = OpTable.of(
        dataclasses.replace(row, id=f"main/{index}", function=name) for index, name in enumerate(names)
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
