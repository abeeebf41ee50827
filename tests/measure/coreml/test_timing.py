"""Core ML timed through coremltools; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import coremltools as ct
import msgspec.structs
import numpy as np
import pytest
from PIL import Image

from coremlscope import api
from coremlscope.base.errors import EngineError, InputError, UnsupportedModelError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.processes.endings import explain
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.measure.coreml.failures import FAILURES
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.coreml.values import load_values, save_values
from coremlscope.measure.generation import check_decoder, measure_generation
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.model.ir import (
    ArrayFeature,
    DictionaryFeature,
    DType,
    Feature,
    FunctionDescription,
    ImageFeature,
    Int64Feature,
    Model,
    SequenceFeature,
    StringFeature,
)
from coremlscope.results.measurement import Conditions, Machine, Settings
from coremlscope.runtime.engines.host import this_machine
from tests.support import converted_models
from tests.support.coreml_children import TIMING_CHILD, scripted_timing_child
from tests.support.decoders import ROOM, save_flexible_decoder
from tests.support.ir_models import perceptron
from tests.support.later import minutes_later
from tests.support.preloaded import preloaded_child
from tests.support.processes import skip_unless_limited

SHORT = Settings(compute_units="cpu_only", iterations=2, compile_iterations=1, load_iterations=1, warmups=1)


def subject_of(model: Model) -> MeasuredModel:
    return MeasuredModel.of(model, resolve_settings(model, Settings()))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "classifier.mlpackage"
    converted_models.classifier().save(str(path))
    return path


def test_a_process_of_its_own_times(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    states: list[tuple[str, int, int]] = []
    settings = Settings(
        compute_units="cpu_only", iterations=4, compile_iterations=2, load_iterations=2, warmups=3
    )
    measured = CoreMLMeasurer(command=TIMING_CHILD).measure(
        subject_of(container.read(package)), settings, progress=lambda *state: states.append(state)
    )
    assert measured.predict is not None
    assert measured.load is not None
    assert (measured.compute_units, measured.settings) == ("cpu_only", settings)
    assert (len(measured.predict.samples_s), len(measured.predict.warmups_s)) == (4, 3)
    # The first load compiles for the device.
    assert measured.first_load is not None
    assert (len(measured.first_load.samples_s), len(measured.load.samples_s)) == (1, 2)
    assert min(measured.predict.samples_s) > 0
    done = [phase for phase, done, _ in states if done]
    assert done == [*["compile"] * 2, "first load", *["load"] * 2, *["warm-up"] * 3, *["predict"] * 4]
    # A phase of minutes is shown while it runs.
    assert states.index(("first load", 0, 1)) + 1 == states.index(("first load", 1, 1))
    assert states[-1] == ("predict", 4, 4)
    assert measured.label.startswith("Core ML on ")
    assert (measured.runtime.id, measured.runtime.name) == ("coreml", "Core ML")
    # Core ML's predictions are timed as a whole.
    assert (measured.groups, measured.status) == ((), ())
    assert measured.measured_at
    assert measured.compile is not None
    assert (len(measured.compile.samples_s), measured.compile.warmups_s) == (2, ())
    assert measured.peak_memory_bytes is not None
    assert measured.peak_memory_bytes > 10**7
    # The drop-in has coremltools' clock around a call; it starts later and ends earlier than the wall clock.
    for phase in (measured.first_load, measured.load, measured.predict):
        assert phase.through_python is not None
        pairs = zip(phase.samples_s, phase.through_python.samples_s, strict=True)
        assert all(0 < own <= wall for own, wall in pairs)
    assert measured.compile.through_python is None
    assert measured.runtime.through == f"coremltools {ct.__version__}"
    assert measured.findings == ()
    # Nothing is left behind.
    assert list(tmp_path.glob("*/[!.]*")) == []


@pytest.mark.parametrize(
    ("end", "error", "cause"),
    [
        ("os.abort()", "Core ML under cpu_only failed: Core ML aborted the process (SIGABRT)", "failed"),
        ("sys.exit(0)", "Core ML under cpu_only made no predictions", "failed"),
        ("import time; time.sleep(60)", "Core ML under cpu_only took longer than 600 s", "limit"),
    ],
)
def test_what_was_timed_before_is_kept(
    package: Path, end: str, error: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = scripted_timing_child(f"if (phase, number) == ('predict', 1): {end}")
    measured = CoreMLMeasurer(command=command, limits=ChildLimits(time_s=600.0)).measure(
        subject_of(container.read(package)),
        msgspec.structs.replace(SHORT, iterations=9),
        progress=minutes_later(monkeypatch) if cause == "limit" else None,
    )
    assert measured.partial is not None
    assert (measured.partial.cause, measured.partial.phase) == (cause, "predict")
    assert measured.partial.text == f"{error} (phase: predict)"
    counts = {name: len(phase.samples_s) for name, phase in measured.phases.items()}
    assert counts == {"compile": 1, "first load": 1, "load": 1, "predict": 2}
    assert [finding.id for finding in measured.findings] == ["partial"]


@pytest.mark.usefixtures("free_units")
def test_on_a_mac_every_setting_is_measured(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREMLSCOPE_ENGINE", raising=False)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("coremlscope.api.sources.power_mode", lambda: "low power")
    monkeypatch.setattr("coremlscope.runtime.engines.host.power_mode", lambda: "low power")
    monkeypatch.setattr("coremlscope.measure.coreml.timing.this_machine", this_machine)
    measurer = partial(CoreMLMeasurer, command=scripted_timing_child())
    monkeypatch.setattr("coremlscope.measure.coreml.timing.CoreMLMeasurer", measurer)
    (profile,) = api.compare(package, compute_units=["all", "cpu_only"], iterations=2).profiles
    # The child that is scripted here makes no plans.
    assert {finding.id for finding in profile.findings} == {"no-core-ml-plan"}
    assert [(m.settings.compute_units, m.machine.power_mode) for m in profile.measurements] == [
        ("all", "low power"),
        ("cpu_only", "low power"),
    ]


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        ("raise SystemExit('no such model')", ChildLimits(), "failed: no such model"),
        ("import time; time.sleep(60)", ChildLimits(silence_s=0.3), "no sign of life"),
        (
            "import time; x = bytearray(10**8); time.sleep(60)",
            ChildLimits(memory_bytes=5 * 10**6),
            "of memory",
        ),
        ("print('a remark')", ChildLimits(), "made no predictions"),
        ("import os; os.abort()", ChildLimits(), "failed: Core ML aborted the process"),
        ("import os; os.kill(os.getpid(), 9)", ChildLimits(), "killed the process"),
        ("import sys; sys.exit('No module named 'coremltools'')", ChildLimits(), "not installed"),
    ],
)
def test_what_can_go_wrong(package: Path, code: str, limits: ChildLimits, message: str) -> None:
    skip_unless_limited(limits)
    measurer = CoreMLMeasurer(limits=limits, command=[sys.executable, "-c", code])
    with pytest.raises(EngineError, match=message):
        measurer.measure(subject_of(container.read(package)), SHORT)


def test_models_in_memory_are_refused() -> None:
    with pytest.raises(EngineError, match="in memory"):
        CoreMLMeasurer(command=TIMING_CHILD).measure(subject_of(perceptron()), Settings(iterations=1))


def test_zipped_packages_are_unpacked(package: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "zipped"), "zip", package.parent, package.name)
    measured = CoreMLMeasurer(command=TIMING_CHILD).measure(subject_of(container.read(archive)), SHORT)
    assert measured.predict is not None


def test_compiled_models_are_not_compiled_again(package: Path, tmp_path: Path) -> None:
    code = (
        "import coremlscope, sys; coremlscope.install(); from coremltools.models.utils import compile_model"
    )
    folder = tmp_path / "classifier.mlmodelc"
    command = preloaded_child(f"{code}; compile_model(*sys.argv[1:])")
    subprocess.run([*command, str(package), str(folder)], check=True)
    measured = CoreMLMeasurer(command=TIMING_CHILD).measure(subject_of(container.read(folder)), SHORT)
    assert sorted(measured.phases) == ["first load", "load", "predict"]
    (finding,) = measured.findings
    assert finding.id == "already-compiled"
    assert "compilation was not measured" in finding.text


def test_given_values_reach_the_model(package: Path, tmp_path: Path) -> None:
    """The drop-in rejects an image of another size, so that a given image is seen to arrive."""
    image = Image.new("RGBA", (8, 8))
    model = container.read(package)
    interface = model.description.main
    (feature,) = interface.inputs
    assert isinstance(feature.type, ImageFeature)
    image = image.resize((feature.type.width, feature.type.height))
    measured = CoreMLMeasurer(command=TIMING_CHILD).measure(
        subject_of(model), SHORT, inputs={feature.name: image}
    )
    assert measured.predict is not None
    with pytest.raises(InputError):
        CoreMLMeasurer(command=TIMING_CHILD).measure(subject_of(model), SHORT, inputs={feature.name: "text"})


def test_states_and_functions(tmp_path: Path) -> None:
    stateful, functions = tmp_path / "stateful.mlpackage", tmp_path / "functions.mlpackage"
    converted_models.accumulator().save(str(stateful))
    converted_models.sine_and_cosine(functions)
    for path in (stateful, functions):
        for function in container.read(path).description.functions:
            model = container.read(path)
            settings = resolve_settings(model, msgspec.structs.replace(SHORT, function=function))
            measured = CoreMLMeasurer(command=TIMING_CHILD).measure(
                MeasuredModel.of(model, settings), settings
            )
            assert measured.settings.function == function
            assert measured.predict is not None


def test_flexible_shapes(tmp_path: Path) -> None:
    path = tmp_path / "flexible.mlpackage"
    converted_models.mlp(flexible=ct.EnumeratedShapes([(2, 8), (5, 8)])).save(str(path))
    model = container.read(path)
    (feature,) = model.description.main.inputs
    shape = (5, 8)
    settings = resolve_settings(model, msgspec.structs.replace(SHORT, shapes={feature.name: shape}))
    measured = CoreMLMeasurer(command=TIMING_CHILD).measure(MeasuredModel.of(model, settings), settings)
    assert measured.settings.shapes == {feature.name: shape}


def test_values_survive_the_way_to_the_child(tmp_path: Path) -> None:
    features = [
        Feature("x", ArrayFeature(dtype=DType.FP16, shape=(2,))),
        Feature("n", Int64Feature()),
        Feature("d", DictionaryFeature("int64")),
        Feature("s", StringFeature()),
        Feature("i", ImageFeature("GRAYSCALE", 2, 2)),
    ]
    interface = FunctionDescription(inputs=tuple(features), outputs=())
    values = {
        "x": np.array([1.5, 2], np.float16),
        "n": np.int64(3),
        "d": {1: 2.0},
        "s": "word",
        "i": np.full((2, 2), 7),
    }
    save_values(interface, values, tmp_path)
    loaded = load_values(tmp_path)
    assert loaded["x"].dtype == np.float32
    assert loaded["x"].tolist() == [1.5, 2]
    assert (loaded["n"], loaded["d"], loaded["s"]) == (3, {1: 2.0}, "word")
    assert (loaded["i"].mode, loaded["i"].getpixel((1, 1))) == ("L", 7)


def test_sequences_are_refused(tmp_path: Path) -> None:
    interface = FunctionDescription(inputs=(Feature("s", SequenceFeature("string", (1, -1))),), outputs=())
    with pytest.raises(UnsupportedModelError, match="cannot pass sequences"):
        save_values(interface, {"s": ["a"]}, tmp_path)


@pytest.mark.parametrize(
    ("code", "said", "message"),
    [
        (1, "x\nRuntimeError: model execution plan of 'm.mil' with error code: -14.", "error code: -14"),
        (-6, "ios_base::failure: a. It is not a valid .mlmodelc file.", "not a compiled model"),
        (139, "", "crashed (SIGSEGV)"),
        (-15, "last", "ended by SIGTERM; its last words: last"),
        (3, "", "exit code 3"),
    ],
)
def test_ends_are_explained(code: int, said: str, message: str) -> None:
    assert message in explain(code, said, FAILURES)[0]


def test_without_coremltools_a_comparison_is_of_the_embedded_runtime(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COREMLSCOPE_ENGINE", raising=False)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("coremlscope.measure.coreml.files.importlib.util.find_spec", lambda _: None)
    (profile,) = api.compare(package, iterations=1).profiles
    assert [measured.runtime.id for measured in profile.measurements] == ["onnxruntime"]
    assert [finding.id for finding in profile.findings] == ["core-ml-not-measured"]


def test_the_label_and_findings_of_a_mac(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mac = Machine(processor="Apple M1 (Virtual)", os="macOS 15.1 (arm64)", power_mode="normal")
    before_and_after = [
        Conditions("normal", "AC Power", "nominal"),
        Conditions("low power", "AC Power", "heavy"),
    ]
    states = iter(before_and_after)
    monkeypatch.setattr("coremlscope.measure.coreml.timing.this_machine", lambda: mac)
    monkeypatch.setattr("coremlscope.measure.coreml.timing.conditions", lambda: next(states))
    measured = CoreMLMeasurer(command=scripted_timing_child()).measure(
        subject_of(container.read(package)), SHORT
    )
    assert measured.label == "Core ML on M1 (Virtual), macOS 15.1"
    assert [finding.id for finding in measured.findings] == [
        "virtual-machine",
        "power-mode-changed",
        "thermal-state-changed",
    ]
    assert [measured.before, measured.after] == before_and_after


def test_tokens_of_a_decoder_through_coremltools(tmp_path: Path) -> None:
    path = tmp_path / "decoder.mlpackage"
    save_flexible_decoder(path)
    model = container.read(path)
    shapes = {"ids": (1, 1), "mask": (1, 1, 1, 24)}
    asked = msgspec.structs.replace(SHORT, compute_units="cpu_only", shapes=shapes)
    whole = ScriptedMeasurer().measure(MeasuredModel.of(model, asked), asked)
    measurer = CoreMLMeasurer(command=TIMING_CHILD)
    timings, findings = measure_generation(measurer, model, check_decoder(model, asked), [whole], 3)
    (one,) = timings
    assert (one.phase, one.attended, one.context, one.compute_units) == ("decode", 24, ROOM, "cpu_only")
    assert one.label.startswith("Core ML on ")
    assert one.predict.statistics.count == 3
    assert one.tokens_per_s.value == pytest.approx(1 / one.predict.statistics.median)
    # Core ML keeps the cache in the type of the file.
    assert one.held_bytes is None
    assert one.peak_memory_bytes is not None
    assert not findings
