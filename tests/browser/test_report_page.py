"""The report page in a browser without network access: it shows the content of the JSON payload."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.describe.stages import StageSummary
from coremlscope.findings import Finding
from coremlscope.render.json import plain
from coremlscope.render.page import render_html
from coremlscope.results.profile import Profile, StageTiming
from coremlscope.units import format_duration
from tests.support import programs
from tests.support.browser import Drive
from tests.support.large_profiles import large_profile
from tests.support.profiles import small_profile, small_summary

HOSTILE = (
    "</script><!--<script>globalThis.hostile=1</script><img src=x onerror='globalThis.hostile=2'>\u2028&lt;"
)


def write(folder: Path, profile: Profile, name: str = "page.html") -> Path:
    path = folder / name
    path.write_text(render_html(profile), encoding="utf-8")
    return path


def loop(x: Any) -> Any:
    """A convolution, then a loop with two operations in its body."""
    x = mb.conv(x=x, weight=np.ones((8, 3, 3, 3), np.float16), name="stem")
    counted = mb.while_loop(
        _cond=lambda i, y: mb.less(x=i, y=np.float16(3)),
        _body=lambda i, y: (mb.add(x=i, y=np.float16(1)), mb.relu(x=y, name="inner")),
        loop_vars=(np.float16(0), x),
        name="loop",
    )
    return mb.sigmoid(x=counted[1], name="gate")


@pytest.fixture(scope="module")
def looped() -> Profile:
    model = programs.build(loop, {"x": np.zeros((1, 3, 8, 8), np.float16)})
    return api.profile(
        model, iterations=6, compile_iterations=1, load_iterations=1, warmups=1, devices=["m1", "m4"]
    )


@pytest.fixture(scope="module")
def seen(drive: Drive, looped: Profile, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = drive("page", write(tmp_path_factory.mktemp("page"), looped))
    return found


def test_the_page_says_what_the_data_say(seen: dict[str, Any], looped: Profile) -> None:
    assert seen["complaints"] == seen["foreign"] == []
    estimate = looped.plans[0].settings[0].estimate
    assert estimate is not None
    assert seen["tiles"] == [
        format_duration(looped.predict.statistics.median),
        format_duration(estimate.latency.value),
        format_duration(looped.load.statistics.median),
        format_duration(looped.compile.statistics.median),
    ]
    assert [origin.split()[0] for origin in seen["origins"]] == [
        "measured",
        "estimated",
        "measured",
        "measured",
    ]
    assert seen["data"] == plain(looped.to_json())
    assert Profile.from_json(seen["data"]) == looped
    # Two devices with four settings each, and a line above each device.
    assert len(seen["settings"]) == 10
    assert any(format_duration(looped.plans[1].settings[3].total_ms / 1e3) in row for row in seen["settings"])


def test_themes_and_phones(seen: dict[str, Any]) -> None:
    assert seen["light"] != seen["dark"] == seen["darkOfSystem"]
    assert seen["phoneOverflow"] <= 0


def test_layers_sort_filter_and_fold(drive: Drive, looped: Profile, tmp_path: Path) -> None:
    seen = drive("layers", write(tmp_path, looped), "relu")
    assert seen["complaints"] == []
    names = [row["Name"] for row in seen["rows"]]
    assert "▾loop" in names
    assert "inner" in names
    folded = [row["Name"] for row in seen["folded"]]
    assert "▸loop" in folded
    assert "inner" not in folded
    assert "inner" in [row["Name"] for row in seen["unfolded"]]
    assert seen["backInOrder"] == seen["rows"]
    assert seen["isClosed"]
    marks = {(row["CPU"], row["GPU"], row["NE"]) for row in seen["onCpu"] if row["CPU"]}
    assert marks == {("●", "·", "·")}


def test_numbers_of_layers_equal_the_data(drive: Drive, tmp_path: Path) -> None:
    profile = large_profile(300)
    seen = drive("layers", write(tmp_path, profile), "linear")
    times = {group.op_ids[0]: group.wall_s for group in profile.groups}
    slowest = sorted(profile.groups, key=lambda group: -group.wall_s)
    assert seen["sorted"].startswith("Host")
    for row, group in zip(seen["slowestFirst"][:20:2], slowest, strict=False):
        assert row["Host"] == f"2 ops{format_duration(times[group.op_ids[0]])}"
    assert {row["Type"] for row in seen["ofOneType"]} == {"linear"}
    assert {row["Type"] for row in seen["searched"]} == {"conv"}
    plan = profile.plans[0]
    on_engine = [i for i, backend in enumerate(plan.settings[0].backend) if backend == 3]
    planned = sum(plan.cost_ms["ane"][i] or 0 for i in on_engine)
    groups = {profile.ops.group[i] for i in on_engine}
    measured = sum(profile.groups[group].wall_s for group in groups)
    assert seen["onNeuralEngine"] == (
        f"{len(on_engine)} of {len(profile.ops)} rows; {format_duration(measured)} measured in {len(groups)}"
        f" groups that they are part of; {format_duration(planned / 1e3)} planned"
    )
    first = seen["rows"][0]
    assert (first["Planned"], first["Estimated"]) == ("20.0 µs", "2 ops1.00 µs")
    assert first["Why not on a faster unit"] == plan.reasons[0].text


def test_hostile_names_stay_text(drive: Drive, tmp_path: Path) -> None:
    profile = large_profile(20, name=HOSTILE + "{index}")
    model = dataclasses.replace(profile.model, path=f"models/{HOSTILE}.mlpackage", description=HOSTILE)
    findings = (Finding(id="x", severity="warning", text=HOSTILE, hint=HOSTILE, ops=("main/1",)),)
    hostile = dataclasses.replace(profile, model=model, findings=findings)
    page = write(tmp_path, hostile)
    assert page.read_text(encoding="utf-8").count("<script") == 2
    seen = drive("page", page)
    assert seen["markup"] == {"foreign": 0, "flag": None}
    assert seen["complaints"] == seen["foreign"] == []
    assert HOSTILE in seen["findings"][0]
    assert seen["data"]["ops"]["name"][3] == f"{HOSTILE}3"
    assert HOSTILE.rsplit("/", 1)[-1] in seen["heading"]


def test_no_serious_accessibility_issue(drive: Drive, looped: Profile, tmp_path: Path) -> None:
    for profile in (looped, large_profile(60)):
        seen = drive("accessibility", write(tmp_path, profile))
        assert seen["light"] == seen["dark"] == []


def test_only_rows_in_view_are_in_the_page(drive: Drive, tmp_path: Path) -> None:
    """Of ten thousand operations, only the visible rows are rendered before, during and after scrolling."""
    seen = drive("speed", write(tmp_path, large_profile(10_000)))
    assert seen["complaints"] == []
    assert seen["rowsInPage"] < 100
    assert seen["scrolledTo"] > 0
    assert not seen["blank"]


@pytest.mark.long
def test_large_models_are_quick(drive: Drive, tmp_path: Path) -> None:
    """On an idle machine; the median of three runs, because the first second of a browser varies."""
    page = write(tmp_path, large_profile(10_000))
    seen = [drive("speed", page) for _ in range(3)]
    assert statistics.median(one["seconds"] for one in seen) < 2
    assert statistics.median(one["fps"] for one in seen) >= 50


def test_pipelines_and_classical_models_have_pages(drive: Drive, tmp_path: Path) -> None:
    """Each pipeline stage has its time or the reason why it was not run."""
    stages = (
        StageTiming("model0", "glmRegressor", "", 1e-5, 2e-6, 8e-6),
        StageTiming("model1", "soundAnalysisPreprocessing", "is a part of the system"),
    )
    model = dataclasses.replace(
        small_summary(),
        stages=tuple(StageSummary(one.name, one.kind, (), (), absent=one.absent) for one in stages),
        facts=(("trees", "3 trees of 7 nodes"),),
    )
    seen = drive("page", write(tmp_path, dataclasses.replace(small_profile(), model=model, stages=stages)))
    assert seen["complaints"] == []
    assert any("model0" in row and "10.0 µs" in row for row in seen["times"])
    assert any("not run: is a part of the system" in row for row in seen["times"])


def test_older_profiles_and_models_have_pages(drive: Drive, tmp_path: Path) -> None:
    """The page works without plans, edges and live memory."""
    data = json.loads(json.dumps(plain(small_profile().to_json())))
    for column in ("layer", "layer_type", "inputs", "live_bytes", "kernel"):
        del data["ops"][column]
    del data["plans"]
    seen = drive("page", write(tmp_path, Profile.from_json(data)))
    assert seen["complaints"] == []
    assert {"Times", "Layers", "Findings", "Weights"} <= set(seen["sections"])
    assert "Compute units" not in seen["sections"]
    path = tmp_path / "model.html"
    path.write_text(render_html(small_summary(list_ops=True)), encoding="utf-8")
    seen = drive("page", path)
    assert seen["complaints"] == []
    assert "Layers" in seen["sections"]
    assert "Times" not in seen["sections"]
