"""A Mac for tests on any machine."""

from __future__ import annotations

import sys

import pytest

from coremlscope.measure.coreml.units import UNITS_VARIABLE, effective_units
from coremlscope.runtime.engines.host import this_machine
from tests.support.coreml_children import MACHINE, as_a_mac

IS_MAC = sys.platform == "darwin"


@pytest.fixture(autouse=True)
def _no_virtual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements in a virtual Mac are as of any other; what is said of it has tests of its own."""
    if this_machine().is_virtual:
        monkeypatch.setattr("coremlscope.measure.coreml.timing.this_machine", lambda: MACHINE)


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
    as_a_mac(monkeypatch)
