"""Compiled neural networks through coremltools' `CompiledMLModel`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.compiled_networks import WeightTable, exact, write_network

ct = pytest.importorskip("coremltools")

pytestmark = pytest.mark.usefixtures("drop_in")


def test_predictions(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {"type": "inner_product", "nB": 2, "nC": 1, "blob_weights": weights.add([1, 10])}
    folder = write_network(tmp_path / "m.mlmodelc", [layer], {"x": exact(1, 2), "y": exact(1, 1)}, weights)
    model = ct.models.CompiledMLModel(str(folder))
    np.testing.assert_array_equal(model.predict({"x": np.array([[2, 3]], np.float32)})["y"], [[32]])


def test_reason_why_a_network_cannot_be_loaded(tmp_path: Path) -> None:
    folder = write_network(tmp_path / "m.mlmodelc", [{"type": "warp"}], {"x": exact(2), "y": exact(2)})
    with pytest.raises(RuntimeError, match="this layer type is not supported"):
        ct.models.CompiledMLModel(str(folder))
