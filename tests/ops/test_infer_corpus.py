"""Inferred types against those that the converters of real models declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from coremlscope.base import errors
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.view import BoundGraph, OpView

pytestmark = pytest.mark.corpus


def programs(folder: Path) -> Iterator[tuple[str, ir.Function]]:
    """Every function of every ML Program of a folder, weights present or not."""
    inside = (p for p in folder.rglob("*.mlmodel") if not any(up.suffix == ".mlpackage" for up in p.parents))
    for path in sorted([*folder.rglob("*.mlpackage"), *inside]):
        try:
            model = container.read(path)
        except errors.ModelError:
            continue
        if isinstance(model.content, ir.Program):
            for function in model.content.functions.values():
                yield f"{path.name}: {function.name}", function


def without_declared_shapes(graph: ir.Graph) -> ir.Graph:
    """The graph with nothing said about the shapes of results: what is inferred cannot lean on it."""

    def unknown(value: ir.Value) -> ir.Value:
        type_ = value.type
        return (
            replace(value, type=ir.TensorType(type_.dtype, None))
            if isinstance(type_, ir.TensorType)
            else value
        )

    ops = tuple(
        op
        if op.type == "const"
        else replace(
            op, outputs=tuple(map(unknown, op.outputs)), blocks=tuple(map(without_declared_shapes, op.blocks))
        )
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def walk(graph: BoundGraph) -> Iterator[OpView]:
    for view in graph.ops:
        yield view
        for block in view.blocks:
            yield from walk(block)


def is_static(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.TensorType) or value.type.is_static


def compare(folder: Path) -> tuple[int, list[str]]:
    """How many operations were looked at, and what is wrong."""
    seen, wrong = 0, []
    for name, function in programs(folder):
        bare = replace(function, graph=without_declared_shapes(function.graph))
        bound = bind(bare, OPS)
        wrong += [f"{name}: {place}: {text}" for place, text in bound.problems]
        declared = {op.id: op for op in function.graph.walk()}
        for view in walk(bound.graph):
            op = declared[view.op.id]
            if view.op.type not in OPS or not all(map(is_static, op.outputs)):
                continue
            seen += 1
            for value, inferred in zip(op.outputs, view.outputs, strict=True):
                if inferred.type != value.type:
                    wrong.append(
                        f"{name}: {op.id} {op.type}: {ir.describe_type(value.type)} is declared, "
                        f"{ir.describe_type(inferred.type)} inferred"
                    )
    return seen, wrong


def test_corpus(corpus: Path) -> None:
    seen, wrong = compare(corpus)
    assert not wrong, "\n".join(wrong[:40])
    assert seen > 2000


@pytest.mark.long
def test_image_networks(corpus: Path) -> None:
    folder = corpus.parent / "knowledge" / "latency" / "models"
    if not folder.is_dir():
        pytest.skip("no packages of image networks beside the corpus")
    seen, wrong = compare(folder)
    assert not wrong, "\n".join(wrong[:40])
    assert seen > 10_000
