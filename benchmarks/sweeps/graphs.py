"""Graphs of one operation, the cheapest jobs of a sweep."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.studies.probing.building import LayerBuilder

from coremlscope.model.ir import DType, Model

__all__ = ["small_graphs"]


def small_graphs(count: int) -> Iterator[tuple[str, Model]]:
    """Yields names and graphs, each with an input of another size."""
    for index in range(count):
        net = LayerBuilder(DType.FP16)
        x = net.input("x", (1, 8 + index))
        yield f"net {index}", net.model(net.op("relu", x=x), "")
