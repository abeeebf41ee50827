"""Real models: types, lowering and results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.lower import lower
from coremlscope.ops.view import BoundGraph, OpView
from tests.support.programs import run_onnx

pytestmark = pytest.mark.corpus

_SILERO = "models/FluidInference__mobius"
#: The tolerance of a compressed network's result and hidden state, whose magnitudes are at most 1.
_TOLERANCES = {
    "palette_8bit": (0.005, 0.05),
    "int8": (0.02, 0.1),
    "pruned_int8": (0.05, 0.15),
    "palette_6bit": (0.05, 0.3),
}


def _functions(folder: Path) -> Iterator[tuple[str, ir.Function]]:
    """Every function of every ML Program of the corpus."""
    for path in sorted(folder.glob("models/**/*.mlpackage")):
        model = container.read(path)
        if isinstance(model.content, ir.Program):
            for name, function in model.content.functions.items():
                yield f"{path.stem}:{name}", function


def _views(graph: BoundGraph) -> Iterator[OpView]:
    for view in graph.ops:
        yield view
        for block in view.blocks:
            yield from _views(block)


def _agree(declared: ir.ValueType, inferred: ir.ValueType) -> bool:
    if not isinstance(declared, ir.TensorType) or not isinstance(inferred, ir.TensorType):
        return type(declared) is type(inferred)
    if declared.shape is None or inferred.shape is None:
        return declared.dtype is inferred.dtype
    pairs = list(zip(declared.shape, inferred.shape, strict=False))
    same_rank = len(declared.shape) == len(inferred.shape)
    return declared.dtype is inferred.dtype and same_rank and all(d == i or None in (d, i) for d, i in pairs)


def _has_weights(function: ir.Function) -> bool:
    for op in function.graph.walk():
        arguments = [a for given in op.inputs.values() for a in given if isinstance(a, ir.Constant)]
        if not all(constant.is_available for constant in [*op.attributes.values(), *arguments]):
            return False
    return True


def test_inferred_types_match_declared_types(corpus: Path) -> None:
    wrong = []
    for label, function in _functions(corpus):
        bound = bind(function, OPS)
        wrong += [(label, *problem) for problem in bound.problems]
        for view in _views(bound.graph):
            for value, output in zip(view.op.outputs, view.outputs, strict=True):
                if not _agree(value.type, output.type):
                    wrong.append((label, view.op.id, f"{view.op.type}: {value.type} as {output.type}"))
    assert not wrong


def _run(function: ir.Function, feeds: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    program = lower(bind(function, OPS))
    random = np.random.default_rng(3)
    made = {
        port.name: random.normal(size=[d or 1 for d in port.type.shape or ()], scale=0.1)
        for port in program.inputs
    }
    results = run_onnx(program, made | (feeds or {}))
    for port in program.outputs:
        assert port.type.shape is not None
        inferred, real = port.type.shape, results[port.name].shape
        assert len(inferred) == len(real)
        assert all(i in (None, r) for i, r in zip(inferred, real, strict=True))
    return results


def test_programs_with_weights_run(corpus: Path) -> None:
    ran = 0
    for label, function in _functions(corpus):
        if _has_weights(function):
            assert all(np.isfinite(result).all() for result in _run(function).values()), label
            ran += 1
    assert ran >= 18


def _silero(corpus: Path, name: str) -> ir.Function:
    content = container.read(corpus / _SILERO / f"{name}.mlpackage").content
    assert isinstance(content, ir.Program)
    return content.functions["main"]


@pytest.mark.parametrize("variant", _TOLERANCES)
def test_compressed_networks_stay_close_to_the_original(variant: str, corpus: Path) -> None:
    original = _run(_silero(corpus, "silero-vad-unified-256ms-v6.0.0"))
    compressed = _run(_silero(corpus, f"unified_256ms_{variant}"))
    for name, tolerance in zip(("vad_output", "new_hidden_state"), _TOLERANCES[variant], strict=True):
        np.testing.assert_allclose(compressed[name], original[name], atol=tolerance)


def test_a_network_in_three_files_computes_the_same_as_in_one(corpus: Path) -> None:
    whole = _silero(corpus, "silero-vad-unified-v6.0.0")
    expected = _run(whole)
    random = np.random.default_rng(3)
    audio, h, c = (
        random.normal(size=[d or 1 for d in v.type.shape or ()], scale=0.1)
        for v in whole.graph.inputs
        if isinstance(v.type, ir.TensorType)
    )
    (spectrum,) = _run(_silero(corpus, "silero-vad-stft-v6.0.0"), {"audio_input": audio}).values()
    (features,) = _run(_silero(corpus, "silero-vad-encoder-v6.0.0"), {"stft_features": spectrum}).values()
    given = {"encoder_output": features, "hidden_state": h, "cell_state": c}
    results = _run(_silero(corpus, "silero-vad-decoder-v6.0.0"), given)
    for name, result in results.items():
        np.testing.assert_allclose(result.ravel(), expected[name].ravel(), rtol=1e-3, atol=1e-4)
