"""Graphs that are built in code: the example of a search space."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from coremlscope.model.ir import Program
from coremlscope.studies.sweep.expansion import Expander
from coremlscope.studies.sweep.jobs import Measuring, PickledModel
from coremlscope.studies.sweep.wanted import Wanted
from coremlscope.studies.sweep.work import run_job


@pytest.fixture(scope="module")
def search() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "search_space" / "search.py"
    spec = importlib.util.spec_from_file_location("search", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "search", module)
        spec.loader.exec_module(module)
    return module


def test_architectures_are_small_jobs_with_stable_addresses(search: ModuleType) -> None:
    chosen = search.sample(random.Random(3))
    wanted = Wanted(devices=("m1",), measuring=Measuring(iterations=1))
    made = [list(Expander(known={}).jobs_of_graph("a", search.build(chosen), wanted)) for _ in range(2)]
    assert [job.cases for job in made[0]] == [job.cases for job in made[1]]
    source = made[0][0].subject.source
    assert isinstance(source, PickledModel)
    assert len(source.content) < 200_000, "weights are drawn when they are read"


def test_an_architecture_is_estimated_with_its_parameters(search: ModuleType) -> None:
    stages = (search.Stage(1, 3, 4, True),) * 5
    graph = search.build(search.Architecture(192, 1.0, stages))
    (job,) = Expander(known={}).jobs_of_graph("net", graph, Wanted(devices=("m1",)))
    (row,) = run_job(job)
    assert (row.model, row.failure, row.device) == ("net", "", "M1")
    weights = [op.constant for op in graph.content.functions["main"].graph.walk() if op.constant is not None]
    several = [one for one in weights if one.type.rank == 4 or one.type.elements in (1000, 960_000)]
    assert row.parameters == sum(one.type.elements for one in several)
    assert row.estimated_s is not None
    assert 1e-5 < row.estimated_s < 1e-1
    assert isinstance(graph.content, Program)


def test_weights_are_the_same_after_pickling(search: ModuleType) -> None:
    graph = search.build(search.sample(random.Random(4)))
    again = PickledModel.of(graph).read()
    first, second = (
        next(op.constant for op in model.content.functions["main"].graph.walk() if op.constant is not None)
        for model in (graph, again)
    )
    np.testing.assert_array_equal(first.numpy(), second.numpy())
