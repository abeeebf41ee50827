from __future__ import annotations

from importlib.util import find_spec

import pytest
from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

from coremlscope.ops import OPS

#: Operations of coremltools' registry that have no row, because no file holds them, or nothing is to be done.
WITHOUT_ROW = {
    "const": "its content belongs to the value that it makes",
    "_const_symbolic": "stands for a size while a program is built, and is never written",
    "coreml_update_state": "is written as `write_state`, which has a row",
    "torch_tensor_assign": "the converter writes slice_update for it",
    "torch_upsample_bilinear": "the converter writes upsample_bilinear for it",
    "torch_upsample_nearest_neighbor": "the converter writes upsample_nearest_neighbor for it",
}
#: The converter writes products and sums of real tensors for these.
COMPLEX = "complex"


def registered() -> list[str]:
    return sorted({*SSAOpRegistry.core_ops, *SSAOpRegistry.dialect_ops})


@pytest.mark.parametrize("name", registered())
def test_every_operation_of_every_opset_has_a_row_or_a_reason(name):
    assert (name in OPS) != (name in WITHOUT_ROW or name.startswith(COMPLEX))


def test_reasons_are_about_operations_that_exist():
    # coremltools registers what its PyTorch converter makes on the way only where PyTorch is installed.
    unknown = set(WITHOUT_ROW) - set(registered())
    assert not unknown or (find_spec("torch") is None and all(name.startswith("torch_") for name in unknown))


def test_rows_are_about_operations_that_exist():
    assert set(OPS) - set(registered()) == {"write_state"}
