from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from PIL import Image

from coremlscope.base.processes.child import ChildLimits
from coremlscope.cli import main
from coremlscope.dropin import uninstall
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.results.encoding import MODEL, decode
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile
from coremlscope.results.schema import json_schema
from coremlscope.runtime.execution.export import export_onnx
from tests.support import ir_models
from tests.support.processes import skip_unless_limited

QUICK = ["--iterations", "3", "--compile-iterations", "1", "--load-iterations", "2", "--warmups", "1"]


def test_inspect(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(sample)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sample.mlpackage\n")
    assert "All operations" not in out
    assert main(["inspect", str(sample), "--ops"]) == 0
    assert "main/547" in capsys.readouterr().out


def test_inspect_writes_what_is_asked_for(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [tmp_path / name for name in ("r.md", "r.csv", "r.json")]
    options = [part for path in reports for part in ("-o", str(path))]
    assert main(["inspect", str(sample), *options, "--quiet", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    data = json.loads(printed.out)
    assert (data["schema"], json.loads(reports[2].read_text())) == (MODEL, data)
    summary = decode(data, ModelSummary)
    rows = list(csv.DictReader(io.StringIO(reports[1].read_text())))
    assert len(rows) == 105
    assert len(summary.ops) == 0  # --ops lists them there, too.


def test_pages_list_the_operations_that_the_terminal_does_not(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("a.html", "a.csv", "a.md", "a.json")]
    assert main(["inspect", str(sample), *(word for file in files for word in ("-o", str(file)))]) == 0
    assert "All operations" not in capsys.readouterr().out
    has_ops = ["main/547" in file.read_text(encoding="utf-8") for file in files]
    assert has_ops == [True, True, False, False]


def test_inspect_without_weights(hollow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(hollow)]) == 0
    assert "weights absent" in capsys.readouterr().out


def test_profile(sample: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.json"
    more = ["--compute-units", "cpu_and_ne", "--input", f"image={photo}", "--threads", "1", "-o", str(report)]
    assert main(["profile", str(sample), *QUICK, *more]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {report}\n"
    assert " a second one after the other" in printed.out
    assert "cpu_and_ne, recorded only" in printed.out
    assert "none is a measurement of Core ML or of a Neural" in " ".join(printed.out.split())
    measured = Profile.load(report).measurement
    assert [phase.statistics.count for phase in measured.phases.values()] == [1, 2, 3]
    assert (measured.settings.inputs, measured.threads) == (("image",), 1)


def test_profile_rounded_to_fp16(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.json"
    assert main(["profile", str(sample), *QUICK, "--precision", "fp16", "-o", str(report)]) == 0
    assert "rounded to fp16; the largest magnitude was" in " ".join(capsys.readouterr().out.split())
    measured = Profile.load(report).measurement
    assert measured.settings.precision == "fp16"
    assert measured.fp16 is not None
    assert max(largest or 0 for largest in measured.fp16.largest) > 0


def test_profile_to_standard_output(hollow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(hollow), *QUICK, "--random-weights", "--seed", "3", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    profile = Profile.from_json(json.loads(printed.out))
    assert profile.measurement.settings.seed == 3
    assert "random-weights" in [finding.id for finding in profile.all_findings]


def test_profile_with_a_shape(doubler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(doubler), *QUICK, "--shape", "row=1x7", "--json", "-"]) == 0
    profile = Profile.from_json(json.loads(capsys.readouterr().out))
    assert profile.measurement.settings.shapes == {"row": (1, 7)}
    assert profile.ops.outputs[1] == ("tensor<fp32, [1, 7]>",)


def test_profile_with_devices(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "iphone-15-pro,a14", "--os", "17", "--compute-units", "cpu_and_gpu", "--json", "-"]
    assert main(["profile", str(sample), *QUICK, *options]) == 0
    profile = Profile.from_json(json.loads(capsys.readouterr().out))
    assert [(e.os, e.compute_units) for e in profile.headline_estimates()] == [("iOS 17", "cpu_and_gpu")] * 2


def test_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == json.loads(json.dumps(json_schema()))
    path = tmp_path / "results.schema.json"
    assert main(["schema", "-o", str(path)]) == 0
    assert capsys.readouterr() == ("", f"wrote {path}\n")
    assert path.read_text(encoding="utf-8") == printed
    assert main(["schema", "-o", str(tmp_path)]) == 8


def test_predict_classes(sample: Path, photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(sample), "--input", f"image={photo}"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0].startswith("classLabel  class ")
    assert lines[1] == "classLabel_probs  the best 5 of 10 classes"
    shares = [float(line.split()[2]) for line in lines[2:7]]
    assert shares == sorted(shares, reverse=True)
    assert main(["predict", str(sample), "--input", f"image={photo}", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["classLabel"] == max(data["classLabel_probs"], key=data["classLabel_probs"].get)


def test_predict_to_files(
    doubler: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "row.npy", np.float32([[1, 2, 3]]))
    folder = tmp_path / "out"
    inputs = ["--input", f"picture={photo}", "--input", f"row={tmp_path / 'row.npy'}"]
    assert main(["predict", str(doubler), *inputs, "-o", str(folder), "--resize", "scale-fill"]) == 0
    assert "wrote" in capsys.readouterr().err
    np.testing.assert_array_equal(np.load(folder / "twice_row.npy"), [[2, 4, 6]])
    # The optional input took its default.
    np.testing.assert_array_equal(np.load(folder / "twice_more.npy"), [8])
    picture = Image.open(folder / "twice_picture.png")
    assert (picture.size, picture.getpixel((0, 0))) == ((6, 4), (20, 40, 255, 255))


def test_results_whose_names_make_one_file_name_get_two_files(tmp_path: Path) -> None:
    from coremlscope.cli.predict import _save

    files = _save({"a/b": np.zeros(1), "a:b": np.ones(1), "a_b": "text"}, tmp_path)
    assert [file.name for file in files] == ["a_b.npy", "a_b_2.npy", "a_b_3.json"]
    assert np.load(files[1]) == 1


def test_predict_from_typed_values(doubler: Path, photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ["--input", f"picture={photo}", "--input", "row=1.5", "--input", "more=7", "--shape", "row=1x2"]
    assert main(["predict", str(doubler), *inputs, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["twice_row"]["elements"] == [3.0, 3.0]
    assert data["twice_more"] == {"dtype": "int32", "shape": [1], "elements": [14]}


def test_predict_rounded_to_fp16(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (ir.Value(name, ir.TensorType(ir.DType.FP16, (2,))) for name in "xy")
    square = ir.Op(id="main/0", type="mul", inputs={"x": (x,), "y": (x,)}, outputs=(y,))
    features = (ir_models.array_feature(name, (2,), ir.DType.FP16) for name in "xy")
    interface = [next(features)], [next(features)]
    square_of = ir_models.model(
        *interface, {"main": ir.Graph(name="main", inputs=(x,), ops=(square,), outputs=(y,))}
    )
    write_mlpackage(square_of, tmp_path / "square.mlpackage")
    np.save(tmp_path / "x.npy", np.float32([300, 45.03125]))
    arguments = ["predict", str(tmp_path / "square.mlpackage"), "--input", f"x={tmp_path / 'x.npy'}"]
    arguments += ["--json", "-", "--precision"]
    assert main([*arguments, "fp32"]) == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out)["y"]["elements"], printed.err) == ([90000.0, 45.03125**2], "")
    assert main([*arguments, "fp16"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["y"]["elements"] == [None, 2028.0]  # JSON has no infinity
    assert "warning: mul 'y' reaches 9e+04, and the largest fp16 number is 65504: one" in printed.err


def test_export(doubler: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    assert main(["export", str(doubler), str(path), "--shape", "row=1x5"]) == 0
    assert capsys.readouterr().err.startswith(f"wrote {path} (")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    shapes = {
        info.name: [d.dim_value for d in info.type.tensor_type.shape.dim]
        for info in (*model.graph.input, *model.graph.output)
    }
    expected = {"picture": [1, 3, 4, 6], "row": [1, 5], "more": [1]}
    assert shapes == {**expected, **{f"twice_{name}": shape for name, shape in expected.items()}}
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert properties["author"] == "somebody"
    assert properties["key"] == "value"
    assert properties["coremlscope.source"] == "doubler.mlpackage"
    assert model.doc_string == "Doubles."


@pytest.mark.parametrize("limit", [None, 0])
def test_exported_classifier_runs_elsewhere(
    sample: Path, photo: Path, tmp_path: Path, limit: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    model = container.read(sample)
    files = export_onnx(model, path, **({} if limit is None else {"largest_embedded": limit}))
    assert [file.name for file in files][:1] == ["m.onnx"]
    assert len(files) == (1 if limit is None else 2)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    pixels = np.empty((1, 3, 32, 32), np.float32)
    pixels[:] = np.float32([10, 20, 200]).reshape(1, 3, 1, 1)
    results = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, {"image": pixels}), strict=True)
    )
    labels = json.loads(session.get_modelmeta().custom_metadata_map["coremlscope.labels"])
    assert main(["predict", str(sample), "--input", f"image={photo}", "--json", "-"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert labels["classLabel"][int(results["classLabel"].reshape(-1)[0])] == expected["classLabel"]
    given = dict(
        zip(labels["classLabel_probs"], results["classLabel_probs"].reshape(-1).tolist(), strict=True)
    )
    assert given == pytest.approx(expected["classLabel_probs"], abs=1e-6)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(
        "import sys, helper_of_script\n"
        "print(__name__, sys.argv[1:], helper_of_script.WORD)\n"
        "if 'fail' in sys.argv: raise ValueError('on purpose')\n"
        "if 'leave' in sys.argv: sys.exit(7)\n"
        "if 'speak' in sys.argv: sys.exit('goodbye')\n"
    )
    (tmp_path / "helper_of_script.py").write_text("WORD = 'found'\n")
    return path


def test_run_leaves_the_collector_of_the_program_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import gc; print(gc.isenabled(), gc.get_threshold())\n")
    commands = ([], ["-m", "coremlscope", "run"])
    plain, ours = (
        subprocess.run([sys.executable, *one, str(script)], check=True, capture_output=True).stdout
        for one in commands
    )
    assert ours == plain


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("fail", 1), ("leave", 7), ("speak", 1)])
def test_run(script: Path, word: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(["run", str(script), word, "-o", "x"]) == code
    finally:
        uninstall()
    printed = capsys.readouterr()
    assert printed.out == f"__main__ ['{word}', '-o', 'x'] found\n"
    if word == "fail":
        assert printed.err.splitlines()[1].startswith(f'  File "{script}", line 3')
        assert "runpy" not in printed.err
    elif word == "speak":
        assert printed.err == "goodbye\n"
    else:
        assert printed.err == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit memory")
@pytest.mark.parametrize("verb", ["isolate", "verify"])
def test_strangers_models_run_within_limits(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    own = {
        "isolate": ["--type", "conv", "-o", str(tmp_path / "part.mlpackage")],
        "verify": ["--reference", str(sample)],
    }
    skip_unless_limited(ChildLimits(memory_bytes=10**6))
    assert main([verb, str(sample), *own[verb], "--memory", "1MB", "--quiet"]) == 10
    assert "took more than 0.001 GB of memory" in capsys.readouterr().err
