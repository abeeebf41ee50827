"""The children of the Core ML measurers, run over the drop-in in Core ML's place."""

from __future__ import annotations

import sys

__all__ = ["PLAN_CHILD", "TIMING_CHILD", "child_over_dropin"]


def child_over_dropin(module: str) -> tuple[str, ...]:
    """A command that runs a module of this package as a program, with the drop-in installed before."""
    code = (
        "import coremlscope, runpy; coremlscope.install(); "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return (sys.executable, "-c", code)


PLAN_CHILD = child_over_dropin("coremlscope.measure.coreml.plan_child")
TIMING_CHILD = child_over_dropin("coremlscope.measure.coreml.timing_child")
