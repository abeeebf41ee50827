"""Sweeps as a whole: what is made, what is not made again, what fails, and what outlives killed processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope import read
from coremlscope.base.errors import CoremlscopeError, EngineError, OutputError, UsageError
from coremlscope.devices import ComputeUnits
from coremlscope.devices.targets import Targets
from coremlscope.results.sweep import SweepProgress, SweepSummary
from coremlscope.studies.sweep import run
from coremlscope.studies.sweep.jobs import Measuring, SweepJob, SweptModel, WantedResult
from coremlscope.studies.sweep.local import LocalRunner
from coremlscope.studies.sweep.run import run_sweep
from coremlscope.studies.sweep.store import ResultStore


def rows(folder: Path, **wanted: object) -> list[dict[str, Any]]:
    """Returns the rows of a folder with these values."""
    found = ResultStore(folder).table().to_pylist()
    return [
        {**row, "labels": dict(row["labels"]), "numbers": dict(row["numbers"])}
        for row in found
        if all(row[name] == value for name, value in wanted.items())
    ]


def test_every_combination_has_one_result_or_one_failure(swept: tuple[Path, SweepSummary]) -> None:
    folder, summary = swept
    assert (summary.made, summary.failed, summary.known) == (2 * 5, 5, 0)
    assert len(rows(folder, failure="", origin="estimated")) == 8
    assert len(rows(folder, failure="", origin="measured")) == 2
    (failed,) = summary.failures
    assert failed.model.endswith("damaged.mlmodel")
    assert failed.exit_code == 3
    assert [row["exit_code"] for row in rows(folder) if row["failure"]] == [3] * 5


def test_columns_of_another_origin_are_empty(swept: tuple[Path, SweepSummary]) -> None:
    folder, _ = swept
    names = ("measured_s", "estimated_s", "planned_ms")
    for row in rows(folder, failure=""):
        expected = [True, False, False] if row["origin"] == "estimated" else [False, True, True]
        assert [row[name] is None for name in names] == expected
        assert (row["labels"], row["numbers"]) == ({"family": "mobilenet"}, {"accuracy": 71.5})


def test_estimates_are_those_of_the_verb(swept: tuple[Path, SweepSummary], zoo: Path) -> None:
    from coremlscope import estimate

    folder, _ = swept
    (alone,) = estimate(zoo / "small.mlpackage", "m1", compute_units="cpu_only").estimates
    chosen = rows(folder, chip="m1", compute_units="cpu_only", failure="", origin="estimated")
    (found,) = (row for row in chosen if "small" in row["model"])
    assert found["estimated_s"] == pytest.approx(alone.latency.value)
    assert found["estimated_high_s"] == pytest.approx(alone.latency.high)
    assert isinstance(found["cpu_operations"], int)
    assert found["cpu_operations"] > 20


def test_a_second_sweep_makes_only_what_is_new(
    swept: tuple[Path, SweepSummary], zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    shutil.copytree(swept[0], results)
    units: list[ComputeUnits] = ["all", "cpu_only"]
    options: dict[str, Any] = {
        "folder": results,
        "devices": Targets(["m1", "iphone-15-pro"], compute_units=units),
    }
    with monkeypatch.context() as patch:
        patch.setattr(run, "LocalRunner", lambda *_, **__: _Refusing())
        again = run_sweep(zoo, **options)
        assert (again.made, again.known, again.known_failures, again.failures) == (0, 8, 4, ())
        moved = tmp_path / "moved.mlpackage"
        shutil.copytree(zoo / "small.mlpackage", moved)
        assert run_sweep(moved, **options).known == 4, "the address is that of the content"
    runner = _Recording()
    monkeypatch.setattr(run, "LocalRunner", lambda *_, **__: runner)
    run_sweep(zoo / "small.mlpackage", **{**options, "devices": Targets(["m1", "m4"], compute_units=units)})
    ((job),) = runner.jobs
    assert [(case.device, case.compute_units) for case in job.cases] == [("M4", "all"), ("M4", "cpu_only")]
    runner.jobs.clear()
    run_sweep(zoo, **options, retry=True)
    assert {job.subject.name for job in runner.jobs} == {"damaged.mlmodel"}


def test_other_labels_replace_those_of_results_that_exist(
    swept: tuple[Path, SweepSummary], zoo: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(swept[0], results)
    options = {"folder": results, "devices": "m1"}
    before = [(row["key"], row["made_at"]) for row in rows(results)]
    for _ in range(2):
        summary = run_sweep(zoo / "small.mlpackage", **options, labels={"family": "other", "size": 3})
        assert (summary.made, summary.known) == (0, 1)
        chosen = rows(results, chip="m1", compute_units="all", failure="")
        (changed,) = (row for row in chosen if "small" in row["model"])
        assert (changed["labels"], changed["numbers"]) == ({"family": "other"}, {"size": 3.0})
    assert [(row["key"], row["made_at"]) for row in rows(results)] == before
    assert run_sweep(zoo / "small.mlpackage", **options).known == 1, "without labels they stay"
    assert sum(bool(row["labelled_at"]) for row in rows(results)) == 1


class _Recording:
    """A runner that only notes its jobs."""

    place, cores = "here", 1

    def __init__(self) -> None:
        self.jobs: list[SweepJob] = []

    def run(self, jobs, done) -> None:  # type: ignore[no-untyped-def]
        self.jobs += jobs


class _Refusing(_Recording):
    def run(self, jobs, done) -> None:  # type: ignore[no-untyped-def]
        assert not list(jobs)


_CHILD = """
import os, pickle, sys, time
from coremlscope.base.processes.channel import open_channel, send
open_channel()
for line in sys.stdin:
    job = pickle.load(open(line.strip(), "rb"))
    name = job.subject.name
    tries = open(os.path.join(job.subject.content, name), "a")
    tries.write("x")
    tries.close()
    count = os.path.getsize(tries.name)
    if name == "always" or (name == "once" and count == 1):
        os.kill(os.getpid(), 9)
    send(rows=[{"key": name, "model": name, "failure": "", "tries": count}])
