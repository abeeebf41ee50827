"""coremltools in less time, with equal results. Only processes that make variants use it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from coremlscope.model.ir import Array
from coremlscope.studies.variants.clustering import cluster_values

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
    - Large fp16 weights are clustered by `cluster_values`.

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
            clustering = _counting(getattr(compression, name))
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


def _counting(original: _Clustering) -> _Clustering:
    """Returns our clustering where coremltools clusters large fp16 weights by itself."""

    def clustered(
        nbits: int, weight: Array, force_kmeans1d: bool = False, cluster_dim: int = 1, vector_axis: Any = None
    ) -> tuple[Array, Array]:
        is_own = cluster_dim == 1 and weight.size >= 10_000 and weight.dtype == np.float16
        known = cluster_values([weight], nbits)[0] if is_own else None
        if known is None:
            return original(nbits, weight, force_kmeans1d, cluster_dim, vector_axis)
        return known

    return clustered
