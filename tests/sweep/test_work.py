"""Single jobs: variants, functions, failures, and the cores that processes run on."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from coremlscope.studies.sweep.expansion import Expander, content_of_path
from coremlscope.studies.sweep.jobs import Measuring, PickledModel, SweepJob, SweptModel, WantedResult
from coremlscope.studies.sweep.local import LocalRunner
from coremlscope.studies.sweep.rows import Row
from coremlscope.studies.sweep.wanted import Wanted
from coremlscope.studies.sweep.work import run_job


def work(path: Path, **options: object) -> list[Row]:
    wanted = Wanted(**{"devices": ("m1",), **options})  # type: ignore[arg-type]
    return [row for job in Expander(known={}).jobs_of_path(path, wanted) for row in run_job(job)]


def test_variants_are_smaller_models_of_the_same_name(zoo: Path) -> None:
    before = content_of_path(zoo / "small.mlpackage")
    plain, made = work(zoo / "small.mlpackage", variants=("", "int8"))
    assert content_of_path(zoo / "small.mlpackage") == before, "the package stays as it is"
    assert (plain.variant, made.variant) == ("", "int8")
    assert plain.model == made.model
    assert plain.weights_bytes is not None
    assert made.weights_bytes is not None
    assert made.weights_bytes < 0.6 * plain.weights_bytes
    assert made.estimated_s is not None


@pytest.mark.parametrize(
    ("variant", "text"),
    [("w8a8", "needs real inputs"), ("static", "cannot be applied")],
)
def test_a_variant_that_does_not_suit_is_a_failure(variant: str, text: str, zoo: Path) -> None:
    (row,) = work(zoo / "small.mlpackage", variants=(variant,))
    assert text in row.failure
    assert row.exit_code == 5
    assert row.estimated_s is None


def test_variants_need_a_file(zoo: Path) -> None:
    specification = next((zoo / "small.mlpackage").rglob("*.mlmodel")).read_bytes()
    wanted = Wanted(devices=("m1",), variants=("int8",))
    (job,) = Expander(known={}).jobs_of_graph("bytes", specification, wanted)
    (row,) = run_job(job)
    assert "a graph in memory" in row.failure


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"functions": ("other",)}, "other"),
        ({"shapes": ({"nothing": (1, 3)},)}, "nothing"),
    ],
)
def test_wrong_functions_and_shapes_are_failures(options: dict[str, object], text: str, zoo: Path) -> None:
    (row,) = work(zoo / "small.mlpackage", **options)
    assert text in row.failure


def test_a_model_that_was_removed_meanwhile_is_a_failure(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "gone.mlpackage"
    shutil.copytree(zoo / "small.mlpackage", path)
    (job,) = Expander(known={}).jobs_of_path(path, Wanted(devices=("m1",)))
    shutil.rmtree(path)
    (row,) = run_job(job)
    assert "does not exist" in row.failure
    assert (row.key, row.exit_code) == (job.cases[0].key, 3)


_CHILD = """
import os, pickle, sys
from coremlscope.base.processes.channel import open_channel, send
open_channel()
for line in sys.stdin:
    job = pickle.load(open(line.strip(), "rb"))
    cores = sorted(os.sched_getaffinity(0))
    send(rows=[{"measures": job.measuring is not None, "cores": cores, "pid": os.getpid()}])
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores to pin"
)
def test_measurements_have_cores_of_their_own() -> None:
    case = WantedResult(key="a", compute_units="all")
    subject = SweptModel(name="a", source=PickledModel(b""), content="a")
    jobs = [
        SweepJob(subject=subject, cases=(case,), measuring=Measuring() if n % 2 else None) for n in range(8)
    ]
    rows: list[dict[str, object]] = []
    runner = LocalRunner(2, measures=True, command=(sys.executable, "-c", _CHILD))
    mine = os.sched_getaffinity(0)
    runner.run(jobs, lambda _, answer: rows.extend(answer))  # type: ignore[arg-type]
    measured = {str(row["cores"]) for row in rows if row["measures"]}
    others = {str(row["cores"]) for row in rows if not row["measures"]}
    assert len(rows) == 8
    assert len(measured) == len(others) == 1
    assert len({row["pid"] for row in rows if row["measures"]}) == 1, "one at a time"
    first, second = (set(map(int, text.pop().strip("[]").split(","))) for text in (measured, others))
    assert not first & second
    assert first | second == mine
    assert len(first) == runner.cores
    assert os.sched_getaffinity(0) == mine, "this thread keeps its cores"
