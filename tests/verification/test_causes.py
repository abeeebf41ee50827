"""Each cause explains one example in each element, and does not explain a similar one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types

from coremlscope import verify
from coremlscope.model.subject import Subject
from coremlscope.reports.document_page import write_page
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.verification import verification_document
from coremlscope.results.verification import Verification
from coremlscope.verification.causes.rounding import ROUNDING_ROWS
from coremlscope.verification.causes.table import ROWS
from tests.support.faulty_programs import _program, _random, save_program

_KERNEL, _OTHER = _random(4, 3, 3, 3, seed=1, scale=0.4), _random(4, 3, 3, 3, seed=2, scale=0.4)
_SQUARE = _random(8, 8, seed=3, scale=0.5)
_LINE = _random(2048, seed=6)
_IMAGE, _ROWS = (1, 3, 8, 8), (4, 8)
Body = Callable[[Any], Any]


def _conv(weight: np.ndarray = _KERNEL, before: Body = lambda x: x, **settings: Any) -> Body:
    settings.setdefault("pad_type", "same")
    return lambda x: mb.tanh(x=mb.conv(x=before(x), weight=weight, name="layer", **settings), name="made")


def _dense(behind: Body = lambda y: y, weight: np.ndarray = _SQUARE) -> Body:
    def body(x: Any) -> Any:
        first = mb.sin(x=x, name="wave")
        return mb.add(x=behind(mb.linear(x=first, weight=weight, name="layer")), y=0.5, name="made")

    return body


def _scaled(x: Any) -> Any:
    return mb.mul(x=x, y=0.05, name="scaled")


#: By cause: the shape, the model, and the reference that it explains and the one that it does not.
_FLOAT32: dict[str, tuple[tuple[int, ...], Body, Body, Body]] = {
    "weights": (_IMAGE, _conv(), _conv(_OTHER), _conv(pad_type="custom", pad=[0, 2, 0, 2])),
    "setting": (
        _ROWS,
        _dense(lambda y: mb.gelu(x=y, mode="EXACT", name="bent")),
        _dense(lambda y: mb.gelu(x=y, mode="SIGMOID_APPROXIMATION", name="bent")),
        _dense(lambda y: mb.sinh(x=y, name="bent")),
    ),
    "preprocessing": (
        _IMAGE,
        _conv(),
        _conv(before=_scaled),
        _conv(before=lambda x: mb.square(x=x)),
    ),
    "layout": (
        (1, 4, 8, 8),
        lambda x: mb.sin(x=mb.transpose(x=x, perm=[0, 1, 3, 2], name="turned"), name="made"),
        lambda x: mb.sin(x=x, name="made"),
        lambda x: mb.sin(x=mb.square(x=x), name="made"),
    ),
    "scale": (
        _ROWS,
        _dense(),
        _dense(lambda y: mb.mul(x=y, y=0.25, name="less")),
        _dense(lambda y: mb.mul(x=y, y=_random(8, seed=4), name="less")),
    ),
    "missing operation": (
        _ROWS,
        _dense(),
        _dense(lambda y: mb.relu(x=y, name="kept")),
        _dense(weight=_random(8, 8, seed=5)),
    ),
    "extra operation": (
        _ROWS,
        _dense(lambda y: mb.softmax(x=y, axis=-1, name="shares")),
        _dense(),
        _dense(lambda y: mb.softmax(x=mb.square(x=y), axis=0, name="shares")),
    ),
}
#: By cause: the model in fp16, the input, and the input that does not show it.
_FP16: dict[str, tuple[Body, np.ndarray, np.ndarray]] = {
    "overflow": (
        lambda x: mb.mul(x=mb.square(x=x, name="far"), y=1e-4, name="made"),
        np.full(_ROWS, 400, np.float32) + _random(*_ROWS),
        np.full(_ROWS, 200, np.float32) + _random(*_ROWS),
    ),
    "tie": (
        lambda x: mb.reduce_argmax(x=mb.add(x=x, y=x), axis=-1, name="made"),
        1 + np.tile(np.arange(8, dtype=np.float32), (4, 1)) * 1e-5,
        1 + np.tile(np.arange(8, dtype=np.float32), (4, 1)) * 1e-1,
    ),
    "underflow": (
        lambda x: mb.mul(x=mb.square(x=x, name="near"), y=1e4, name="made"),
        _random(*_ROWS, scale=1e-4),
        _random(*_ROWS),
    ),
    "integers": (
        lambda x: mb.sin(x=mb.add(x=x, y=0.5, name="places"), name="made"),
        np.arange(4000, 4032, dtype=np.float32).reshape(_ROWS),
        np.arange(32, dtype=np.float32).reshape(_ROWS) / 32,
    ),
    "cancellation": (
        lambda x: mb.sub(x=mb.add(x=x, y=1000.0, name="far"), y=1000.0, name="made"),
        _random(*_ROWS),
        np.full(_ROWS, 1000, np.float32),
    ),
    "accumulation": (
        lambda x: mb.reduce_sum(x=x, axes=[-1], name="made"),
        np.stack([_LINE, 0.002 - _LINE], -1).reshape(1, 4096),
        np.ones((1, 4), np.float32),
    ),
}
#: Those with tests of their own: a state is written in `test_states_and_images`, an epsilon in
#: `test_settings_and_numbers`.
_ELSEWHERE = {"state", "epsilon", "tie", "narrowed integers"}


def _saved(folder: Path, name: str, shape: tuple[int, ...], body: Body, *, fp16: bool = False) -> Path:
    path = folder / f"{name}.mlpackage"
    return save_program(_program(shape, lambda _, x: body(x)), path, fp16=fp16)


def _causes(found: Verification) -> set[str]:
    """Returns the named causes, each of which explains all elements."""
    named = [fault for fault in found.faults if fault.cause != "unknown"]
    assert all(fault.elements > 0 for fault in named)
    return {fault.cause for fault in named}


def test_every_row_has_examples() -> None:
    assert {row.cause for row in ROWS} == set(_FLOAT32) | (_ELSEWHERE - {"epsilon"})
    assert {row.cause for row in ROUNDING_ROWS} == set(_FP16) | {"epsilon"}
    assert all(row.source.startswith("https://") for row in (*ROWS, *ROUNDING_ROWS))


@pytest.mark.parametrize("cause", _FLOAT32)
def test_a_cause_explains_its_example_and_no_similar_one(cause: str, tmp_path: Path) -> None:
    shape, model, explained, similar = _FLOAT32[cause]
    path = _saved(tmp_path, "model", shape, model)
    found = verify(path, _saved(tmp_path, "right", shape, explained))
    assert cause in _causes(found)
    other = verify(path, _saved(tmp_path, "other", shape, similar))
    assert not other.passed
    assert cause not in _causes(other)


@pytest.mark.parametrize("cause", _FP16)
def test_rounding_explains_its_example_and_no_similar_one(cause: str, tmp_path: Path) -> None:
    body, shown, hidden = _FP16[cause]
    for x, is_shown in ((shown, True), (hidden, False)):
        paths = [_saved(tmp_path, f"{is_shown}{fp16}", x.shape, body, fp16=fp16) for fp16 in (True, False)]
        found = verify(Subject(paths[0], inputs={"x": x}), paths[1], rtol=2e-3)
        assert (cause in _causes(found)) is is_shown, found.faults


@pytest.mark.parametrize(("right", "cause"), [([[5, 70000]], "narrowed integers"), ([[6, 70000]], "unknown")])
def test_narrowed_integers_are_equal_in_each_element(
    right: list[list[int]], cause: str, tmp_path: Path
) -> None:
    @mb.program(input_specs=[mb.TensorSpec((1, 2), dtype=types.int32)], opset_version=ct.target.iOS17)  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return mb.cast(x=mb.cast(x=x, dtype="int16", name="short"), dtype="int32", name="made")

    path = save_program(program, tmp_path / "m.mlpackage", fp16=False)
    found = verify(path, {"x": np.array([[5, 70000]], np.int32), "made": np.array(right, np.int64)})
    assert [fault.cause for fault in found.faults] == [cause]


def test_reports_show_the_values_and_the_fix(tmp_path: Path) -> None:
    shape, model, right, _ = _FLOAT32["weights"]
    found = verify(_saved(tmp_path, "m", shape, model), _saved(tmp_path, "r", shape, right))
    page = write_page(verification_document(found))
    markdown = write_markdown(verification_document(found))
    assert found.faults[0].advice in markdown
    assert str(tmp_path) not in page + markdown


def test_an_underflow_before_a_logarithm_is_named(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        return mb.log(x=mb.softmax(x=x, axis=-1, name="shares"), name="made")

    x = _random(4, 16, scale=8)
    paths = [_saved(tmp_path, f"{fp16}", x.shape, body, fp16=fp16) for fp16 in (True, False)]
    found = verify(Subject(paths[0], inputs={"x": x}), paths[1])
    assert _causes(found) == {"underflow"}
    assert found.faults[0].name == "shares_cast_fp16"
    assert found.faults[0].repairs
