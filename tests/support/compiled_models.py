"""Comparison of models with their compiled forms."""

from __future__ import annotations

from msgspec.structs import replace

from coremlscope.model import ir

__all__ = ["assert_same_model", "in_order"]


def assert_same_model(compiled: ir.Model, source: ir.Model) -> None:
    """Checks that a compiled model has the interface and the graph of its source.

    In MIL text, the inputs of a function and the entries of a dictionary are in alphabetical order.
    """
    assert compiled.description == source.description
    assert (compiled.spec_version, compiled.metadata) == (source.spec_version, source.metadata)
    assert in_order(compiled.content) == in_order(source.content)


def in_order(content: object) -> ir.Program:
    """Returns a program with its inputs and dictionaries in alphabetical order."""
    assert isinstance(content, ir.Program)
    functions = {
        name: replace(
            function,
            graph=replace(
                function.graph, inputs=tuple(sorted(function.graph.inputs, key=lambda value: value.name))
            ),
        )
        for name, function in content.functions.items()
    }
    attributes = {name: _sorted(value) for name, value in content.attributes.items()}
    return replace(content, functions=functions, attributes=attributes)


def _sorted(constant: ir.Constant) -> ir.Constant:
    if not isinstance(constant.type, ir.DictType) or not isinstance(constant.data, ir.Nested):
        return constant
    items = constant.data.items
    pairs = sorted(zip(items[::2], items[1::2], strict=True), key=lambda pair: str(pair[0].item()))
    return replace(constant, data=ir.Nested(tuple(item for pair in pairs for item in pair)))
