from __future__ import annotations

import json

import msgspec.structs
import pytest

from coremlscope.base.figures import Figure
from coremlscope.reports.json import render_json
from coremlscope.reports.renderers import VARIANT_RENDERERS, Renderer, notebook_card, renderers_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.variants import (
    ChartPoint,
    chart_points,
    draw_chart,
    variant_columns,
    variant_failures,
    variants_document,
)
from coremlscope.results.answer import Answer, AnswerTrust
from coremlscope.results.encoding import decode
from coremlscope.results.estimate import MemoryEstimate
from coremlscope.results.profile import Provenance
from coremlscope.results.schema import json_schema_of
from coremlscope.results.variants import (
    OutputDifference,
    Variant,
    VariantDifference,
    VariantForecast,
    VariantReport,
)
from tests.support.json_schemas import violations


def _forecast(device: str, seconds: float, on_engine: int) -> VariantForecast:
    return VariantForecast(
        answer=Answer(
            model="net",
            device=device,
            chip=device.lower(),
            os="iOS 18" if "Phone" in device else "macOS 15",
            compute_units="all",
            is_asked=True,
            latency=Figure(seconds, seconds / 2, seconds * 2, "estimated"),
            units={"neural_engine": on_engine / 10, "cpu": 1 - on_engine / 10},
            trust=AnswerTrust(certainty="likely"),
        ),
        operations={"cpu": 10 - on_engine, "neural_engine": on_engine},
        memory=MemoryEstimate(
            weights_bytes=1000,
            expanded_bytes=2000,
            activations_bytes=10,
            peak=Figure(1010.0, 10.0, 3020.0, "estimated"),
            basis="live ranges",
        ),
    )


def _variant(name: str, size: int, psnr: float | None, top1: float | None = 1.0) -> Variant:
    output = OutputDifference(
        name="y", elements=4, is_equal=psnr is None, psnr_db=psnr, snr_db=psnr, max_abs=0.5, top1=top1
    )
    return Variant(
        name=name,
        title=name,
        size_bytes=size,
        weights_bytes=size - 10,
        storage="LUT 4-bit",
        platforms="iOS 16, macOS 13",
        forecasts=(_forecast("iPhone 11", size / 1e9, 9), _forecast("M1", size / 2e9, 4)),
        difference=VariantDifference(samples=2, synthetic=2, outputs=(output,)),
        notes=("a note",),
    )


REPORT = VariantReport(
    path="/models/net.mlpackage",
    kind="mlProgram",
    made=Provenance("2026-01-01T00:00:00Z", "0.1.0"),
    coremltools="9.0",
    variants=(
        msgspec.structs.replace(_variant("original", 8_000_000, None), difference=None, notes=()),
        _variant("int8", 4_000_000, 45.0),
        _variant("palettize-4", 2_000_000, 30.0, 0.5),
        _variant("prune-50", 5_000_000, 20.0),
        Variant(name="w8a8", title="w8a8", failure="it failed \x1b[31m", hint="try again"),
    ),
)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_tables(width: int) -> None:
    text = write_terminal(variants_document(REPORT), width=width)
    assert max(map(len, text.splitlines())) <= width
    for part in ("int8", "45.0", "4.00 MB", "w8a8: it failed \\x1b[31m", "try again", "iPhone 11"):
        assert part in text
    assert text.count("a note") == 1


@pytest.mark.parametrize("width", [60, 140])
def test_variants_at_one_place_of_the_chart_are_all_drawn(width: int) -> None:
    points = [point for _ in range(3) for point in chart_points(REPORT)]
    lines = draw_chart(points, width)
    drawn = "".join(line.partition("│")[2] for line in lines)
    assert sorted(drawn.replace(" ", "")) == [chr(ord("a") + place) for place in range(len(points))]


def test_the_original_is_not_beaten_by_a_few_bytes() -> None:
    original = REPORT.original
    assert original.size_bytes is not None
    equal = next(one.difference for one in REPORT.variants if one.difference)
    equal = msgspec.structs.replace(
        equal, outputs=tuple(msgspec.structs.replace(o, is_equal=True) for o in equal.outputs)
    )
    newer = msgspec.structs.replace(
        original, name="ios18", size_bytes=original.size_bytes - 200, difference=equal
    )
    points = chart_points(msgspec.structs.replace(REPORT, variants=(original, newer)))
    assert {point.name: point.is_best for point in points} == {original.name: True, "ios18": False}


def test_a_ratio_of_rounding_leaves_room_for_the_others() -> None:
    variants = [one for one in REPORT.variants if one.difference][:3]
    points = [
        ChartPoint(one, 100 - place, psnr)
        for place, (one, psnr) in enumerate(zip(variants, (132.0, 45.0, 20.0), strict=False))
    ]
    lines = draw_chart(points, 80)
    rows = {mark: next(i for i, line in enumerate(lines) if mark in line.partition("│")[2]) for mark in "abc"}
    assert lines[rows["a"]].lstrip().startswith("≥ 100 dB")
    assert rows["c"] - rows["b"] > 2


def test_the_chart_marks_the_best() -> None:
    points = {point.name: point for point in chart_points(REPORT)}
    assert {name for name, point in points.items() if point.is_best} == {"original", "int8", "palettize-4"}
    lines = draw_chart(list(points.values()), 80)
    rows = {
        mark: next(i for i, line in enumerate(lines) if mark in line.partition("│")[2]) for mark in "abcd"
    }
    assert rows["d"] < rows["a"] < rows["b"] < rows["c"], "equal, 45 dB, 30 dB, 20 dB"
    columns = [lines[rows[mark]].index(mark, 9) for mark in "bacd"]
    assert columns == sorted(columns), "2, 4, 5 and 8 MB"
    assert draw_chart(chart_points(msgspec.structs.replace(REPORT, variants=REPORT.variants[:2])), 80) == []


@pytest.mark.parametrize("renderer", VARIANT_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_format(renderer: Renderer) -> None:
    assert renderer in renderers_of(REPORT)
    text = renderer.render(REPORT)
    assert "palettize-4" in text
    assert "\x1b" not in text or renderer.suffix == ".json"


def test_json_follows_the_schema_and_is_read_again() -> None:
    schema = json_schema_of(VariantReport, "variants")
    data = json.loads(render_json(REPORT))
    assert data.pop("schema") == "coremlscope.variants/1"
    assert violations(data, schema, schema) == []
    assert decode(data, VariantReport) == msgspec.structs.replace(REPORT, path="net.mlpackage")


def test_csv_has_a_row_for_each_variant_and_device() -> None:
    columns = variant_columns(REPORT)
    assert columns["variant"] == ["original"] * 2 + ["int8"] * 2 + ["palettize-4"] * 2 + ["prune-50"] * 2 + [
        "w8a8"
    ]
    assert columns["estimated_ms"][2:4] == [4.0, 2.0]
    assert columns["neural_engine_ops"][:2] == [9, 4]
    assert columns["failure"][-1].startswith("it failed")


def test_a_failure_of_several_variants_is_told_once() -> None:
    failed = [Variant(name=name, title=name, failure="it failed", hint="wait") for name in ("a", "b")]
    report = msgspec.structs.replace(REPORT, variants=(REPORT.original, *failed))
    assert variant_failures(report) == [("a, b: it failed", "wait")]


def test_card() -> None:
    assert "net.mlpackage" in notebook_card(REPORT)
