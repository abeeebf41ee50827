"""Profiles that differ in known ways, made by hand."""

from __future__ import annotations

import msgspec.structs

from coremlscope.describe.comparison.profiles import Comparison, compare_profiles
from coremlscope.results.measurement import Group, Phase
from coremlscope.results.operations import OpTable
from coremlscope.results.profile import Profile
from tests.support.profiles import small_profile

__all__ = ["DRIFT", "ROUNDS", "changed", "rounds", "small_comparison", "timed", "with_measurement"]

#: Twelve rounds of two predictions; in the second half the machine is three times as slow.
ROUNDS = [(0.0010 * pace, 0.0011 * pace) for pace in (1, 1.01, 0.99, 1, 1.02, 1) * 2]
DRIFT = [1] * 6 + [3] * 6


def rounds(factor: float) -> list[tuple[float, ...]]:
    """The rounds of a model that is slower by a factor."""
    return [
        tuple(seconds * factor * drift for seconds in round_)
        for round_, drift in zip(ROUNDS, DRIFT, strict=True)
    ]


def with_measurement(profile: Profile, **changes: object) -> Profile:
    """The profile with other fields of its measurement."""
    measured = msgspec.structs.replace(profile.measurement, **changes)  # type: ignore[arg-type]
    return msgspec.structs.replace(profile, measurements=(measured,))


def timed(profile: Profile, **factors: float) -> Profile:
    """The profile with intervals of 2 % around its groups, some of them slower by a factor."""
    groups = []
    for group in profile.measurement.groups:
        wall = group.wall_s * factors.get(group.label.split(" ")[0], 1.0)
        groups.append(msgspec.structs.replace(group, wall_s=wall, low_s=wall * 0.98, high_s=wall * 1.02))
    return with_measurement(profile, groups=tuple(groups))


def changed() -> Profile:
    """The small profile after its convolution was slowed down and its last cast replaced by a relu."""
    profile = timed(small_profile(), conv=1.5)
    rows = [row for row in profile.ops if row.name != "probabilities"]
    new = msgspec.structs.replace(rows[-1], id="main/600", type="relu", name="new")
    rows = [msgspec.structs.replace(row, name="scaled") if row.id == "main/1" else row for row in rows]
    extra = Group(
        label="relu",
        ops=(len(rows),),
        wall_s=0.00005,
        share=0.05,
        engine_nodes=(("main/600/Relu", "Relu"),),
        low_s=0.00004,
        high_s=0.00006,
    )
    old = profile.measurement
    measured = msgspec.structs.replace(
        old,
        settings=msgspec.structs.replace(old.settings, compute_units="all"),
        load=Phase.of((0.03,)),
        groups=(*old.groups, extra),
        status=(*old.status[: len(rows)], "timed"),
        group=(*old.group[: len(rows)], len(old.groups)),
    )
    return msgspec.structs.replace(
        profile,
        model=msgspec.structs.replace(profile.model, path="models/after.mlpackage", size_bytes=1_000_000),
        ops=OpTable.of([*rows, new]),
        measurements=(measured,),
    )


def small_comparison() -> Comparison:
    """Two versions of the small profile, interleaved: predictions of the second take 1.4 times as long."""
    return compare_profiles([timed(small_profile()), changed()], rounds=[rounds(1), rounds(1.4)])
