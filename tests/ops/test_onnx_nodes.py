from __future__ import annotations

import onnx
import pytest

from coremlscope.ops import OPS
from coremlscope.ops.onnx_nodes import onnx_nodes

#: What is unpacked or passed on before run time.
_WITHOUT_NODES = {"identity", "read_state", "write_state"}


@pytest.mark.parametrize("name", OPS)
def test_every_operation_names_its_operators(name: str) -> None:
    nodes = onnx_nodes(OPS[name])
    assert bool(nodes) != (name in _WITHOUT_NODES or name.startswith("constexpr_"))
    assert all(onnx.defs.has(node) for node in nodes)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("relu", {"Relu"}),
        ("max_pool", {"MaxPool"}),
        ("topk", {"TopK"}),
        ("while_loop", {"Loop"}),
        ("expand_dims", {"Unsqueeze"}),
    ],
)
def test_operators(name: str, nodes: set[str]) -> None:
    assert nodes <= set(onnx_nodes(OPS[name]))
