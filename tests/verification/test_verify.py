"""Verification: the operation at fault, its cause, what mends it; a sentence for what is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from coremlscope import verify
from coremlscope.base.errors import InputError, ModelError, UsageError
from coremlscope.formats import container
from coremlscope.model.subject import Subject
from coremlscope.reports.json import render_json
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.verification import verification_document
from coremlscope.results.verification import VERIFICATION, Verification
from coremlscope.verification.outputs import Tolerance, compare_output
from coremlscope.verification.pairing import plain_name
from tests.support.coreml_children import as_a_mac
from tests.support.faulty_programs import PROGRAMS, Planted

#: One of each way to go wrong; the long suite has them all.
_SAMPLE = (
    "dropped-scale",
    "swapped-gamma-beta",
    "layout-heads",
    "cast",
    "overflow-attention",
    "epsilon-log",
    "tie",
    "folded-norm",
    "missing-relu",
    "infinite-bound",
)


def _planted(name: str) -> Planted:
    return next(planted for planted in PROGRAMS if planted.name == name)


class _Built(dict[str, tuple[Path, Any]]):
    """Models with planted faults and their references by name, each built on demand."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders

    def __missing__(self, name: str) -> tuple[Path, Any]:
        self[name] = found = _planted(name).build(self._folders.mktemp(name))
        return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> _Built:
    return _Built(tmp_path_factory)


@pytest.fixture(scope="module")
def overflowing(built: _Built) -> Verification:
    return verify(*built["overflow-attention"])


@pytest.mark.parametrize("name", [name for name in _SAMPLE if name != "overflow-attention"])
def test_a_planted_fault_is_named_and_mended(name: str, built: _Built) -> None:
    planted = _planted(name)
    found = verify(Subject(built[name][0], inputs=planted.inputs), built[name][1])
    assert not found.passed
    assert plain_name(found.faults[0].name) in planted.ops
    assert found.faults[0].cause in planted.causes
    assert found.faults[-1].repairs is not False


def test_an_overflow_is_told_from_a_fault_of_the_conversion(overflowing: Verification) -> None:
    [fault] = overflowing.faults
    assert (fault.kind, fault.cause, fault.type) == ("precision", "overflow", "matmul")
    assert "65504" in fault.text
    assert [output.passed for output in overflowing.outputs] == [True, False]
    assert fault.repairs
    assert "op_selector" in fault.code


def test_errors_are_told_from_inherited_ones(built: _Built) -> None:
    found = verify(*built["dropped-scale"])
    pairs = {pair.name: pair for pair in found.pairs}
    assert pairs["shifted"].made == pytest.approx(pairs["shifted"].fp32)
    assert pairs["right_relu"].made == 0
    assert (pairs["right_relu"].fp32 or 0) > 0.5
    assert pairs["stem"].how == "value"


def test_outputs_alone_are_compared_with_a_function(built: _Built) -> None:
    model, _ = built["dropped-scale"]
    good = verify(model, lambda values: _predict(model, values))
    assert good.passed
    assert (good.outputs[0].relative or 0) < 1e-6
    bad = verify(model, lambda values: _predict(model, values) * 2)
    assert not bad.passed
    assert [finding.id for finding in bad.findings] == ["no-intermediates"]


def _predict(model: Path, values: dict[str, np.ndarray]) -> np.ndarray:
    from coremlscope import predict

    result: np.ndarray = predict(model, values)["y"]
    return result


def test_saved_values_bring_their_inputs(built: _Built, tmp_path: Path) -> None:
    model, _ = built["dropped-scale"]
    x = np.full((1, 3, 16, 16), 0.25, np.float32)
    np.savez(tmp_path / "saved.npz", x=x, y=_predict(model, {"x": x}))
    found = verify(model, tmp_path / "saved.npz")
    assert found.passed
    assert found.inputs == ("x: given",)


def test_tolerances_decide(built: _Built) -> None:
    model, _ = built["dropped-scale"]
    moved = {"y": _predict(model, {"x": np.ones((1, 3, 16, 16), np.float32)}) + 0.01}
    inputs = {"x": np.ones((1, 3, 16, 16), np.float32)}
    assert not verify(Subject(model, inputs=inputs), moved).passed
    assert verify(Subject(model, inputs=inputs), moved, atol=0.02).passed
    assert verify(Subject(model, inputs=inputs), moved, rtol=0.5).passed


def test_reports_have_every_part(overflowing: Verification) -> None:
    text = write_terminal(verification_document(overflowing, has_pairs=True), width=80)
    for part in ("precision fault (fp16)", "in float32", "query_cast_fp16", "relative"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    assert "| y | fp16 | array | ✗ |" in write_markdown(verification_document(overflowing))
    values = json.loads(render_json(overflowing))
    assert values["schema"] == VERIFICATION
    assert values["faults"][0]["repairs"] is True


@pytest.mark.parametrize(("first", "is_equal"), [(7.0, True), (np.nan, False)])
def test_an_image_that_cannot_be_compared_is_not_called_equal(
    overflowing: Verification, first: float, is_equal: bool
) -> None:
    ours, theirs = np.full((3, 2, 2), 7.0), np.full((3, 2, 2), 7.0)
    ours[0, 0, 0] = first
    row = compare_output("y", "y", "fp16", (ours, theirs), "image", Tolerance(), is_half=False)
    text = write_markdown(verification_document(replace(overflowing, outputs=(row,))))
    (line,) = (one for one in text.splitlines() if one.startswith("| y | fp16 | image |"))
    assert ("equal" in line) is is_equal


@pytest.mark.usefixtures("_preloading")
def test_core_ml_is_verified_over_the_drop_in(built: _Built, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = built["overflow-attention"]
    as_a_mac(monkeypatch)
    found = verify(model, model, compute_units=["cpu_only"])
    runs = {output.run: output.relative or 0.0 for output in found.outputs}
    assert runs["fp32"] == 0
    assert runs["cpu_only"] < 2e-3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("reference.txt", b"", "is not a reference of a known kind"),
        ("absent.onnx", None, "cannot be read"),
        ("damaged.onnx", b"\x08\x01\xff\xff", "cannot be read as an ONNX model"),
        ("damaged.npz", b"PK\x03\x04 and no more", "does not hold arrays"),
        ("absent.npz", None, "cannot be read"),
    ],
)
def test_damaged_references_get_a_sentence(
    name: str, content: bytes | None, message: str, built: _Built, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ModelError, UsageError), match=message):
        verify(built["cast"][0], tmp_path / name)


def test_references_of_another_network_get_a_sentence(built: _Built) -> None:
    model, _ = built["cast"]
    with pytest.raises(InputError, match="no output of the reference has the size"):
        verify(model, {"other": np.zeros(7)})
    with pytest.raises(InputError, match="has an input 'x' of shape"):
        verify(model, built["dropped-scale"][1])


def test_models_are_not_changed_by_what_is_tried(built: _Built) -> None:
    model = container.read(built["cast"][0])
    verify(model, built["cast"][1])
    assert model == container.read(built["cast"][0])
