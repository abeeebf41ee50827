"""Wrong weights are named in each storage form, for each kind of operation that has them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import verify
from tests.support.faulty_programs import _random

_SIZE = 64


def _linear(x: Any, weight: np.ndarray) -> Any:
    return mb.linear(x=x, weight=weight, bias=_random(_SIZE, seed=7), name="layer")


def _matmul(x: Any, weight: np.ndarray) -> Any:
    return mb.matmul(x=x, y=weight, name="layer")


def _conv(x: Any, weight: np.ndarray) -> Any:
    picture = mb.reshape(x=x, shape=[1, _SIZE, 4, 4])
    return mb.conv(x=picture, weight=weight.reshape(_SIZE, _SIZE, 1, 1), name="layer")


_OPS: dict[str, Callable[[Any, np.ndarray], Any]] = {"linear": _linear, "matmul": _matmul, "conv": _conv}
_WEIGHT, _OTHER = _random(_SIZE, _SIZE, seed=1), _random(_SIZE, _SIZE, seed=2)
_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda model: model,
    "lut": lambda model: cto.palettize_weights(
        model, cto.OptimizationConfig(cto.OpPalettizerConfig(mode="uniform", nbits=2, weight_threshold=0))
    ),
    "affine": lambda model: cto.linear_quantize_weights(
        model, cto.OptimizationConfig(cto.OpLinearQuantizerConfig(dtype="int4", weight_threshold=0))
    ),
    "blocks": lambda model: cto.linear_quantize_weights(
        model,
        cto.OptimizationConfig(
            cto.OpLinearQuantizerConfig(
                dtype="int4", granularity="per_block", block_size=32, weight_threshold=0
            )
        ),
    ),
    "sparse": lambda model: cto.prune_weights(
        model, cto.OptimizationConfig(cto.OpMagnitudePrunerConfig(target_sparsity=0.6, weight_threshold=0))
    ),
}


def _saved(op: str, weight: np.ndarray, storage: str, path: Path, *, is_half: bool) -> Path:
    @mb.program(input_specs=[mb.TensorSpec((16, _SIZE))], opset_version=ct.target.iOS18)  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return mb.tanh(x=_OPS[op](mb.sin(x=x, name="wave"), weight), name="y")

    return _converted(program, storage, path, is_half=is_half)


def _converted(program: Any, storage: str, path: Path, *, is_half: bool) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ct.convert(
            program,
            minimum_deployment_target=ct.target.iOS18,
            compute_precision=ct.precision.FLOAT16 if is_half else ct.precision.FLOAT32,
            skip_model_load=True,
        )
        _SETTINGS[storage](model).save(str(path))
    return path


@pytest.mark.parametrize("op", _OPS)
@pytest.mark.parametrize("storage", _SETTINGS)
def test_weights_that_differ_are_named(storage: str, op: str, tmp_path: Path) -> None:
    own = _OTHER if storage == "plain" else _WEIGHT
    model = _saved(op, own, storage, tmp_path / "model.mlpackage", is_half=True)
    right = _saved(op, _WEIGHT, "plain", tmp_path / "right.mlpackage", is_half=False)
    found = verify(model, right)
    assert not found.passed
    (fault,) = found.faults
    assert fault.type == op
    assert fault.cause == ("weights" if storage == "plain" else "compressed weights")
    assert fault.elements == 3 * 16 * _SIZE
    assert fault.repairs


#: Forms that keep a weight of two values as it is: a pruned one is another weight.
_EXACT = [storage for storage in _SETTINGS if storage != "sparse"]
_SIGNS = np.sign(_WEIGHT)


@pytest.mark.parametrize("op", _OPS)
@pytest.mark.parametrize("storage", _EXACT)
def test_a_turned_weight_of_a_square_layer_is_named(storage: str, op: str, tmp_path: Path) -> None:
    turned = np.ascontiguousarray(_SIGNS.T)
    model = _saved(op, turned, storage, tmp_path / "model.mlpackage", is_half=True)
    found = verify(model, _saved(op, _SIGNS, "plain", tmp_path / "right.mlpackage", is_half=False))
    assert [(fault.type, fault.cause) for fault in found.faults] == [(op, "layout")]


@pytest.mark.parametrize("storage", _EXACT)
def test_weights_in_place_of_each_other_are_named(storage: str, tmp_path: Path) -> None:
    def saved(weights: tuple[np.ndarray, ...], storage: str, name: str, *, is_half: bool) -> Path:
        @mb.program(input_specs=[mb.TensorSpec((16, _SIZE))], opset_version=ct.target.iOS18)  # type: ignore[untyped-decorator]
        def program(x: Any) -> Any:
            for weight in weights:
                x = mb.tanh(x=mb.linear(x=x, weight=weight))
            return x

        return _converted(program, storage, tmp_path / f"{name}.mlpackage", is_half=is_half)

    first, second = _SIGNS / 8, np.sign(_OTHER) / 8
    model = saved((second, first), storage, "model", is_half=True)
    found = verify(model, saved((first, second), "plain", "right", is_half=False))
    assert {fault.cause for fault in found.faults} == {"swapped weights"}
