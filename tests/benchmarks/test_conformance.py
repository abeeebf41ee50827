"""The runner and the report of the conformance benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.conformance import runner
from benchmarks.conformance.report import (
    KnownFailure,
    Table,
    family,
    headline,
    in_scope,
    read_known_failures,
)
from benchmarks.conformance.runner import Job, Plan, plan_jobs, run_jobs

TABLE = Path(runner.__file__).with_name("known_failures.toml")

SUITE = """
import os, time
import pytest
from coremltools.libcoremlpython import _MLModelProxy

def load():
    with pytest.raises(RuntimeError):
        _MLModelProxy("nowhere.mlpackage", "CPU_ONLY")

def test_passes():
    load()

def test_fails():
    load()
    assert 1 == 2

def test_touches_no_model():
    assert 1 == 2

def test_skips():
    load()
    pytest.skip("no")

def test_crashes():
    load()
    os.abort()

def test_hangs():
    load()
    time.sleep(600)

@pytest.mark.parametrize("value", range(40))
def test_many(value):
    load()
"""


CLASSES = """
import pytest

backends = pytest.mark.parametrize("backend", ["neuralnetwork", "mlprogram", "mlprogram17"])

class TestFirst:
    def test_first(self):
        pass

    @backends
    def test_second(self, backend):
        pass

class TestSecond:
    @pytest.mark.parametrize("value", range(9))
    def test_first(self, value):
        pass

@backends
def test_alone(backend):
    pass
"""


def result(test="test/api/a.py::t", outcome="passed", scope=("load",), kinds=("mlProgram",), message=""):
    return {"id": test, "outcome": outcome, "scope": scope, "kinds": kinds, "message": message}


@pytest.fixture
def suite(tmp_path, monkeypatch):
    root = tmp_path / "coremltools"
    root.mkdir()
    monkeypatch.setattr(runner, "suite", lambda: root)
    return root


def plan(folder, *, sample="0/1", one_per=""):
    return Plan(sample=sample, one_per=one_per, timeout_s=60, keyword="", output=folder)


def test_tests_in_scope():
    assert in_scope(result())
    assert in_scope(result(outcome="failed", scope=["collect"], kinds=[]))
    assert not in_scope(result(scope=()))
    assert not in_scope(result(outcome="skipped"))
    assert not in_scope(result(outcome="xfailed"))


def test_results_are_grouped_by_model_family():
    assert family(result()) == "ML Programs"
    assert family(result(kinds=["neuralNetwork", "pipeline"])) == "neural networks"
    assert family(result(test="a.py::t[backend='neuralnetwork']", kinds=[])) == "neural networks"
    assert family(result(kinds=["pipeline", "glmRegressor"])) == "classical models"
    assert family(result(kinds=[])) == "ML Programs"


def test_known_failures_count_as_failures(tmp_path):
    known = [KnownFailure(r"test/api/a\.py::", "no kernel", "it is broken", 1)]
    failures = [
        result(outcome="failed", message="there is no kernel"),
        result("test/api/a.py::u", "failed", message="wrong numbers"),
        result("test/blob/a.py::t", "failed", message="no kernel"),
    ]
    table = Table([result("test/api/a.py::v"), *failures], known)
    assert (table.passed, table.failed) == (1, 3)
    assert table.unexplained == failures[1:]
    text = table.write(tmp_path)
    assert "| test/api | ML Programs | 3 | 1 | 2 | 33.33% |" in text
    assert "- 1 × it is broken" in text
    rows = json.loads((tmp_path / "failures.json").read_text())
    assert [row["explained"] for row in rows] == [True, False, False]


def test_a_headline_omits_variable_parts():
    message = "x.py:3: in f\nE   RuntimeError: main/7/body/3 of /tmp/abc/x at 0x7f3a failed\nE   more"
    assert headline(message) == "RuntimeError: OP of … at … failed"
    assert headline("a\nb") == "b"


def test_known_failures_have_a_reason_and_a_count():
    for row in read_known_failures(TABLE):
        assert row.reason
        assert row.covers > 0


def test_small_files_share_a_process_and_long_ones_are_divided(suite):
    sizes = {"test_a.py": 150_000, "test_b.py": 40_000, "test_c.py": 40_000, "test_d.py": 10}
    for name, size in sizes.items():
        (suite / name).write_text("#" * size)
    (suite / "test_torch_ops.py").write_text("")
    jobs = plan_jobs(["."], plan(suite), 1)
    long = [job for job in jobs if job.files == ("test_torch_ops.py",)]
    assert [(job.part, job.parts) for job in long] == [(part, 24) for part in range(24)]
    short = [job.files for job in jobs if job not in long]
    assert short == [("test_a.py", "test_b.py"), ("test_c.py", "test_d.py")]
    assert len(plan_jobs(["."], plan(suite, one_per="function"), 1)) == 2
    with pytest.raises(SystemExit, match="no file or folder nothing"):
        plan_jobs(["nothing"], plan(suite), 1)


@pytest.mark.long
def test_a_crash_and_a_hang_fail_one_test_each(suite, tmp_path, monkeypatch):
    (suite / "test_all.py").write_text(SUITE)
    (suite / "test_broken.py").write_text("import nothing_of_this_name\n")
    (job,) = plan_jobs(["."], plan(tmp_path), 1)
    results = run_jobs([job], plan(tmp_path), 1)
    found = {r["id"].removeprefix("test_all.py::test_"): r for r in results}
    many = {f"many[{value}]" for value in range(40)}
    failed = {name for name, r in found.items() if r["outcome"] == "failed"}
    assert failed == {"fails", "touches_no_model", "crashes", "hangs", "test_broken.py"}
    assert {name for name, r in found.items() if in_scope(r)} == {"passes", *many, *failed} - {
        "touches_no_model"
    }
    assert "-6" in found["crashes"]["message"]
    assert "longer than 60 s" in found["hangs"]["message"]

    third = run_jobs([Job(("test_all.py",), 1, 2)], plan(tmp_path, sample="2/3"), 1)
    assert 0 < len(third) < 15


@pytest.mark.long
@pytest.mark.parametrize(
    ("one_per", "expected"),
    [
        (
            "function",
            ["First::first", "First::second", "First::second nn", "Second::first", "alone", "alone nn"],
        ),
        ("class", ["First", "First nn", "Second", "alone", "alone nn"]),
    ],
)
def test_one_test_of_each_class_or_function_and_backend(suite, tmp_path, one_per, expected):
    (suite / "test_all.py").write_text(CLASSES)
    results = run_jobs([Job(("test_all.py",))], plan(tmp_path, one_per=one_per), 1)
    found = []
    for row in results:
        *owner, function = row["id"].partition("[")[0].split("::")[1:]
        name = owner[0].removeprefix("Test") if owner else function.removeprefix("test_")
        if owner and one_per == "function":
            name += "::" + function.removeprefix("test_")
        found.append(name + (" nn" if "neuralnetwork" in row["id"] else ""))
    assert sorted(found) == expected
