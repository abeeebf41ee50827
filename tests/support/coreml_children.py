"""The children of the Core ML measurers, run over the drop-in in Core ML's place."""

from __future__ import annotations

import sys
import urllib.request  # noqa: F401 - later it would be imported as on a Mac, where it needs another module
from functools import partial

import pytest

from coremlscope.devices import find_device
from coremlscope.measure.coreml.plan import ask_core_ml
from coremlscope.results.measurement import Conditions, Machine
from tests.support.preloaded import preloaded_child

__all__ = [
    "MACHINE",
    "PLAN_CHILD",
    "TIMING_CHILD",
    "as_a_mac",
    "child_over_dropin",
    "child_over_frameworks",
    "scripted_timing_child",
]

#: Executed before the drop-in is installed.
_FAULTY = "from tests.support import faulty_core_ml as f; f.install({fault!r})"
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
    """A command that runs a module or function of this package, with the drop-in installed before.

    Args:
        module: The name of the module, and after a colon that of the function.
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


PLAN_CHILD = child_over_dropin("coremlscope.measure.coreml.plan_child:send_plan")
TIMING_CHILD = child_over_dropin("coremlscope.measure.coreml.timing_child:time_model")
MACHINE = Machine(processor="Apple M1", cores=8, os="macOS 14.5 (arm64)", power_mode="normal")


def as_a_mac(patch: pytest.MonkeyPatch, fault: str = "") -> None:
    """Makes this process one on an M1, with the drop-in in Core ML's place; on a Mac Core ML itself answers.

    Args:
        patch: Undoes it.
        fault: What Core ML does wrong; see `faulty_core_ml`. Needs the fixture `_preloading`.
    """
    names = ("timing_child:time_model", "plan_child:send_plan")
    before, package = _FAULTY.format(fault=fault) if fault else "pass", "coremlscope.measure.coreml"
    children = [child_over_dropin(f"{package}.{name}", before) for name in names]
    patch.setattr("sys.platform", "darwin")
    patch.delenv("COREMLSCOPE_ENGINE", raising=False)
    measure = "coremlscope.measure.coreml"
    patch.setattr(f"{measure}.plan.this_mac", lambda: find_device("m1", "14.5"))
    patch.setattr(f"{measure}.service.CHILD", children[0])
    patch.setattr(f"{measure}.plan.ask_core_ml", partial(ask_core_ml, command=children[1]))
    patch.setattr(f"{measure}.timing.this_machine", lambda: MACHINE)
    calm = Conditions("normal", "AC Power", "nominal")
    patch.setattr(f"{measure}.timing.conditions", lambda: calm)
