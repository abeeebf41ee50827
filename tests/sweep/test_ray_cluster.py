"""Jobs on a cluster, with a stand-in for Ray that runs tasks here, in another order, and loses some."""

from __future__ import annotations

import pickle
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from coremlscope.base.errors import EngineError, MissingDependencyError, UnforeseenError, UsageError
from coremlscope.base.version import __version__
from coremlscope.cli.main import main
from coremlscope.formats.expressions.building import LayerBuilder
from coremlscope.model.ir import DType
from coremlscope.studies.sweep import ray_cluster
from coremlscope.studies.sweep.expansion import Expander
from coremlscope.studies.sweep.jobs import Measuring, SweepJob
from coremlscope.studies.sweep.ray_cluster import RayRunner, pack, run_batch
from coremlscope.studies.sweep.rows import Row
from coremlscope.studies.sweep.run import run_sweep
from coremlscope.studies.sweep.wanted import Wanted
from coremlscope.studies.sweep.work import run_job


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class WorkerCrashedError(RayError):
    pass


class FakeRay(ModuleType):
    """The part of Ray's interface that the runner uses."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.lost: set[str] = set()
        self.asked: list[tuple[list[str], dict[str, Any]]] = []
        self.most = 0
        self.processors = 2.0
        self.is_open = False
        self.socket = ""
        self._tasks: dict[object, Callable[[], Any]] = {}

    def init(self, address: str, **_: Any) -> None:
        if address == "nowhere:1":
            raise ConnectionError("Failed to connect to Ray cluster at nowhere:1.\nmore lines")
        self.is_open = True

    def shutdown(self) -> None:
        self.is_open = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.processors}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "here")

    def nodes(self) -> list[dict[str, Any]]:
        own = {"NodeID": "here", "ObjectStoreSocketName": self.socket}
        return [{"NodeID": "there", "ObjectStoreSocketName": "/x"}, own]

    def put(self, value: object) -> object:
        return value

    def remote(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        def decorate(function: Callable[..., Any]) -> Any:
            def submit(more: dict[str, Any], jobs: tuple[SweepJob, ...], *rest: Any) -> object:
                self.asked.append(([job.subject.name for job in jobs], {**options, **more}))
                task = object()
                self._tasks[task] = lambda: self._call(function, jobs, *rest)
                self.most = max(self.most, len(self._tasks))
                return task

            return SimpleNamespace(
                remote=lambda *given: submit({}, *given),
                options=lambda **more: SimpleNamespace(remote=lambda *given: submit(more, *given)),
            )

        return decorate

    def _call(self, function: Callable[..., Any], jobs: tuple[SweepJob, ...], *rest: Any) -> Any:
        if any(Path(job.subject.name).name in self.lost for job in jobs):
            raise WorkerCrashedError("the worker died")
        try:
            return function(jobs, *rest)
        except Exception as error:
            raise RayTaskError(error) from error

    def wait(
        self, tasks: list[object], num_returns: int, timeout: float
    ) -> tuple[list[object], list[object]]:
        return tasks[-num_returns:], tasks[:-num_returns]

    def get(self, task: object) -> Any:
        return self._tasks.pop(task)()


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    yield fake
    assert not fake.is_open


def test_a_sweep_on_a_cluster_gives_the_results_of_one_here(ray: FakeRay, zoo: Path, tmp_path: Path) -> None:
    ray.lost = {"large.mlpackage"}
    options = {"folder": tmp_path, "devices": ["m1", "m4"], "workers": RayRunner("auto")}
    summary = run_sweep(zoo, **options)
    assert (summary.made, summary.failed) == (2, 4)
    reasons = sorted(one.reason for one in summary.failures)
    assert reasons[1] == "the cluster lost the job 6 times: WorkerCrashedError"
    ray.lost = set()
    assert run_sweep(zoo, **options, retry=True).made == 2
    seconds = pq.read_table(tmp_path / "estimates.parquet")["estimated_s"].to_pylist()
    assert len(seconds) == 4
    assert min(seconds) > 0


def graphs(count: int) -> Iterator[SweepJob]:
    """Yields jobs that are a millisecond of work."""
    expander = Expander(known={})
    for index in range(count):
        net = LayerBuilder(DType.FP16)
        model = net.model(net.op("relu", x=net.input("x", (1, 8 + index))), "")
        yield from expander.jobs_of_graph(f"net {index}", model, Wanted(devices=("m1",)))


def test_jobs_are_handed_over_a_few_at_a_time(
    ray: FakeRay, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "_BATCH_S", 0.0)
    answered: list[SweepJob] = []
    RayRunner("auto").run(graphs(20), lambda one, _: answered.append(one))
    assert len(answered) == 20
    assert ray.most == 6, "three for each processor"
    assert all(len(names) == 1 for names, _ in ray.asked)


def test_short_jobs_are_sent_together(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_BATCH_S", 1000.0)
    monkeypatch.setattr(ray_cluster, "_MOST", 8)
    answered: list[str] = []
    RayRunner("auto").run(graphs(40), lambda job, _: answered.append(job.subject.name))
    assert sorted(answered) == sorted({f"net {index}" for index in range(40)})
    sizes = [len(names) for names, _ in ray.asked]
    assert sizes[:6] == [1] * 6, "how long a job takes is not known yet"
    assert max(sizes) == 8
    assert {options["max_retries"] for names, options in ray.asked if len(names) > 1} == {2}


def test_large_graphs_are_sent_alone(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_BATCH_S", 1000.0)
    monkeypatch.setattr(ray_cluster, "_BATCH_BYTES", 100)
    RayRunner("auto").run(graphs(12), lambda *_: None)
    assert all(len(names) == 1 for names, _ in ray.asked)


def test_a_job_that_ends_its_worker_costs_no_other_job(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_BATCH_S", 1000.0)
    ray.lost = {"net 20"}
    answers: dict[str, object] = {}

    def done(job: SweepJob, answer: object) -> None:
        assert job.subject.name not in answers, "it was answered twice"
        answers[job.subject.name] = answer

    RayRunner("auto").run(graphs(30), done)
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, EngineError)}
    assert (len(answers), list(failed)) == (30, ["net 20"])
    assert "lost the job 6 times: WorkerCrashedError" in failed["net 20"].message
    assert (["net 20"], {"max_retries": 5, "num_cpus": 1}) in ray.asked


def test_a_lost_node_of_this_machine_is_told(ray: FakeRay) -> None:
    answers: list[object] = []
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as store:
        ray.socket = f"{folder}/store"  # a path of a socket is short
        store.bind(ray.socket)
        store.listen()

        def done(_: SweepJob, answer: object) -> None:
            answers.append(answer)
            if len(answers) == 2:
                store.close()

        with pytest.raises(EngineError, match=r"lost the node of this machine"):
            RayRunner("auto").run(graphs(9), done)
    assert len(answers) == 2


def test_what_rays_threads_print_is_dropped(ray: FakeRay, capsys: pytest.CaptureFixture[str]) -> None:
    def done(*_: object) -> None:
        listener = threading.Thread(target=print, args=("state-dump",), name="ray_listen_error_messages")
        listener.start()
        listener.join()
        print("done")

    RayRunner("auto").run(graphs(2), done)
    assert capsys.readouterr().out == "done\n" * 2


def test_nodes_that_join_get_jobs(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_LOOK_S", 0.0)
    monkeypatch.setattr(ray_cluster, "_BATCH_S", 0.0)

    def done(*_: object) -> None:
        ray.processors = 4.0

    RayRunner("auto").run(graphs(30), done)
    assert ray.most == 12


def test_measuring_jobs_take_the_named_resources(ray: FakeRay, zoo: Path) -> None:
    wanted = Wanted(devices=("m1",), measuring=Measuring())
    jobs = list(Expander(known={}).jobs_of_path(zoo / "damaged.mlmodel", wanted))
    RayRunner("auto", ["mac", "quiet"]).run(jobs, lambda *_: None)
    assert [(len(names), options.get("resources")) for names, options in ray.asked] == [
        (1, None),
        (1, {"mac": 1, "quiet": 1}),
    ]
    assert RayRunner("auto", ["quiet", "mac"]).place == RayRunner("auto", ["mac", "quiet"]).place != "ray"


def test_a_node_without_the_file_gets_it(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "moved.mlpackage"
    shutil.copytree(zoo / "small.mlpackage", path)
    (job,) = Expander(known={}).jobs_of_path(path, Wanted(devices=("m1",)))
    packed = pack(path)

    def run() -> list[dict[str, Any]]:
        (answer,) = run_batch([job], __version__, packed).answers
        assert isinstance(answer, list)
        return answer

    here = run()
    shutil.rmtree(path)
    for _ in range(2):
        (there,) = run()
        changing = ("work_s", "made_at")
        assert {k: v for k, v in there.items() if k not in changing} == {
            k: v for k, v in here[0].items() if k not in changing
        }
    path.mkdir()
    assert run()[0]["failure"] == "", "another model at the same path is not taken"


def test_another_version_is_refused(zoo: Path) -> None:
    (job,) = Expander(known={}).jobs_of_path(zoo / "damaged.mlmodel", Wanted(devices=("m1",)))
    with pytest.raises(EngineError, match=r"has coremlscope .*, and the sweep 99"):
        run_batch([job], "99", None)


def test_an_error_of_one_job_is_the_answer_to_that_job(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = graphs(2)

    def run(job: SweepJob) -> tuple[Row, ...]:
        if job is first:
            raise ZeroDivisionError("division by zero")
        return run_job(job)

    monkeypatch.setattr(ray_cluster, "run_job", run)
    failed, made = run_batch([first, second], __version__, None, None).answers
    assert isinstance(failed, UnforeseenError)
    assert isinstance(made, list)
    assert made[0]["estimated_s"] > 0
    again = pickle.loads(pickle.dumps(failed))
    assert (again.message, again.hint) == (failed.message, failed.hint), "Ray carries it to the sweep"


def test_a_cluster_that_is_not_there(ray: FakeRay, zoo: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"(?m)no Ray cluster at nowhere:1: Failed to connect.* nowhere:1\.$"
    ):
        run_sweep(zoo, folder=tmp_path, devices="m1", workers=RayRunner("nowhere:1"))


def test_resources_are_those_of_a_cluster(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(zoo), "--device", "m1", "--on", "mac"]) == UsageError.exit_code
    assert "only nodes of a Ray cluster" in capsys.readouterr().err


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError) as raised:
        ray_cluster.RayRunner("auto").run([], lambda *_: None)
    assert "[ray]'" in raised.value.hint
