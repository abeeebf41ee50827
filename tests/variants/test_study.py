from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import coremltools as ct
import coremltools.optimize.coreml as cto
import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.base.errors import (
    EngineError,
    MissingDependencyError,
    MissingWeightsError,
    OutputError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.base.figures import Figure
from coremlscope.formats import container
from coremlscope.formats.mlpackage import MANIFEST
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.planning.answer.comparison import compare_answers
from coremlscope.planning.rewrites.transforms import parse_transform
from coremlscope.results.answer import AnswerTrust
from coremlscope.results.variants import ORIGINAL, Variant, VariantReport
from coremlscope.studies.variants import study
from coremlscope.studies.variants.study import apply_variant, what_if
from coremlscope.studies.variants.worker import VariantJob
from tests.support import converted_models, ir_models
from tests.support.networks import network, random

TRIED = ("fp16-io", "palettize-4", "int8", "prune-50", "int4-block-32+prune-50", "fp16", "w8a8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers in fp16, with weights that coremltools compresses."""
    random = np.random.default_rng(3)
    first, second = (random.standard_normal((n, 128)).astype(np.float32) / 10 for n in (128, 96))

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 128))], opset_version=ct.target.iOS16)
    def program(x):
        return mb.linear(x=mb.relu(x=mb.linear(x=x, weight=first)), weight=second, name="y")

    made = ct.convert(program, minimum_deployment_target=ct.target.iOS16, skip_model_load=True)
    path = tmp_path_factory.mktemp("variants") / "layers.mlpackage"
    made.save(str(path))
    return path


@pytest.fixture(scope="module")
def inputs() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(4)
    return [{"x": random.standard_normal((1, 128)).astype(np.float32)} for _ in range(3)]


@pytest.fixture(scope="module")
def report(model: Path, inputs: list[dict[str, np.ndarray]]) -> VariantReport:
    return what_if(model, transforms=TRIED, devices=["iphone-13", "m1"], inputs=inputs, workers=1)


def variant(report: VariantReport, name: str) -> Variant:
    return next(one for one in report.variants if one.name == name)


def transformed(name: str, model: Path) -> ct.models.MLModel:
    """The same transform by direct calls."""
    original = ct.models.MLModel(str(model), skip_model_load=True)
    match name:
        case "palettize-4":
            config = cto.OpPalettizerConfig(nbits=4, weight_threshold=10_000)
            return cto.palettize_weights(original, cto.OptimizationConfig(global_config=config))
        case "int8":
            config = cto.OpLinearQuantizerConfig(mode="linear_symmetric")
            return cto.linear_quantize_weights(original, cto.OptimizationConfig(global_config=config))
        case _:
            config = cto.OpMagnitudePrunerConfig(target_sparsity=0.5)
            return cto.prune_weights(original, cto.OptimizationConfig(global_config=config))


@contextlib.contextmanager
def dropin() -> Iterator[None]:
    coremlscope.install()
    try:
        yield
    finally:
        coremlscope.uninstall()


