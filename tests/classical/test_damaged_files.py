"""Damaged classical models: reading and running them gives a result or one clear error, quickly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.model.features import dummy_values
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.executable import compile_model
from tests.support.classical_examples import EXAMPLES

_KINDS = sorted(EXAMPLES)


def _check(error: CoremlscopeError) -> None:
    is_clear = error.message and error.message.isprintable() and len(error.message) < 1000
    if not is_clear:
        raise AssertionError(f"{error.message!r}, {error.hint!r}") from error


def _read(data: bytes) -> ir.Model | None:
    try:
        return container.read(data)
    except CoremlscopeError as error:
        _check(error)
        return None


def _run(data: bytes, folder: Path) -> None:
    """Reads and runs a model; other errors than the project's own propagate."""
    try:
        model = container.read(data)
        executable = compile_model(model, folder)
        chosen = choose_function(model)
        executable.predict(dummy_values(chosen.description, chosen.function))
    except CoremlscopeError as error:
        _check(error)


@pytest.mark.parametrize("kind", _KINDS)
def test_truncations_and_single_flips(kind: str) -> None:
    data = EXAMPLES[kind].SerializeToString()
    assert _read(data) is not None
    for position in range(len(data)):
        _read(data[:position])
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            _read(bytes(damaged))


@settings(max_examples=60)
@given(
    kind=st.sampled_from(_KINDS),
    where=st.lists(st.floats(0, 1, exclude_max=True), max_size=3),
    mask=st.integers(1, 255),
)
def test_damaged_models_are_run(
    tmp_path_factory: pytest.TempPathFactory, kind: str, where: list[float], mask: int
) -> None:
    data = bytearray(EXAMPLES[kind].SerializeToString())
    for place in where:
        data[int(place * len(data))] ^= mask
    _run(bytes(data), tmp_path_factory.mktemp("damaged"))
