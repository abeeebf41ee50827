"""Traits: one word for each thing that a rule, a fusion or a formula asks of an operation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import coremlscope
from coremlscope.ops import OPS, traits_of
from coremlscope.ops.traits import NO_TRAITS, Trait, trait_names
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS, KIND_OF_TRAIT

_SOURCE = Path(coremlscope.__file__).parent


@pytest.mark.parametrize("trait", Trait, ids=str)
def test_every_trait_is_read(trait: Trait) -> None:
    readers = [
        path
        for folder in ("planning/cost", "planning/placement")
        for path in (_SOURCE / folder).rglob("*.py")
        if re.search(rf"Trait\.{trait.name}\b", path.read_text(encoding="utf-8"))
    ]
    assert readers, "a trait exists only where something asks for it"


@pytest.mark.parametrize("trait", Trait, ids=str)
def test_every_trait_belongs_to_an_operation(trait: Trait) -> None:
    assert any(trait in spec.traits for spec in OPS.values())


@pytest.mark.parametrize("name", OPS)
def test_one_trait_at_most_decides_about_the_kind(name: str) -> None:
    deciding = [trait for trait in traits_of(name) if trait in KIND_OF_TRAIT]
    assert len(deciding) <= 1
    assert {KIND_OF_TRAIT[trait] for trait in deciding} <= set(KERNEL_KINDS)


def test_names_of_traits() -> None:
    assert trait_names(OPS["silu"].traits) == ("activation", "gated")
    assert trait_names(NO_TRAITS) == ()


def test_traits_of_operations_without_a_row() -> None:
    assert traits_of("new_in_ios_30") == NO_TRAITS
    assert traits_of("constexpr_new_in_ios_30") == Trait.WEIGHT_DECOMPRESSION
