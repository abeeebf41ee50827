"""Operations of two versions of a program, matched."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coremlscope.describe.comparison import alignment as module
from coremlscope.describe.comparison.alignment import align
from coremlscope.results.operations import OpRow, OpTable


def table(*ops: str) -> OpTable:
    """Operations from texts such as `conv stem 16`: type, name and number of channels."""
    return OpTable.of(row(f"main/{index}", *op.split()) for index, op in enumerate(ops))


def row(id_: str, type_: str, name: str, channels: str) -> OpRow:
    outputs = (f"tensor<fp16, [1, {channels}]>",)
    return OpRow(id=id_, type=type_, name=name, function="main", outputs=outputs)


def matched(before: OpTable, after: OpTable) -> list[tuple[str, str]]:
    return sorted((before.name[i], after.name[j]) for i, j in align(before, after).items())


NET = ("conv a 8", "relu b 8", "conv c 16", "relu d 16", "conv e 16", "relu f 16", "linear g 10")


def test_equal_programs_match_one_to_one() -> None:
    assert align(table(*NET), table(*NET)) == {index: index for index in range(7)}


def test_an_operation_that_was_inserted_shifts_no_other() -> None:
    after = table(*NET[:2], "cast new 8", *NET[2:])
    assert matched(table(*NET), after) == [(name, name) for name in "abcdefg"]


def test_numbers_in_names_may_shift() -> None:
    # The converter numbers what it makes: `op_2` of the one is `op_3` of the other.
    before = [f"{kind} op_{index} {size}" for index, (kind, _, size) in enumerate(map(str.split, NET))]
    kinds = [*NET[:2], "cast new 8", *NET[2:]]
    after = [f"{kind} op_{index} {size}" for index, (kind, _, size) in enumerate(map(str.split, kinds))]
    expected = {index: index + (index >= 2) for index in range(7)}
    assert align(table(*before), table(*after)) == expected


def test_everything_renamed_and_everything_widened() -> None:
    renamed = table(*(f"{kind} new_{name} {size}" for kind, name, size in map(str.split, NET)))
    assert align(table(*NET), renamed) == {index: index for index in range(7)}
    wider = table(*(f"{kind} {name} {int(size) * 2}" for kind, name, size in map(str.split, NET)))
    assert align(table(*NET), wider) == {index: index for index in range(7)}


def test_an_operation_that_kept_its_name_was_replaced() -> None:
    after = table("conv a 8", "silu b 8", *NET[2:])
    assert matched(table(*NET), after)[1] == ("b", "b")
    assert "b" not in dict(matched(table(*NET), table("conv a 8", "silu x 8", *NET[2:])))


def test_what_was_moved_is_found() -> None:
    after = table(*NET[2:4], *NET[:2], *NET[4:])
    assert matched(table(*NET), after) == [(name, name) for name in "abcdefg"]


def test_loops_stay_apart() -> None:
    outside, inside = table("relu a 8"), OpTable.of([row("main/3/body/0", "relu", "a", "8")])
    # The name and the result are all that they share.
    assert align(outside, inside) == {0: 0}
    renamed = OpTable.of([row("main/3/body/0", "relu", "b", "8")])
    assert align(outside, renamed) == {}


ROWS = st.lists(
    st.builds(
        "{} {} {}".format, st.sampled_from(["conv", "relu"]), st.sampled_from("abc"), st.integers(1, 3)
    ),
    max_size=12,
)


@given(ROWS, ROWS)
def test_large_tables_are_cut_without_loss(before: list[str], after: list[str]) -> None:
    left, right = table(*before), table(*after)
    keys = module._Keys(left, right)
    whole = slice(0, len(before)), slice(0, len(after))

    def score(pairs: list[tuple[int, int]]) -> int:
        assert pairs == sorted(pairs)
        assert len({j for _, j in pairs}) == len(pairs)
        assert [j for _, j in pairs] == sorted(j for _, j in pairs)
        return sum(int(keys.scores(i, slice(j, j + 1))[0]) for i, j in pairs)

    best = score(module._best(keys, *whole))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WHOLE", 1)
        assert score(module._best(keys, *whole)) == best


def test_no_operation_is_matched_twice() -> None:
    rng = random.Random(0)
    before = [f"conv n{rng.randrange(9)} {rng.randrange(3)}" for _ in range(60)]
    after = rng.sample(before, 40) + [f"relu n{rng.randrange(9)} 1" for _ in range(20)]
    found = align(table(*before), table(*after))
    assert len(set(found.values())) == len(found) > 30


def test_thousands_of_operations_without_names_in_common() -> None:
    kinds = ["conv", "relu", "add", "mul"]
    before, after = ([f"{kinds[i * 7 % 4]} {side}{i} {i * 5 % 13}" for i in range(3000)] for side in "ab")
    del after[1500]
    expected = {i: i - (i > 1500) for i in range(3000) if i != 1500}
    assert align(table(*before), table(*after)) == expected
