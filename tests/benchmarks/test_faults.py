"""Faults planted at random into a converted network: each is named, and fixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.faults.planting import KINDS, Kind
from benchmarks.faults.scoring import score_kind
from coremlscope.formats import container
from coremlscope.ir import Model
from coremlscope.verification.distance import relative_error, unmasked_error
from tests.support.faulty_programs import save_program

pytest.importorskip("coremltools")

#: Kinds of which the network has operations.
_SHOWN = (
    "weight transposed",
    "channels permuted",
    "bias dropped",
    "axis",
    "padding",
    "other activation",
    "bound",
    "integer cast",
    "operation missing",
    "mask transposed",
    "slice off by one",
    "arguments exchanged",
    "axes exchanged",
    "other argument",
    "extra factor",
)


def _random(*shape: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.3).astype(np.float32)


def _program() -> Any:
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 8, 8, 8))], opset_version=ct.target.iOS17)
    def program(x: Any) -> Any:
        y = mb.conv(
            x=x,
            weight=_random(8, 8, 3, 3, seed=1),
            bias=_random(8, seed=2),
            pad_type="custom",
            pad=[1, 1, 1, 1],
            name="first",
        )
        y = mb.leaky_relu(x=y, alpha=0.1, name="active")
        y = mb.add(x=mb.sub(x=y, y=x, name="apart"), y=y, name="sum")
        cut = mb.slice_by_index(x=y, begin=[0, 1, 0, 0], end=[1, 5, 8, 8], name="cut")
        turned = mb.transpose(x=mb.relu(x=cut, name="bent"), perm=[0, 1, 3, 2], name="turned")
        mask = np.triu(np.full((8, 8), -1e4, np.float32), 1)
        chosen = mb.softmax(x=mb.add(x=turned, y=mask, name="masked"), axis=-1, name="chosen")
        mixed = mb.matmul(x=chosen, y=cut, name="mixed")
        return mb.linear(x=mixed, weight=_random(8, 8, seed=3), bias=_random(8, seed=4), name="y")

    return program


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("faults") / "model.mlpackage"
    return container.read(save_program(_program(), path, fp16=False))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in _SHOWN], ids=lambda kind: kind.name)
def test_a_planted_fault_is_named_and_fixed(model: Model, kind: Kind) -> None:
    score = score_kind("small", model, [model], kind, seed=3)
    assert score is not None
    assert score.is_named, (score.text, score.found)
    assert score.is_kind
    assert score.is_cause, (score.text, score.found)
    assert score.is_fixed, (score.text, score.found)


def test_a_mask_does_not_hide_other_differences() -> None:
    scores = np.random.default_rng(0).standard_normal((1, 4, 16, 16))
    mask = np.triu(np.full((16, 16), -1e4), 1)
    wrong, right = scores[:, ::-1] + mask, scores + mask
    assert relative_error(wrong, right) < 1e-3
    assert unmasked_error(wrong, right) > 0.5
    assert unmasked_error(right, right) == 0
    small = np.random.default_rng(1).standard_normal(256)
    assert unmasked_error(small + 1e-3, small) == relative_error(small + 1e-3, small)


def test_a_verification_that_fails_is_a_miss(model: Model, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    kind = next(kind for kind in KINDS if kind.name == "bias dropped")
    score = score_kind("small", model, [broken], kind, seed=3)
    assert score is not None
    assert score.found is None
    assert score.failure
    assert not any((score.is_named, score.is_kind, score.is_cause, score.is_fixed))
