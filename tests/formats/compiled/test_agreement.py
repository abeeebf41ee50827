"""Models and their compiled forms by Apple's compiler, where the corpus has both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.dropin.installation import install, uninstall
from coremlscope.formats import container
from coremlscope.model import ir
from tests.support.mil_programs import comparable
from tests.support.planned_rows import rows

pytestmark = pytest.mark.corpus

_MOBIUS = "FluidInference__mobius"
#: Of the other models with both forms (`unified_int8`, …), the two forms are of different versions.
_PAIRS = (
    f"{_MOBIUS}/silero-vad-unified-v6.0.0",
    f"{_MOBIUS}/silero-vad-unified-256ms-v6.0.0",
    *(
        f"{_MOBIUS}/unified_256ms_{kind}"
        for kind in ("int8", "palette_4bit", "palette_6bit", "palette_8bit", "pruned_int8")
    ),
)
_WITHOUT_WEIGHTS = (
    "FluidInference__FluidAudio/streaming_encoder",
    "FluidInference__FluidAudio/streaming_encoder-2",
)
_VERSIONS = tuple(f"{_MOBIUS}/unified_{kind}" for kind in ("int8", "palette_4bit", "pruned_int8"))
_COMPILED = tuple(
    f"FluidInference__FluidAudio/{name}"
    for name in (
        "Argmax",
        "TokenDurationPrediction",
        "TransposeEncoder",
        "decoder",
        "joint_decision",
        "parakeet_eou_preprocessor",
    )
)


def _paths(corpus: Path, name: str) -> tuple[Path, Path]:
    return corpus / "models" / f"{name}.mlpackage", corpus / "models" / f"{name}.mlmodelc"


def _inputs(model: ir.Model, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        feature.name: 0.1 * generator.standard_normal(feature.type.shape).astype(np.float32)  # type: ignore[union-attr]
        for feature in model.description.main.inputs
    }


def _histogram(model: ir.Model) -> Counter[str]:
    assert isinstance(model.content, ir.Program)
    return Counter(op.type for function in model.content.functions.values() for op in function.graph.walk())


@pytest.mark.parametrize("name", _PAIRS + _WITHOUT_WEIGHTS)
def test_interface_and_graph(corpus: Path, name: str) -> None:
    source, compiled = map(container.read, _paths(corpus, name))
    assert isinstance(source.content, ir.Program)
    assert isinstance(compiled.content, ir.Program)
    assert compiled.description == source.description
    assert compiled.metadata == source.metadata
    assert compiled.spec_version == source.spec_version
    assert _histogram(compiled) == _histogram(source)
    # The compiler adds its version to the attributes of the program.
    assert comparable(compiled.content)[0] == comparable(source.content)[0]


@pytest.mark.parametrize("name", _PAIRS)
def test_predictions(corpus: Path, name: str) -> None:
    package, compiled = _paths(corpus, name)
    model = container.read(package)
    with coremlscope.open(package) as source, coremlscope.open(compiled) as other:
        for seed in range(10):
            given = _inputs(model, seed)
            found = other.predict(given)
            for output, value in source.predict(given).items():
                scale = float(np.abs(value).max())
                assert float(np.abs(found[output] - value).max()) <= 1e-3 * scale


@pytest.mark.parametrize("name", _PAIRS[:3] + _WITHOUT_WEIGHTS[:1])
def test_plans(corpus: Path, name: str) -> None:
    units = []
    for path in _paths(corpus, name):
        profile = coremlscope.plan(path, "m1")
        planned = rows(profile.plans[0])
        units.append({op.output_names: op.unit for op in planned if not op.inserted})
    assert units[0]
    assert units[0] == units[1]


@pytest.mark.parametrize("name", _PAIRS[:2])
def test_dropin_predicts_as_the_package(corpus: Path, name: str) -> None:
    import coremltools as ct

    package, compiled = _paths(corpus, name)
    given = _inputs(container.read(package), 0)
    install()
    try:
        found = ct.models.CompiledMLModel(str(compiled)).predict(given)
        expected = ct.models.MLModel(str(package)).predict(given)
    finally:
        uninstall()
    assert found.keys() == expected.keys()
    for output, value in expected.items():
        np.testing.assert_allclose(found[output], value, rtol=1e-3, atol=1e-6)


def test_compare_says_that_nothing_changed(corpus: Path) -> None:
    comparison = coremlscope.compare(*map(str, _paths(corpus, _PAIRS[0])), iterations=2)
    assert set(comparison.differing) == {"file", "compiled by"}
    (difference,) = comparison.differences
    assert (difference.added, difference.removed, difference.renamed, difference.types) == ((), (), 0, {})
    assert difference.compiled == ("no operation changed",)


@pytest.mark.parametrize("name", _VERSIONS)
def test_compare_says_what_changed(corpus: Path, name: str) -> None:
    source, compiled = _paths(corpus, name)
    comparison = coremlscope.compare(str(source), str(compiled), iterations=2)
    (difference,) = comparison.differences
    assert difference.types == {
        "add": (3, 2),
        "log": (1, 0),
        "pad": (0, 1),
        "reduce_mean": (1, 0),
        "relu": (4, 5),
    }
    facts = [subject.facts["constants"] for subject in comparison.subjects]
    assert facts == ["83", "82"]
    assert difference.compiled == ()  # Their metadata say that these are different versions.


@pytest.mark.parametrize("name", _COMPILED)
def test_models_without_source_run(corpus: Path, name: str, tmp_path: Path) -> None:
    path = _paths(corpus, name)[1]
    model = container.read(path)
    assert coremlscope.inspect(path).facts
    assert coremlscope.plan(path, "m1").plans
    assert coremlscope.estimate(path, "m1").estimates
    assert coremlscope.profile(
        coremlscope.Subject(path, random_weights=True), iterations=1
    ).measurement.predict
    if all(file.size is not None for file in model.weight_files):
        coremlscope.export(path, tmp_path / "m.onnx")
        assert (tmp_path / "m.onnx").stat().st_size
