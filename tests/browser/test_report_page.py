"""The report page in a browser, with the network off: what it shows is what the JSON says."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.base.findings import Finding
from coremlscope.base.units import (
    escape_controls,
    format_bytes,
    format_count,
    format_duration,
    format_share,
)
from coremlscope.measure.effort import Effort
from coremlscope.reports.json import without_folders
from coremlscope.reports.page import render_html, to_page_values
from coremlscope.results.measurement import Phase, StageTiming
from coremlscope.results.model import StageSummary
from coremlscope.results.profile import Profile
from tests.support import programs
from tests.support.browser import Drive
from tests.support.comparisons import with_measurement
from tests.support.large_profiles import large_profile
from tests.support.partial_profiles import PROFILES
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
        model,
        iterations=6,
        effort=Effort(compile_iterations=1, load_iterations=1, warmups=1),
        devices=["m1", "m4"],
    )


@pytest.fixture(scope="module")
def seen(drive: Drive, looped: Profile, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = drive("page", write(tmp_path_factory.mktemp("page"), looped))
    return found


def test_the_page_says_what_the_data_say(seen: dict[str, Any], looped: Profile) -> None:
    assert seen["complaints"] == seen["foreign"] == []
    phases = looped.measurement.phases
    estimated = looped.estimates[0]
    assert seen["latencies"] == [
        format_duration(estimated.latency.value),
        format_duration(phases["predict"].statistics.median),
    ]
    assert seen["origins"] == ["estimated", "measured"]
    assert f"load {format_duration(phases['load'].statistics.median)}" in seen["latencyTexts"][-1]
    assert f"compile {format_duration(phases['compile'].statistics.median)}" in seen["latencyTexts"][-1]
    assert any(f"by coremlscope {looped.made.version}" in fact for fact in seen["facts"])
    assert seen["data"] == json.loads(json.dumps(without_folders(to_page_values(looped))))
    assert Profile.from_json(seen["data"]).measurements == looped.measurements
    # Two devices in the grid, then the four settings of the chosen one with a line above.
    assert len(seen["settings"]) == 7


def test_numbers_of_the_first_screen_equal_the_data(seen: dict[str, Any], looped: Profile) -> None:
    estimate = looped.estimates[0]
    total = estimate.latency.value
    parts = looped.answers[0].time
    shown = [f"{one.part}: {format_duration(one.share * total)}, {one.share * 100:.0f} %" for one in parts]
    assert seen["parts"] == shown
    assert seen["bySetting"] == [
        format_duration(one.latency.value) for one in looped.estimates if one.device == estimate.device
    ]
    assert (
        f"{format_duration(estimate.latency.low)} – {format_duration(estimate.latency.high)}"
        in seen["latencyTexts"][0]
    )


def test_a_part_of_the_time_filters_the_layers(drive: Drive, looped: Profile, tmp_path: Path) -> None:
    seen = drive("answer-filter", write(tmp_path, looped))
    assert seen["complaints"] == []
    answer = looped.answers[0]
    kernels = looped.estimates[0].kernels or looped.kernels
    for part in answer.time:
        names = {looped.ops.name[row] for index in part.kernels for row in kernels[index].ops}
        if names:
            assert set(seen["shown"].pop(part.part)) == names
    assert seen["shown"] == {}
    assert seen["counts"]
    for text, rows in seen["counts"]:
        assert text.split()[0] == rows.split()[0]
    # Pins stand next to each other, a third one in the place of the first.
    assert seen["pinned"] == seen["pressed"][-2:]


#: A number with its unit, as the page formats them.
NUMBER = re.compile(r"(?<![\w.])\d[\d.]* (?:(?:ns|µs|ms|s|B|kB|MB|GB|k|M|G)\b|%)")


def numbers_in(value: Any) -> Iterator[float]:
    """All numbers of a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def derived(looped: Profile) -> Iterator[float]:
    """Sums that the page shows, in seconds, FLOPs, bytes and shares."""
    ops, estimate = looped.ops, looped.estimates[0]
    total = estimate.latency.value
    for one in looped.estimates:
        yield one.latency.value - sum(filter(None, one.kernel_s))
    for answer in looped.answers:
        yield from (part.share * answer.latency.value for part in answer.time if answer.latency)
    kernels = [seconds or 0.0 for seconds in estimate.kernel_s]
    kinds = [ops.type[kernel.ops[0]] for kernel in looped.kernels]
    sums = [sum(s for s, k in zip(kernels, kinds, strict=True) if k == kind) for kind in kinds]
    units = estimate.kernel_unit
    sums += [sum(s for s, u in zip(kernels, units, strict=True) if u == unit) for unit in set(units)]
    # What is in a loop counts for the loop.
    outer = [
        ops.type[ops.id.index("/".join(ops.id[kernel.ops[0]].split("/")[:2]))] for kernel in looped.kernels
    ]
    sums += [sum(s for s, k in zip(kernels, outer, strict=True) if k == kind) for kind in outer]
    yield from sums
    yield from (part / total for part in [*kernels, *sums, total - sum(kernels)])
    terms = [
        getattr(unit, field)
        for unit in estimate.terms
        for field in ("launch_s", "compute_s", "weights_s", "activations_s", "operations_s")
    ]
    conversion = total - sum(terms) - estimate.parts.get("switches", 0.0)
    yield conversion
    yield from (term / total for term in [*terms, estimate.parts.get("switches", 0.0), conversion])
    measured = looped.measurement.groups
    yield from (sum(g.wall_s for g in measured if g.label == group.label) for group in measured)
    whole = sum(group.wall_s for group in measured)
    yield from (sum(g.wall_s for g in measured if g.label == group.label) / whole for group in measured)
    for column in (ops.flops, ops.weight_bytes):
        for kind in set(ops.type):
            yield float(sum(v or 0 for v, k in zip(column, ops.type, strict=True) if k == kind))
    for plan in looped.plans:
        setting = plan.settings[0]
        costs = [(op.type, op.choices[setting.compute_units].planned_ms or 0.0) for op in plan.ops]
        for kind in {type_ for type_, _ in costs}:
            yield sum(ms for type_, ms in costs if type_ == kind) / 1e3
        yield setting.total_ms / 1e3


