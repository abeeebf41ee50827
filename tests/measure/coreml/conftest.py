"""A Mac for tests on any machine."""

from __future__ import annotations

import sys
import urllib.request  # noqa: F401 - later it would be imported as on a Mac, where it needs another module
from functools import partial

import pytest

from coremlscope.devices import find_device
from coremlscope.measure.coreml.plan import ask_core_ml
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.coreml.units import UNITS_VARIABLE, effective_units
from coremlscope.results.measurement import Conditions, Machine
from coremlscope.runtime.engines.host import this_machine
from tests.support.coreml_children import PLAN_CHILD, TIMING_CHILD

_MACHINE = Machine(processor="Apple M1", cores=8, os="macOS 14.5 (arm64)", power_mode="normal")
IS_MAC = sys.platform == "darwin"


@pytest.fixture(autouse=True)
def _no_virtual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements in a virtual Mac are as of any other; what is said of it has tests of its own."""
    if this_machine().is_virtual:
        monkeypatch.setattr("coremlscope.measure.coreml.timing.this_machine", lambda: _MACHINE)


@pytest.fixture
def free_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core ML under every setting, which a virtual Mac does not have; elsewhere the drop-in has them."""
    if IS_MAC and effective_units("all") != "all":
        pytest.skip("Core ML is held to one setting here")
    monkeypatch.delenv(UNITS_VARIABLE, raising=False)
    monkeypatch.setattr("coremlscope.measure.coreml.units.is_virtual_machine", lambda: False)


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """An M1 with the drop-in in Core ML's place; on a Mac Core ML itself answers."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.delenv("COREMLSCOPE_ENGINE", raising=False)
    measure = "coremlscope.measure.coreml"
    monkeypatch.setattr(f"{measure}.plan.this_mac", lambda: find_device("m1", "14.5"))
    monkeypatch.setattr(f"{measure}.plan.ask_core_ml", partial(ask_core_ml, command=PLAN_CHILD))
    monkeypatch.setattr(f"{measure}.timing.CoreMLMeasurer", partial(CoreMLMeasurer, command=TIMING_CHILD))
    monkeypatch.setattr(f"{measure}.timing.this_machine", lambda: _MACHINE)
    calm = Conditions("normal", "AC Power", "nominal")
    monkeypatch.setattr(f"{measure}.timing.conditions", lambda: calm)
