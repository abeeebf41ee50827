"""The children of the Core ML measurers, run over the drop-in in Core ML's place."""

from __future__ import annotations

import sys

__all__ = [
    "PLAN_CHILD",
    "TIMING_CHILD",
    "child_over_dropin",
    "child_over_frameworks",
    "scripted_timing_child",
]

_SCRIPT = """
import json, os, sys
from coremlscope.measure.channel import tell
request = json.load(open(sys.argv[1]))
tell(coremltools="9.0")
phases = {"compile": request["compiles"], "first load": 1, "load": request["loads"], "warm-up": 1}
for phase, count in {**phases, "predict": request["iterations"]}.items():
    for number in range(count):
        tell(progress=phase, seconds=0.5)
        CODE
    tell(phase=phase, seconds=[0.5] * count, native_ns=[])
"""


def child_over_dropin(module: str) -> tuple[str, ...]:
    """A command that runs a module of this package as a program, with the drop-in installed before."""
    code = (
        "import coremlscope, runpy; coremlscope.install(); "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return (sys.executable, "-c", code)


def scripted_timing_child(code: str = "pass") -> tuple[str, ...]:
    """A command that sends what `timing_child` would, without Core ML: half a second for each repetition.

    Args:
        code: A statement that is run after each repetition; it may use `request`, `phase` and `number`.
    """
    return (sys.executable, "-c", _SCRIPT.replace("CODE", code))


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
