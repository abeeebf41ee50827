"""Time savings on devices: the same reasons in every form."""

from __future__ import annotations

from typing import Any

import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.model import ir
from coremlscope.reports.estimates import estimates_document, estimates_to_json
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.plan_json import plan_to_json
from coremlscope.reports.reasons import find_savings
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
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
        planned = plan_to_json(api.plan(model, chip, compute_units="cpu_and_ne"))
        (saving,) = one["savings"]
        assert saving["rule"] == "ne-cumsum"
        assert saving in planned["functions"]["main"]["what_ifs"]
        assert saving["planned_saving_ms"] > 0
        assert 0 < saving["estimated_saving_ms"]["low"] < saving["estimated_saving_ms"]["value"]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_on_the_console(profile: Profile, width: int) -> None:
    effects = [find_savings(view)[0].effect for e in profile.estimates if (view := profile.view_of(e))]
    for text in (
        write_terminal(estimates_document([profile]), width=width),
        write_terminal(document_of(msgspec.structs.replace(profile, plans=profile.plans[:1])), width=width),
        write_terminal(document_of(profile), width=width),
    ):
        words = " ".join(text.split())
        assert effects[0] in words
        assert "on M1, cpu_and_ne" in words
        assert max(map(len, text.splitlines())) <= width
    assert effects[1] in " ".join(write_terminal(document_of(profile), width=width).split())
    assert effects[0] in write_markdown(document_of(profile))


def test_nothing_is_said_where_nothing_would_be_saved(profile: Profile) -> None:
    cpu = msgspec.structs.replace(profile.estimates[0], compute_units="cpu_only")
    assert profile.view_of(cpu) is None
    assert _TITLE not in write_terminal(
        estimates_document([msgspec.structs.replace(profile, estimates=(cpu,))])
    )
    bare = msgspec.structs.replace(profile, plans=())
    assert _TITLE not in write_terminal(estimates_document([bare]))
    assert estimates_to_json([bare])[0]["savings"] == []


def test_of_many_estimates_none_is_listed(profile: Profile) -> None:
    many = msgspec.structs.replace(profile, estimates=profile.estimates * 3)
    assert _TITLE not in write_terminal(estimates_document([many]))


def test_what_would_take_longer_is_left_out(profile: Profile) -> None:
    view = profile.view_of(profile.estimates[0])
    assert view is not None
    (one,) = find_savings(view)
    for changes in ({"moved": {}}, {"hypothesis": "doubt"}, {"saved_ms": -1.0, "saved_s": None}):
        setting = msgspec.structs.replace(view.setting, what_ifs=(msgspec.structs.replace(one, **changes),))
        plan = msgspec.structs.replace(view.plan, settings=(setting,))
        assert find_savings(plan.view(profile.ops, setting)) == []
