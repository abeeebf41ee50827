"""Edges between operations and live memory: small graphs, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from coremltools.converters.mil import Builder as mb

from coremlscope.describe.dataflow import Flow, trace_dataflow
from coremlscope.runtime.execution.binding import bind_model
from tests.support import programs

ROW = np.zeros((1, 100), np.float16)
ROW_BYTES = 200


def flows(build: Any, inputs: dict[str, Any]) -> dict[str, Flow]:
    """The flow of each operation, by the author's name and, where several share it, the last."""
    model = programs.build(build, inputs)
    graph = bind_model(model).graph
    found = trace_dataflow(graph)
    names = {op.id: op.name for op in graph.graph.walk()}
    makers = {id_: names[id_] for id_ in found}
    return {
        makers[id_]: Flow(tuple(makers[maker] for maker in flow.inputs), flow.live_bytes)
        for id_, flow in found.items()
    }


def test_a_shortcut_keeps_its_value_alive() -> None:
    def build(x: Any) -> Any:
        a = mb.relu(x=x, name="a")
        b = mb.sigmoid(x=a, name="b")
        c = mb.tanh(x=b, name="c")
        return mb.add(x=a, y=c, name="d")

    found = flows(build, {"x": ROW})
    assert found["a"] == Flow((), 2 * ROW_BYTES)  # x and a
    assert found["b"] == Flow(("a",), 2 * ROW_BYTES)  # a and b
    assert found["c"] == Flow(("b",), 3 * ROW_BYTES)  # a, b and c
    assert found["d"] == Flow(("a", "c"), 3 * ROW_BYTES)  # a, c and d


def test_a_value_that_is_read_twice_is_one_input() -> None:
    def build(x: Any) -> Any:
        a = mb.relu(x=x, name="a")
        return mb.mul(x=a, y=a, name="square")

    assert flows(build, {"x": ROW})["square"] == Flow(("a",), 2 * ROW_BYTES)


def test_an_output_lives_to_the_end_and_weights_are_not_counted() -> None:
    def build(x: Any) -> Any:
        first = mb.relu(x=x, name="first")
        last = mb.linear(x=x, weight=np.ones((100, 100), np.float16), name="last")
        return first, last

    found = flows(build, {"x": ROW})
    assert found["last"] == Flow((), 3 * ROW_BYTES)  # x, first and last


def test_nested_graphs_see_what_is_outside() -> None:
    def build(x: Any) -> Any:
        outer = mb.relu(x=x, name="outer")
        looped = mb.while_loop(
            _cond=lambda i, y: mb.less(x=i, y=np.float16(3), name="less"),
            _body=lambda i, y: (
                mb.add(x=i, y=np.float16(1), name="count"),
                mb.mul(x=y, y=outer, name="inner"),
            ),
            loop_vars=(np.float16(0), x),
            name="loop",
        )
        return mb.sigmoid(x=looped[1], name="gate")

    found = flows(build, {"x": ROW})
    assert found["loop"].inputs == ()
    assert found["inner"].inputs == ("outer",)
    # Outside x, outer and the two results of the loop; inside the count and the product.
    assert found["loop"].live_bytes == 3 * ROW_BYTES + 2
    assert found["inner"].live_bytes == 4 * ROW_BYTES + 2 + 2
    assert found["gate"] == Flow(("loop",), 2 * ROW_BYTES)


def test_an_unknown_size_is_unknown_while_it_lives() -> None:
    def build(x: Any) -> Any:
        found = mb.non_zero(x=x, name="places")
        small = mb.reduce_sum(x=mb.cast(x=found, dtype="fp16", name="cast"), axes=[0, 1], name="sum")
        return mb.relu(x=small, name="after")

    found = flows(build, {"x": ROW})
    assert found["places"].live_bytes is None
    assert found["sum"].live_bytes is None
    assert found["after"].live_bytes is not None
