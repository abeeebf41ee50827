"""Arbitrary bytes give a model or a clear error, without long run times or large allocations."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container, packaging
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.model import ir
from tests.support.constant_programs import constants_of, linear_model, model_of

_SPEC = write_spec(linear_model(), write_immediate)
_WEIGHT_PATH = "Data/com.apple.CoreML/weights/weight.bin"


def _read_everything(data: bytes | Path) -> ir.Model | None:
    """Reads a model and all of its constants. Only this package's errors may be raised."""
    try:
        model = container.read(data)
    except CoremlscopeError as error:
        is_clear = error.message and error.hint and error.message.isprintable() and len(error.message) < 1000
        if not is_clear:
            raise AssertionError(f"{error.message!r}, {error.hint!r}") from error
        return None
    if isinstance(model.content, ir.Program):
        for constant in constants_of(model):
            try:
                constant.numpy()
            except CoremlscopeError:
                continue
    return model


@settings(max_examples=300)
@given(flips=st.lists(st.tuples(st.integers(0, len(_SPEC) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_bit_flips(flips: list[tuple[int, int]]) -> None:
    data = bytearray(_SPEC)
    for position, mask in flips:
        data[position] ^= mask
    _read_everything(bytes(data))


def test_truncations() -> None:
    assert _read_everything(_SPEC) is not None
    for length in range(len(_SPEC)):
        _read_everything(_SPEC[:length])


@settings(max_examples=200)
@given(data=st.binary(max_size=200))
@example(data=b"\x08\x07\xb2\x1f\x00")
@example(data=b"\x08\x07\x12\x00\xa2\x1f\x00")
def test_random_bytes(data: bytes) -> None:
    _read_everything(data)
    _read_everything(_SPEC[:40] + data)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("archive")
    packaging.write_mlpackage(linear_model(), folder / "m.mlpackage")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted((folder / "m.mlpackage").rglob("*")):
            file.write(path, path.relative_to(folder).as_posix())
    return buffer.getvalue()


@settings(max_examples=150)
@given(where=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_bit_flips_in_archives(
    archive: bytes, tmp_path_factory: pytest.TempPathFactory, where: float, mask: int
) -> None:
    data = bytearray(archive)
    data[int(where * len(data))] ^= mask
    path = tmp_path_factory.getbasetemp() / "flipped.zip"
    path.write_bytes(data)
    _read_everything(path)


@settings(max_examples=150)
@given(position=st.integers(0, 159), word=st.integers(0, 2**64 - 1))
def test_damaged_weight_files(tmp_path_factory: pytest.TempPathFactory, position: int, word: int) -> None:
    package = tmp_path_factory.getbasetemp() / "damaged.mlpackage"
    packaging.write_mlpackage(linear_model(), package, overwrite=True)
    weights = package / _WEIGHT_PATH
    data = bytearray(weights.read_bytes())
    data[position : position + 8] = struct.pack("<Q", word)
    weights.write_bytes(data)
    assert _read_everything(package) is not None


def test_empty_dimensions() -> None:
    empty = ir.Constant(
        ir.TensorType(ir.DType.FP32, (0, 2**40)), ir.Immediate(np.empty((0, 2**40), np.float32))
    )
    model = _read_everything(write_spec(model_of({"c": empty}), write_immediate))
    assert model == model_of({"c": empty})
