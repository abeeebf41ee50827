"""Places operations as Core AI is known to: by the preferred unit, with fallback, without costs.

How Core AI divides a program is not published, and neither are its costs. What is known: a preferred unit is
a preference, operations that the Neural Engine does not take run on the GPU, and only a program loaded for
the CPU alone stays on the CPU. (Sources: Apple's documentation of specialization; an Apple engineer in the
forum, thread 831967; regions counted by john-rocky/coreai-model-zoo.)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits
from coremlscope.model.ir import DType
from coremlscope.planning.patterns.forms import run_time_tensors
from coremlscope.planning.patterns.verdict import Verdict
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF, Backend
from coremlscope.planning.placement.coreml_view import CoreMLGraph, Node
from coremlscope.planning.placement.eligibility import Verdicts
from coremlscope.planning.placement.place import PlacedFunction, graphs_of, list_ops
from coremlscope.results.plan import Choice, Undecided

_ACCELERATORS: tuple[ComputeUnit, ...] = (NEURAL_ENGINE, GPU)

#: The order in which units are preferred, by setting; every one after the first is a fallback. Under `all`,
#: Core AI chooses the units that minimise latency, in a way that is not published.
PREFERENCES: Mapping[ComputeUnits, tuple[ComputeUnit, ...]] = {
    "all": (NEURAL_ENGINE, GPU, CPU),
    "cpu_and_ne": (NEURAL_ENGINE, GPU, CPU),
    "cpu_and_gpu": (GPU, CPU),
    "cpu_only": (CPU,),
}


def place_by_preference(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    settings: Sequence[ComputeUnits],
    preferences: Mapping[ComputeUnits, tuple[ComputeUnit, ...]] = PREFERENCES,
    name: str = "",
) -> PlacedFunction:
    """Places each operation on the first unit of the preference that runs it.

    Args:
        graph: The function.
        verdicts: Which units run each operation.
        settings: For which settings of compute units.
        preferences: The order in which units are preferred, by setting.
        name: The function's name in plans; empty for that of the graph.
    """
    choices: dict[str, dict[ComputeUnits, Choice]] = {node.id: {} for node in graph.walk()}
    for setting in settings:
        for id_, backend in _backends(graph, verdicts, preferences[setting]).items():
            choices[id_][setting] = _choice(verdicts[id_], setting, backend)
    name = name or graph.name
    return PlacedFunction(
        name=name,
        ops=tuple(list_ops(graph, name, verdicts, {}, choices)),
        total_ms=dict.fromkeys(settings, 0.0),
    )


def crossings(placed: PlacedFunction, setting: ComputeUnits) -> int:
    """How often values go from the Neural Engine to another unit or come from it: a way and back is one."""
    units = [segment.unit for segment in placed.segments(setting)]
    changes = sum(NEURAL_ENGINE in pair for pair in itertools.pairwise(units))
    return -(-changes // 2)


def _backend(verdicts: Mapping[ComputeUnit, Verdict], preferred: Sequence[ComputeUnit]) -> Backend | None:
    units = [unit for unit in preferred if verdicts[unit].supported == "yes"]
    return BACKENDS_OF[units[0]][0] if units else None


def _backends(
    graph: CoreMLGraph, verdicts: Verdicts, preferred: Sequence[ComputeUnit]
) -> dict[str, Backend | None]:
    """Returns the backend of each operation.

    Operations that read and write only truth values, such as parts of a mask, run where the operation before
    them runs: no region of the Neural Engine that consists of them alone was observed, in a program of fp32.
    """
    found = {
        node.id: _backend(verdicts[node.id], preferred) for one in graphs_of(graph) for node in one.nodes
    }
    for one in graphs_of(graph):
        weighty = [node.id for node in one.nodes if not _is_logical(node)]
        last = found[weighty[0]] if weighty else None
        for node in one.nodes:
            if not _is_logical(node):
                last = found[node.id]
            elif last is not None and verdicts[node.id][UNIT_OF[last]].supported == "yes":
                found[node.id] = last
    return found


def _is_logical(node: Node) -> bool:
    types = [type_ for _, type_ in run_time_tensors(node.view)]
    return bool(types) and all(type_.dtype is DType.BOOL for type_ in types)


def _choice(
    verdicts: Mapping[ComputeUnit, Verdict], setting: ComputeUnits, backend: Backend | None
) -> Choice:
    others: dict[ComputeUnit, Undecided] = {}
    if setting == "all" and backend is not None:
        for unit in _ACCELERATORS:
            if unit != UNIT_OF[backend] and verdicts[unit].supported == "yes":
                others[unit] = "unpublished"
    chosen = None if backend is None else UNIT_OF[backend]
    return Choice(backend=backend, unit=chosen, alternatives=others)
