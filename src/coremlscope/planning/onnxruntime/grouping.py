"""How ONNX Runtime divides a graph into partitions for the provider: an exact formula.

With w of an operator as the wave in which it is reached, and r the largest w of its predecessors (0 without
any): a supported operator has w = r; any other has w = r + 1 if a supported predecessor has w = r, else r.
The partitions are the supported operators of each wave. (Derived from `CreateSupportedPartitions` in
`onnxruntime/core/providers/partitioning_utils.cc`, which walks queues; both agree on random graphs.)
"""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.formats.onnx.graph import Node


def group(nodes: Sequence[Node], taken: Sequence[bool]) -> list[list[int]]:
    """Returns the partitions as indices of operators, in order of waves.

    Args:
        nodes: The operators, each after those whose results it reads.
        taken: Whether each is supported.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    waves: list[int] = []
    groups: dict[int, list[int]] = {}
    for index, (node, is_taken) in enumerate(zip(nodes, taken, strict=True)):
        before = {makers[name] for name in node.reads() if name in makers}
        wave = max((waves[one] for one in before), default=0)
        if not is_taken and any(taken[one] and waves[one] == wave for one in before):
            wave += 1
        waves.append(wave)
        if is_taken:
            groups.setdefault(wave, []).append(index)
    return [groups[wave] for wave in sorted(groups)]
