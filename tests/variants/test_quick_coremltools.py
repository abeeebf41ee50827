"""coremltools' results are the same, made in less time."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any
from unittest.mock import patch

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil import Program
from coremltools.converters.mil.converter import _reset_conversion_state
from coremltools.converters.mil.mil.block import InvalidBlockStateError
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY
from coremltools.models.neural_network import quantization_utils
from coremltools.models.utils import _apply_graph_pass
from coremltools.optimize.coreml import _quantization_passes as passes

import coremlscope
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.planning.rewrites.transforms import parse_transform
from coremlscope.studies.variants.clustering import count_values
from coremlscope.studies.variants.coremltools_steps import SharedSteps, transform_file
from coremlscope.studies.variants.quick_coremltools import quick_coremltools
from tests.support.advised_models import two_layers

_RANDOM = np.random.default_rng(3)
#: Hardly larger than what coremltools clusters by itself, which takes seconds.
_WEIGHTS = {
    "normal": _RANDOM.standard_normal((40, 256)).astype(np.float16),
    "few-values": _RANDOM.integers(-3, 4, (100, 101)).astype(np.float16) / np.float16(8),
    "transposed": _RANDOM.standard_normal((256, 40)).astype(np.float16).T,
    "subnormal-and-infinite": np.append(
        np.abs(_RANDOM.standard_normal(10_000)) * 1e-6, [np.inf, -np.inf, 65504, -65504]
    ).astype(np.float16),
    "two-heaps": np.append(
        _RANDOM.standard_normal(5_000) * 0.01 - 1, _RANDOM.standard_normal(5_000) * 0.3 + 4
    ).astype(np.float16),
    "negative-zero": np.append(_RANDOM.standard_normal(20_000), -0.0).astype(np.float16),
}


@pytest.mark.parametrize("name", _WEIGHTS)
def test_values_are_counted_as_numpy_does(name: str) -> None:
    weight = np.where(np.isfinite(_WEIGHTS[name]), _WEIGHTS[name], np.float16(1))
    found = count_values(weight)
    assert found is not None
    values, places, counts = np.unique(weight, return_inverse=True, return_counts=True)
    for one, expected in zip(found, (values, places.reshape(-1), counts), strict=True):
        np.testing.assert_array_equal(one, expected)
        assert one.dtype == expected.dtype
    assert found[0].tobytes() == values.tobytes()


@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_counted(other: float) -> None:
    assert count_values(np.array([1.0, other], np.float16)) is None


def test_zeros_of_both_signs_are_one_value() -> None:
    values, places, counts = count_values(np.array([0.0, 1.0, -0.0], np.float16)) or ()
    assert (values.tolist(), places.tolist(), counts.tolist()) == ([0, 1], [0, 1, 0], [2, 1])


@pytest.mark.parametrize("bits", [1, 4, 6, 8])
@pytest.mark.parametrize("name", [*_WEIGHTS, "both-zeros"])
def test_tables_are_those_of_coremltools(name: str, bits: int) -> None:
    weight = _WEIGHTS.get(name, np.append(_WEIGHTS["negative-zero"], np.float16(0)))
    weight = np.where(np.isfinite(weight), weight, np.float16(1))
    expected = quantization_utils._get_kmeans_lookup_table_and_weight(bits, weight)
    with quick_coremltools():
        found = passes._get_kmeans_lookup_table_and_weight(bits, weight)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)


def test_coremltools_is_as_before_afterwards() -> None:
    clustering, apply = passes._get_kmeans_lookup_table_and_weight, PassPipelineManager.apply_pipeline
    with quick_coremltools():
        assert passes._get_kmeans_lookup_table_and_weight is not clustering
        assert PassPipelineManager.apply_pipeline is not apply
    assert passes._get_kmeans_lookup_table_and_weight is clustering
    assert PassPipelineManager.apply_pipeline is apply


def test_a_program_that_is_not_valid_is_not_written(tmp_path: Path) -> None:
    model = tmp_path / "m.mlpackage"
    write_mlpackage(two_layers(), model)

    def spoil(_: Any, program: Any) -> None:
        program.functions["main"].operations[0].outputs[0]._child_ops.clear()

    opened = ct.models.MLModel(str(model), skip_model_load=True)
    graph_pass = PASS_REGISTRY["common::dead_code_elimination"]
    with (
        quick_coremltools(),
        patch.object(Program, "validate", inspect.unwrap(Program.validate)),
        patch.object(type(graph_pass), "apply", spoil),
        pytest.raises(InvalidBlockStateError),
    ):
        _apply_graph_pass(opened, graph_pass, skip_model_load=True)
    _reset_conversion_state()  # coremltools does so after conversions that succeed


def _content(package: Path) -> tuple[Any, bytes]:
    """Returns the specification of a model, whose file may hold maps in any order, and its weights."""
    (weights,) = package.rglob("weight.bin")
    return ct.models.MLModel(str(package), skip_model_load=True).get_spec(), weights.read_bytes()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # coremltools' percentile overflows in fp16
def test_variants_that_share_steps_are_equal_to_others(tmp_path: Path) -> None:
    model, shared = tmp_path / "m.mlpackage", SharedSteps()
    write_mlpackage(two_layers(), model)
    # The first one is made twice: from the file, and from what the second one left.
    names = ("int4", "prune-50+int8", "int4", "palettize-1+int8-tensor", "prune-50+int4")
    for place, name in enumerate(names):
        quick, plain = tmp_path / f"quick-{place}.mlpackage", tmp_path / f"plain-{place}.mlpackage"
        transform = parse_transform(name)
        with quick_coremltools():
            transform_file(model, transform, quick, shapes={}, samples=[], folder=tmp_path, shared=shared)
        transform_file(model, transform, plain, shapes={}, samples=[], folder=tmp_path)
        assert _content(quick) == _content(plain), name


def test_classifiers_are_computed_in_fp16(tmp_path: Path) -> None:
    """The labels of classes are a list, which has no element type."""
    labels = ["cat", "dog", "owl", "fox"]

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 8))])
    def program(x: Any) -> Any:
        weight = _RANDOM.standard_normal((4, 8)).astype(np.float32)
        return mb.softmax(x=mb.linear(x=x, weight=weight), axis=-1, name="scores")

    model = ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=ct.precision.FLOAT32,
        classifier_config=ct.ClassifierConfig(labels),
        skip_model_load=True,
    )
    source, target = tmp_path / "fp32.mlpackage", tmp_path / "fp16.mlpackage"
    model.save(str(source))
    transform_file(source, parse_transform("fp16"), target, shapes={}, samples=[], folder=tmp_path)
    found = coremlscope.verify(target, source)
    assert found.passed
    assert found.runs[:2] == ("fp32", "fp16")
