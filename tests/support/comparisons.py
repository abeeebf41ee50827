"""Profiles that differ in known ways, made by hand."""

from __future__ import annotations

import dataclasses

from coremlscope.comparison.profiles import Comparison, compare_profiles
from coremlscope.results.profile import Group, OpTable, Phase, Profile
from tests.support.profiles import small_profile

#: Twelve rounds of two predictions; in the second half the machine is three times as slow.
ROUNDS = [(0.0010 * pace, 0.0011 * pace) for pace in (1, 1.01, 0.99, 1, 1.02, 1) * 2]
DRIFT = [1] * 6 + [3] * 6


def rounds(factor: float) -> list[tuple[float, ...]]:
    """The rounds of a model that is slower by a factor."""
    return [
        tuple(seconds * factor * drift for seconds in round_)
        for round_, drift in zip(ROUNDS, DRIFT, strict=True)
    ]


def timed(profile: Profile, **factors: float) -> Profile:
    """The profile with intervals of 2 % around its groups, some of them slower by a factor."""
    groups = []
    for group in profile.groups:
        wall = group.wall_s * factors.get(group.label.split(" ")[0], 1.0)
        groups.append(dataclasses.replace(group, wall_s=wall, low_s=wall * 0.98, high_s=wall * 1.02))
    return dataclasses.replace(profile, groups=tuple(groups))


def changed() -> Profile:
    """The made-up profile after its convolution was slowed down and its cast replaced by two operations."""
    profile = timed(small_profile(), conv=1.5)
    rows = [row for row in profile.ops if row.name != "probabilities"]
    new = dataclasses.replace(rows[-1], id="main/600", type="relu", name="new", group=4, status="timed")
    rows = [dataclasses.replace(row, name="scaled") if row.id == "main/1" else row for row in rows]
    model = dataclasses.replace(profile.model, path="models/after.mlpackage", size_bytes=1_000_000)
    extra = Group("relu", ("main/600",), 0.00005, 0.05, (("main/600/Relu", "Relu"),), 0.00004, 0.00006)
    return dataclasses.replace(
        profile,
        model=model,
        request=dataclasses.replace(profile.request, compute_units="all"),
        load=Phase((0.03,)),
        ops=OpTable.of(iter([*rows, new])),
        groups=(*profile.groups, extra),
    )


def small_comparison() -> Comparison:
    """Two versions of the made-up profile, timed in turns: the second takes 1.4 times as long."""
    return compare_profiles([timed(small_profile()), changed()], rounds=[rounds(1), rounds(1.4)])
