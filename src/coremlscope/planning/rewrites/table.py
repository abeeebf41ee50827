"""Transforms that rewrite a program by themselves, without coremltools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from coremlscope.model.ir import Function, Model
from coremlscope.planning.rewrites.half_edges import with_half_edges
from coremlscope.planning.rewrites.sequence_layout import with_convolutions

#: Returns an ML Program in another form, and how many operations or inputs have it.
Rewrite = Callable[[Model], tuple[Model, int]]


def _in_functions(rewrite: Callable[[Function], tuple[Function, int]], model: Model) -> tuple[Model, int]:
    """Rewrites all functions of an ML Program."""
    made = {name: rewrite(function) for name, function in model.content.functions.items()}
    functions = {name: function for name, (function, _) in made.items()}
    return model.with_functions(functions), sum(n for _, n in made.values())


REWRITES: Mapping[str, Rewrite] = {
    "fp16-io": with_half_edges,
    "linear-as-conv": partial(_in_functions, with_convolutions),
}