def test_every_number_with_a_unit_is_in_the_data(seen: dict[str, Any], looped: Profile) -> None:
    known: set[str] = set()
    for value in [*numbers_in(seen["data"]), *derived(looped)]:
        known |= {format_duration(abs(value)), format_duration(abs(value) / 1e3), format_share(value)}
        known |= {format_count(abs(value)), format_bytes(abs(value)), f"{value * 100:.0f} %"}
    known.add("80 %")
    # Sentences of the answers are data, too.
    known |= set(NUMBER.findall(json.dumps(seen["data"]["answers"], ensure_ascii=False)))
    shown = [(part, number) for part, text in seen["numbers"] for number in NUMBER.findall(text)]
    assert {part for part, _ in shown} >= {".answers", "#settings", "#times table", "#estimate", "#weights"}
    assert [one for one in shown if one[1] not in known] == []


def test_a_device_that_is_not_in_the_report_comes_with_its_command(seen: dict[str, Any]) -> None:
    other = seen["otherDevice"]
    assert other["chip"] not in ("m1", "m4")
    assert f"coremlscope profile m.mlpackage --device m1,m4,{other['chip']} -o report.html" in other["text"]
    assert other["shown"] == "0"


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
    assert "op=main%2F" in seen["address"]
    assert seen["linked"] == seen["next"]
    marks = {(row["CPU"], row["GPU"], row["NE"]) for row in seen["onCpu"] if row["CPU"]}
    assert marks == {("●", "·", "·")}


