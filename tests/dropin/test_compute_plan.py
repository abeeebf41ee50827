"""`MLComputePlan` for a selected device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coremltools as ct
import pytest
from coremltools.models.compute_device import (
    MLCPUComputeDevice,
    MLGPUComputeDevice,
    MLNeuralEngineComputeDevice,
)
from coremltools.models.compute_plan import MLComputePlan, MLModelStructure
from coremltools.models.utils import compile_model

from coremlscope.dropin import install, uninstall
from coremlscope.dropin.plan import choose_device, chosen_device
from tests.support import converted_models


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("COREMLSCOPE_DEVICE", raising=False)
    monkeypatch.delenv("COREMLSCOPE_OS", raising=False)
    install()
    yield
    choose_device(None)
    uninstall()


def plan_of(path: Path, units: ct.ComputeUnit = ct.ComputeUnit.ALL) -> MLComputePlan:
    return MLComputePlan.load_from_path(compile_model(str(path)), units)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


def test_only_compiled_models_have_plans(package: Path) -> None:
    """On a Mac the process would end there."""
    with pytest.raises(RuntimeError, match="not a compiled model"):
        MLComputePlan.load_from_path(str(package))
    with pytest.raises(RuntimeError, match="not a compiled model"):
        MLModelStructure.load_from_path(str(package))


def operations(plan: MLComputePlan) -> list[Any]:
    return plan.model_structure.program.functions["main"].block.operations


def test_usage_and_cost_of_every_operation(package: Path) -> None:
    install(device="m1", os="14.5")
    plan = plan_of(package)
    usages = {
        op.outputs[0].name: plan.get_compute_device_usage_for_mlprogram_operation(op)
        for op in operations(plan)
    }
    costs = [plan.get_estimated_cost_for_mlprogram_operation(op) for op in operations(plan)]
    for op, cost in zip(operations(plan), costs, strict=True):
        usage = usages[op.outputs[0].name]
        if op.operator_name == "const":
            assert usage is None
            assert cost is None
            continue
        assert type(usage.preferred_compute_device) is MLCPUComputeDevice
        assert MLCPUComputeDevice in map(type, usage.supported_compute_devices)
        assert 0 < cost.weight < 1
    (linear,) = [op for op in operations(plan) if op.operator_name == "linear"]
    supported = plan.get_compute_device_usage_for_mlprogram_operation(linear).supported_compute_devices
    assert set(map(type, supported)) == {MLCPUComputeDevice, MLGPUComputeDevice, MLNeuralEngineComputeDevice}


def test_the_setting_restricts_the_units(package: Path) -> None:
    plan = plan_of(package, ct.ComputeUnit.CPU_ONLY)
    for op in operations(plan):
        usage = plan.get_compute_device_usage_for_mlprogram_operation(op)
        if usage is not None:
            assert list(map(type, usage.supported_compute_devices)) == [MLCPUComputeDevice]


def test_an_operation_of_another_plan_is_unknown(package: Path) -> None:
    plan = plan_of(package)
    assert plan.get_compute_device_usage_for_mlprogram_operation(object()) is None
    assert plan.get_compute_device_usage_for_neuralnetwork_layer(object()) is None
    assert plan.get_estimated_cost_for_mlprogram_operation(object()) is None


def test_a_missing_model() -> None:
    with pytest.raises(RuntimeError):
        MLComputePlan.load_from_path("/no/such/model.mlmodelc")


def test_install_and_the_environment_select_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (chosen_device().chip.id, str(chosen_device().os)) == ("m4", "macOS 26")
    monkeypatch.setenv("COREMLSCOPE_DEVICE", "iphone-14")
    monkeypatch.setenv("COREMLSCOPE_OS", "17")
    assert (chosen_device().name, str(chosen_device().os)) == ("iPhone 14", "iOS 17")
    install(device="m1-ultra", os="14.5")
    assert (chosen_device().chip.id, str(chosen_device().os)) == ("m1-ultra", "macOS 14.5")
    (engine,) = [
        device
        for device in ct.models.MLModel.get_available_compute_devices()
        if isinstance(device, MLNeuralEngineComputeDevice)
    ]
    assert engine.total_core_count == 32


def test_an_unknown_device_in_the_environment(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_DEVICE", "m99")
    with pytest.raises(RuntimeError, match="unknown device 'm99'"):
        plan_of(package)
