"""The contract of inputs: the form in which a reference takes pictures is found, and the verdict names it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from coremlscope import verify
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.reports.document import Conclusion
from coremlscope.reports.verification import verification_document
from coremlscope.results.verification import Verification

_WEIGHT = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
_MEAN, _DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
#: One scale stands for three deviations: an error of 1 %.
_PREPARED: dict[str, Any] = {"scale": 1 / (0.226 * 255), "bias": list(-_MEAN / 0.226)}
Build = Callable[[], Model]
Reference = Callable[[dict[str, np.ndarray]], np.ndarray]


def _model(layout: str = "RGB", **preprocessing: Any) -> Model:
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec((1, 3, 8, 8))])  # type: ignore[untyped-decorator]
    def program(image: Any) -> Any:
        return mb.conv(x=image, weight=_WEIGHT, name="y")

    shape = ct.ImageType(name="image", shape=(1, 3, 8, 8), color_layout=layout, **preprocessing)
    converted = ct.convert(program, inputs=[shape], convert_to="neuralnetwork")
    return container.read(converted.get_spec().SerializeToString())


def _network(x: np.ndarray) -> np.ndarray:
    shifted = [x[:, :, i : i + 6, j : j + 6] for i in range(3) for j in range(3)]
    columns = np.stack(shifted, -1).transpose(0, 2, 3, 1, 4).reshape(1, 6, 6, -1)
    return (columns @ _WEIGHT.reshape(4, -1).T).transpose(0, 3, 1, 2)


def _bare(values: dict[str, np.ndarray]) -> np.ndarray:
    return _network(values["image"])


def _normalizing(values: dict[str, np.ndarray]) -> np.ndarray:
    planes = (1, 3, 1, 1)
    return _network((values["image"] - _MEAN.reshape(planes)) / _DEVIATION.reshape(planes))


def _dividing(values: dict[str, np.ndarray]) -> np.ndarray:
    return _network(values["image"] / 255)


def _headline(found: Verification) -> str:
    first = next(iter(verification_document(found)))
    assert isinstance(first, Conclusion)
    return first.text


@pytest.mark.parametrize(
    ("build", "reference", "contract"),
    [
        (partial(_model, **_PREPARED), _normalizing, "RGB 0…1, and prepares it itself"),
        (partial(_model, scale=1 / 255), _bare, "RGB that the model has prepared"),
        (partial(_model, scale=1 / 255), _dividing, "RGB 0…255, and prepares it itself"),
        (partial(_model), _bare, "RGB 0…255"),
        (partial(_model, "BGR", scale=1 / 255), _bare, "BGR that the model has prepared"),
    ],
)
def test_the_verdict_names_the_form_of_pictures(build: Build, reference: Reference, contract: str) -> None:
    found = verify(build(), reference, rtol=0.03)
    assert found.passed
    assert f"the reference gets image as {contract}" in found.contract
    assert found.contract in _headline(found)


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (partial(_model, scale=1 / 100), _bare),  # 0…2.55
        (partial(_model, scale=2 / 255), _bare),  # 0…2
        (partial(_model, "BGR", scale=1 / 60, bias=[-1, -1, -1]), _bare),
    ],
)
def test_an_unusual_preprocessing_is_a_difference(build: Build, reference: Reference) -> None:
    found = verify(build(), reference)
    assert not found.passed
    (row,) = (one for one in found.outputs if not one.passed)
    assert (row.name, row.meaning, row.status) == ("image", "preprocessing", "only in the model")


@pytest.mark.parametrize(
    "build", [partial(_model, scale=1 / 128, bias=[-1, 0, 1]), partial(_model, "BGR", scale=1 / 80)]
)
def test_without_a_sure_form_nothing_is_comparable(build: Build) -> None:
    found = verify(build(), _normalizing)
    assert not found.passed
    assert not found.is_comparable
    assert not found.faults
    assert _headline(found).startswith("not comparable")