"""


def job(name: str, folder: Path) -> SweepJob:
    case = WantedResult(key=name, compute_units="all", device="M1", os="")
    return SweepJob(subject=SweptModel(name=name, source=b"", content=str(folder)), cases=(case,))


def test_jobs_whose_process_is_killed_are_tried_again(tmp_path: Path) -> None:
    found: dict[str, object] = {}
    runner = LocalRunner(2, command=(sys.executable, "-c", _CHILD))
    names = ("a", "once", "always", "b")
    runner.run(
        (job(name, tmp_path) for name in names), lambda one, answer: found.update({one.subject.name: answer})
    )
    assert set(found) == set(names)
    assert found["once"] == [{"key": "once", "model": "once", "failure": "", "tries": 2}]
    assert found["a"] == [{"key": "a", "model": "a", "failure": "", "tries": 1}]
    assert isinstance(found["always"], EngineError)
    assert (tmp_path / "always").read_text() == "xxx"


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OutputError("the disk is full", "")])
def test_more_measuring_jobs_than_may_wait_end_with_the_sweep(tmp_path: Path, raised: BaseException) -> None:
    runner = LocalRunner(2, measures=True, command=(sys.executable, "-c", _CHILD))
    measured = (msgspec.structs.replace(job("m", tmp_path), measuring=Measuring()) for _ in range(1000))

    def done(*_: object) -> None:
        raise raised

    ended = threading.Event()

    def sweep() -> None:
        with contextlib.suppress(KeyboardInterrupt, OutputError):
            runner.run(measured, done)
        ended.set()

    threading.Thread(target=sweep, daemon=True).start()
    assert ended.wait(60)


@pytest.mark.usefixtures("_real_children")
def test_ctrl_c_keeps_what_is_done(zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(_Recording):
        def run(self, jobs, done) -> None:  # type: ignore[no-untyped-def]
            first = next(iter(jobs))
            done(first, EngineError("it failed", "try"))
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "LocalRunner", lambda *_, **__: Interrupted())
    states: list[SweepProgress] = []
    summary = run_sweep(zoo, folder=tmp_path / "r", devices="m1", progress=states.append)
    assert summary.interrupted
    assert summary.failed == 1
    assert [row["failure"] for row in rows(tmp_path / "r") if row["failure"]] == ["it failed"]
    assert [(one.done, one.total, one.failed) for one in states] == [(0, 3, 0), (1, 3, 1)]
    assert states[1].left_s is not None


def test_graphs_without_files_are_taken_one_by_one(zoo: Path, tmp_path: Path) -> None:
    model = read(zoo / "small.mlpackage")
    specification = next((zoo / "small.mlpackage").rglob("*.mlmodel")).read_bytes()
    taken: list[str] = []

    def graphs():  # type: ignore[no-untyped-def]
        for name, graph in (("read", model), ("bytes", specification), ("text", "m")):
            taken.append(name)
            yield name, graph

    with pytest.raises(UsageError, match="text is not a model: str"):
        run_sweep(graphs=graphs(), folder=tmp_path, devices=["m1"], workers=1)
    assert taken == ["read", "bytes", "text"]
    assert sorted(row["model"] for row in rows(tmp_path, failure="")) == ["bytes", "read"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing is asked for"),
        ({"devices": "m99"}, "unknown device"),
        ({"devices": Targets("m1", compute_units="some")}, "compute units"),
    ],
)
def test_wrong_arguments_are_found_before_anything_is_written(
    options: dict[str, object], message: str, zoo: Path, tmp_path: Path
) -> None:
    with pytest.raises(CoremlscopeError, match=message):
        run_sweep(zoo, folder=tmp_path / "r", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "r").exists()


def test_names_that_are_not_text_are_swept_with_the_others(zoo: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    shutil.copytree(zoo / "small.mlpackage", models / "good.mlpackage")
    try:
        shutil.copytree(zoo / "inner" / "large.mlpackage", models / os.fsdecode(b"bad\xff.mlpackage"))
        (models / os.fsdecode(b"none\xfe.mlmodel")).write_bytes(b"\x08")
    except OSError:
        pytest.skip("this file system has only names that are text")
    summary = run_sweep(models, folder=tmp_path / "r", devices="m1")
    assert (summary.made, summary.failed) == (2, 1)
    found = rows(tmp_path / "r")
    assert {Path(str(row["model"])).name for row in found} == {
        "good.mlpackage",
        "bad\\xff.mlpackage",
        "none\\xfe.mlmodel",
    }


def test_a_folder_that_may_not_be_read_is_a_failure_of_its_own(zoo: Path, tmp_path: Path) -> None:
    shutil.copytree(zoo / "small.mlpackage", tmp_path / "models" / "a.mlpackage")
    hidden = tmp_path / "models" / "hidden"
    hidden.mkdir(mode=0)
    if os.access(hidden, os.R_OK):
        pytest.skip("this user may read everything")
    try:
        summary = run_sweep(tmp_path / "models", folder=tmp_path / "r", devices="m1")
    finally:
        hidden.chmod(0o700)
    assert (summary.made, summary.failed) == (1, 1)
    assert summary.failures[0].model == str(hidden)


def test_results_do_not_say_where_a_person_keeps_models(swept: tuple[Path, SweepSummary], zoo: Path) -> None:
    folder, _ = swept
    found = rows(folder)
    assert {row["model"] for row in found} == {"small.mlpackage", "large.mlpackage", "damaged.mlmodel"}
    assert not any(str(zoo) in str(value) for row in found for value in row.values())
    assert {row["host"] for row in found} == {""}


def test_files_of_equal_content_are_all_named(zoo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(zoo / "small.mlpackage", tmp_path / "models" / f"{name}.mlpackage")
    summary = run_sweep(tmp_path / "models", folder=tmp_path / "results", devices="m1")
    assert summary.made == 1
    (row,) = ResultStore(tmp_path / "results").rows(ResultStore(tmp_path / "results").keys()).values()
    assert row["model"] == "a.mlpackage = b.mlpackage"
