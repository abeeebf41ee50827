"""Parts of models: equal files, equal values, and one sentence for what cannot be cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.frontend.milproto.load import load

from coremlscope.base.errors import OutputError, UnsupportedModelError, UsageError
from coremlscope.cli import main
from coremlscope.devices.targets import Targets
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.model import ir
from coremlscope.model.schema import message_class
from coremlscope.model.subject import Subject
from coremlscope.results.isolation import IsolatedUnit
from coremlscope.studies.isolation.isolate import (
    differences,
    isolate,
    open_cutter,
    run_here,
    run_on_core_ml,
    write_part,
)
from coremlscope.studies.isolation.parts import Part
from coremlscope.studies.isolation.selection import select_units
from tests.support.coreml_children import as_a_mac
from tests.support.decoders import decoder
from tests.support.networks import network, random, read
from tests.support.programs import build


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), path)
    return path


def _equal(part: Part) -> bool:
    found = differences(part.expected, run_here(part))
    assert found
    return set(found.values()) == {0.0}


@pytest.mark.parametrize("span", [(0, 3), (30, 30), (85, 104)])
def test_a_part_has_the_values_of_the_whole(sample: Path, span: tuple[int, int], tmp_path: Path) -> None:
    cutter, _ = open_cutter(container.read(sample))
    part = cutter.cut(range(span[0], span[1] + 1))
    assert len(part.units) == span[1] - span[0] + 1
    assert _equal(part)
    path = tmp_path / "part.mlpackage"
    files = write_part(cutter, part, path)
    again = container.read(path)
    assert again.content == part.model.content
    assert again.description == part.model.description
    saved = np.load(files[0])
    assert {name: saved[name].dtype for name in saved} == {n: a.dtype for n, a in part.inputs.items()}
    assert all(np.array_equal(saved[name], array) for name, array in part.inputs.items())


def test_coremltools_reads_parts(sample: Path, tmp_path: Path) -> None:
    cutter, _ = open_cutter(container.read(sample))
    path = tmp_path / "part.mlpackage"
    write_part(cutter, cutter.cut(range(10, 30)), path)
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    weights = path / "Data" / "com.apple.CoreML" / "weights"
    program = load(spec, spec.specificationVersion, str(weights))
    kinds = [op.op_type for op in program.functions["main"].operations if op.op_type != "const"]
    assert kinds == [unit.type for unit in cutter.units[10:30]]


def test_types_that_an_interface_lacks_are_cast() -> None:
    x = np.zeros((1, 6), np.float32)

    def body(x):
        flags = mb.greater(x=x, y=np.float32(0.5), name="flags")
        scalar = mb.reduce_max(x=x, axes=[0, 1], keep_dims=False, name="scalar")
        chosen = mb.select(cond=mb.logical_not(x=flags, name="others"), a=x, b=mb.mul(x=x, y=scalar))
        return mb.identity(x=chosen, name="chosen")

    model = build(body, {"x": x})
    cutter, _ = open_cutter(
        Subject(model, inputs={"x": np.linspace(0, 1, 6, dtype=np.float32).reshape(1, 6)})
    )
    names = [unit.name for unit in cutter.units]
    for chosen in ({"others"}, {"flags"}, {"others", "chosen"}, set(names[2:])):
        part = cutter.cut([names.index(name) for name in chosen])
        interface = part.model.description.main
        types = {f.type.dtype for f in (*interface.inputs, *interface.outputs)}
        assert types <= {ir.DType.FP32, ir.DType.INT32}
        assert all(f.type.shape for f in interface.inputs)
        assert _equal(part)


def test_shapes_that_depend_on_values_are_those_of_the_prediction() -> None:
    def body(x):
        places = mb.non_zero(x=x, name="places")
        return mb.mul(x=mb.cast(x=places, dtype="fp32", name="numbers"), y=np.float32(2), name="twice")

    model = build(body, {"x": np.zeros((4,), np.float32)})
    given = {"x": np.array([0, 1, 1, 0], np.float32)}
    cutter, _ = open_cutter(Subject(model, inputs=given))
    part = cutter.cut([len(cutter.units) - 1])
    (feature,) = part.model.description.main.inputs
    assert feature.type.shape == (2, 1)
    assert _equal(part)


def test_loops_are_cut_as_a_whole() -> None:
    def body(x):
        low = mb.add(x=x, y=np.float32(1), name="low")
        total = mb.while_loop(
            _cond=lambda t: mb.less(x=mb.reduce_sum(x=t, axes=[0], keep_dims=False), y=np.float32(50)),
            _body=lambda t: (mb.add(x=t, y=low),),
            loop_vars=(low,),
            name="grow",
        )
        return mb.mul(x=total, y=np.float32(3), name="end")

    model = build(body, {"x": np.ones((3,), np.float32)})
    cutter, _ = open_cutter(model)
    loop = next(i for i, unit in enumerate(cutter.units) if unit.type == "while_loop")
    part = cutter.cut([loop])
    assert _equal(part)
    with pytest.raises(UsageError, match="inside a block of main/"):
        isolate(model, "never.mlpackage", op=f"{cutter.units[loop].id}/body/0")


def test_states_begin_with_their_content() -> None:
    cutter, _ = open_cutter(decoder(context=16, hidden=32, heads=2, layers=2))
    writes = [i for i, unit in enumerate(cutter.units) if unit.type == "write_state"]
    second = writes[2]  # the keys of the second layer, after the first layer wrote both states
    part = cutter.cut(range(second - 6, len(cutter.units)))
    assert any(content.any() for content in part.states.values())
    assert _equal(part)
    part = cutter.cut(range(len(cutter.units)))
    assert not any(content.any() for content in part.states.values())
    with pytest.raises(UnsupportedModelError, match="only writes states"):
        cutter.cut([second])


def test_a_part_that_begins_after_a_state_was_written() -> None:
    cutter, _ = open_cutter(decoder(context=16, hidden=32, heads=2, layers=2))
    kinds = [unit.type for unit in cutter.units]
    after = [
        i + 1 for i, kind in enumerate(kinds[:-1]) if kind == "write_state" and kinds[i + 1] == "read_state"
    ]
    assert after
    for index in after:
        part = cutter.cut([index])
        assert all(content.any() for content in part.states.values())
        assert _equal(part)


def test_states_that_others_write_in_between() -> None:
    cutter, _ = open_cutter(decoder(context=16, hidden=32, heads=2, layers=2))
    reads = [i for i, unit in enumerate(cutter.units) if unit.type == "read_state"]
    with pytest.raises(UnsupportedModelError, match=r"reads the state '\w+' again after main/\d+ wrote it"):
        cutter.cut(reads)
    assert all(_equal(cutter.cut([index])) for index in reads)


def test_weights_stay_compressed(tmp_path: Path) -> None:
    def body(x):
        weight = mb.constexpr_affine_dequantize(
            quantized_data=np.arange(-32, 32, dtype=np.int8).reshape(8, 8),
            zero_point=np.int8(0),
            scale=np.float32(0.1),
            axis=0,
        )
        return mb.relu(x=mb.linear(x=mb.identity(x=x), weight=weight, name="layer"))

    cutter, _ = open_cutter(build(body, {"x": np.zeros((2, 8), np.float32)}))
    part = cutter.cut([next(i for i, unit in enumerate(cutter.units) if unit.name == "layer")])
    types = [op.type for op in part.model.content.functions["main"].graph.ops]
    assert "constexpr_affine_dequantize" in types
    assert _equal(part)


def _network():
    builder = network({"x": (3, 8, 8)})
    builder.add_convolution(
        "first",
        3,
        4,
        3,
        3,
        1,
        1,
        "same",
        1,
        random(3, 3, 3, 4),
        random(4),
        True,
        input_name="x",
        output_name="a",
    )
    builder.add_activation("in place", "RELU", "a", "a")
    builder.add_pooling("half", 2, 2, 2, 2, "MAX", "VALID", "a", "b")
    builder.add_activation("again", "TANH", "b", "b")
    builder.add_flatten("flat", 0, "b", "c")
    builder.add_inner_product("dense", random(5, 64), random(5), 64, 5, True, "c", "y")
    return builder


@pytest.mark.parametrize("chosen", [[0], [1], [1, 2, 3], [3, 5], [0, 3, 5], [4, 5], list(range(6))])
def test_layers_of_networks_have_the_values_of_the_whole(chosen: list[int], tmp_path: Path) -> None:
    path = tmp_path / "network.mlmodel"
    path.write_bytes(_network().spec.SerializeToString())
    cutter, _ = open_cutter(path)
    part = cutter.cut(chosen)
    assert [unit.name for unit in part.units] == [
        _network().spec.neuralNetwork.layers[i].name for i in chosen
    ]
    assert _equal(part)
    for target in (tmp_path / "part.mlmodel", tmp_path / "part.mlpackage"):
        write_part(cutter, part, target)
        model = container.read(target)
        assert model.kind == "neuralNetwork"
        assert model.description == part.model.description
        assert ct.models.MLModel(str(target), skip_model_load=True).get_spec() == ct.utils.load_spec(
            str(target)
        )


def test_targets_are_checked_before_anything_runs(sample: Path, tmp_path: Path) -> None:
    network = tmp_path / "network.mlmodel"
    network.write_bytes(_network().spec.SerializeToString())
    (tmp_path / "taken.npz").touch()
    for source, name, message in (
        (sample, "part.mlmodel", "does not end in .mlpackage"),
        (network, "part.onnx", "does not end in .mlpackage"),
        (network, "network.mlmodel", "is read, and writing it would replace it"),
        (sample, "taken.mlpackage", "taken.npz already exists"),
        (sample, "no/part.mlpackage", "does not exist"),
    ):
        with pytest.raises(OutputError, match=message):
            isolate(source, tmp_path / name, span="..")
    assert network.read_bytes() == _network().spec.SerializeToString()


@pytest.mark.parametrize(
    "wrong", [{"devices": "iphone-99"}, {"devices": Targets("m1", os="9")}, {"engine": "cuda"}]
)
def test_nothing_is_written_if_the_part_cannot_be_profiled(
    sample: Path, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        isolate(sample, tmp_path / "part.mlpackage", type="add", **wrong)
    assert not list(tmp_path.iterdir())


def test_all_operations_of_a_type(sample: Path) -> None:
    cutter, _ = open_cutter(sample)
    part = cutter.cut([i for i, unit in enumerate(cutter.units) if unit.type == "add"])
    assert {unit.type for unit in part.units} == {"add"}
    assert len(part.inputs) > len(part.units) > 1
    assert _equal(part)


def test_networks_whose_layers_are_not_in_a_file_are_cut_as_programs(tmp_path: Path) -> None:
    cutter, _ = open_cutter(read(_network()))
    assert cutter.suffix == ".mlpackage"
    part = cutter.cut(range(len(cutter.units)))
    assert _equal(part)
    write_part(cutter, part, tmp_path / "part.mlpackage")
    assert container.read(tmp_path / "part.mlpackage").kind == "mlProgram"


def test_a_stage_of_a_pipeline_is_cut(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = message_class("Model")(specificationVersion=8)
    stage = message_class("Model").FromString(_network().spec.SerializeToString())
    spec.pipeline.models.append(stage)
    spec.pipeline.names.append("encoder")
    spec.description.CopyFrom(stage.description)
    pipeline = tmp_path / "pipeline.mlmodel"
    pipeline.write_bytes(spec.SerializeToString())
    command = ["isolate", str(pipeline), "--range", "..", "--iterations", "1", "--quiet", "-o"]
    for index, name in enumerate(("encoder", "0")):
        assert main([*command, str(tmp_path / f"{index}.mlpackage"), "--stage", name]) == 0
    assert (tmp_path / "1.expected.npz").exists()
    report = tmp_path / "report.md"
    part = str(tmp_path / "2.mlpackage")
    assert main([*command, part, "--stage", "0", "--report", str(report)]) == 0
    assert "run here, equal those of the whole model" in report.read_text(encoding="utf-8")
    assert main([*command, str(tmp_path / "3.mlpackage"), "--stage", "decoder"]) == 2
    assert "stages: encoder" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "3.mlpackage")]) != 0
    assert "--stage: encoder" in capsys.readouterr().err
    assert (
        main(["isolate", str(sample), "--range", "..", "--stage", "0", "-o", str(tmp_path / "4.mlpackage")])
        == 2
    )
    assert "only a pipeline has stages" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("selection", "message", "hint"),
    [
        ({}, "not clear", "--op ID"),
        ({"op": "main/0", "type": "conv"}, "not clear", "--range"),
        ({"op": "stem_relu"}, "no operation with the id or name", "stem_relu6"),
        ({"op": "stem_weight"}, "no operation with the id or name", "constants belong"),
        ({"op": "main/0"}, "main/0 cannot be isolated alone", "next to it: main/"),
        ({"type": "convolution"}, "nothing of the type", "conv"),
        ({"span": "stem"}, "not a range", "FIRST..LAST"),
        ({"span": "softmax..stem"}, "empty", "stem..softmax"),
    ],
)
def test_wrong_selections(sample: Path, selection: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        isolate(sample, "never.mlpackage", **selection)
    assert hint in caught.value.hint


@pytest.mark.usefixtures("corpus")
def test_models_without_parts(corpus: Path) -> None:
    models = corpus / "models"
    for name in (
        "improve-ai__python-ranker/model.mlmodel",
        "lovoo__NSFWDetector/NSFW.mlmodel",
        "cfinker__postal-demo-extended-with-authorship-verification/MailSpamClassifier.mlmodel",
    ):
        with pytest.raises(UnsupportedModelError) as caught:
            open_cutter(models / name)
        assert caught.value.hint


@pytest.mark.usefixtures("_preloading")
def test_core_ml_runs_parts(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_a_mac(monkeypatch)
    for model, chosen in (
        (container.read(sample), range(3, 20)),
        (decoder(context=16, hidden=32), range(40)),
    ):
        cutter, _ = open_cutter(model)
        part = cutter.cut(chosen)
        path = tmp_path / f"part-{len(chosen)}.mlpackage"
        write_part(cutter, part, path)
        for unit in ("all", "cpu_only"):
            found = differences(part.expected, run_on_core_ml(part, path, unit, CORE_ML_LIMITS))
            assert found.keys() == part.expected.keys()
            assert all(value is not None and value < 1e-2 for value in found.values())


def test_the_verb(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "part.mlpackage"
    arguments = [
        *("isolate", str(sample), "--range", "stem..stem_relu6", "-o", str(target), "--iterations", "2"),
        *("--device", "m1", "--report", str(tmp_path / "report.md"), "--json", str(tmp_path / "part.json")),
    ]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "2 operations of sample.mlpackage" in shown
    assert "equal" in shown
    assert "M1" in (tmp_path / "report.md").read_text()
    saved = json.loads((tmp_path / "part.json").read_text())
    assert saved["schema"] == "coremlscope.isolation/1"
    assert [unit["type"] for unit in saved["units"]] == ["conv", "clip"]
    assert saved["outputs"][0]["difference"] == {"here": 0.0}
    assert main(arguments) == 8
    assert "already exists" in capsys.readouterr().err


def test_damaged_models_are_one_sentence(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.mlmodel"
    damaged.write_bytes(b"\x08\x07\x12\xff\xff")
    assert main(["isolate", str(damaged), "--type", "conv", "-o", str(tmp_path / "x.mlpackage")]) == 3
    assert capsys.readouterr().err.count("\n") <= 2


def test_the_whole_model_is_not_replaced(sample: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in sample.rglob("*"))
    for way in (
        lambda: isolate(sample, sample, type="conv", overwrite=True),
        lambda: isolate(container.read(sample), sample, type="conv", overwrite=True),
    ):
        with pytest.raises(OutputError, match="is read, and writing it would replace it"):
            way()
    assert sorted((path, path.stat().st_mtime_ns) for path in sample.rglob("*")) == before


@pytest.mark.parametrize(
    ("span", "expected"),
    [("main/0..main/5", [0, 1]), ("main/3..", [1, 2]), ("main/2..main/7", [0, 1, 2]), ("..main/6", [0, 1])],
)
def test_a_range_may_begin_and_end_with_constants(span: str, expected: list[int]) -> None:
    """Constants belong to the operations that read them: those of the range follow or precede them."""
    units = [IsolatedUnit(id=f"main/{place}", type="relu", name=f"r{place}") for place in (2, 5, 7)]
    assert select_units(units, span=span) == expected
    with pytest.raises(UsageError):
        select_units(units, span="main/8..")
