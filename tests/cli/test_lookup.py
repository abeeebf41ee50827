"""`coremlscope rules` and `coremlscope ops`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.ops import OPS
from coremlscope.planning.placement.rules import GRAPH_RULES, RULES
from coremlscope.planning.placement.rules.core_ai import OWN_GRAPH_RULES, OWN_RULES
from tests.support import golden


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    assert main([*arguments, "--json", "-"]) == 0
    found: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def test_one_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "ne-max-pool-width"]) == 0
    golden.check("rule.txt", capsys.readouterr().out)


def test_rules_of_an_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--op", "gather", "--device", "m1", "--os", "14.5", "--unit", "neural_engine"]) == 0
    golden.check("rules_gather.txt", capsys.readouterr().out)


def test_one_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "softmax"]) == 0
    golden.check("op_softmax.txt", capsys.readouterr().out)


def test_all_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rules = _json(capsys, "rules")["rules"]
    assert [rule["id"] for rule in rules] == [
        row.id for row in (*RULES, *GRAPH_RULES, *OWN_RULES, *OWN_GRAPH_RULES)
    ]
    assert all(rule["text"] and rule["source"] and rule["confidence"] for rule in rules)
    assert not any("{" in str(rule["text"]) for rule in rules)


def test_filters(capsys: pytest.CaptureFixture[str]) -> None:
    def ids(*arguments: str) -> set[object]:
        return {rule["id"] for rule in _json(capsys, "rules", *arguments)["rules"]}

    assert ids("--effect", "fails") == {
        *("ne-tile-of-booleans", "ne-conv-dilated-row", "ne-three-states", "ne-model-size-ios"),
        *("ne-core-ai-four-bits", "ne-state-width", "ne-large-attentions"),
    }
    assert "ne-sine" in ids("--device", "m2")
    assert "ne-sine" not in ids("--device", "m3")
    assert ids("--unit", "cpu", "--effect", "runs") == {"cpu-runs", "cpu-core-ai-runs"}
    assert "cpu-fused-attention" in ids("--unit", "cpu", "--effect", "crashes")
    assert ids("--op", "crop_resize", "--effect", "rejects") >= {"ne-crop-resize", "gpu-crop-resize"}
    assert "ne-fp32-result" in ids("--device", "m4", "--os", "26")
    assert not {"ne-fp32-result", "ne-fp32-on-m1"} & set(ids("--device", "m4", "--os", "27"))
    assert "ne-fp32-on-m1" in ids("--device", "m1-max", "--os", "27")


def test_every_operation_has_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    cards = {str(card["name"]): card for card in _json(capsys, "ops")["operations"]}
    assert set(cards) == set(OPS)
    assert all(card["doc"] and card["work"] for card in cards.values())
    assert cards["conv"]["onnx"] == ["Conv"]
    assert cards["silu"]["onnx"] == ["Mul", "Sigmoid"]
    assert cards["transpose"]["onnx"] == ["Transpose"]
    assert cards["identity"]["onnx"] == []


def test_the_list_of_operations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{len(OPS)} operations\n")
    assert "gelu " in text


def test_json_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rules.json"
    assert main(["rules", "--unit", "gpu", "--json", str(path)]) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "coremlscope.rules/1"
    assert capsys.readouterr().err == f"wrote {path}\n"


def test_rates_of_a_chip_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "m4-pro", "--rates"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "Rates of planned costs on M4 Pro, macOS 27\nrates of M4 Pro, macOS 26.5.1; others"
    )
    assert "6871" in text
    assert main(["devices", "m1", "--rates", "--os", "14.5", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["os"]) == ("coremlscope.rates/1", "macOS 14.5")
    known = found["rates"]["convolution, dense"]["ane"]
    assert (known["value"], known["basis"], known["publication"]) == (
        *(11582.1572265625, "recovered"),
        "M1, macOS 14.5",
    )


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["rules", "ne-con"], "unknown rule 'ne-con'", "did you mean ne-cond"),
        (["rules", "--op", "convv"], "unknown operation 'convv'", "did you mean conv"),
        (["ops", "gelo"], "unknown operation 'gelo'", "did you mean gelu"),
        (["ops", "???"], "unknown operation '???'", "`coremlscope ops` lists them all"),
        (["rules", "--os", "14"], "--os needs --device", "--device m4"),
        (["rules", "--unit", "ane"], "--unit: invalid unit 'ane'", "neural_engine"),
        (["rules", "--device", "m11"], "'m11'", "m1"),
        (["devices", "--rates"], "--rates requires the name of a device", "`coremlscope devices` lists them"),
    ],
)
def test_mistakes(arguments: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert hint in error
