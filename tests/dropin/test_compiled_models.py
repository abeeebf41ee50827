"""Apple's compiled models through coremltools: loading, predictions, structures and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("coremltools")

from coremlscope.formats import container  # noqa: E402
from coremlscope.model import ir  # noqa: E402
from coremlscope.model.features.dummy import dummy_values  # noqa: E402
from coremlscope.runtime.execution.binding import choose_function  # noqa: E402

pytestmark = [pytest.mark.usefixtures("drop_in"), pytest.mark.corpus]


def _structure(path: Path) -> Any:
    return ct.models.compute_plan.MLModelStructure.load_from_path(str(path))


def test_every_folder_with_its_weights_predicts(corpus: Path) -> None:
    predicted = []
    for path in sorted(corpus.glob("models/*/*.mlmodelc")):
        model = container.read(path)
        if not isinstance(model.content, ir.Program) or any(f.size is None for f in model.weight_files):
            continue
        values = dummy_values(model.description.main, choose_function(model, None).function)
        asset = ct.models.model.MLModelAsset.from_path(str(path))
        results = [
            loaded.predict(values)
            for loaded in (ct.models.CompiledMLModel(str(path)), ct.models.CompiledMLModel.from_asset(asset))
        ]
        assert results[0].keys() == {feature.name for feature in model.description.main.outputs}
        for name, value in results[0].items():
            np.testing.assert_array_equal(results[1][name], value, err_msg=f"{path.name} {name}")
            assert np.isfinite(value).all()
        predicted.append(path.name)
    assert len(predicted) >= 22, predicted


def test_every_program_and_network_has_a_plan(corpus: Path) -> None:
    planned = 0
    for path in sorted(corpus.glob("models/*/*.mlmodelc")):
        model = container.read(path)
        if not isinstance(model.content, ir.Program):
            continue
        plan = ct.models.compute_plan.MLComputePlan.load_from_path(str(path))
        structure = plan.model_structure
        if structure.program is not None:
            operations = structure.program.functions["main"].block.operations
            weights = [plan.get_estimated_cost_for_mlprogram_operation(op) for op in operations]
            assert sum(cost.weight for cost in weights if cost is not None) == pytest.approx(1)
        else:
            layers = structure.neuralnetwork.layers
            usages = map(plan.get_compute_device_usage_for_neuralnetwork_layer, layers)
            assert any(usage is not None for usage in usages)
        planned += 1
    assert planned >= 28


def test_text_classifiers_are_refused_with_the_reason(corpus: Path) -> None:
    path = corpus / "models/VatanaChhorn__KhmerCoreMLSMSClassifier/kh-sms-classifier.mlmodelc"
    with pytest.raises(RuntimeError, match="can only be read by Apple's Natural Language framework"):
        ct.models.CompiledMLModel(str(path))
    structure = _structure(path)
    assert (structure.program, structure.neuralnetwork, structure.pipeline) == (None, None, None)
