"""Rows that are scored without being fitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency.dataset import load_networks, measurement_of
from benchmarks.latency.extract import DATA, KERNELS, extract
from benchmarks.latency.first_sight import estimate_one, load_file, render_first_sight

_HEADER = "network,chip,os,compute_units,latency_ms,publication"


def _file(folder: Path, *rows: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join([_HEADER, *rows]) + "\n")
    return path


def test_rows_are_scored_and_say_which_are_outside(tmp_path: Path) -> None:
    (one,) = load_file(_file(tmp_path, "resnet50-224,M1,26,CPU_ONLY,1,someone"))
    ms = estimate_one(one, load_networks()).ms
    path = _file(
        tmp_path,
        f"resnet50-224,M1,26,CPU_ONLY,{ms:.4f},someone",
        "resnet50-224,M1,macOS 26.5,CPU_AND_GPU,900,someone",
    )
    lines = list(render_first_sight(load_file(path), ()))
    assert "| cpu_only | 1 | 0.0% | 0.0% | -0.00 | 100% |" in [
        line.replace("+0.00", "-0.00") for line in lines
    ]
    assert [line for line in lines if "| 900 |" in line and line.endswith("| outside |")]


def test_a_structure_names_its_network_and_a_setting_its_unit(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "structure,chip,os,compute_units,latency_ms,source\nu2netp-320.mlpackage,A13,26.6,cpu_only,67.2,someone\n"
    )
    (one,) = load_file(path)
    assert (one.network, one.ran_on, one.publication) == ("u2netp-320", "cpu", "someone")
    assert str(one.release) == "iOS 26.6"
    assert 67.2 / 2 < estimate_one(one, load_networks()).ms < 67.2 * 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("resnet50-224,M1,26,CPU_ONLY,fast,someone", "line 2: not a measurement"),
        ("resnet50-224,M99,26,CPU_ONLY,1,someone", "line 2: not a measurement"),
        ("resnet50-224,M1", "line 2: not a measurement"),
    ],
)
def test_a_row_that_is_not_valid_says_its_line(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        load_file(_file(tmp_path, row))


def test_a_network_that_nothing_is_known_of_says_so(tmp_path: Path) -> None:
    (one,) = load_file(_file(tmp_path, "nobody,M1,26,CPU_ONLY,1,someone"))
    with pytest.raises(SystemExit, match="no model and no kernels of nobody"):
        estimate_one(one, load_networks())


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"rows\.csv cannot be read"):
        load_file(tmp_path / "rows.csv")


def test_kernels_stay_where_their_package_is_absent(tmp_path: Path) -> None:
    before = KERNELS.read_bytes()
    try:
        extract(tmp_path)
        assert KERNELS.read_bytes() == before
    finally:
        KERNELS.write_bytes(before)
    assert DATA.is_dir()


def test_the_system_of_a_phone_without_one_is_not_older_than_the_phone() -> None:
    row = {"row": "1", "network": "resnet50-224", "family": "resnet", "publication": "someone", "date": ""}
    row |= {
        "compute_units": "CPU_ONLY",
        "ran_on": "cpu",
        "precision": "fp16",
        "latency_ms": "1",
        "grade": "A",
    }
    releases = {
        chip: measurement_of({**row, "use": "check", "chip": chip, "os": ""}).release
        for chip in ("A14", "A19 Pro")
    }
    assert {chip: release.major for chip, release in releases.items()} == {"A14": 16, "A19 Pro": 26}
