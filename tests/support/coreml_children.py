"""The children of the Core ML measurers, run over the drop-in in Core ML's place."""

from __future__ import annotations

import sys

__all__ = ["PLAN_CHILD", "TIMING_CHILD", "child_over_dropin", "child_over_frameworks"]


def child_over_dropin(module: str) -> tuple[str, ...]:
    """A command that runs a module of this package as a program, with the drop-in installed before."""
    code = (
        "import coremlscope, runpy; coremlscope.install(); "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return (sys.executable, "-c", code)


def child_over_frameworks(module: str, fault: str = "") -> tuple[str, ...]:
    """The same, with pyobjc's modules scripted besides; `fault` is that of `scripted_frameworks.install`."""
    python, option, code = child_over_dropin(module)
    return (
        python,
        option,
        f"from tests.support import scripted_frameworks as s; s.install({fault!r}); {code}",
    )


PLAN_CHILD = child_over_dropin("coremlscope.measure.coreml.plan_child")
TIMING_CHILD = child_over_dropin("coremlscope.measure.coreml.timing_child")
