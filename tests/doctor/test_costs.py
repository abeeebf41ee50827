"""Lines of Core ML's cost model in logs, in the form that public parsers read."""

from __future__ import annotations

import io
import json

import pytest

from coremlscope.reports.doctor import reports_document, reports_to_json
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.studies.doctor.costs import CostTable, parse_cost
from coremlscope.studies.doctor.log import LogReport, examine_log


def line(
    name: str = "conv_1", kind: str = "ios18.conv", runtime: str = "0.054", bound: str = "Memory"
) -> str:
    return (
        f"[CostModelFeature],{name},x,{kind},gFlopCnt,2.45,totalMB,4.32,mbKernel,1.23,opsPerByte,12.3,"
        f"workUnitEfficiency16,0.85,GFLOP/s,45.2,GBP/s,23.4,Runtime,{runtime},UsedDTree,True,Bound:{bound}"
    )


COMPACT = "2026-09-01 10:00:00.000 Db  python3[812:3a1f] [com.apple.espresso:espresso] "


def examine(*lines: str) -> LogReport:
    return examine_log(io.BytesIO("\n".join(lines).encode()), "app.log")


def test_a_line() -> None:
    found = parse_cost(COMPACT + line())
    assert found is not None
    assert (found.name, found.type, found.runtime_ms, found.bound) == ("conv_1", "conv", 0.054, "Memory")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[CostModelFeature],a,ios18.conv,gFlopCnt,1,Runtime,0.5", "conv"),
        ("[CostModelFeature],a,5,matmul,Runtime,0.5", "matmul"),
    ],
)
def test_the_type_is_found_in_either_place(text: str, kind: str) -> None:
    found = parse_cost(text)
    assert found is not None
    assert (found.type, found.runtime_ms) == (kind, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "CostModelFeature",
        "[CostModelFeature],",
        "[CostModelFeature],a",
        "[CostModelFeature],a,1,2,3",
        "," * 9999,
    ],
)
def test_other_lines(text: str) -> None:
    assert parse_cost(text) is None


@pytest.mark.parametrize("runtime", ["nan", "inf", "-1", "", "x", "1e999"])
def test_times_that_are_not_numbers(runtime: str) -> None:
    found = parse_cost(line(runtime=runtime))
    assert found is not None
    assert found.runtime_ms is None


def test_types_and_the_longest_are_listed() -> None:
    lines = [COMPACT + line(), COMPACT + line("conv_2", runtime="0.2", bound="Compute")]
    lines.append(json.dumps({"eventMessage": line("mm", "ios17.matmul", "3.5"), "processImagePath": "/x/y"}))
    report = examine("other", *lines, "ANECCompile() FAILED")
    assert report.costs is not None
    assert report.costs.lines == 3
    assert [(one.type, one.lines, one.longest_ms) for one in report.costs.types] == [
        ("matmul", 1, 3.5),
        ("conv", 2, 0.2),
    ]
    assert [(one.memory_bound, one.compute_bound) for one in report.costs.types] == [(1, 0), (1, 1)]
    assert [one.name for one in report.costs.slowest] == ["mm", "conv_2", "conv_1"]
    assert [found.failure.id for found in report.found] == ["ane-compile-failed"]
    assert report.unexplained == 0


@pytest.mark.parametrize("width", [60, 80, 140])
def test_they_are_shown_as_planned(width: int) -> None:
    text = write_terminal(
        reports_document([examine(line(), line("mm", "ios17.matmul", "3.5"))]), width=width, color=False
    )
    assert max(map(len, text.splitlines())) <= width
    shown = " ".join(text.split())
    assert "planned by Core ML, 2 lines; not measured" in shown
    assert "mm (matmul, 3.5)" in shown


def test_names_that_the_system_hides() -> None:
    report = examine(line("<private>"))
    assert "the system hides their names" in " ".join(
        write_terminal(reports_document([report]), width=200, color=False).split()
    )
    (written,) = reports_to_json([report])["files"]
    assert written["costs"]["types"][0]["type"] == "conv"
    assert reports_to_json([examine("x")])["files"][0]["costs"] is None


def test_a_table_does_not_grow() -> None:
    table = CostTable()
    for number in range(5000):
        cost = parse_cost(line(f"op{number}", f"ios18.t{number}", str(number)))
        assert cost is not None
        table.add(cost)
    costs = table.costs()
    assert costs is not None
    assert (costs.lines, len(costs.types), len(costs.slowest)) == (5000, 10, 10)
    assert [one.name for one in costs.slowest][:2] == ["op4999", "op4998"]


def test_control_characters_are_escaped() -> None:
    found = parse_cost(line("\x1b[2J"))
    assert found is not None
    assert "\x1b" not in found.name
