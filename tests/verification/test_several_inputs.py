"""Faults that one synthetic input hides: the network saturates on it, or depends on it hardly."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import verify
from coremlscope.formats import container
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.inputs import KINDS, choose_inputs, other_kinds
from tests.support.faulty_programs import save_program

_SIZE = 12
_DRAWN = np.random.default_rng(3)
_FILTERS = (_DRAWN.standard_normal((8, 3, 3, 3)) * 0.3).astype(np.float32)
_MATRIX = (_DRAWN.standard_normal((5, 8)) * 4).astype(np.float32)
#: One class wins by so much that the others have no digits left after a softmax.
_BIAS = np.array([0, 0, 60, 0, 0], np.float32)


def _classifier(scale: float | None, *, is_image: bool = False, labels: list[str] | None = None) -> Any:
    @mb.program(input_specs=[mb.TensorSpec((1, 3, _SIZE, _SIZE))], opset_version=ct.target.iOS17)  # type: ignore[untyped-decorator]
    def program(image: Any) -> Any:
        x = image if scale is None or is_image else mb.mul(x=image, y=np.float32(scale))
        x = mb.relu(x=mb.conv(x=x, weight=_FILTERS, name="features"))
        x = mb.reduce_mean(x=x, axes=[2, 3], keep_dims=False, name="mean")
        return mb.softmax(x=mb.linear(x=x, weight=_MATRIX, bias=_BIAS, name="scores"), axis=-1, name="y")

    return program


def _saved(path: Path, scale: float | None, *, fp16: bool = False) -> Path:
    return save_program(_classifier(scale), path, fp16=fp16)


@pytest.mark.parametrize("fp16", [False, True])
def test_a_classifier_without_its_preprocessing_differs_though_it_saturates(
    fp16: bool, tmp_path: Path
) -> None:
    reference = _saved(tmp_path / "reference.mlpackage", 1 / 255)
    damaged = _saved(tmp_path / "damaged.mlpackage", None, fp16=fp16)
    found = verify(damaged, reference)
    assert not found.passed
    outputs = {one.name: one for one in found.outputs if one.run == "fp32"}
    assert outputs["y"].passed
    (stage,) = (one for name, one in outputs.items() if name != "y")
    assert "on equal arguments" in stage.why
    assert verify(reference, reference).passed


def test_inputs_have_several_kinds(tmp_path: Path) -> None:
    model = container.read(_saved(tmp_path / "m.mlpackage", 1 / 255))
    chosen = choose_function(model)
    drawn = choose_inputs(chosen, {})
    kinds = {kind: one.tensors["image"] for kind, one in other_kinds(drawn)}
    assert tuple(kinds) == KINDS
    assert drawn.tensors["image"].max() > 200
    assert kinds["faint"].max() < 16
    assert not kinds["zeros"].any()
    assert set(np.unique(kinds["edges"])) == {0, 255}
    given = choose_inputs(chosen, {"image": drawn.tensors["image"]})
    assert not list(other_kinds(given))


def test_a_fault_that_only_another_kind_of_inputs_shows_is_found(tmp_path: Path) -> None:
    """Standard normal numbers never reach 2.9; the ends of the range do."""

    def clipped(bound: float) -> Any:
        @mb.program(input_specs=[mb.TensorSpec((1, 4))], opset_version=ct.target.iOS17)  # type: ignore[untyped-decorator]
        def program(x: Any) -> Any:
            return mb.clip(x=x, alpha=np.float32(-bound), beta=np.float32(bound), name="y")

        return program

    model = save_program(clipped(2.8), tmp_path / "m.mlpackage", fp16=False)
    reference = save_program(clipped(3.0), tmp_path / "r.mlpackage", fp16=False)
    found = verify(model, reference)
    assert not found.passed
    assert [one.run for one in found.outputs if not one.passed] == ["fp32-edges"]


@pytest.mark.parametrize("is_same", [True, False])
def test_inputs_for_which_neither_side_returns_a_number_decide_nothing(is_same: bool, tmp_path: Path) -> None:
    """Zeros divided by their sum are NaN on both sides, but not where one adds something to the sum."""

    def divided(added: float) -> Any:
        @mb.program(input_specs=[mb.TensorSpec((1, 4))], opset_version=ct.target.iOS17)  # type: ignore[untyped-decorator]
        def program(x: Any) -> Any:
            total = mb.add(x=mb.reduce_sum(x=mb.abs(x=x), axes=[1], keep_dims=True), y=np.float32(added))
            return mb.real_div(x=x, y=total, name="y")

        return program

    model = save_program(divided(0 if is_same else 1e-6), tmp_path / "m.mlpackage", fp16=False)
    reference = save_program(divided(0), tmp_path / "r.mlpackage", fp16=False)
    found = verify(model, reference)
    assert found.passed == is_same
    assert [one.run for one in found.outputs if not one.passed] == ([] if is_same else ["fp32-zeros"])


def test_float32_has_the_tolerance_of_float32(tmp_path: Path) -> None:
    def scaled(factor: float) -> Any:
        @mb.program(input_specs=[mb.TensorSpec((1, 8))], opset_version=ct.target.iOS17)  # type: ignore[untyped-decorator]
        def program(x: Any) -> Any:
            return mb.mul(x=x, y=np.float32(factor), name="y")

        return program

    right = save_program(scaled(1.0), tmp_path / "r.mlpackage", fp16=False)
    off = save_program(scaled(1.01), tmp_path / "m.mlpackage", fp16=True)
    runs = {one.run: one.passed for one in verify(off, right).outputs}
    assert runs == {"fp32": False, "fp16": True}


def _image_classifier(path: Path, scale: float, labels: list[str]) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ct.convert(
            _classifier(scale, is_image=True),
            convert_to="mlprogram",
            inputs=[ct.ImageType(name="image", shape=(1, 3, _SIZE, _SIZE), scale=scale)],
            classifier_config=ct.ClassifierConfig(labels),
            compute_precision=ct.precision.FLOAT32,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )
        model.save(str(path))
    return path


def test_names_of_classes_and_preprocessing_are_compared(tmp_path: Path) -> None:
    names = ["cat", "dog", "hen", "owl", "ape"]
    reference = _image_classifier(tmp_path / "r.mlpackage", 1 / 255, names)
    renamed = _image_classifier(tmp_path / "n.mlpackage", 1 / 255, names[::-1])
    found = verify(renamed, reference)
    (labels,) = (one for one in found.outputs if not one.passed)
    assert (labels.meaning, labels.run) == ("labels", "interface")
    scaled = verify(_image_classifier(tmp_path / "s.mlpackage", 1 / 127.5, names), reference)
    assert not scaled.passed
    assert verify(reference, reference).passed


def test_an_input_in_fp16_is_rounded_in_the_rounded_run_only(tmp_path: Path) -> None:
    """Scores that differ in float32 are equal in fp16, so that top-k chooses others."""

    @mb.program(
        input_specs=[mb.TensorSpec((1, 2048), dtype=ct.converters.mil.mil.types.fp16)],
        opset_version=ct.target.iOS17,
    )  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return mb.topk(x=x, k=4, name="best")[1]

    path = save_program(program, tmp_path / "m.mlpackage", fp16=True)
    x = np.random.default_rng(0).random((1, 2048)).astype(np.float32)
    x[0, :64] = 1 + np.random.default_rng(1).permutation(64) * 2.0**-16
    places = np.argsort(-x, axis=-1, kind="stable")[:, :4]
    name = container.read(path).description.main.outputs[0].name
    found = verify(path, {name: places, "x": x})
    assert {one.run: one.passed for one in found.outputs} == {"fp32": True, "fp16": False}
    assert found.faults[0].cause == "tie"
