"""Apple's plan, asked through coremltools; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import sys
from pathlib import Path

import coremltools as ct
import pytest
from coremlscope.forecast.planning import plan_model

from coremlscope.devices import CPU, NEURAL_ENGINE, find_device
from coremlscope.errors import EngineError
from coremlscope.formats import container
from coremlscope.measure.coreml.plan import Answer, Limits, ask_core_ml, plan_from_apple
from coremlscope.placement.analytics import AnalysedOp
from tests.support import converted_models


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


def test_a_process_of_its_own_answers(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_DEVICE", "m1")
    monkeypatch.setenv("COREMLSCOPE_OS", "14.5")
    answer = ask_core_ml(package, "cpu_only")
    ours = plan_model(container.read(package), find_device("m1", "14.5"), "cpu_only")
    theirs = plan_from_apple(ours, answer)
    (function,) = theirs.functions.values()
    (mine,) = ours.functions.values()
    for apple, rules in zip(function.ops, mine.ops, strict=True):
        assert apple.id == rules.id
        if not apple.inserted:
            assert apple.choices["cpu_only"].unit == CPU
            assert apple.choices["cpu_only"].weight == pytest.approx(rules.choices["cpu_only"].weight)
    assert "not yet confirmed on a device" in theirs.notes[0]


def test_analytics_give_costs_and_messages(package: Path) -> None:
    ours = plan_model(container.read(package), find_device("m1", "14.5"), "all")
    (function,) = ours.functions.values()
    op = next(op for op in function.ops if op.type == "linear")
    places = {
        "type": "linear",
        "outputs": list(op.outputs),
        "preferred": "cpu",
        "supported": ["cpu", "gpu"],
        "weight": 0.25,
    }
    analysed = AnalysedOp(
        function="main",
        type="linear",
        outputs=op.outputs,
        selected="bnns",
        estimated_ms={"bnns": 0.5, "classic_cpu": 0.6},
        messages={"ane": "No."},
    )
    theirs = plan_from_apple(ours, Answer({"main": [places]}, [analysed]))
    (apple,) = [found for found in theirs.functions["main"].ops if found.id == op.id]
    assert (apple.choices["all"].backend, apple.choices["all"].weight) == ("bnns", 0.25)
    assert apple.cost_ms("all") == 0.5
    assert apple.supported("gpu") == "yes"
    assert [reason.core_ml for reason in apple.verdicts[NEURAL_ENGINE].reasons] == ["No."]
    others = [found for found in theirs.functions["main"].ops if found.id != op.id]
    assert {found.choices["all"].unit for found in others} == {None}


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        ("raise SystemExit('no such chip')", Limits(), "failed: no such chip"),
        ("import time; time.sleep(60)", Limits(time_s=0.3), "more than 0 s"),
        ("import time; x = bytearray(10**8); time.sleep(60)", Limits(memory_bytes=5 * 10**6), "GB of memory"),
        ("pass", Limits(), "gave no plan"),
        ("import sys; open(sys.argv[3], 'w').write('[]')", Limits(), "gave no plan"),
    ],
)
def test_what_can_go_wrong(code: str, limits: Limits, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        ask_core_ml(Path("model.mlpackage"), "all", limits, child(code))


def test_analytics_are_found_below_the_fresh_home() -> None:
    line = 'tensor<fp16, [1]> y = relu(x = x)[BackendSupport = list(), SelectedBackend = string("ane")];'
    text = f"func main<ios18>() {{\n{line}\n"
    code = (
        "import os, sys, pathlib\n"
        "folder = pathlib.Path(os.environ['CFFIXED_USER_HOME'], 'Library', 'Caches', 'x')\n"
        "folder.mkdir(parents=True)\n"
        f"(folder / 'analytics.mil').write_text({text!r})\n"
        "open(sys.argv[3], 'w').write('{\"functions\": {}}')\n"
    )
    answer = ask_core_ml(Path("m"), "all", None, child(code))
    assert [(op.function, op.type, op.selected) for op in answer.analysed] == [("main", "relu", "ane")]
