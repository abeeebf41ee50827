"""The comparison page in a browser without network access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.base.units import format_duration
from coremlscope.describe.comparison.profiles import Comparison, compare_profiles
from coremlscope.formats.sample import sample_model
from coremlscope.reports.difference import conclude_comparison
from coremlscope.reports.page import render_html
from tests.support.browser import Drive
from tests.support.comparisons import changed, rounds, timed
from tests.support.profiles import small_profile

HOSTILE = "</script><script>globalThis.hostile=1</script><img src=x onerror='globalThis.hostile=2'>"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Two model versions with a hostile name, and the plans of a model under two settings."""
    before, after = timed(small_profile()), changed()
    names = (HOSTILE, *after.ops.name[1:])
    after = msgspec.structs.replace(after, ops=msgspec.structs.replace(after.ops, name=names))
    found = compare_profiles([before, after], rounds=[rounds(1), rounds(1.4)], labels=["main", HOSTILE])
    model = sample_model(size=224, width=0.5, classes=4)
    plans = api.compare(model, devices="m1", compute_units=["all", "cpu_only"])
    (difference,) = found.differences
    changes = tuple(plan for one in plans.differences for plan in one.plans)
    return msgspec.structs.replace(found, differences=(msgspec.structs.replace(difference, plans=changes),))


@pytest.fixture(scope="module")
def seen(drive: Drive, comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render_html(comparison), encoding="utf-8")
    found: dict[str, Any] = drive("compare", path)
    return found


def test_the_page_says_what_the_json_says(seen: dict[str, Any], comparison: Comparison) -> None:
    (difference,) = comparison.differences
    assert seen["sections"] == ["Times of predictions", f"{HOSTILE} against main"]
    assert seen["answer"] == [one.text for one in conclude_comparison(comparison)]
    assert not any(unit in cell for cell in seen["costs"] for unit in ("ms", "µs", "ns"))
    assert seen["facts"] == list(comparison.differing)
    assert seen["verdicts"] == [change.verdict for change in difference.phases.values()]
    assert seen["before"] == [format_duration(c.before or 0.0) for c in difference.phases.values()]
    assert seen["names"] == [row.name for row in difference.telling_rows]
    assert [title.split(" estimated")[0] for title in seen["plans"]] == [
        f"On M1, All → {plan.after.replace(', cpu_only', ', CPU only')}" for plan in difference.plans
    ]
    assert seen["tags"] == ["measured", f"measured by {small_profile().measurement.label}"]
    assert seen["folded"] < seen["unfolded"]


def test_nothing_foreign_runs_or_is_loaded(seen: dict[str, Any]) -> None:
    assert (seen["flag"], seen["foreign"], seen["complaints"]) == (None, [], [])


def test_everybody_can_read_it(seen: dict[str, Any]) -> None:
    assert seen["violations"] == {"light": [], "dark": []}
    assert seen["phoneOverflow"] <= 0
