"""Rules in words."""

from __future__ import annotations

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.devices import find_device
from coremlscope.planning.patterns.rule import Scope
from coremlscope.planning.placement.catalog import describe_op, describe_scope, find_rule, list_rules
from coremlscope.planning.placement.rules import GRAPH_RULES, RULES
from coremlscope.planning.placement.rules.core_ai import OWN_GRAPH_RULES, OWN_RULES


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (Scope(), ""),
        (Scope(neural_engine=(16, None)), "A17 Pro, M4 and newer"),
        (Scope(neural_engine=(None, 13)), "up to A14, M1"),
        (Scope(neural_engine=(13, 15)), "A14, M1 to A16, M3"),
        (Scope(neural_engine=(16, 16)), "A17 Pro, M4"),
        (Scope(before=(27, 0)), "before iOS 27 and macOS 27"),
        (Scope(since=(17, 4)), "since iOS 17.4 and macOS 14.4"),
        (Scope(chips=("a19-pro", "m5")), "A19 Pro, M5"),
    ],
)
def test_scopes(scope: Scope, text: str) -> None:
    assert describe_scope(scope) == text


def test_examples_say_what_the_rule_says() -> None:
    entry = find_rule("ne-long-sum")
    operation, says = entry.applies_to[0]
    assert operation == "matmul(x=fp16 1x16x40000, y=fp16 1x40000x16) on M4, macOS 27"
    assert says == (
        "products of matrices on the Neural Engine sum over 32768 elements at most: 40000 products are summed"
    )
    assert entry.negative_examples == ("matmul(x=fp16 1x16x32768, y=fp16 1x32768x16) on M4, macOS 27",)


def test_examples_of_functions_show_program_facts() -> None:
    (operation, _), *_ = find_rule("ne-model-size-ios").applies_to
    assert operation == "%0 = relu(x=fp16 1x8) on A17 Pro, iOS 18, 1.2 GB of weights"


def test_an_operation_has_its_own_rules_first() -> None:
    card = describe_op("conv", find_device("m4", "27"))
    general = [entry.ops == ("*",) for entry in card.rules]
    assert general == sorted(general)
    assert {"ne-conv-width", "ne-palette-stride", "ne-rank", "gpu-runs", "cpu-runs"} <= {
        entry.id for entry in card.rules
    }
    assert "ne-conv-size-on-m1" not in {entry.id for entry in card.rules}
    assert card.traits == ("convolution",)


def test_rules_by_traits_name_their_operations() -> None:
    assert find_rule("ne-runs-conversions").ops == ("quantize", "dequantize", "cast")
    assert find_rule("ne-rank").ops == ("*",)
    assert "tensor_buffer_to_tensor" in find_rule("gpu-runs").ops
    assert "acos" not in find_rule("ne-runs-elementwise").ops


def test_everything_is_listed_once() -> None:
    ids = [entry.id for entry in list_rules()]
    assert len(ids) == len(set(ids)) == len((*RULES, *GRAPH_RULES, *OWN_RULES, *OWN_GRAPH_RULES))


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match="unknown rule 'ne-conv-wide'") as rule:
        find_rule("ne-conv-wide")
    assert "ne-conv-width" in rule.value.hint
    with pytest.raises(UsageError, match="unknown operation 'matmull'") as op:
        describe_op("matmull")
    assert "matmul" in op.value.hint
