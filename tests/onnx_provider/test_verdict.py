"""What a session with the provider takes next to one with the CPU provider, and the verbs that say so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from coremlscope.base.figures import Figure
from coremlscope.cli import main
from coremlscope.devices import find_device
from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.pricing import Pricing, decide
from coremlscope.planning.onnxruntime.rules.table import FLOAT_MODEL
from coremlscope.results.provider import ProviderReport
from tests.onnx_provider.build import Built

SHAPE = [1, 64, 56, 56]


def _network(blocks: int, between: str) -> Built:
    built = Built()
    value = built.input(SHAPE)
    for _ in range(blocks):
        weight = built.constant(np.zeros((64, 64, 3, 3), np.float32))
        value = built.node("Conv", value, weight, shape=SHAPE, pads=[1, 1, 1, 1])
        value = built.node(between, value, shape=SHAPE)
    return built


def _reports(built: Built) -> tuple[list[ProviderReport], Figure | None]:
    device = find_device("m2")
    pricing = Pricing(built.model(), {}, [device], ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"))
    divisions = [built.divide(one) for one in ("neuralnetwork", "mlprogram")]
    return list(pricing.reports(divisions)), pricing.cpu(device)


def test_one_partition_is_faster_than_the_cpu() -> None:
    reports, cpu = _reports(_network(20, "Relu"))
    verdict = decide(reports, cpu, find_device("m2"), None)
    assert (verdict.outcome, verdict.format) == ("provider", "neuralnetwork")
    (best, *_), (single, *_) = (report.estimates for report in reports)
    assert best.placement.keys() == {"neural_engine"}
    assert "neural_engine" not in single.placement


def test_boundaries_cost() -> None:
    whole, _ = _reports(_network(20, "Relu"))
    cut, cpu = _reports(_network(20, "Abs"))
    assert [report.models for report in (*whole, *cut)] == [1, 1, 20, 20]
    before, after = whole[0].estimates[0], cut[0].estimates[0]
    assert after.boundaries.value > 19 * before.boundaries.value
    assert after.outside.value > before.outside.value
    total = after.inside + after.boundaries + after.outside
    assert total == after.latency
    assert decide(cut, cpu, find_device("m2"), None).ratio < decide(whole, cpu, find_device("m2"), None).ratio  # type: ignore[operator]


def test_nothing_taken() -> None:
    built = Built()
    built.node("Abs", built.input([1, 8]), shape=[1, 8])
    reports, cpu = _reports(built)
    verdict = decide(reports, cpu, find_device("m2"), None)
    assert (verdict.outcome, verdict.provider) == ("cpu", None)


def test_work_that_is_not_counted_is_unknown() -> None:
    built = Built()
    relu = built.node("Relu", built.input([5, 1, 3]), shape=[5, 1, 3])
    weights = [built.constant(np.zeros((1, 16, size), np.float32)) for size in (3, 4)]
    built.node("LSTM", relu, *weights, shape=[5, 1, 1, 4], hidden_size=4)
    reports, cpu = _reports(built)
    assert cpu is None
    assert decide(reports, cpu, find_device("m2"), None).outcome == "unknown"


@pytest.mark.parametrize(("seconds", "outcome"), [(1.0, "cpu"), (3.0, "close"), (9.0, "provider")])
def test_ratios_near_one_are_too_close(seconds: float, outcome: str) -> None:
    reports, _ = _reports(_network(1, "Relu"))
    best = min(one.latency.value for report in reports for one in report.estimates)
    cpu = best * seconds / 3
    figure = Figure(cpu, cpu / 2, cpu * 2, "estimated")
    assert decide(reports, figure, find_device("m2"), None).outcome == outcome


def test_fixes_are_planned_again() -> None:
    (report, _), _ = _reports(_network(3, "Neg"))
    (fix,) = report.fixes
    assert (fix.fix, fix.count, fix.models, fix.supported) == ("multiply by -1", 3, 1, 6)
    (whole, _), _ = _reports(_network(3, "Relu"))
    before, after, relu = (one.estimates[0] for one in (report, fix, whole))
    assert before.boundaries.value > 2 * after.boundaries.value == 2 * relu.boundaries.value
    assert after.outside.value == 0
    assert after.latency.value < before.latency.value


def test_fixes_count_the_partitions_of_all_rounds() -> None:
    built = _network(2, "HardSwish")
    built.node("Neg", built.nodes[-1].outputs[0], shape=SHAPE)
    built.node("Relu", built.nodes[-1].outputs[0], shape=SHAPE)
    report = built.divide().report
    fixes = {one.fix: one.models for one in report.fixes}
    assert report.models == 5
    assert fixes == {"write it as HardSigmoid and Mul, or export below opset 14": 2, "multiply by -1": 5}


def test_another_format_is_no_fix() -> None:
    built = Built()
    value = built.input([1, 4, 4])
    built.node("Erf", built.node("Relu", value, shape=[1, 4, 4]), shape=[1, 4, 4])
    report = built.divide("neuralnetwork").report
    assert report.left[0].fix == "use the format MLProgram"
    assert not report.fixes


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = numpy_helper.from_array(np.zeros((4, 4, 1, 1), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("HardSwish", ["a"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, ["batch", 4, 8, 8]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_verb_plan(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["plan", str(model), "--device", "m2", "--format", "mlprogram", "--ort", "1.27", "--json", "-"]
    assert main([*line, "--shape", "batch=2"]) == 0
    found = json.loads(capsys.readouterr().out)
    provider = found["provider"]
    assert (provider["partitions"], provider["nodes"], provider["supported"]) == (1, 2, 1)
    assert [(one["partitions"], one["nodes"], one["supported"]) for one in provider["rounds"]] == [
        (1, 2, 1),
        (1, 3, 2),
    ]
    assert [(one["op"], one["rule"]) for one in provider["left"]] == [("HardSwish", "no-builder")]
    assert len(found["verdicts"]) == 1


def test_options_of_onnx_are_refused_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "a.mlpackage"), "--ort", "1.27"]) == 2
    assert "--ort" in capsys.readouterr().err


def test_unknown_releases_and_dimensions(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--device", "m2", "--ort", "1.12"]) == 2
    assert main(["plan", str(model), "--device", "m2", "--shape", "size=2"]) == 4
    assert "batch" in capsys.readouterr().err


def test_the_float_model_is_the_fix_of_a_quantised_one() -> None:
    built, shape = Built(), [1, 8, 4, 4]
    scale, value = built.constant(0.5), built.input(shape)
    for _ in range(2):
        codes = built.constant(np.zeros((8, 8, 1, 1)), DType.INT8)
        weight = built.node("DequantizeLinear", codes, scale, shape=[8, 8, 1, 1])
        value = built.node("Conv", value, weight, shape=shape)
        quantised = built.node("QuantizeLinear", value, scale, shape=shape, dtype=DType.INT8)
        value = built.node("DequantizeLinear", quantised, scale, shape=shape)
    division = built.divide("neuralnetwork")
    (fix,) = division.report.fixes
    assert (division.report.models, fix.fix, fix.count) == (0, FLOAT_MODEL, 8)
    assert (fix.models, fix.supported) == (1, 2)
    assert [node.op for node in division.fixed[0].graph.nodes] == ["Conv", "Conv"]


def test_flatten_has_a_replacement() -> None:
    built = Built()
    built.node("Flatten", built.node("Relu", built.input([1, 8, 4, 4]), shape=[1, 8, 4, 4]), shape=[1, 128])
    (fix,) = built.divide("mlprogram").report.fixes
    assert (fix.fix, fix.models, fix.supported) == ("write it as Reshape to a constant shape", 1, 2)


def test_work_that_is_not_known_is_no_time() -> None:
    # A convolution whose shapes contradict each other, and an operator of somebody's own.
    contradicted = Built()
    weight = contradicted.constant(np.zeros((64, 3, 3, 3), np.float32))
    contradicted.node("Conv", contradicted.input(SHAPE), weight, shape=[None, 64, None, None])
    own = Built()
    own.node("Relu", own.node("Own", own.input(SHAPE), shape=SHAPE, domain="org.example"), shape=SHAPE)
    for built in (contradicted, own):
        assert _reports(built)[1] is None
