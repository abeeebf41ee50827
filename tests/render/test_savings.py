"""Time savings on devices: the same reasons in every form."""

from __future__ import annotations

from typing import Any

import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.model import ir
from coremlscope.reports.estimates import estimates_to_json
from coremlscope.reports.reasons import find_savings
from coremlscope.results.encoding import plain
from coremlscope.results.profile import Profile
from tests.support.programs import build

_CHIPS = ("m1", "m4")
_TITLE = "What would save time"


@pytest.fixture(scope="module")
def model() -> ir.Model:
    """Two convolutions with an operation between them that the Neural Engine does not run."""
    weight = np.ones((256, 256, 3, 3), np.float16)

    def body(x: Any) -> Any:
        first = mb.conv(x=x, weight=weight, pad_type="same")
        return mb.conv(x=mb.cumsum(x=first, axis=1), weight=weight, pad_type="same")

    return build(body, {"x": np.zeros((1, 256, 64, 64), np.float16)})


@pytest.fixture(scope="module")
def profile(model: ir.Model) -> Profile:
    return api.estimate(model, _CHIPS, compute_units="cpu_and_ne")


def test_estimates_and_plans_tell_the_same(model: ir.Model, profile: Profile) -> None:
    shown = estimates_to_json([profile])
    assert [one["chip"] for one in shown] == list(_CHIPS)
    for chip, one in zip(_CHIPS, shown, strict=True):
        (planned,) = api.plan(model, chip, compute_units="cpu_and_ne").plans
        (saving,) = one["savings"]
        assert saving["rule"] == "ne-cumsum"
        (same,) = (one for one in planned.settings[0].what_ifs if one.rule == "ne-cumsum")
        ids = [planned.ops[place].id for place in same.ops]
        assert saving == {**plain(same), "ops": ids}
        assert saving["saved_ms"] > 0
        assert 0 < saving["saved_s"]["low"] < saving["saved_s"]["value"]


def test_without_plans_no_savings_are_listed(profile: Profile) -> None:
    bare = msgspec.structs.replace(profile, plans=())
    assert estimates_to_json([bare])[0]["savings"] == []


def test_what_would_take_longer_is_left_out(profile: Profile) -> None:
    view = profile.view_of(profile.estimates[0])
    assert view is not None
    (one,) = find_savings(view)
    for changes in ({"moved": {}}, {"hypothesis": "doubt"}, {"saved_ms": -1.0, "saved_s": None}):
        setting = msgspec.structs.replace(view.setting, what_ifs=(msgspec.structs.replace(one, **changes),))
        plan = msgspec.structs.replace(view.plan, settings=(setting,))
        assert find_savings(plan.view(setting)) == []
