"""Core AI's interpreter as a reference: over a scripted runtime, and coreai-core where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.formats.aimodel.bundle import open_program
from coremlscope.formats.aimodel.content import read_content
from coremlscope.formats.aimodel.network import find_layers
from coremlscope.formats.recordings.core_ai import read_debug_info
from coremlscope.formats.sample import sample_model
from coremlscope.measure.coreai.values import record_values
from coremlscope.verification.own_run import FunctionCall, record
from coremlscope.verification.pairing import pair_runs
from coremlscope.verification.references.core_ai import CoreAIReference
from tests.support.aicode import Body, Graph, Val, tensor, write_bundle, write_numbered
from tests.support.aimodels import sample

_ROOT = Path(__file__).parents[2]
_X = np.float32([[-2, -0.5, 0.5, 2]])
_HAS_COREAI = importlib.util.find_spec("coreai") is not None


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A program of a constant 0, a relu 1 and an addition 2, with a state."""
    return write_numbered(tmp_path / "net.aimodel")


def _child(fault: str = "", *, is_system: bool = False) -> tuple[str, ...]:
    code = (
        f"import sys; sys.path.append({str(_ROOT)!r}); "
        f"from tests.support import scripted_coreai as s; s.install({fault!r}, is_system={is_system}); "
        "from coremlscope.measure.coreai.values_child import save_values_of; save_values_of(sys.argv[1])"
    )
    return (sys.executable, "-c", code)


def test_values_are_paired_by_their_elements(bundle: Path) -> None:
    model = container.read(bundle)
    found = CoreAIReference(model, command=_child()).run({"x": _X})
    assert found.label == "Core AI's interpreter, net.aimodel, coreai-core 1.0.0b3"
    assert found.outputs == {"y": "y"}
    ours = record(FunctionCall.of(model, None, {"x": _X}))
    pairs = pair_runs(ours, found, {"y": "y"})
    assert [(pair.ours, pair.theirs, pair.how, pair.error) for pair in pairs] == [
        ("x", "x", "value", 0.0),
        ("relu_1", "odix_7 1", "value", 0.0),
        ("y", "y", "output", 0.0),
    ]


def test_a_difference_of_one_operation_is_seen(bundle: Path) -> None:
    model = container.read(bundle)
    found = CoreAIReference(model, command=_child("wrong relu")).run({"x": _X})
    ours = record(FunctionCall.of(model, None, {"x": _X}))
    pairs = {pair.ours: pair.error for pair in pair_runs(ours, found, {"y": "y"})}
    assert "relu_1" not in pairs
    assert pairs["y"] > 0.1


@pytest.mark.parametrize(
    ("child", "message"),
    [(_child("abort"), "SIGABRT"), (_child(is_system=True), "does not report the values")],
)
def test_failures_are_one_sentence(bundle: Path, child: tuple[str, ...], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        CoreAIReference(container.read(bundle), command=child).run({"x": _X})


def test_values_beyond_the_limit(bundle: Path) -> None:
    with pytest.raises(EngineError, match="more than fits in memory"):
        record_values(bundle, "main", {"x": _X}, 16, command=_child())


def test_other_models_are_rejected() -> None:
    with pytest.raises(UsageError, match="aimodel bundles only"):
        coremlscope.verify(sample_model(size=32, width=0.25, classes=10), "coreai")


@pytest.mark.skipif(_HAS_COREAI, reason="coreai-core is installed")
def test_without_coreai_core(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingDependencyError, match="coreai-core, which is not installed"):
        coremlscope.verify(bundle, "coreai")
    assert main(["verify", str(bundle), "--reference", "coreai"]) != 0
    assert "[coreai]'" in capsys.readouterr().err


@pytest.mark.skipif(not _HAS_COREAI, reason="coreai-core is not installed")
def test_coreai_core_computes_our_values() -> None:
    found = coremlscope.verify(sample("tiny_conv"), "coreai")
    assert found.passed
    assert len([pair for pair in found.pairs if pair.how in ("value", "output")]) >= 12


def test_a_bias_belongs_to_the_product_before_it(tmp_path: Path) -> None:
    """The operation that adds a bias is an argument of the next product, not a part of it."""

    def body(b: Body, x: Val) -> Sequence[Val]:
        for _ in range(2):
            weight, bias = b.constant(np.ones((4, 4))), b.constant(np.ones(4))
            weight = b.op("transpose", [weight, b.constant([1, 0])], [weight.type])
            x = b.op("broadcasting_batch_matmul", [x, weight], [x.type])
            x = b.op("broadcasting_add", [x, bias], [x.type])
        return [x]

    graph = Graph("main", {"x": tensor("fp32", 2, 4)}, body)
    path = write_bundle(tmp_path / "net.aimodel", [graph], is_numbered=True)
    content = read_content(open_program(path)[0])
    products = {op.name: [] for op in content.graphs["main"].body.ops}
    for op in content.graphs["main"].body.ops:
        products[op.name].append(content.origin(op).id)
    layers = find_layers(content, content.graphs["main"])
    pairs = zip(products["broadcasting_batch_matmul"], products["broadcasting_add"], strict=True)
    found = [(layers[product], layers[bias]) for product, bias in pairs]
    assert [first == second for first, second in found] == [True, True]
    assert found[0] != found[1]


def test_maps_of_results_are_read() -> None:
    def tagged(level: str, **numbers: int) -> dict[str, object]:
        entries = {name: {"integer": {"_0": number}} for name, number in numbers.items()}
        return {"dictionary": {"_0": {"level": {"string": {"_0": level}}, **entries}}}

    def mapped(source: object, target: object) -> dict[str, object]:
        return {"dictionary": {"_0": {"source": source, "target": target}}}

    maps = [
        mapped(tagged("coreai", id=5, output=1), tagged("odix", output=0)),
        mapped(tagged("torch", id=6, output=0), tagged("coreai", output=0)),
        mapped("text", tagged("odix", output=0)),
        mapped(tagged("coreai", id=7), tagged("odix", output=0)),
        "text",
    ]
    metadata = [{"key": "output_maps", "value": {"array": {"_0": maps}}}]
    op = {"name": "odix_3", "odixId": 3, "metadatas": metadata}
    (found,) = read_debug_info([{"identifier": "odix_op_id", "operations": [op]}])
    assert found.results == ((0, 5, 1),)
