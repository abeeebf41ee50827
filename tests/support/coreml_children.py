"""The children of the Core ML measurers, run over the drop-in in Core ML's place."""

from __future__ import annotations

import sys

from tests.support.preloaded import preloaded_child

__all__ = [
    "PLAN_CHILD",
    "TIMING_CHILD",
    "child_over_dropin",
    "child_over_frameworks",
    "scripted_timing_child",
]

_SCRIPT = """
import json, os, sys
from coremlscope.base.processes.channel import send
request = json.load(open(sys.argv[1]))
send(coremltools="9.0")
phases = {"compile": request["compiles"], "first load": 1, "load": request["loads"], "warm-up": 1}
for phase, count in {**phases, "predict": request["iterations"]}.items():
    for number in range(count):
        send(progress=phase, seconds=0.5)
        CODE
    send(phase=phase, seconds=[0.5] * count, native_ns=[])
"""


def child_over_dropin(module: str, before: str = "pass") -> tuple[str, ...]:
    """A command that runs a module of this package as a program, with the drop-in installed before.

    Args:
        module: The name of the module.
        before: Statements that are executed first.
    """
    return preloaded_child(f"{before}; import coremlscope; coremlscope.install()", module)


def scripted_timing_child(code: str = "pass") -> tuple[str, ...]:
    """A command that sends what `timing_child` would, without Core ML: half a second for each repetition.

    Args:
        code: A statement that is run after each repetition; it may use `request`, `phase` and `number`.
    """
    return (sys.executable, "-c", _SCRIPT.replace("CODE", code))


def child_over_frameworks(module: str, fault: str = "") -> tuple[str, ...]:
    """The same, with pyobjc's modules scripted besides; `fault` is that of `scripted_frameworks.install`."""
    return child_over_dropin(
        module, f"from tests.support import scripted_frameworks as s; s.install({fault!r})"
    )


PLAN_CHILD = child_over_dropin("coremlscope.measure.coreml.plan_child")
TIMING_CHILD = child_over_dropin("coremlscope.measure.coreml.timing_child")
