"""The comparison of Core ML and Core AI models of one network: operations, values, plans."""

from __future__ import annotations

from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.cli import main
from coremlscope.reports.comparison import comparison_document
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.studies.migration import add_agreements, compare_values
from tests.support.aicode import Body, Graph, Val, tensor, write_bundle

_WEIGHT = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A product with a weight, a sum and a tanh: one `linear` in Core ML, two operations in Core AI."""
    folder = tmp_path_factory.mktemp("both")

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS16)
    def program(x):  # type: ignore[no-untyped-def]
        return mb.tanh(x=mb.linear(x=x, weight=_WEIGHT, bias=np.ones(4, np.float32)), name="y")

    model = ct.convert(program, compute_precision=ct.precision.FLOAT32, skip_model_load=True)
    model.save(str(folder / "net.mlpackage"))

    def body(b: Body, x: Val) -> list[Val]:
        product = b.op("broadcasting_batch_matmul", [x, b.constant(_WEIGHT.T.copy())], [tensor("fp32", 2, 4)])
        total = b.op(
            "broadcasting_add", [product, b.constant(np.ones((1, 4), np.float32))], [tensor("fp32", 2, 4)]
        )
        return [b.op("tanh", [total], [tensor("fp32", 2, 4)])]

    graph = Graph("main", {"image": tensor("fp32", 2, 3)}, body)
    return folder / "net.mlpackage", write_bundle(folder / "net.aimodel", [graph])


def test_values_agree(models: tuple[Path, Path]) -> None:
    found = compare_values(*map(api.read, models))
    assert found.problem == ""
    (output,) = found.outputs
    assert output.error < 1e-6
    assert output.same_top is True
    assert found.equal == found.pairs >= 2
    assert found.first is None


def test_values_that_differ_are_found(models: tuple[Path, Path], tmp_path: Path) -> None:
    def body(b: Body, x: Val) -> list[Val]:
        product = b.op("broadcasting_batch_matmul", [x, b.constant(-_WEIGHT.T)], [tensor("fp32", 2, 4)])
        return [b.op("tanh", [product], [tensor("fp32", 2, 4)])]

    other = write_bundle(tmp_path / "net.aimodel", [Graph("main", {"x": tensor("fp32", 2, 3)}, body)])
    found = compare_values(api.read(models[0]), api.read(other))
    assert found.outputs[0].error > 0.1
    assert found.first is not None


def test_other_inputs_are_a_problem_not_an_error(models: tuple[Path, Path], tmp_path: Path) -> None:
    def body(b: Body, x: Val, y: Val) -> list[Val]:
        return [b.op("broadcasting_add", [x, y], [x.type])]

    kinds = {name: tensor("fp32", 2, 3) for name in "xy"}
    other = write_bundle(tmp_path / "net.aimodel", [Graph("main", kinds, body)])
    found = compare_values(api.read(models[0]), api.read(other))
    assert "has none for it" in found.problem
    assert found.outputs == ()


def test_comparisons_show_what_is_shared(models: tuple[Path, Path]) -> None:
    comparison = add_agreements(api.compare(*models, devices="m4", iterations=2))
    (difference,) = comparison.differences
    assert difference.work is not None
    assert difference.work.share is not None
    assert difference.work.share >= 0.95
    (plan,) = difference.plans
    assert plan.types == (), "a plan without costs is not compared by cost"
    for text in (
        write_terminal(comparison_document(comparison), width=80),
        write_markdown(comparison_document(comparison)),
    ):
        assert "of the work is paired" in text
        assert "not by Core ML or Core AI" in text.replace("\n    ", " ")


def test_models_of_one_framework_have_no_such_part(models: tuple[Path, Path]) -> None:
    (difference,) = api.compare(models[0], models[0], iterations=2).differences
    assert difference.work is None


def test_the_verb(models: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *map(str, models), "--iterations", "2"]) == 0
    assert "100.0 % of the work is paired" in capsys.readouterr().out