def test_numbers_of_layers_equal_the_data(drive: Drive, tmp_path: Path) -> None:
    profile = large_profile(300)
    seen = drive("layers", write(tmp_path, profile), "linear")
    groups = profile.measurement.groups
    slowest = sorted(groups, key=lambda group: -group.wall_s)
    assert seen["sorted"].startswith("Measured")
    for row, group in zip(seen["slowestFirst"][:20:2], slowest, strict=False):
        assert row["Measured"] == f"2 ops{format_duration(group.wall_s)}"
    alike = [tuple(text for title, text in row.items() if title != "Name") for row in seen["once"]]
    assert len(set(alike)) == len(alike)
    assert {row["Type"].split()[0] for row in seen["ofOneType"]} == {"linear"}
    assert {row["Type"].split()[0] for row in seen["searched"]} == {"conv"}
    plan = profile.plans[0]
    setting = plan.settings[0].compute_units
    on_engine = [i for i, op in enumerate(plan.ops) if op.choices[setting].backend == "ane"]
    shown = {i // 2 for i in on_engine}
    together = sum(profile.estimates[0].kernel_s[kernel] for kernel in shown)
    assert seen["onNeuralEngine"] == (
        f"{len(on_engine)} of {len(profile.ops)} rows; {format_duration(together)} estimated in {len(shown)}"
        f" groups that they are part of"
    )
    estimated = [row["Estimated"] for row in seen["opening"]]
    assert estimated[0].endswith(format_duration(max(profile.estimates[0].kernel_s)))
    first = seen["rows"][0]
    assert list(first).index("Estimated") < list(first).index("Measured")
    assert "Planned cost" not in first
    assert first["Estimated"] == "2 ops1.00 µs"
    assert first["Why not faster"] == plan.ops[0].why[0].rule


def test_the_panel_says_what_the_data_say(drive: Drive, tmp_path: Path) -> None:
    profile = large_profile(300)
    ids = ("main/10", "main/11", "main/0")
    seen = drive("panel", write(tmp_path, profile), *ids)
    assert seen["complaints"] == []
    plan, estimate, ops = profile.plans[0], profile.estimates[0], profile.ops
    weights = ops.details.weights
    for id_, panel in zip(ids, seen["panels"], strict=True):
        row = ops.id.index(id_)
        assert panel["title"] == ops.name[row]
        kernel = estimate.kernel_s[row // 2]
        part = format_share(kernel / estimate.latency.value)
        assert f"{format_duration(kernel)}, {part} of the latency for 2 operations together" in panel["text"]
        assert panel["costs"] == [
            f"{name} {float(f'{plan.ops[row].cost_ms[name]:.3g}'):g}"
            for name in plan.backends
            if name in plan.ops[row].cost_ms
        ]
        signature = ops.details.signatures[ops.details.signature[row]]
        assert panel["attributes"] == [" ".join(pair) for pair in signature.attributes]
        assert ops.name[row + 1] in panel["outputs"]
        assert (f"value_{row - 1}" if row else "image") in panel["inputs"]
        given = dict(zip(signature.parameters, ops.details.arguments[row], strict=True))
        assert f"x = {f'value_{row - 1}' if row else 'image'}" in panel["mil"]
        assert panel["mil"].startswith(f"{ops.outputs[row][0]} value_{row} = {ops.type[row]}(")
        if "weight" in given:
            place = -1 - given["weight"]
            least, greatest = f"{weights.least[place]:g}", f"{weights.greatest[place]:g}"
            assert weights.name[place] in panel["weights"]
            assert f"{least} to {greatest}".replace("-", "−") in panel["weights"]
            assert panel["bars"] == len(weights.histogram[place])
        else:
            assert panel["weights"] == ""
        reasons = plan.ops[row].why
        assert panel["sources"] == [f"{one.confidence}: {one.source}" for one in reasons]
    # A click on a point of the roofline opens the panel where the reader is.
    assert seen["inPlace"]["panel"]
    assert abs(seen["inPlace"]["moved"]) < 2


def test_totals_of_groups_equal_the_data(drive: Drive, tmp_path: Path) -> None:
    """The name of an operation begins with `model.layers.N.block`; two operations share a kernel."""
    profile = large_profile(300)
    seen = drive("groups", write(tmp_path, profile))
    assert seen["complaints"] == []
    estimate, ops = profile.estimates[0], profile.ops
    latency = estimate.latency.value
    rest = latency - sum(estimate.kernel_s)
    modules, types = seen["module"], seen["type"]
    assert modules["model/layers"]["Estimated"] == format_duration(sum(estimate.kernel_s))
    assert modules["launches, changes of unit"]["Estimated"] == format_duration(rest)
    first = sum(estimate.kernel_s[:12])
    assert modules["0/block"]["Operations"] == "24"
    assert modules["0/block"]["Share"] == format_share(first / latency)
    assert modules["0/block"]["FLOPs"] == format_count(sum(flops or 0 for flops in ops.flops[:24]))
    by_type: dict[str, float] = {}
    for kernel, seconds in zip(profile.kernels, estimate.kernel_s, strict=True):
        main = max(kernel.ops, key=lambda row: (ops.flops[row] or 0, -row))
        by_type[ops.type[main]] = by_type.get(ops.type[main], 0.0) + seconds
    shown = {name: row["Estimated"] for name, row in types.items() if name in by_type}
    assert shown == {name: format_duration(seconds) for name, seconds in by_type.items()}
    measured = sum(group.wall_s for group in profile.measurement.groups)
    assert format_duration(measured) in seen["icicle"]
    assert "layers=icicle" in seen["address"]
    assert seen["linked"] == seen["enlarged"]
    assert seen["found"].startswith("· 6 groups found")
    assert seen["panel"]


def test_what_is_saved_equals_the_data(drive: Drive, looped: Profile, tmp_path: Path) -> None:
    seen = drive("save", write(tmp_path, looped))
    assert seen["complaints"] == seen["foreign"] == []
    for name in ("roofline", "timeline", "graph"):
        assert seen["pictures"][name]["isPicture"], name
        assert seen["pictures"][name]["colours"] > 3, name
    ops, plan, estimate = looped.ops, looped.plans[0], looped.estimates[0]
    layers = {row["id"]: row for row in csv.DictReader(io.StringIO(seen["layers"]))}
    for row, id_ in enumerate(ops.id):
        assert layers[id_]["name"] == ops.name[row]
        assert int(layers[id_]["flops"] or 0) == (ops.flops[row] or 0)
        planned = plan.ops.get(id_)
        assert planned is not None
        choice = planned.choices[plan.settings[0].compute_units]
        assert layers[id_]["unit"] == choice.unit
        assert float(layers[id_]["planned_ms"]) == pytest.approx(choice.planned_ms, rel=1e-5)
    tree = list(csv.DictReader(io.StringIO(seen["tree"])))
    leaves = [row for row in tree if row["id"]]
    assert sum(float(row["estimated_s"] or 0) for row in leaves) == pytest.approx(sum(estimate.kernel_s))
    weights = list(csv.reader(io.StringIO(seen["weights"])))
    assert weights[0][:3] == ["Stored as", "Used as", "Tensors"]
    assert [row[0] for row in weights[1:]] == [group.storage for group in looped.model.weights]
    latency = estimate.latency
    interval = f"{format_duration(latency.low)} – {format_duration(latency.high)}"
    assert f"{format_duration(latency.value)} (80 % interval {interval}" in seen["summary"]
    median = looped.measurement.phases["predict"].statistics.median
    assert f"{format_duration(median)} (median)" in seen["summary"]


def test_columns_are_moved_resized_and_remembered(drive: Drive, looped: Profile, tmp_path: Path) -> None:
    seen = drive("columns", write(tmp_path, looped))
    assert seen["complaints"] == []
    first, *others = seen["usual"]
    assert seen["moved"] == [first, others[1], others[0], *others[2:]]
    assert seen["dragged"][1] == seen["moved"][-1]
    assert seen["wider"] == pytest.approx(seen["width"] + 60, abs=3)
    assert seen["byKey"] == pytest.approx(seen["wider"] + 16, abs=3)
    assert seen["reloaded"] == [seen["dragged"], seen["byKey"]]
    assert seen["restored"] == seen["usual"]


def test_hostile_names_stay_text(drive: Drive, tmp_path: Path) -> None:
    profile = large_profile(20, name=HOSTILE + "{index}")
    model = msgspec.structs.replace(profile.model, path=f"models/{HOSTILE}.mlpackage", description=HOSTILE)
    findings = (Finding(id="x", severity="warning", text=HOSTILE, hint=HOSTILE, ops=("main/1",)),)
    hostile = msgspec.structs.replace(profile, model=model, findings=findings)
    page = write(tmp_path, hostile)
    assert page.read_text(encoding="utf-8").count("<script") == 2
    seen = drive("page", page)
    assert seen["markup"] == {"foreign": 0, "flag": None}
    assert seen["complaints"] == seen["foreign"] == []
    shown = escape_controls(HOSTILE)
    assert shown in seen["findings"][0]
    assert seen["data"]["ops"]["name"][3] == f"{shown}3"
    # The last part of a path, also of one from Windows.
    assert re.split(r"[\\/]", shown)[-1] in seen["heading"]


def test_no_serious_accessibility_issue(drive: Drive, looped: Profile, tmp_path: Path) -> None:
    large = write(tmp_path, large_profile(60), "large.html")
    seen = drive("accessibility", write(tmp_path, looped), large.as_uri())
    assert seen["light"] == seen["dark"] == seen["complaints"] == []


def test_only_rows_in_view_are_in_the_page(drive: Drive, tmp_path: Path) -> None:
    """Ten thousand operations: the table holds as many rows as fit, before, while and after scrolling."""
    seen = drive("speed", write(tmp_path, large_profile(10_000)))
    assert seen["complaints"] == []
    assert seen["rowsInPage"] < 100
    assert seen["scrolledTo"] > 0
    assert not seen["blank"]


@pytest.mark.long
def test_large_models_are_quick(drive: Drive, tmp_path: Path) -> None:
    """On an idle machine; the median of three, as a browser's first second varies."""
    page = write(tmp_path, large_profile(10_000))
    seen = [drive("speed", page) for _ in range(3)]
    assert statistics.median(one["seconds"] for one in seen) < 2
    assert statistics.median(one["fps"] for one in seen) >= 50


def test_pipelines_and_classical_models_have_pages(drive: Drive, tmp_path: Path) -> None:
    """Each stage of a pipeline stands with its time, or with why it was not run."""
    stages = (
        StageTiming(name="model0", kind="glmRegressor", run_s=1e-5, convert_s=2e-6, operations_s=8e-6),
        StageTiming(name="model1", kind="soundAnalysisPreprocessing", absent="is a part of the system"),
    )
    model = msgspec.structs.replace(
        small_summary(),
        stages=tuple(
            StageSummary(name=one.name, kind=one.kind, inputs=(), outputs=(), absent=one.absent)
            for one in stages
        ),
        facts=(("trees", "3 trees of 7 nodes"),),
    )
    profile = msgspec.structs.replace(with_measurement(small_profile(), stages=stages), model=model)
    seen = drive("page", write(tmp_path, profile))
    assert seen["complaints"] == []
    assert any("model0" in row and "12.0 µs" in row and "100.0 %" in row for row in seen["times"])
    assert any("not run: is a part of the system" in row for row in seen["times"])


#: By what a profile holds: sections that its page has, and sections that it has not.
SECTIONS: dict[str, tuple[set[str], set[str]]] = {
    "everything": ({"Times", "Compute units", "Layers", "Roofline", "Weights"}, set()),
    "measurement": ({"Times", "Layers", "Weights"}, {"Findings", "Compute units", "Memory of live values"}),
    "one phase": ({"Times", "Layers"}, {"Compute units", "Timeline", "Roofline"}),
    "no phase": ({"Times", "Layers", "Timeline"}, {"Compute units"}),
    "several measurements": ({"Times", "Compute units", "Agreement with Core ML", "Layers"}, set()),
    "plan": ({"Compute units", "Layers", "Findings"}, {"Times", "Timeline", "Roofline"}),
    "plan under every setting": ({"Compute units", "Layers"}, {"Times", "Roofline"}),
    "estimates": ({"Compute units", "Layers", "Timeline", "Roofline"}, {"Times"}),
    "brief estimates": ({"Compute units", "Layers"}, {"Times", "Timeline", "Roofline"}),
    "operations": ({"Layers", "Weights"}, {"Times", "Findings", "Compute units", "Timeline", "Roofline"}),
    "failure": ({"Findings"}, {"Times", "Layers", "Compute units", "Weights"}),
    "plan and estimates": ({"Compute units", "Layers", "Roofline"}, {"Times"}),
    "three measurements and two plans": ({"Times", "Compute units", "Layers"}, set()),
    "every field": ({"Times", "Layers"}, {"Compute units"}),
    "empty": (set(), {"Times", "Layers", "Compute units"}),
}


@pytest.fixture(scope="module")
def partial(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What pages of profiles that lack parts say, by what they hold."""
    folder = tmp_path_factory.mktemp("partial")
    first, *others = (write(folder, make(), f"{parts}.html") for parts, make in PROFILES.items())
    found = drive("page", first, *(page.as_uri() for page in others))
    assert found["complaints"] == found["foreign"] == []
    return dict(zip(PROFILES, [found, *found["others"]], strict=True))


@pytest.mark.parametrize("parts", PROFILES)
def test_every_part_of_a_profile_may_be_absent(partial: dict[str, dict[str, Any]], parts: str) -> None:
    seen = partial[parts]
    assert seen["deadLinks"] == []
    assert seen["phoneOverflow"] <= 0
    present, absent = SECTIONS.get(parts, (set(), set()))
    assert present <= set(seen["sections"])
    assert not absent & set(seen["sections"])


@pytest.mark.parametrize("parts", ["several measurements", "every field", "tokens", "failure", "empty"])
def test_pages_of_parts_suit_readers(drive: Drive, tmp_path: Path, parts: str) -> None:
    found = drive("accessibility", write(tmp_path, PROFILES[parts]()))
    assert found["light"] == found["dark"] == found["complaints"] == []


def test_headlines_of_partial_profiles(partial: dict[str, dict[str, Any]]) -> None:
    """The page begins with what the profile contains: a plan, an estimate, or why the model was not read."""
    seen = partial["plan"]
    assert seen["latencies"] == ["not estimated"]
    assert seen["latencyTexts"] == seen["origins"] == []
    estimated = PROFILES["estimates"]()
    seen = partial["estimates"]
    assert seen["latencies"] == [format_duration(estimated.estimates[0].latency.value)]
    assert seen["origins"] == ["estimated"]
    failed = PROFILES["failure"]()
    seen = partial["failure"]
    assert seen["latencies"] == []
    assert seen["lead"] == ["This model could not be read; the findings say why."]
    (finding,) = failed.findings
    assert seen["findings"] == [f"Error{finding.text}→ {finding.hint}{finding.id}"]


def test_a_measurement_can_be_chosen(drive: Drive, tmp_path: Path) -> None:
    profile = PROFILES["several measurements"]()
    seen = drive("measurements", write(tmp_path, profile))
    assert seen["complaints"] == []
    assert seen["names"] == [
        f"{profile.measurement.label}, 2 threads",
        f"{profile.measurement.label}, 4 threads",
        "Core ML on Apple M2, CPU + NE",
        "Core ML on Apple M2, CPU only",
    ]
    for name, measurement, chosen in zip(seen["names"], profile.measurements, seen["chosen"], strict=True):
        assert chosen["latencies"][-1] == format_duration(measurement.phases["predict"].statistics.median)
        assert chosen["tags"][-1] == "measured"
        assert name in chosen["places"]
        assert chosen["times"] == [f"measured by {name}"]
        assert chosen["shown"] == [name]
        assert ("Measured" in chosen["columns"]) == bool(measurement.groups)
    assert seen["first"] == seen["chosen"][0]


def test_a_list_of_profiles_has_a_table(drive: Drive, tmp_path: Path) -> None:
    profiles = [PROFILES[parts]() for parts in ("everything", "plan", "failure")]
    slow = with_measurement(small_profile(), predict=Phase.of((0.5,) * 4))
    profiles.append(
        msgspec.structs.replace(slow, model=msgspec.structs.replace(slow.model, path="models/slow.mlmodel"))
    )
    path = tmp_path / "page.html"
    path.write_text(render_html(profiles), encoding="utf-8")
    seen = drive("profiles", path)
    assert seen["complaints"] == seen["foreign"] == []
    assert seen["violations"] == {"light": [], "dark": []}
    assert seen["phoneOverflow"] <= 0
    assert (seen["heading"], seen["isStillOpen"]) == ("4 models", True)
    place = next(i for i, head in enumerate(seen["columns"]) if "measured" in head)
    times = [row[place] for row in seen["rows"] if len(row) == len(seen["columns"])]
    assert times == [
        format_duration(profiles[0].measurement.phases["predict"].statistics.median),
        "–",
        "500 ms",
    ]
    failure = seen["rows"][2]
    assert failure[1:] == [profiles[2].findings[0].text]
    assert [row[0] for row in seen["slowestFirst"]][:2] == ["slow.mlmodel1 warning", seen["rows"][0][0]]
    assert seen["fastestFirst"][0] == seen["rows"][0]
    assert seen["backInOrder"] == seen["rows"]
    for profile, opened in zip(profiles, seen["opened"], strict=True):
        assert opened["heading"] == Path(profile.model.path).name
        assert bool(opened["latencies"]) == bool(profile.measurements or profile.plans)


def test_models_have_pages(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "model.html"
    path.write_text(render_html(small_summary(list_ops=True)), encoding="utf-8")
    seen = drive("page", path)
    assert seen["complaints"] == seen["deadLinks"] == []
    assert {"Plan and estimate", "Layers", "Graph", "Memory of live values", "Weights", "Metadata"} <= set(
        seen["sections"]
    )
    assert "Times" not in seen["sections"]
