"""The one comparison: each output that exists on either side is a row, and none of them is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from PIL import Image

from coremlscope import verify
from coremlscope.base.errors import EngineError
from coremlscope.verification import core_ml_units
from coremlscope.verification.outputs import Tolerance, compare_predictions
from tests.support.coreml_children import as_a_mac
from tests.support.faulty_programs import _program, save_program

_PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
_ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)
_ROW, _SAME = _ARRAY[0], ("y", "paired", True)


def _opaque(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)]))


@pytest.mark.parametrize(
    ("ours", "theirs", "rows"),
    [
        ({"y": _ARRAY}, {"y": _ARRAY.reshape(3, 2)}, [_SAME]),
        ({"y": _ARRAY}, {"y": _ARRAY + 1}, [("y", "paired", False)]),
        ({"y": _ARRAY}, {"y": _ARRAY[:1]}, [("y", "paired", False)]),
        (
            {"y": _ARRAY},
            {"y": _ARRAY, "z": _ARRAY[0]},
            [("y", "paired", True), ("z", "only in the reference", False)],
        ),
        (
            {"y": _ARRAY, "z": _ARRAY[0]},
            {"y": _ARRAY},
            [("y", "paired", True), ("z", "only in the model", False)],
        ),
        ({"y": _opaque(_PIXELS)}, {"y": Image.fromarray(_PIXELS)}, [_SAME]),
        ({"y": _opaque(_PIXELS[..., ::-1])}, {"y": Image.fromarray(_PIXELS)}, [("y", "paired", False)]),
        ({"y": {"cat": 0.9, "dog": 0.1}}, {"y": {"dog": 0.1, "cat": 0.9}}, [_SAME]),
        ({"y": {"cat": 0.9}}, {"y": {"dog": 0.1, "cat": 0.9}}, [("y", "paired", False)]),
        ({"y": "cat"}, {"y": "cat"}, [_SAME]),
        ({"y": np.array([np.nan, 1])}, {"y": np.array([np.nan, 1])}, [_SAME]),
        ({"y": np.full(2, np.nan)}, {"y": np.full(2, np.nan)}, [("y", "paired", False)]),
        ({"y": "cat"}, {"y": "dog"}, [("y", "paired", False)]),
    ],
)
def test_each_output_of_either_side_is_a_row(
    ours: dict[str, Any], theirs: dict[str, Any], rows: list[tuple[str, str, bool]]
) -> None:
    found = compare_predictions(ours, theirs, "all", Tolerance())
    assert [(row.name, row.status, row.passed) for row in found] == rows


def test_elements_that_are_nan_on_both_sides_hide_no_other_difference() -> None:
    theirs = np.array([-np.inf, 1.0, -1.0])
    (row,) = compare_predictions({"y": theirs * 1.0005}, {"y": theirs}, "all", Tolerance())
    assert row.passed
    assert row.psnr_db == pytest.approx(-20 * np.log10(0.0005))


def _saved(folder: Path, name: str, *, has_two: bool) -> Path:
    def body(_: Any, x: Any) -> Any:
        first = mb.sin(x=x, name="first")
        return (first, mb.exp(x=mb.reduce_sum(x=x, axes=[1]), name="second")) if has_two else first

    return save_program(_program((2, 3), body), folder / f"{name}.mlpackage", fp16=False)


def test_an_output_of_one_side_only_is_not_the_same(tmp_path: Path) -> None:
    one, two = (_saved(tmp_path, name, has_two=name == "two") for name in ("one", "two"))
    for model, reference, status in ((one, two, "only in the reference"), (two, one, "only in the model")):
        found = verify(model, reference)
        assert not found.passed
        assert [row.name for row in found.outputs if row.status == status] == ["second"]


def _to_image(folder: Path) -> Path:
    @mb.program(input_specs=[mb.TensorSpec((1, 3, 8, 8))])  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return mb.mul(x=mb.sigmoid(x=x), y=255.0, name="y")

    converted = ct.convert(program, minimum_deployment_target=ct.target.iOS16, skip_model_load=True)
    spec = converted.get_spec()
    image = spec.description.output[0].type.imageType
    image.width, image.height, image.colorSpace = 8, 8, image.RGB
    ct.models.MLModel(spec, skip_model_load=True, weights_dir=converted.weights_dir).save(
        str(folder / "image.mlpackage")
    )
    return folder / "image.mlpackage"


@pytest.mark.usefixtures("_preloading")
def test_each_asked_setting_and_output_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _to_image(tmp_path)
    as_a_mac(monkeypatch)
    found = verify(path, path, compute_units=["cpu_only"])
    (row,) = (one for one in found.outputs if one.run == "cpu_only")
    assert (row.status, row.meaning, row.passed) == ("paired", "image", True)
    assert found.passed

    def fail(*_: object, **__: object) -> None:
        raise EngineError("Core ML cannot run the model: no memory")

    monkeypatch.setattr(core_ml_units, "predict_by_core_ml", fail)
    found = verify(path, path, compute_units=["cpu_only", "all"])
    failed = [(one.run, one.status) for one in found.outputs if not one.passed]
    assert failed == [("cpu_only", "failed"), ("all", "failed")]
