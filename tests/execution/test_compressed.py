"""Models with compressed weights predict the same as with decompressed weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coremlscope.formats import container
from coremlscope.model.features import dummy_values
from coremlscope.runtime.execution.executable import compile_model

pytest.importorskip("coremltools")


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", ["unified_int8", "unified_pruned_int8", "unified_palette_8bit", "unified_256ms_palette_4bit"]
)
def test_decompression_by_coremltools_predicts_the_same(name: str, corpus: Path, tmp_path: Path) -> None:
    import coremltools as ct

    path = corpus / "models" / "FluidInference__mobius" / f"{name}.mlpackage"
    given = ct.models.MLModel(str(path), skip_model_load=True)
    plain = ct.optimize.coreml.decompress_weights(given)
    plain.save(str(tmp_path / "plain.mlpackage"))

    results = []
    for number, source in enumerate((path, tmp_path / "plain.mlpackage")):
        model = container.read(source)
        types = {op.type for op in model.content.functions["main"].graph.ops}  # type: ignore[union-attr]
        assert any(t.startswith("constexpr") for t in types) == (number == 0)
        executable = compile_model(model, tmp_path / str(number))
        results.append(executable.predict(dummy_values(model.description.main, seed=1)))
        executable.close()
    for feature, expected in results[1].items():
        np.testing.assert_allclose(results[0][feature], expected, rtol=1e-3, atol=1e-3)
