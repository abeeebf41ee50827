"""coremltools in less time, with equal results. Only processes that make variants use it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np

from coremlscope.model.ir import Array
from coremlscope.studies.variants.clustering import divide

#: The bits of a negative zero in half precision, and the first ones of those that are not a number.
_NEGATIVE_ZERO, _NOT_A_NUMBER = 0x8000, 0x7C00
_HALVES = 1 << 16
#: From these bits of an index on our clustering takes less time than coremltools'.
_DIVIDED = 4

_Clustering = Callable[..., tuple[Array, Array]]


@contextmanager
def quick_coremltools() -> Iterator[None]:
    """Makes coremltools faster while it is entered; its results stay the same.

    - Programs are not validated after each of some hundred passes, and not printed for the debug log. Each
      of them is still validated before it is written.
    - Which compressed weights a value depends on is found in one walk over operations with inputs, after
      passes that set inputs: coremltools walks after each, over all constants, and flattens inputs again
      for each output.
    - Transposes are reduced where there are some: coremltools infers all types again, also without any.
    - Values of fp16 weights are counted instead of sorted before they are clustered, and divided into many
      clusters by `divide`.

    Nothing is done for what a version of coremltools does not have.
    """
    with ExitStack() as stack:
        passes = importlib.import_module("coremltools.converters.mil.mil.passes.pass_pipeline")
        mil = importlib.import_module("coremltools.converters.mil.mil")
        manager = passes.PassPipelineManager
        if hasattr(mil.Program, "validate"):
            quick = _without_checks(manager.apply_pipeline, mil)
            stack.enter_context(patch.object(manager, "apply_pipeline", staticmethod(quick)))
        name, setting = "_propagate_nonreplaceable_vars", "_validate_and_set_inputs"
        if hasattr(mil.Block, name) and hasattr(mil.Operation, setting):
            find, set_inputs = _where_changed(getattr(mil.Operation, setting))
            stack.enter_context(patch.object(mil.Block, name, find))
            stack.enter_context(patch.object(mil.Operation, setting, set_inputs))
        moves = importlib.import_module("coremltools.converters.mil.mil.passes.defs.optimize_repeat_ops")
        name = "_reduce_transposes_block"
        reducing = getattr(moves, "reduce_transposes", None)
        if hasattr(reducing, name):
            quick = staticmethod(_where_transposed(getattr(reducing, name)))
            stack.enter_context(patch.object(reducing, name, quick))
        compression = importlib.import_module("coremltools.optimize.coreml._quantization_passes")
        networks = importlib.import_module("coremltools.models.neural_network.quantization_utils")
        name = "_get_kmeans_lookup_table_and_weight"
        if hasattr(compression, name) and getattr(networks, "_HAS_KMEANS1D", False):
            clustering = _counting(getattr(compression, name), networks._kmeans1d.cluster)
            stack.enter_context(patch.object(compression, name, clustering))
        yield


def _without_checks(apply: Callable[..., None], mil: Any) -> Callable[..., None]:
    """Returns `PassPipelineManager.apply_pipeline` without the checks between passes."""

    def quick(*arguments: Any, **options: Any) -> None:
        with ExitStack() as stack:
            stack.enter_context(patch.object(mil.Program, "validate", lambda *_, **__: None))
            for printed in (mil.Program, mil.Function, mil.Block):
                stack.enter_context(patch.object(printed, "__str__", object.__repr__))
            apply(*arguments, **options)

    return quick


def _where_changed(set_inputs: Callable[..., None]) -> tuple[Callable[[Any], None], Callable[..., None]]:
    """Returns `_find_compressed_weights`, for blocks since which inputs were set, and what sets inputs."""
    changes, seen = 0, dict[Any, int]()

    def find(block: Any) -> None:
        if seen.get(block) != changes:
            _find_compressed_weights(block)
            seen[block] = changes

    def noted(*arguments: Any, **options: Any) -> None:
        nonlocal changes
        changes += 1
        set_inputs(*arguments, **options)

    return find, noted


def _find_compressed_weights(block: Any) -> None:
    """Does what `Block._propagate_nonreplaceable_vars` does: finds those that each value depends on."""
    for op in block.operations:
        for inner in op.blocks:
            _find_compressed_weights(inner)
        is_compressed = op.op_type.startswith("constexpr_")
        inputs = () if is_compressed or op.op_type in ("const", "shape") else op.get_flattened_inputs()
        behind = set().union(*(one.nonreplaceable_vars_upstream for one in inputs))
        for output in op.outputs or ():
            output.nonreplaceable_vars_upstream = {output} if is_compressed else behind


def _where_transposed(reduce: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns coremltools' reduction of transposes, for blocks that have some."""

    def quick(block: Any) -> None:
        if any(op.op_type == "transpose" for op in block.operations):
            reduce(block)

    return quick


def _counting(original: _Clustering, cluster: Callable[..., Any]) -> _Clustering:
    """Returns coremltools' clustering with counted values where it clusters large fp16 weights by itself."""

    def clustered(
        nbits: int, weight: Array, force_kmeans1d: bool = False, cluster_dim: int = 1, vector_axis: Any = None
    ) -> tuple[Array, Array]:
        is_own = cluster_dim == 1 and weight.size >= 10_000 and weight.dtype == np.float16
        known = count_values(weight) if is_own else None
        if known is None:
            return original(nbits, weight, force_kmeans1d, cluster_dim, vector_axis)
        values, places, counts = known
        entries = min(len(values), 1 << nbits)
        table = np.zeros(1 << nbits)
        is_large = nbits >= _DIVIDED and len(values) >= 2 * entries
        edges = divide(values, counts, entries, cluster) if is_large else None
        if edges is None:
            found = cluster(values, entries, weights=counts)
            table[:entries], clusters = found.centroids, np.array(found.clusters)
        else:
            means = (cluster(values[a:b], 1, weights=counts[a:b]).centroids[0] for a, b in pairwise(edges))
            table[:] = list(means)
            clusters = np.repeat(np.arange(entries), np.diff(edges))
        return table, clusters[places]

    return clustered


def count_values(weight: Array) -> tuple[Array, Array, Array] | None:
    """Returns what `numpy.unique` does of a float16 array, with the places and counts of values.

    Args:
        weight: An array of any shape.

    Returns:
        The values in ascending order, the place of each element's value among them, flat, and how often each
        value occurs. None where it contains zeros of both signs, or what is not a number: which of equal ones
        NumPy keeps depends on its sorting.
    """
    bits = np.ascontiguousarray(weight).view(np.uint16).reshape(-1)
    counts = np.bincount(bits, minlength=_HALVES)
    if (counts[0] and counts[_NEGATIVE_ZERO]) or counts[_not_numbers()].any():
        return None
    order = _ascending()
    present = order[counts[order] > 0]
    places = np.zeros(_HALVES, np.intp)
    places[present] = np.arange(present.size)
    return present.astype(np.uint16).view(np.float16), places[bits], counts[present]


@cache
def _not_numbers() -> Array:
    """All 16-bit patterns that are not a number."""
    patterns = np.arange(_HALVES)
    return patterns[(patterns & 0x7FFF) > _NOT_A_NUMBER]


@cache
def _ascending() -> Array:
    """All 16-bit patterns of numbers, in the order of what they mean in half precision."""
    negative = np.arange(_NEGATIVE_ZERO | _NOT_A_NUMBER, _NEGATIVE_ZERO - 1, -1)
    return np.concatenate([negative, np.arange(_NOT_A_NUMBER + 1)])
