"""Steps of decoders: which shapes of inputs process how many tokens against how many others."""

from __future__ import annotations

import dataclasses

import coremltools as ct
import pytest

from coremlscope import ir
from coremlscope.execution.decoder_steps import decoder_steps
from coremlscope.formats.sample import sample_model
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
    both = dataclasses.replace(
        infer, content=ir.Program(functions=functions), description=ir.Description(interfaces, "infer")
    )
    assert found(both) == [(1, 512, 512), (64, 512, 512)]
    assert [one.function for one in decoder_steps(both)] == ["infer", "prefill"]
    assert found(both, function="prefill") == [(64, 512, 512)]


def test_other_models_have_none() -> None:
    assert found(sample_model(size=32, width=0.5, classes=10)) == []
