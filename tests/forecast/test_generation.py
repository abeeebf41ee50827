"""Language models: tokens of a prediction, the cost of caches, and tokens per second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types

from benchmarks.latency.decoders import kernels_of, load_rates, render
from coremlscope import api
from coremlscope.api.assemble import with_devices
from coremlscope.devices import ComputeUnits, all_chips, find_device
from coremlscope.formats.sample import sample_model
from coremlscope.measure.effort import Effort
from coremlscope.model import ir
from coremlscope.planning.cost.latency.kernels import Kernel, fuse
from coremlscope.planning.forecast.generation import estimate_generation
from coremlscope.reports.estimates import estimates_document
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.generation import TokenRate
from coremlscope.runtime.execution.decoder_steps import Step, find_step
from tests.support.decoders import decoder
from tests.support.programs import bind_main, build

LAYERS, HIDDEN, CONTEXT = 2, 256, 512


@pytest.fixture(scope="module")
def models() -> dict[tuple[int, int], ir.Model]:
    """Decoders by tokens and context."""
    return {key: decoder(tokens=key[0], context=key[1]) for key in ((1, 512), (64, 512), (1, 4096))}


def rates(
    model: ir.Model, chip: str = "m1", setting: ComputeUnits = "cpu_and_ne", **more: Any
) -> tuple[TokenRate, ...]:
    return estimate_generation(model, [find_device(chip)], [setting], **more)


@pytest.mark.parametrize("tokens", [1, 64])
def test_tokens_are_the_rows_that_are_written(models: dict[tuple[int, int], ir.Model], tokens: int) -> None:
    cache = 2 * LAYERS * CONTEXT * HIDDEN * 2
    assert find_step(bind_main(models[tokens, 512]).graph) == Step(
        tokens=tokens, context=CONTEXT, attended=CONTEXT, cache_bytes=cache, cache_elements=cache // 2
    )


def test_other_models_are_not_language_models() -> None:
    model = sample_model(size=32, width=0.5, classes=10)
    assert find_step(bind_main(model).graph) is None
    assert rates(model) == ()

    def body(x: Any, total: Any) -> Any:
        return mb.coreml_update_state(state=total, value=mb.add(x=mb.read_state(input=total), y=x))

    ones = np.ones((2,), np.float16)
    counter = build(body, {"x": ones}, target=ct.target.iOS18, states={"total": ones})
    assert find_step(bind_main(counter).graph) is None


def test_a_token_that_is_written_by_its_index() -> None:
    def body(x: Any, keys: Any, values: Any) -> Any:
        for state in (keys, values):
            old = mb.read_state(input=state)
            new = mb.slice_update(
                x=old, update=x, begin=[0, 5, 0], end=[1, 6, 4], squeeze_mask=[False, True, False]
            )
            read = mb.coreml_update_state(state=state, value=new)
        return read

    cache = np.ones((1, 8, 4), np.float16)
    states = {"keys": cache, "values": cache}
    model = build(body, {"x": np.ones((1, 4), np.float16)}, target=ct.target.iOS18, states=states)
    assert find_step(bind_main(model).graph) == Step(
        tokens=1, context=8, attended=8, cache_bytes=2 * cache.nbytes, cache_elements=2 * cache.size
    )


def test_a_window_of_the_last_inputs_is_no_cache() -> None:
    def body(x: Any, window: Any) -> Any:
        old = mb.read_state(input=window)
        kept = mb.slice_by_index(x=old, begin=[0, 1, 0], end=[1, 8, 4])
        moved = mb.slice_update(x=old, update=kept, begin=[0, 0, 0], end=[1, 7, 4])
        new = mb.slice_update(x=moved, update=x, begin=[0, 7, 0], end=[1, 8, 4])
        return mb.coreml_update_state(state=window, value=new)

    inputs = {"x": np.ones((1, 1, 4), np.float16)}
    states = {"window": np.ones((1, 8, 4), np.float16)}
    assert find_step(bind_main(build(body, inputs, target=ct.target.iOS18, states=states)).graph) is None


def test_caches_in_inputs_and_outputs() -> None:
    def body(x: Any, keys: Any, values: Any) -> Any:
        new = mb.reshape(x=x, shape=[1, 2, 1, 8])
        both = [mb.concat(values=[past, new], axis=2) for past in (keys, values)]
        return (mb.matmul(x=new, y=both[0], transpose_y=True), *both)

    past = np.zeros((1, 2, 31, 8), np.float16)
    inputs = {"x": np.zeros((1, 16), np.float16), "keys": past, "values": past}
    model = build(body, inputs, target=ct.target.iOS18)
    assert find_step(bind_main(model).graph) == Step(
        tokens=1, context=32, attended=32, cache_bytes=2 * past.nbytes, cache_elements=2 * past.size
    )


@pytest.mark.parametrize(
    ("rows", "tokens"),
    [
        (ct.Shape((1, 2, ct.RangeDim(1, 64, default=1), 8)), [1, 64]),
        (ct.EnumeratedShapes([(1, 2, 1, 8), (1, 2, 16, 8), (1, 2, 128, 8)]), [1, 128]),
    ],
)
def test_flexible_inputs_give_both_phases(rows: Any, tokens: list[int]) -> None:
    past = (1, 2, 31, 8)
    shapes = [rows.symbolic_shape, past, past]
    specs = [mb.TensorSpec(shape=shape, dtype=types.fp16) for shape in shapes]

    @mb.program(input_specs=specs, opset_version=ct.target.iOS18)
    def program(x: Any, keys: Any, values: Any) -> Any:
        new = mb.mul(x=x, y=np.float16(2))
        return tuple(mb.concat(values=[past, new], axis=2) for past in (keys, values))

    inputs = [ct.TensorType(name=n, shape=s) for n, s in (("x", rows), ("keys", past), ("values", past))]
    converted = ct.convert(
        program, inputs=inputs, minimum_deployment_target=ct.target.iOS18, skip_model_load=True
    )
    assert [rate.tokens for rate in rates(api.read(converted.get_spec().SerializeToString()))] == tokens


def kernels(model: ir.Model) -> Iterator[Kernel]:
    yield from fuse(bind_main(model).graph)


def test_a_cache_is_read_once_and_only_new_rows_are_written(models: dict[tuple[int, int], ir.Model]) -> None:
    whole = CONTEXT * HIDDEN
    found = list(kernels(models[1, 512]))
    copies = [kernel for kernel in found if kernel.kind == "copy"]
    assert [(kernel.inputs, kernel.outputs) for kernel in copies] == [(HIDDEN, HIDDEN)] * 2 * LAYERS
    products = [kernel for kernel in found if kernel.kind in ("matmul", "attention")]
    assert sum(kernel.inputs for kernel in products) >= 2 * LAYERS * whole
    assert sum(kernel.inputs for kernel in found) < 2.5 * LAYERS * whole


def test_decoding_depends_on_the_context_and_prefill_on_arithmetic(
    models: dict[tuple[int, int], ir.Model],
) -> None:
    # On one unit: the plans of so small models go to different units otherwise.
    keys = ((1, 512), (1, 4096), (64, 512))
    (short,), (long,), (many,) = (rates(models[key], setting="cpu_only") for key in keys)
    assert (short.phase, short.tokens, many.phase, many.tokens) == ("decode", 1, "prefill", 64)
    assert long.tokens_per_s.value < short.tokens_per_s.value < many.tokens_per_s.value
    for rate in (short, long, many):
        assert rate.tokens_per_s.value == pytest.approx(rate.tokens / rate.step_s.value)
        assert rate.tokens_per_s.low < rate.tokens_per_s.value < rate.tokens_per_s.high
        assert rate.tokens_per_s.origin == "estimated"


def test_estimate_shows_them(models: dict[tuple[int, int], ir.Model]) -> None:
    profile = api.estimate(models[1, 512], "m1", compute_units=["cpu_and_ne", "cpu_only"])
    assert [rate.compute_units for rate in profile.rates] == ["cpu_and_ne", "cpu_only"]
    assert profile.rates[0].step_s == profile.estimates[0].latency
    for width in (60, 80, 140):
        text = write_terminal(estimates_document([profile]), width=width)
        assert "As a language model" in text
        assert max(map(len, text.splitlines())) <= width


def test_weights_and_cache_bound_a_decoder_of_published_dimensions() -> None:
    rate = next(rate for rate in load_rates() if rate.row["model"] == "Qwen2.5-1.5B fp16")
    found = kernels_of(rate.size, rate.weight_bytes)
    assert sum(kernel.weight_bytes for kernel in found) == pytest.approx(rate.weight_bytes)
    # 1.54e9 parameters, of which the table of embeddings is the head as well.
    assert sum(kernel.weights for kernel in found) == pytest.approx(1.54e9, rel=0.02)
    cache = 2 * rate.size["layers"] * rate.size["kv_heads"] * rate.size["head_size"] * rate.size["context"]
    assert sum(k.inputs for k in found if k.kind == "matmul") > cache


def test_published_rates_have_sources_and_are_estimated() -> None:
    loaded = load_rates()
    assert len(loaded) >= 20
    assert {rate.unit for rate in loaded} == {"cpu", "gpu", "neural_engine"}
    for rate in loaded:
        assert rate.row["url"].startswith("http") or "file " in rate.row["note"]
        assert rate.row["chip"] in all_chips()
        value, low, high = rate.estimated()
        assert low < value < high
        assert 1 / 6 < value / rate.tokens_per_s < 6
    assert "None of these rates is in the fit" in " ".join(render().split())


def test_profiles_have_the_rates_of_estimates(models: dict[tuple[int, int], ir.Model]) -> None:
    model = models[64, 512]
    profile = api.profile(
        model, effort=Effort(warmups=0), devices=["m1"], compute_units="cpu_and_ne", iterations=1
    )
    assert profile.rates == rates(model)
    assert "As a language model" in write_terminal(document_of(profile))
    more = with_devices(profile, model, [find_device("a17-pro")])
    assert [(rate.chip, rate.compute_units) for rate in more.rates] == [
        ("a17-pro", "cpu_and_ne"),
        ("m1", "cpu_and_ne"),
    ]
    assert more.rates[1] == profile.rates[0]


@pytest.mark.parametrize(("words", "dtype"), [(4096, np.int32), (64, np.int32), (4096, np.float16)])
def test_why_a_model_of_language_has_no_rate_is_told(words: int, dtype: Any) -> None:
    """A model without a cache that takes ids and gives a vocabulary; classifiers have no rate to speak of."""

    def body(ids: Any) -> Any:
        places = mb.cast(x=ids, dtype="int32") if dtype != np.int32 else ids
        table = np.zeros((16, 32), np.float16)
        return mb.linear(
            x=mb.gather(x=table, indices=places, axis=0), weight=np.zeros((words, 32), np.float16)
        )

    model = build(body, {"ids": np.zeros((1, 8), dtype)})
    (answer,) = (one for one in api.answer(model, ["m4"]).answers if one.is_asked)
    is_language = words == 4096 and dtype == np.int32
    assert bool(answer.tokens and answer.tokens.unknown) == is_language
    assert answer.tokens is None or answer.tokens.decode is None


def test_a_rate_tells_the_unit_that_makes_it(models: dict[tuple[int, int], ir.Model]) -> None:
    device = find_device("m4")
    found = estimate_generation(models[1, 512], [device], ["cpu_only", "cpu_and_gpu", "all"])
    assert {one.compute_units: one.unit for one in found}["cpu_only"] == "cpu"
    assert all(one.unit is not None for one in found)
