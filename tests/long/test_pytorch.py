"""Whole networks converted by coremltools and run by coremlscope, compared with PyTorch."""

from __future__ import annotations

import copy
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from coremlscope.formats.container import read
from coremlscope.runtime.execution.executable import compile_model

torch = pytest.importorskip("torch", exc_type=ImportError)

from benchmarks.networks import NETWORKS, Network, convert_network  # noqa: E402

#: Largest error allowed in fp32 programs, relative to the largest absolute value of the reference:
#: only the order of sums differs.
_FP32_TOLERANCE = 1e-4
#: fp16 programs have their weights rounded to 11 bits, after coremltools folded normalisations into them.
#: Their error may be this many times the error of PyTorch with its weights rounded in the same way.
_FP16_FACTOR = 4.0


@pytest.fixture(scope="module", autouse=True)
def _two_threads() -> None:
    torch.set_num_threads(2)


@pytest.mark.parametrize("form", ["fp32", "fp16", "layers"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_outputs_equal_those_of_pytorch(network: Network, form: str, tmp_path: Path) -> None:
    module = network.make()
    rounded = _with_rounded_weights(module)
    path = tmp_path / ("network.mlmodel" if form == "layers" else "network.mlpackage")
    convert_network(network, network.graph(module), path, fp16=form == "fp16", as_layers=form == "layers")
    with closing(compile_model(read(path), tmp_path / "compiled")) as executable:
        for seed in (0, 1):
            values = network.draw(seed)
            expected = _run(module, values)
            outputs = executable.predict(values)
            assert outputs.keys() == {f"output_{index}" for index in range(len(expected))}
            for index, (reference, moved) in enumerate(zip(expected, _run(rounded, values), strict=True)):
                fp16_tolerance = _FP16_FACTOR * _distance(moved, reference)
                tolerance = fp16_tolerance if form == "fp16" else _FP32_TOLERANCE
                error = _distance(outputs[f"output_{index}"], reference)
                assert error <= tolerance, f"output_{index}, input {seed}: off by {error:.2e}"


def _run(module: torch.nn.Module, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    with torch.no_grad():
        results = module(*(torch.from_numpy(value) for value in values.values()))
    return [result.numpy() for result in (results if isinstance(results, tuple) else (results,))]


def _with_rounded_weights(module: torch.nn.Module) -> torch.nn.Module:
    rounded = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.half().float())
    return rounded


def _distance(output: np.ndarray, reference: np.ndarray) -> float:
    assert output.shape == reference.shape
    return float(np.abs(output - reference).max() / np.abs(reference).max())
