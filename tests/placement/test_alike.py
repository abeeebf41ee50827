from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import msgspec.structs
import numpy as np
import pytest

from coremlscope.devices import find_device
from coremlscope.model.ir import Constant, Immediate, constant
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.rule import (
    Example,
    ProgramFacts,
    RuleContext,
    example_view,
    fp16,
    fp32,
    weight,
)
from coremlscope.planning.placement.alike import Kinds
from coremlscope.planning.placement.eligibility import _UNKNOWN
from coremlscope.planning.placement.rules import RULES, core_ai


class _NotAsked(Mapping[str, OpView]):
    """Fails where a rule looks at what makes an argument."""

    def __getitem__(self, name: str) -> OpView:
        raise RuntimeError(f"a rule asks what makes {name}")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("a rule asks what makes arguments")

    def __len__(self) -> int:
        return 0


class _NotRead(int):
    """Fails where a rule compares it or computes with it."""

    def _fail(self, *_: object) -> bool:
        raise RuntimeError("a rule reads the size of the weights")

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __truediv__ = __floordiv__ = __add__ = __mul__ = _fail  # type: ignore[assignment]


@pytest.mark.parametrize("chip", ["m1", "m4"])
def test_rules_ask_only_in_their_exceptions_what_makes_arguments(chip: str) -> None:
    rules = (*RULES, *core_ai.RULES)
    views = [example_view(one) for rule in rules for one in (*rule.applies_to, *rule.negative_examples)]
    facts = ProgramFacts(inputs=_NotAsked(), outputs=_NotAsked(), weights_bytes=_NotRead())
    context = RuleContext.on(find_device(chip, "27"), facts, producers=_NotAsked())
    concerned = {
        type_: [rule for rule in rules if rule.concerns(type_)] for type_ in {view.op.type for view in views}
    }
    for view in views:
        for rule in concerned[view.op.type]:
            with contextlib.suppress(*_UNKNOWN):
                rule.when(view, context)


ADD = Example("add", {"x": fp16(1, 64), "y": 0.5})


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        (Example("add", {"x": fp16(1, 64), "y": 0.5}), True),
        (Example("add", {"x": fp16(1, 64), "y": 0.25}), False),
        (Example("add", {"x": fp16(1, 65), "y": 0.5}), False),
        (Example("add", {"x": fp32(1, 64), "y": 0.5}), False),
        (Example("mul", {"x": fp16(1, 64), "y": 0.5}), False),
        (Example("add", {"x": fp16(1, 64), "y": fp16()}), False),
        (Example("add", {"x": fp16(1, 64), "y": 0.5}, opset=7), False),
    ],
)
def test_operations_of_a_kind(other: Example, is_equal: bool) -> None:
    kinds = Kinds()
    first, second = kinds.number(example_view(ADD)), kinds.number(example_view(other))
    assert (first == second) is is_equal


def test_weights_are_told_apart_by_their_place() -> None:
    one, equal = (Constant(weight(64, 64).type, Immediate(np.ones((64, 64), np.float16))) for _ in range(2))
    kinds = Kinds()
    views = [example_view(Example("linear", {"x": fp16(8, 64), "weight": w})) for w in (one, one, equal)]
    first, same, other = map(kinds.number, views)
    assert first == same != other


def test_more_attributes_than_a_name_make_an_operation_the_only_one_of_its_kind() -> None:
    view = example_view(ADD)
    msgspec.structs.force_setattr(view.op, "attributes", {"name": constant("a")})
    kinds = Kinds()
    named = kinds.number(view)
    assert kinds.number(example_view(ADD)) == named
    msgspec.structs.force_setattr(view.op, "attributes", {"name": constant("a"), "other": constant(1)})
    assert kinds.number(view) is None
