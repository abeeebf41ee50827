"""What is said first of models whose first words were wrong: hazards, doubts, the setting that helps most."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from coremlscope import api
from coremlscope.devices import ComputeUnits
from coremlscope.model import ir
from coremlscope.planning.answer.comparison import compare_answers, ratio_errors
from coremlscope.planning.answer.doubts import FEW_FIGURES
from coremlscope.results.answer import Answer
from tests.support.ir_models import array_feature
from tests.support.pipelines import arithmetic, pipeline

_SHARED = Path(__file__).parents[3] / "shared"
_CORPUS = _SHARED / "corpus" / "models"


def _of_corpus(name: str, device: str = "m1", os: str | None = None) -> Answer:
    (path, *_) = sorted(_SHARED.rglob(name)) or [None]
    if path is None:
        pytest.skip("the corpus is absent")
    return api.answer(path, device, os=os).answers[0]


def test_an_undecided_plan_names_its_doubt_and_the_faster_setting() -> None:
    found = _of_corpus("Es2EnCharDecoder.mlmodel")
    assert found.changes[0].id == "setting"
    assert "CPU only or CPU + NE" in found.changes[0].text
    assert found.changes[0].certainty == found.trust.certainty == "unclear"
    assert "too close to call" in found.trust.doubts[0]
    assert found.headline.index("unclear") < found.headline.index("CPU only")
    assert found.headline.count("unclear") == 1, "the change is as sure as the speed"


@pytest.mark.parametrize("name", ["HealthySnacks.mlmodel", "NSFW.mlmodel"])
def test_of_an_unknown_stage_no_setting_is_advised(name: str) -> None:
    found = _of_corpus(name)
    assert found.headline.startswith("at least")
    assert found.trust.certainty == "unknown"
    assert "Vision feature print" in found.trust.doubts[0]
    assert found.best is None
    assert not any(one.id == "setting" for one in found.changes)


def test_the_reason_that_holds_most_time_comes_first() -> None:
    found = _of_corpus("kokoro_duration.mlpackage", "m4")
    assert "launches and changes of unit" in found.why[0].text
    assert found.why[0].share > 0.5
    assert found.headline.startswith("Weights are absent")


def test_a_published_latency_outside_of_the_interval_is_the_first_doubt() -> None:
    found = _of_corpus("resnet18-224.mlpackage", "iphone-11-pro", "13.5")
    assert found.headline.startswith("This model does not load on iOS 13.5")
    assert found.trust.doubts[0].startswith("8.00 ms on the Neural Engine under iOS 13.5.1, published by")
    assert found.trust.accuracy == ""


@pytest.mark.parametrize(
    ("network", "setting", "published_ms"),
    [
        ("resnet18-224", "all", {8}),
        ("resnet18-224", "cpu_and_gpu", {35}),
        ("resnet18-224", "cpu_only", {20}),
        ("resnet50-224", "all", {9, 10}),
        ("resnet50-224", "cpu_and_gpu", {45, 50}),
        ("resnet50-224", "cpu_only", {66, 70}),
    ],
)
def test_published_latencies_are_of_the_network_chip_setting_and_system(
    network: str, setting: ComputeUnits, published_ms: set[int], tmp_path: Path
) -> None:
    path = _SHARED / "knowledge" / "latency" / "models" / f"{network}.mlpackage"
    if not path.exists():
        pytest.skip("the models are absent")
    # By its structure, whatever the file is called.
    other = tmp_path / "another name.mlpackage"
    other.symlink_to(path)
    for file in (path, other):
        trust = api.answer(file, "iphone-11-pro", os="13.5", compute_units=setting).answers[0].trust
        assert {round(one.seconds * 1e3) for one in trust.published} == published_ms
        assert all(one.is_believed for one in trust.published)
    newest = api.answer(path, "iphone-11-pro", compute_units=setting).answers[0].trust
    assert {round(one.seconds * 1e3) for one in newest.published} == published_ms
    assert not any(one.is_believed for one in newest.published)
    assert not any("counts more" in text for text in newest.doubts)


def test_the_accuracy_is_that_of_the_rows_that_an_estimate_cites() -> None:
    path = _SHARED / "knowledge" / "latency" / "models" / "resnet50-224.mlpackage"
    if not path.exists():
        pytest.skip("the models are absent")
    made = api.estimate(path, "iphone-18-pro", explain=True)
    ratios = [row.estimated_s / row.measured_s for row in made.estimates[0].near]
    assert f"{min(ratios):.2f} to {max(ratios):.2f} ×" in made.answers[0].trust.accuracy


def test_two_encoders_are_compared_by_their_best_settings() -> None:
    paths = sorted(_CORPUS.rglob("streaming_encoder*.mlpackage"))
    if not paths:
        pytest.skip("the corpus is absent")
    second, first = paths
    base, other = (api.answer(path, "m1").answers for path in (first, second))
    pair, *under = compare_answers(base, other)
    assert pair.is_best
    assert [one.before.compute_units for one in under] == [one.compute_units for one in base]
    assert (pair.before.compute_units, pair.after.compute_units) == ("cpu_and_ne", "all")
    assert pair.ratio.value == pair.after.latency.value / pair.before.latency.value
    assert pair.ratio.low <= pair.ratio.value <= pair.ratio.high


def test_errors_of_one_chip_move_together() -> None:
    found = ratio_errors("m", "neural_engine", "neural_engine")
    assert found is not None
    assert -0.3 < found[0] < 0 < found[1] < 0.3


def test_a_doubt_of_the_chip_does_not_make_the_ratio_of_two_on_one_unit_doubtful() -> None:
    slow, fast = (
        _of_corpus(name, "iphone-15-pro") for name in ("FindFour.mlmodel", "model_hourglass.mlmodel")
    )
    assert slow.trust.doubts == fast.trust.doubts == (FEW_FIGURES[1],)
    (pair, *_) = compare_answers([slow], [fast])
    assert (pair.verdict, pair.doubts) == ("faster", ())
    elsewhere = msgspec.structs.replace(fast, units={"cpu": 1.0})
    (pair, *_) = compare_answers([slow], [elsewhere])
    assert (pair.verdict, pair.doubts) == ("unclear", (FEW_FIGURES[1],))


def _decoder() -> ir.Model:
    """A step of a decoder with a mask, whose attention is worth the Neural Engine."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    heads, length, depth = 16, 2048, 128
    cache, one = (1, heads, length, depth), (1, heads, 1, depth)
    rng = np.random.default_rng(0)

    def weight(outputs: int) -> np.ndarray:
        return (rng.random((outputs, heads * depth)) * 0.01).astype(np.float16)

    @mb.program(
        input_specs=[
            mb.TensorSpec(one, types.fp16),
            mb.TensorSpec((1, 1, 1, length), types.fp16),
            mb.StateTensorSpec(cache, types.fp16),
            mb.StateTensorSpec(cache, types.fp16),
        ],
        opset_version=ct.target.iOS18,
    )
    def program(x, mask, keys, values):  # type: ignore[no-untyped-def]
        for _ in range(4):
            every = []
            for state in (keys, values):
                held = mb.read_state(input=state)
                held = mb.slice_update(x=held, update=x, begin=[0, 0, 0, 0], end=list(one))
                every.append(mb.coreml_update_state(state=state, value=held))
            x = mb.scaled_dot_product_attention(query=x, key=every[0], value=every[1], attn_mask=mask)
            flat = mb.reshape(x=x, shape=[1, heads * depth])
            x = mb.reshape(x=mb.linear(x=flat, weight=weight(heads * depth)), shape=list(one))
        return mb.linear(x=mb.reshape(x=x, shape=[1, heads * depth]), weight=weight(32_000), name="y")

    made = ct.convert(program, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
    return api.read(Path(made.package_path))


def test_a_known_wrong_value_is_the_first_sentence_and_no_change_leads_into_it() -> None:
    pytest.importorskip("coremltools")
    answers = api.answer(_decoder(), ["iphone-18-pro", "m4"], compute_units="every").answers
    hazardous = {one.compute_units for one in answers if one.device == "iPhone 18 Pro" and one.is_hazardous}
    assert hazardous
    for one in answers:
        if one.is_hazardous:
            assert one.headline.startswith("The Neural Engine ignores the mask")
            assert one.changes[0].id == "avoid"
        assert one.best is not None
        assert one.device != "iPhone 18 Pro" or one.best.compute_units in {one.compute_units} | (
            {"all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"} - hazardous
        )


def test_a_refused_pipeline_is_said_before_its_speed() -> None:
    first, second = arithmetic("add", "m", "x"), arithmetic("mul", "y", "m")
    given, result = array_feature("x", (3,)), array_feature("y", (3,), ir.DType.FP64)
    found = api.answer(pipeline([given], [result], first, second), "m1").answers[0]
    assert found.headline.startswith("Core ML refuses this model")
    assert "If it loaded, about" in found.headline
    assert found.is_hazardous
