"""Work and values shared by two frameworks' conversions of one network."""

from __future__ import annotations

import msgspec


class WorkGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of two models that compute the same.

    Attributes:
        before: Their ids in the base, in order; the last one computes the result.
        after: Their ids in the other model.
        types: Their types in the base, and in the other model.
        flops: Their floating-point operations in the base.
        other_flops: Their floating-point operations in the other model.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    types: tuple[str, str]
    flops: int
    other_flops: int


class SharedWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work that two models have in common.

    Attributes:
        flops: Floating-point operations of the base.
        other_flops: Floating-point operations of the other model.
        shared_flops: Those that are paired: in each pair of groups, the smaller number counts.
        pairs: Number of paired operations.
        groups: The groups whose types differ, those with the most work first.
        unpaired: Ids of operations of the base that belong to no pair.
        other_unpaired: The same for the other model.
        fixed_flops: FLOPs of the base that read neither an input nor a state, so that a converter may compute
            them once. No other number of FLOPs contains them.
        other_fixed_flops: The same for the other model.
    """

    flops: int
    other_flops: int
    shared_flops: int
    pairs: int
    groups: tuple[WorkGroup, ...] = ()
    unpaired: tuple[str, ...] = ()
    other_unpaired: tuple[str, ...] = ()
    fixed_flops: int = 0
    other_fixed_flops: int = 0

    @property
    def share(self) -> float | None:
        """The paired share of the work of the model that has more; None if neither has work."""
        most = max(self.flops, self.other_flops)
        return self.shared_flops / most if most else None


class ValueAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far a value of one model is from its counterpart.

    Attributes:
        before: Its name in the base.
        after: Its name in the other model.
        op: The id of the operation of the base that computes it; empty for outputs.
        error: The root mean square of the difference over that of the base.
        largest: The largest absolute difference.
        cosine: The cosine of the angle between both; None if it is not defined.
        same_top: Whether the largest element is at the same place; None for intermediate values.
    """

    before: str
    after: str
    op: str = ""
    error: float
    largest: float
    cosine: float | None = None
    same_top: bool | None = None


class OutputAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How the values of two models agree for the same inputs.

    Attributes:
        outputs: Their outputs, in order.
        pairs: Number of values with a counterpart: equal ones, or those of the same place in the network.
        equal: How many of them agree within `tolerance`.
        tolerance: The relative error up to which values agree.
        first: The first value that does not agree, where an output does not either; None else.
        by: What computed the values.
        problem: Why values were not compared; empty if they were.
    """

    outputs: tuple[ValueAgreement, ...] = ()
    pairs: int = 0
    equal: int = 0
    tolerance: float = 0.0
    first: ValueAgreement | None = None
    by: str = ""
    problem: str = ""
