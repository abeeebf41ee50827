"""Verification of networks with one planted fault each, and of networks rebuilt from reports of the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope import verify
from coremlscope.verification.pairing import plain_name
from tests.support.faulty_programs import PROGRAMS, Planted

pytest.importorskip("torch", exc_type=ImportError)

from tests.support.faulty_networks import NETWORKS, REPORT_2625


@pytest.mark.parametrize("planted", [*PROGRAMS, *NETWORKS], ids=lambda planted: planted.name)
def test_the_operation_is_named_and_mended(planted: Planted, tmp_path: Path) -> None:
    model, reference = planted.build(tmp_path)
    found = verify(model, reference, inputs=planted.inputs, rtol=planted.rtol)
    assert not found.passed
    fault = found.faults[0]
    assert plain_name(fault.name) in planted.ops, fault
    assert fault.cause in planted.causes, fault
    assert not planted.is_fixable or any(fix.works for fix in found.fixes), found.fixes


def test_what_devices_do_inside_an_operation_is_not_reproduced(tmp_path: Path) -> None:
    """The report saw 20 % on devices; rounded after each operation, the network is off by less than 0.1 %."""
    model, reference = REPORT_2625.build(tmp_path)
    found = verify(model, reference)
    assert found.passed
    assert max(output.relative or 0.0 for output in found.outputs) < 1e-3


def test_right_networks_pass(tmp_path: Path) -> None:
    from tests.support.faulty_networks import Block, convert

    module = Block().eval()
    for fp16 in (False, True):
        path = convert(module, (1, 4, 32), tmp_path / f"{fp16}.mlpackage", fp16=fp16)
        found = verify(path, module)
        assert found.passed
        assert not found.faults
        assert {pair.how for pair in found.pairs} <= {"output", "value"}
