"""Measurements that never enter a fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.latency import extract
from benchmarks.latency.dataset import load_measurements, load_networks, load_rows, measurement_of
from benchmarks.latency.extract import (
    FURTHER_KERNELS,
    HELD_OUT_KERNELS,
    HELD_OUT_MEASUREMENTS,
    KERNELS,
    kernels_by_network,
)
from benchmarks.latency.held_out import (
    ARTICLE,
    estimate,
    load_first_estimates,
    load_held_out,
    render_article,
    render_held_out,
)
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE
from coremlscope.planning.cost.latency.calibration import load_calibration

_HEADER = HELD_OUT_MEASUREMENTS.read_text().splitlines()[0]


def _row(network: str, unit: str, ms: str) -> str:
    setting = {"cpu": "CPU_ONLY", "gpu": "CPU_AND_GPU", "neural_engine": "CPU_AND_NE"}[unit]
    return f"1,{network},mobileclip,someone,someone,,S0,Mac,M1,macOS 14.5,{setting},{unit},1,fp16,{ms},A"


def test_no_measurement_held_out_for_ever_is_in_a_fit_or_shipped_as_evidence() -> None:
    kept = load_held_out()
    assert kept
    publications = {m.publication for m in kept}
    assert publications.isdisjoint({m.publication for m in load_measurements()})
    assert "mobileclip" not in {m.family for m in load_measurements()}
    assert ARTICLE not in {row["url"] for row in load_rows()}
    fitted = {
        name for all_ in load_calibration().families.values() for one in all_ for name in one.publications
    }
    assert publications.isdisjoint(fitted)
    assert {m.network for m in kept} <= set(load_networks())


def test_the_kernels_of_a_network_are_in_one_file() -> None:
    files = [set(kernels_by_network(path)) for path in (KERNELS, FURTHER_KERNELS, HELD_OUT_KERNELS)]
    assert sum(map(len, files)) == len(set.union(*files)) == len(load_networks())


def test_kernels_stay_where_their_package_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    for name in ("FURTHER_KERNELS", "HELD_OUT_KERNELS"):
        copy = tmp_path / f"{name}.csv.gz"
        copy.write_bytes(getattr(extract, name).read_bytes())
        monkeypatch.setattr(extract, name, copy)
        copies.append((copy, kernels_by_network(copy)))
    extract.extract_further(tmp_path / "no packages")
    assert all(kernels_by_network(copy) == before for copy, before in copies)


def test_every_measurement_says_what_was_estimated_when_it_was_found() -> None:
    kept, first = load_held_out(), load_first_estimates()
    assert {m.row for m in kept} == set(first)
    lines = list(render_held_out(kept, first))
    assert all(line.split("|")[-2].strip() for line in lines if line.startswith("|"))


def test_rows_of_a_file_are_scored_and_say_which_are_outside(tmp_path: Path) -> None:
    networks, one = (
        load_networks(),
        next(m for m in load_held_out() if m.network == "mobileclip_s0_image-256"),
    )
    ms = estimate(replace(one, chip="m1", ran_on=CPU, setting="cpu_only"), networks).ms
    path = tmp_path / "rows.csv"
    path.write_text(
        "\n".join([_HEADER, _row(one.network, "cpu", f"{ms:.4f}"), _row(one.network, "gpu", "900")]) + "\n"
    )
    lines = list(render_held_out(load_held_out(path), load_first_estimates(path)))
    (cpu,) = (line for line in lines if line.startswith("| someone, M1 | CPU |"))
    assert cpu.startswith("| someone, M1 | CPU | 1 | 0.0% | 0.0% |")
    assert cpu.endswith("| 100% |  |")
    assert [line for line in lines if "| 900 |" in line and line.endswith("| outside |  |")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (_row("nobody", "cpu", "1"), "unknown network"),
        (_row("mobileclip_s0_image-256", "cpu", "fast"), "not a measurement"),
        (_row("mobileclip_s0_image-256", "cpu", "1").replace(",M1,", ",M99,"), "not a measurement"),
        ("1,2", "not a measurement"),
    ],
)
def test_a_row_that_is_not_valid_says_its_line(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{_HEADER}\n{row}\n")
    with pytest.raises(SystemExit, match=f"line 2: {said}"):
        load_held_out(path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "rows.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=r"rows\.csv cannot be read"):
        load_held_out(path)


def test_the_article_has_an_estimate_of_each_network_on_each_unit() -> None:
    kept = load_held_out()
    lines = list(render_article(kept))[2:]
    assert len(lines) == len({m.network for m in kept if m.family == "mobileclip"})
    assert all(line.count(" to ") == len((CPU, GPU, NEURAL_ENGINE)) for line in lines)


def test_the_system_of_a_phone_without_one_is_not_older_than_the_phone() -> None:
    row = dict(zip(_HEADER.split(","), _row("mobileclip_s0_image-256", "cpu", "1").split(","), strict=False))
    releases = {chip: measurement_of({**row, "chip": chip, "os": ""}).release for chip in ("A14", "A19 Pro")}
    assert {chip: release.major for chip, release in releases.items()} == {"A14": 16, "A19 Pro": 26}
