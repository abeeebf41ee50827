"""Compares two readings of one Core AI program."""

from __future__ import annotations

from coremlscope.formats.aimodel.content import BlockContent, Content

__all__ = ["assert_same"]

_FIELDS = ("is_private", "composite", "composite_attributes", "composite_inputs", "inputs", "outputs")
#: Attributes that only name inputs and outputs, which are compared by themselves.
_NAMING = ("arg_attrs", "res_attrs")


def assert_same(ours: Content, theirs: Content) -> None:
    """Compares graphs, operations, types, attributes, origins and the bytes of constants."""
    assert list(ours.graphs) == list(theirs.graphs)
    for name, graph in ours.graphs.items():
        other = theirs.graphs[name]
        for field in (
            "is_private",
            "composite",
            "composite_attributes",
            "composite_inputs",
            "inputs",
            "outputs",
        ):
            assert getattr(graph, field) == getattr(other, field)
        _assert_same_block(ours, graph.body, theirs, other.body)


def _assert_same_block(ours: Content, block: BlockContent, theirs: Content, other: BlockContent) -> None:
    numbers = {value: place for place, value in enumerate(_values(block))}
    others = {value: place for place, value in enumerate(_values(other))}
    assert [op.name for op in block.ops] == [op.name for op in other.ops]
    for op, their_op in zip(block.ops, other.ops, strict=True):
        assert [ours.type(value) for value in op.results] == [
            theirs.type(value) for value in their_op.results
        ]
        operands = [others.get(value) for value in their_op.operands]
        assert [numbers.get(value) for value in op.operands] == operands
        assert ours.origin(op) == theirs.origin(their_op)
        if op.name == "constant":
            one, two = ours.constant(op).numpy(), theirs.constant(their_op).numpy()
            assert (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())
            continue
        mine, given = (
            {key: value for key, value in which.attributes.items() if key not in _NAMING}
            for which in (op, their_op)
        )
        assert mine == given
        # coreai-core makes decompositions anew, and does not keep those of the file.
        for inner, other_inner in zip(op.blocks if their_op.blocks else (), their_op.blocks, strict=True):
            _assert_same_block(ours, inner, theirs, other_inner)


def _values(block: BlockContent) -> list[object]:
    return [*block.arguments, *(value for op in block.ops for value in op.results)]
