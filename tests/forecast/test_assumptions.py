"""What a plan assumes is said with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from coremlscope import api
from coremlscope.devices.release import OSRelease, ios, macos
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.planning.forecast.assumptions import conversion_hint, shape_notes, system_notes
from coremlscope.planning.forecast.explain import explain
from tests.forecast.test_planner import opaque, program


def flexible(flexibility: ir.ShapeFlexibility | None) -> ir.Model:
    model = program("main")
    array = ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 8), flexibility=flexibility)
    interface = replace(model.description.main, inputs=(ir.Feature("x", array),))
    return replace(model, description=ir.Description({"main": interface}, "main"))


RANGE = ir.RangeShapes(((1, 1), (1, 512)))


def test_shapes_of_flexible_inputs_are_stated() -> None:
    (default,) = shape_notes(flexible(RANGE), None, {})
    assert default.startswith("the default shapes of flexible inputs: x 1×8 of 1×(1…512); --shape")
    (asked,) = shape_notes(flexible(RANGE), None, {"x": (1, 64)})
    assert asked.startswith("shapes of flexible inputs: x 1×64 of 1×(1…512);")
    (listed,) = shape_notes(flexible(ir.EnumeratedShapes(((1, 8), (1, 16)))), "main", {})
    assert "x 1×8 of 1×8 or 1×16" in listed


def test_fixed_shapes_need_no_note() -> None:
    assert not list(shape_notes(flexible(None), None, {}))


@pytest.mark.parametrize(
    ("system", "needed"),
    [(ios(17), "iOS 18"), (macos(14, 5), "macOS 15"), (ios(18), ""), (macos(27), "")],
)
def test_a_system_that_does_not_load_the_model_is_named(system: OSRelease, needed: str) -> None:
    notes = list(system_notes(program("main"), system))
    assert len(notes) == bool(needed)
    if needed:
        reason = f"specification version 9 needs {needed}"
        assert notes[0].startswith(f"this model does not load on {system}: {reason};")


def test_plans_state_both() -> None:
    profile = api.plan(flexible(RANGE), "m1", os="14")
    (note,) = profile.plans[0].notes
    assert note.startswith("this model does not load on macOS 14:")
    assert [one.id for one in profile.findings].count("assumed-shapes") == 1


def test_models_without_operations_need_neither() -> None:
    (note,) = api.plan(opaque(), "m1").plans[0].notes
    assert "it has no operations to plan" in note


def test_estimates_state_shapes_once() -> None:
    profile = api.estimate(flexible(RANGE), "m1")
    (finding,) = [one for one in profile.findings if one.id == "assumed-shapes"]
    assert finding.text == "Estimated for the default shapes of flexible inputs: x 1×8 of 1×(1…512)."
    assert not profile.plans[0].notes
    assert not [one for one in api.estimate(flexible(None), "m1").findings if one.id == "assumed-shapes"]


def test_estimates_name_each_system_that_does_not_load_the_model() -> None:
    profile = api.estimate(program("main"), ["m1", "m1-max", "iphone-16"], os="26")
    assert not [one for one in profile.findings if one.id == "does-not-load"]
    older = api.estimate(program("main"), ["m1", "m1-max"], os="14")
    (finding,) = [one for one in older.findings if one.id == "does-not-load"]
    assert finding.text.startswith(
        "This model does not load on macOS 14: specification version 9 needs macOS 15."
    )
    assert "minimum_deployment_target=ct.target.iOS17" in finding.hint


def test_models_without_operations_may_not_load_either() -> None:
    notes = api.plan(replace(opaque(), spec_version=9), "m1", os="14").plans[0].notes
    assert "this model does not load on macOS 14: specification version 9 needs macOS 15" in notes


def test_what_is_not_published_of_visionos_is_stated() -> None:
    model = program("main")
    for os, entitled in (("1", False), ("2", True), ("26", True), ("27", False)):
        notes = api.plan(model, "vision-pro-m2", os=os).plans[0].notes
        assert notes[0].startswith("no plan and no latency is published for visionOS")
        assert any("neural-engine-access" in note for note in notes) == entitled
    assert (
        api.plan(model, "vision-pro-m2", os="1")
        .plans[0]
        .notes[-1]
        .startswith("this model does not load on visionOS 1: specification version 9 needs visionOS 2;")
    )
    findings = [one for one in api.estimate(model, "vision-pro-m2").findings if one.id == "system-evidence"]
    assert len(findings) == 1


def write_package(path: Path, weight_bytes: int | None) -> Path:
    """Writes a package with weights in a file that is then cut; None removes it."""
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), path)
    weights = path / "Data/com.apple.CoreML/weights/weight.bin"
    if weight_bytes is None:
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:weight_bytes])
    return path


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "weights are absent (weights/weight.bin)"), (1000, "as its weights are damaged")],
)
def test_absent_and_damaged_weights_are_stated(tmp_path: Path, size: int | None, text: str) -> None:
    path = write_package(tmp_path / "m.mlpackage", size)
    assert text in api.plan(path, "m1").plans[0].notes[0]
    assert text in explain(path, "conv", "m1").notes[0]
    (finding,) = [one for one in api.estimate(path, "m1").findings if one.id == "weights"]
    assert text.removeprefix("weights") in finding.text


def test_whole_weights_need_no_note(tmp_path: Path) -> None:
    path = write_package(tmp_path / "m.mlpackage", 10**9)
    assert not api.plan(path, "m1").plans[0].notes
    assert not explain(path, "conv", "m1").notes


def test_explanations_state_what_plans_do() -> None:
    first, second = explain(flexible(RANGE), "relu", "m1", os="14").notes
    assert first.startswith("this model does not load on macOS 14")
    assert second.startswith("the default shapes of flexible inputs")


def test_the_hint_suits_what_needs_the_newer_system() -> None:
    one, two = program("main"), program("encode", "decode")
    state = ir.Feature("s", ir.StateFeature(ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 8))))
    kept = replace(one.description.main, states=(state,))
    stateful = replace(one, description=ir.Description({"main": kept}, "main"))
    assert conversion_hint(one, ios(17)).startswith(
        "convert again with minimum_deployment_target=ct.target.iOS17,"
    )
    assert conversion_hint(two, macos(14)).startswith("several functions need a newer system: save each")
    assert conversion_hint(stateful, ios(17)).startswith("states need a newer system: pass them as inputs")
    assert conversion_hint(one, ios(12)) == "name a newer system (--os) or device"
