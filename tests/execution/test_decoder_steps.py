"""Steps of decoders: which shapes of inputs process how many tokens against how many others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import coremltools as ct
import msgspec.structs
import numpy as np
import pytest

from coremlscope.formats.aimodel.reader import read_aimodel
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.runtime.execution.decoder_steps import decoder_steps
from tests.support.aicode import TOKEN, Body, Graph, Val, handle, tensor, write_bundle
from tests.support.decoders import ROOM, decoder, flexible_decoder, growing_decoder


@pytest.fixture(scope="module")
def flexible() -> ir.Model:
    return flexible_decoder()


def found(model: ir.Model, **more: object) -> list[tuple[int, int, int]]:
    """Tokens, tokens that are attended to and room of each step."""
    steps = decoder_steps(model, **more)  # type: ignore[arg-type]
    return [(one.step.tokens, one.step.attended, one.step.context) for one in steps]


def test_ranges_give_a_curve_of_contexts_and_a_prefill(flexible: ir.Model) -> None:
    contexts = [(1, ROOM // part, ROOM) for part in (8, 4, 2, 1)]
    assert found(flexible) == [*contexts, (ROOM // 2, ROOM // 2, ROOM)]
    last = decoder_steps(flexible)[-1]
    assert last.shapes == {"ids": (1, 32), "mask": (1, 1, 32, 32)}
    assert last.step.cache_bytes == 2 * last.step.cache_elements == 2 * 2 * 2 * 2 * ROOM * 8


def test_requested_shapes_are_one_step(flexible: ir.Model) -> None:
    shapes = {"ids": [1, 2], "mask": [1, 1, 2, 10]}
    assert found(flexible, shapes=shapes) == [(2, 10, ROOM)]
    assert decoder_steps(flexible, shapes=shapes)[0].shapes == {"ids": (1, 2), "mask": (1, 1, 2, 10)}


def test_enumerated_shapes_are_taken_row_by_row() -> None:
    rows = [(1, ROOM), (16, 16), (1, 32), (24, 24)]
    ids = ct.EnumeratedShapes([(1, tokens) for tokens, _ in rows])
    mask = ct.EnumeratedShapes([(1, 1, tokens, attended) for tokens, attended in rows])
    assert found(flexible_decoder((ids, mask))) == [(1, 32, ROOM), (1, ROOM, ROOM), (24, 24, ROOM)]


def test_caches_in_inputs_and_outputs_grow() -> None:
    steps = decoder_steps(growing_decoder())
    tokens = [(one.step.tokens, one.step.attended) for one in steps]
    assert tokens == [(1, 32), (1, 64), (1, 128), (1, 257), (32, 33)]
    for one in steps:
        past = one.shapes["keys0"][2]
        assert past == one.step.attended - one.step.tokens
        assert one.step.cache_bytes == 4 * 2 * past * 8 * 2


def test_fixed_shapes_are_one_step_for_each_function() -> None:
    infer, prefill = decoder(tokens=1), decoder(tokens=64)
    functions = {
        name: one.content.functions["main"]
        for name, one in (("infer", infer), ("prefill", prefill))
        if isinstance(one.content, ir.Program)
    }
    interfaces = {"infer": infer.description.main, "prefill": prefill.description.main}
    both = msgspec.structs.replace(
        infer, content=ir.Program(functions=functions), description=ir.Description(interfaces, "infer")
    )
    assert found(both) == [(1, 512, 512), (64, 512, 512)]
    assert [one.function for one in decoder_steps(both)] == ["infer", "prefill"]
    assert found(both, function="prefill") == [(64, 512, 512)]


def test_other_models_have_none() -> None:
    assert found(sample_model(size=32, width=0.5, classes=10)) == []


_CACHE, _ROW = tensor("fp16", 1, 2, 64, 8), tensor("fp16", 1, 2, 1, 8)


def _by_place(b: Body, old: Val, row: Val, position: Val) -> Val:
    del position
    places = b.constant([[[[0, 0, 5]], [[0, 1, 5]]]])
    scalar = tensor("fp16")
    written: Val = b.op(
        "scatter_nd", [old, places, row], [old.type], blocks=[([scalar, scalar], lambda _, a, c: [c])]
    )
    return written


def _along_axis(b: Body, old: Val, row: Val, position: Val) -> Val:
    places = b.constant(np.full((1, 2, 1, 8), 5))
    written: Val = b.op("scatter_along_axis", [old, places, row, b.constant(2)], [old.type], choice=(20, 0))
    return written


def _by_mask(b: Body, old: Val, row: Val, position: Val) -> Val:
    here = b.op("broadcasting_equal", [b.constant(np.arange(64)), position], [tensor("bool", 64)])
    here = b.op("reshape", [here, b.constant([1, 1, 64, 1])], [tensor("bool", 1, 1, 64, 1)])
    written: Val = b.op("broadcasting_where", [here, row, old], [old.type])
    return written


@pytest.mark.parametrize("replace", [_by_place, _along_axis, _by_mask])
def test_ways_to_write_into_a_cache(replace: Callable[..., Val], tmp_path: Path) -> None:
    """Programs of Core AI replace rows in different ways; each is one token in a cache of 64."""

    def write(b: Body, keys: Val, values: Val, row: Val, position: Val) -> Sequence[Val]:
        token = b.op("dataflow.create_token", [], [TOKEN])
        for cache in (keys, values):
            old, token = b.op("dataflow.read_handle", [cache, token], [_CACHE, TOKEN])
            new = replace(b, old, row, position)
            token = b.op("dataflow.write_handle", [cache, new, token], [TOKEN])
        return [b.op("relu", [row], [row.type])]

    caches = {name: handle("fp16", 1, 2, 64, 8) for name in ("keys", "values")}
    inputs = {**caches, "row": _ROW, "position": tensor("int32", 1)}
    model = read_aimodel(write_bundle(tmp_path / "net.aimodel", [Graph("main", inputs, write)]))
    assert not [layer for layer in model.content.functions["main"].layers if layer.problem]  # type: ignore[union-attr]
    assert found(model) == [(1, 64, 64)]
    (step,) = decoder_steps(model)
    assert step.step.cache_bytes == 2 * 2 * 64 * 8 * 2


def test_states_that_are_no_cache(tmp_path: Path) -> None:
    """A mean that is kept where a flag is false has no rows."""
    kind = tensor("fp16", 1, 8)

    def write(b: Body, mean: Val, other: Val, x: Val) -> Sequence[Val]:
        token = b.op("dataflow.create_token", [], [TOKEN])
        for state in (mean, other):
            old, token = b.op("dataflow.read_handle", [state, token], [kind, TOKEN])
            new = b.op(
                "broadcasting_where", [b.op("broadcasting_greater", [x, old], [_FLAGS]), x, old], [kind]
            )
            token = b.op("dataflow.write_handle", [state, new, token], [TOKEN])
        return [b.op("relu", [x], [kind])]

    inputs = {"mean": handle("fp16", 1, 8), "other": handle("fp16", 1, 8), "x": kind}
    assert found(read_aimodel(write_bundle(tmp_path / "net.aimodel", [Graph("main", inputs, write)]))) == []


_FLAGS = tensor("bool", 1, 8)
