"""Synthetic profiles with known differences."""

from __future__ import annotations

import dataclasses

from coremlscope.compare.profiles import Comparison, compare_profiles
from coremlscope.results.profile import Group, OpTable, Phase, Profile
from tests.support.profiles import small_profile

#: Twelve rounds of two predictions each; in the second half the machine is three times slower.
ROUNDS = [(0.0010 * pace, 0.0011 * pace) for pace in (1, 1.01, 0.99, 1, 1.02, 1) * 2]
DRIFT = [1] * 6 + [3] * 6


def rounds(factor: float) -> list[tuple[float, ...]]:
    """The rounds of a model with all times multiplied by a factor."""
    return [
        tuple(seconds * factor * drift for seconds in round_)
        for round_, drift in zip(ROUNDS, DRIFT, strict=True)
    ]


def timed(profile: Profile, **factors: float) -> Profile:
    """The profile with ±2 % intervals for its groups, some of which are slower by a factor."""
    groups = []
    for group in profile.groups:
        wall = group.wall_s * factors.get(group.label.split(" ")[0], 1.0)
        groups.append(dataclasses.replace(group, wall_s=wall, low_s=wall * 0.98, high_s=wall * 1.02))
    return dataclasses.replace(profile, groups=tuple(groups))


def changed() -> Profile:
    """The synthetic profile with a slower convolution and two operations in place of its cast."""
    profile = timed(small_profile(), conv=1.5)
    rows = [row for row in profile.ops if row.name != "probabilities"]
    new = dataclasses.replace(rows[-1], id="main/600", type="relu", name="new", group=4, status="timed")
    rows = [dataclasses.replace(row, name="scaled") if row.id == "main/1" else row for row in rows]
    model = dataclasses.replace(profile.model, path="models/after.mlpackage", size_bytes=1_000_000)
    extra = Group(
        label="relu",
        op_ids=("main/600",),
        wall_s=0.00005,
        share=0.05,
        engine_nodes=(("main/600/Relu", "Relu"),),
        low_s=0.00004,
        high_s=0.00006,
    )
    return dataclasses.replace(
        profile,
        model=model,
        request=dataclasses.replace(profile.request, compute_units="all"),
        load=Phase((0.03,)),
        ops=OpTable.of(iter([*rows, new])),
        groups=(*profile.groups, extra),
    )


def small_comparison() -> Comparison:
    """Two versions of the synthetic profile with interleaved timing: the second takes 1.4 times as long."""
    return compare_profiles([timed(small_profile()), changed()], rounds=[rounds(1), rounds(1.4)])