@pytest.mark.parametrize("name", ["palettize-4", "int8", "prune-50"])
def test_sizes_and_differences_are_those_of_direct_calls(
    name: str, report: VariantReport, model: Path, inputs: list[dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path = tmp_path / "direct.mlpackage"
    transformed(name, model).save(str(path))
    found = variant(report, name)
    weights = "Data/com.apple.CoreML/weights/weight.bin"
    assert found.weights_bytes is not None
    assert 0 <= (path / weights).stat().st_size - found.weights_bytes < 2000  # headers and alignment
    assert found.size_bytes == pytest.approx(container.read(path).size_bytes, abs=200)  # ids in the manifest
    with dropin():
        before, after = ct.models.MLModel(str(model)), ct.models.MLModel(str(path))
        pairs = [(before.predict(x)["y"], after.predict(x)["y"]) for x in inputs]
    gaps = np.array([a - b for a, b in pairs])
    difference = found.difference
    assert difference is not None
    assert (difference.samples, difference.synthetic) == (3, 0)
    (output,) = difference.outputs
    energy = np.mean(np.square([a for a, _ in pairs]))
    assert output.max_abs == pytest.approx(np.abs(gaps).max(), rel=1e-4)
    assert output.snr_db == pytest.approx(10 * np.log10(energy / np.mean(gaps**2)), abs=0.01)
    assert output.top1 == np.mean([a.argmax() == b.argmax() for a, b in pairs])


def test_a_network_with_norms_behind_convolutions_is_compressed(tmp_path: Path) -> None:
    """coremltools 9.0 fails to fold them."""
    builder = network({"x": (4, 16, 16)})
    weights = random(3, 3, 4, 64)
    builder.add_convolution("c", 4, 64, 3, 3, 1, 1, "valid", 1, weights, None, False, False, None, "x", "c")
    scale, spread = 1 + random(64, seed=1) ** 2, 1 + random(64, seed=2) ** 2
    builder.add_batchnorm("n", 64, scale, random(64), random(64), spread, "c", "y")
    path = tmp_path / "n.mlmodel"
    path.write_bytes(builder.spec.SerializeToString())
    (one,) = what_if(path, transforms=["int8"], devices="m1").variants[1:]
    assert one.weights_bytes is not None
    assert one.weights_bytes < weights.nbytes / 2
    assert one.difference is not None
    snr_db = one.difference.outputs[0].snr_db
    assert snr_db is not None
    assert snr_db > 20


def test_each_variant_is_planned_and_estimated(report: VariantReport) -> None:
    assert [key[0] for key in report.keys] == ["iPhone 13", "M1"]
    for name in ("original", "int8", "palettize-4"):
        for key in report.keys:
            found = variant(report, name).forecast(key)
            assert found is not None
            latency = found.answer.latency
            assert latency is not None
            assert latency.low <= latency.value <= latency.high
            assert latency.origin == "estimated"
            assert sum(found.operations.values()) > 0
            assert found.memory.peak is not None
    original, small = variant(report, "original"), variant(report, "palettize-4")
    memory = [one.forecasts[0].memory for one in (original, small)]
    assert memory[0].weights_bytes > 3 * memory[1].weights_bytes
    assert memory[1].expanded_bytes == memory[0].expanded_bytes


def test_the_verdict_is_that_of_two_answers(report: VariantReport) -> None:
    original = variant(report, "original")
    assert [one.verdict for one in original.forecasts] == [None, None]
    for one in variant(report, "int8").forecasts:
        base, pair = original.forecast(one.key), one.verdict
        assert base is not None
        assert pair is not None
        pairs = compare_answers([base.answer], [one.answer], ("original", "int8"))
        assert pair in pairs
        assert (pair.is_best, pair.device, pair.os) == (False, *one.key[:2])
        assert pair.ratio is not None
        assert pair.ratio.low <= pair.ratio.value <= pair.ratio.high


def test_what_makes_the_original_doubtful_makes_the_verdict_doubtful(report: VariantReport) -> None:
    replace = msgspec.structs.replace
    original, small = variant(report, "original"), variant(report, "palettize-4")
    first, second = original.forecasts[0], small.forecasts[0]
    sure = AnswerTrust(certainty="likely")
    fast = Figure(1e-9, 1e-9, 1e-9, "estimated")
    after = replace(
        small, forecasts=(replace(second, answer=replace(second.answer, trust=sure, latency=fast)),)
    )
    found = []
    for trust in (sure, AnswerTrust(certainty="unclear", doubts=("a doubt",))):
        base = replace(original, forecasts=(replace(first, answer=replace(first.answer, trust=trust)),))
        pair = study.judge_variant(after, base).forecasts[0].verdict
        assert pair is not None
        found.append((pair.verdict, pair.doubts))
    assert found == [("faster", ()), ("unclear", ("original: a doubt",))]


def test_joint_compression_needs_a_newer_system(report: VariantReport) -> None:
    assert variant(report, "prune-50").platforms.startswith("iOS 16")
    joint = variant(report, "int4-block-32+prune-50")
    assert joint.platforms.startswith("iOS 18")
    assert joint.storage == "sparse affine int4"


def test_activations_are_calibrated_on_the_inputs(report: VariantReport) -> None:
    found = variant(report, "w8a8")
    assert found.failure == ""
    assert "activations calibrated on 3 of the inputs" in found.notes
    assert not any("synthetic" in note for note in found.notes)
    assert found.storage.startswith("affine int8")


def test_outputs_in_half_precision_keep_their_names(report: VariantReport) -> None:
    found = variant(report, "fp16-io")
    assert found.difference is not None
    assert [output.name for output in found.difference.outputs] == ["y"]


def test_a_variant_that_cannot_be_made_is_a_row_with_a_sentence(report: VariantReport) -> None:
    found = variant(report, "fp16")
    assert found.failure == "the model computes in fp16 already"
    assert found.size_bytes is None
    assert report.exit_code == 0


def test_a_variant_without_any_change_was_not_made(report: VariantReport) -> None:
    original = variant(report, "original")
    palettized = parse_transform("palettize-8")
    same = study._with_remark(msgspec.structs.replace(original, name="palettize-8"), palettized, original)
    assert same.failure == "no weight was compressed"
    assert (same.size_bytes, same.difference, same.forecasts) == (None, None, ())
    assert study._with_remark(variant(report, "int8"), parse_transform("int8"), original).notes == ()


def test_results_are_found_again(
    report: VariantReport,
    model: Path,
    inputs: list[dict[str, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study.VariantPool, "make", lambda *_: pytest.fail("something was made again"))
    again = what_if(model, transforms=TRIED, devices=["iphone-13", "m1"], inputs=inputs)
    assert again.variants == report.variants


def test_variants_are_made_again_by_other_code(
    report: VariantReport, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def make(_: object, jobs: Sequence[VariantJob], done: Callable[[int, Variant], None]) -> None:
        for index, job in enumerate(jobs):
            made.append(job.transform.name if job.transform else ORIGINAL)
            done(index, variant(report, made[-1]))

    monkeypatch.setattr(study.VariantPool, "make", make)
    for code in ("before a mend", "before a mend", "after it"):
        monkeypatch.setattr(study, "digest_of_code", lambda code=code: code)
        what_if(model, transforms=["int8"], devices=["m1"], seed=8)
    assert made == [ORIGINAL, "int8"] * 2


def test_files_that_come_and_go_in_a_package_change_no_key(
    report: VariantReport, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """coremltools writes a draft of the manifest beside it, where another process opens the package."""
    made: list[str] = []

    def make(_: object, jobs: Sequence[VariantJob], done: Callable[[int, Variant], None]) -> None:
        draft = model / "Manifest.draft"
        draft.write_text("{}")
        for index, job in enumerate(jobs):
            made.append(job.transform.name if job.transform else ORIGINAL)
            done(index, variant(report, made[-1]))
        draft.unlink()

    monkeypatch.setattr(study.VariantPool, "make", make)
    for _ in range(2):
        what_if(model, transforms=["int8"], devices=["m1"], seed=7)
    assert made == [ORIGINAL, "int8"]


@pytest.mark.usefixtures("_real_children")
def test_the_package_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """coremltools replaces the manifest of a package that it opens."""
    path = tmp_path / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), path)
    manifest = json.dumps({**json.loads((path / MANIFEST).read_text()), "mine": 1})
    (path / MANIFEST).write_text(manifest)
    made = what_if(path, transforms=["int8"], samples=1)
    assert [one.failure for one in made.variants] == ["", ""]
    assert (path / MANIFEST).read_text() == manifest
    monkeypatch.setattr(study.VariantPool, "make", lambda *_: pytest.fail("something was made again"))
    assert what_if(path, transforms=["int8"], samples=1).variants == made.variants


@pytest.mark.usefixtures("_real_children")
def test_a_variant_can_be_written(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.mlpackage"
    made = apply_variant(model, "int8", target)
    assert container.read(target).size_bytes == made.size_bytes
    with pytest.raises(OutputError, match="already exists"):
        apply_variant(model, "int8", target)
    with pytest.raises(OutputError, match="is read, and writing it would replace it"):
        apply_variant(model, "int8", model, overwrite=True)
    assert list(tmp_path.iterdir()) == [target]


def test_activations_calibrated_on_synthetic_inputs_say_so(model: Path, tmp_path: Path) -> None:
    made = apply_variant(model, "w8a8", tmp_path / "small.mlpackage", samples=1)
    assert any("these inputs are synthetic: calibrate on real ones" in note for note in made.notes)


def test_unknown_transforms_and_devices(model: Path) -> None:
    with pytest.raises(UsageError, match="unknown transform 'int9'"):
        what_if(model, transforms=["int9"])
    with pytest.raises(UsageError, match="unknown device"):
        what_if(model, transforms=["int8"], devices=["iphone-99"])
    with pytest.raises(UnsupportedModelError, match="fp16 cannot be applied"):
        apply_variant(model, "fp16", "x.mlpackage")


@pytest.mark.usefixtures("_real_children")
def test_without_coremltools_some_variants_are_made(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['coremltools'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = what_if(model, transforms=["int8", "ios18"], samples=1, has_cache=False)
    _, own, other = made.variants
    assert (own.failure, own.difference is not None) == ("", True)
    assert other.exit_code == MissingDependencyError.exit_code
    assert "[coreml]'" in other.hint


def test_models_of_several_functions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.mlpackage"
    converted_models.sine_and_cosine(path)
    with pytest.raises(UnsupportedModelError, match=r"one function, and this one has 2: .*sine"):
        what_if(path, transforms=["fp16-io"])


def test_models_without_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ir_models.absent_weights(ir_models.perceptron())
    monkeypatch.setattr(study.container, "read", lambda _: absent)
    if any(file.size is None for file in absent.weight_files):
        with pytest.raises(MissingWeightsError):
            what_if(tmp_path / "m.mlpackage", transforms=["int8"])


def test_what_was_complete_at_ctrl_c_is_in_the_report(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = study.VariantPool.make

    def interrupted(pool: study.VariantPool, jobs: Sequence[VariantJob], done: Callable[..., None]) -> None:
        make(pool, jobs[:2], done)
        if len(jobs) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(study.VariantPool, "make", interrupted)
    found = what_if(model, transforms=("int8", "palettize-4"), has_cache=False, workers=1)
    made = [one.name for one in found.variants if one.size_bytes is not None]
    assert (len(made), made[0], found.exit_code) == (2, "original", 130)
    (missing,) = (one for one in found.variants if one.size_bytes is None)
    assert missing.failure == "interrupted before it was made"


def test_variants_of_an_original_that_fails_are_compared_with_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = study.VariantPool.make

    def failing(pool: study.VariantPool, jobs: Sequence[VariantJob], done: Callable[..., None]) -> None:
        done(0, EngineError("the engine aborted", "leave it"))
        make(pool, jobs[1:], lambda index, answer: done(index + 1, answer))

    monkeypatch.setattr(study.VariantPool, "make", failing)
    original, variant = what_if(model, transforms=["int8"], has_cache=False, workers=1).variants
    assert original.failure == "the engine aborted"
    assert (variant.failure, variant.difference) == ("", None)
    assert variant.size_bytes


def test_absent_weights_can_be_synthetic(tmp_path: Path) -> None:
    path = tmp_path / "m.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), path)
    (weights,) = path.rglob("weight.bin")
    weights.unlink()
    with pytest.raises(MissingWeightsError):
        what_if(path, transforms=["int8"], has_cache=False)
    report = what_if(path, transforms=["int8"], devices="m1", random_weights=True, has_cache=False)
    original, variant = report.variants
    assert report.path == str(path)
    assert "random-weights" in {one.id for one in report.findings}
    assert variant.failure == ""
    assert variant.forecasts
    assert (variant.weights_bytes or 0) < (original.weights_bytes or 0)
