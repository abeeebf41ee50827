"""Test cases of single operations. Many share one program, because a conversion is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import coremltools as ct
import numpy as np

from coremlscope.ops import OPS
from coremlscope.ops.spec import Work
from tests.support.programs import bind_main, build, run

#: An operation as a function of MIL variables, and its expected result.
Case = tuple[Callable[..., Any], Any]


def check(
    cases: Mapping[str, Case],
    inputs: Mapping[str, np.ndarray],
    *,
    target: Any = ct.target.iOS16,
    tolerance: float = 1e-5,
) -> None:
    """Runs all cases in one program and compares the shape, kind and elements of each result."""

    def body(**variables: Any) -> list[Any]:
        return [case(**variables) for case, _ in cases.values()]

    results = run(lambda *given: body(**dict(zip(inputs, given, strict=True))), inputs, target=target)
    assert len(results) == len(cases)
    for (name, (_, expected)), result in zip(cases.items(), results, strict=True):
        wanted = np.asarray(expected)
        if wanted.dtype == bool:
            wanted = wanted.astype(np.float32)  # a program cannot give booleans: coremltools adds a cast
        assert result.shape == wanted.shape, name
        assert _kind(result) == _kind(wanted), (name, result.dtype, wanted.dtype)
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


def _kind(array: np.ndarray) -> str:
    return array.dtype.kind.replace("u", "i")


def works(
    body: Callable[..., Any], inputs: Mapping[str, np.ndarray], *, target: Any = ct.target.iOS16
) -> dict[str, Work]:
    """The work of each operation of a program, by its type; constants left out."""
    bound = bind_main(build(body, inputs, target=target))
    return {view.op.type: OPS[view.op.type].work(view) for view in bound.graph.ops if view.op.type in OPS}
