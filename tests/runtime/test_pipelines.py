"""Pipelines that coremltools makes of programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("coremltools")

import small_models  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402

from coremlscope import formats, ir  # noqa: E402
from coremlscope.runtime import install, uninstall  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="coremltools drives Core ML by itself here")

_X = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)


@pytest.fixture(autouse=True, scope="module")
def _drop_in() -> Iterator[None]:
    install()
    yield
    uninstall()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 5))], opset_version=ct.target.iOS16)
    def negated(y: Any) -> Any:
        return mb.mul(x=y, y=-1.0, name="z")

    second = ct.convert(
        negated, compute_precision=ct.precision.FLOAT32, minimum_deployment_target=ct.target.iOS16
    )
    path = tmp_path_factory.mktemp("pipeline") / "pipeline.mlpackage"
    ct.utils.make_pipeline(small_models.mlp(), second).save(str(path))
    return path


def test_predictions(path: Path) -> None:
    result = ct.models.MLModel(str(path)).predict({"x": _X})
    np.testing.assert_allclose(result["z"], -small_models.mlp_result(_X), rtol=1e-5, atol=1e-6)


def test_stages_are_read_with_their_weights(path: Path) -> None:
    model = formats.read(path)
    assert isinstance(model.content, ir.Pipeline)
    assert [stage.kind for stage in model.content.models] == ["mlProgram", "mlProgram"]
    assert [file.size is not None for file in model.weight_files] == [True]


def test_structure(path: Path) -> None:
    structure = ct.models.compute_plan.MLModelStructure.load_from_path(ct.utils.compile_model(str(path)))
    assert [part.program is not None for _, part in structure.pipeline.sub_models] == [True, True]
