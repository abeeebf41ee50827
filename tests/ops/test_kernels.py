from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from coremlscope import ops
from coremlscope.model.ir import DType
from coremlscope.ops import kernels
from coremlscope.ops.emit import Emitter, Tensor, carry
from coremlscope.ops.kernels import LACKING, detour
from coremlscope.ops.view import CannotLower
from tests.support.onnx_probes import PROBES, has_kernel

BOOL, F32, I32, I64 = map(np.dtype, ("bool", "float32", "int32", "int64"))
DTYPES = "float16 float32 float64 int8 uint8 int16 uint16 int32 int64 bool".split()  # noqa: SIM905
#: What is probed elsewhere: graphs within graphs, casts, and what makes tensors from nothing.
NOT_PROBED = {"Cast", "If", "Loop", "QuantizeLinear", "RandomNormal", "RandomUniform", "Scan"}


def written() -> set[str]:
    """The operators that the rows name."""
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    texts = [path.read_text() for path in Path(ops.__file__).parent.glob("*.py")]
    return {name for text in texts for name in re.findall(r'"([A-Z]\w+)"', text)} & known


def test_every_operator_that_rows_write_is_probed():
    assert written() - NOT_PROBED <= set(PROBES)


@pytest.mark.parametrize("form", PROBES)
def test_the_table_is_true_of_the_installed_version(form):
    assert {dtype for dtype in DTYPES if not has_kernel(form, np.dtype(dtype))} == LACKING.get(form, set())


def test_the_table_has_no_rows_beside():
    assert set(LACKING) <= set(PROBES)


@pytest.mark.parametrize("form", LACKING)
@pytest.mark.parametrize("dtype", sorted({carry(dtype).name for dtype in DType if dtype is not DType.STRING}))
def test_every_carried_type_has_a_kernel_or_a_way_around(form, dtype):
    name = form.partition("[")[0]
    attributes = dict([form.partition("[")[2][:-1].split("=")]) if "[" in form else {}
    if (form, dtype) == ("Mod", "float32"):
        with pytest.raises(LookupError, match="Mod has no kernel for float32"):
            detour(name, [F32, F32], attributes)
        return
    found = detour(name, [np.dtype(dtype)] * 3, attributes)
    assert (found is not None) == (dtype in LACKING[form])
    if found is not None:
        assert has_kernel(form, found.through)


def test_nodes_go_through_another_type():
    emitter = Emitter()
    (moved,) = emitter.node("DepthToSpace", [Tensor("x", I32)], [I32], {"blocksize": 2})
    assert moved.dtype == I32
    assert [node.op_type for node in emitter.nodes] == ["Cast", "DepthToSpace", "Cast"]
    assert list(emitter.nodes[1].input) == list(emitter.nodes[0].output)


def test_only_data_is_cast():
    emitter = Emitter()
    taken = [Tensor("c", BOOL), Tensor("x", BOOL), Tensor("y", BOOL)]
    emitter.node("Where", taken, [BOOL], {})
    assert [node.op_type for node in emitter.nodes] == ["Cast", "Cast", "Where", "Cast"]
    assert emitter.nodes[2].input[0] == "c"
    found = kernels.detour("Resize", [I64, None, None, I64], {})
    assert found is not None
    assert found.inputs == (0,)


def test_what_has_no_way_around_cannot_be_lowered():
    with pytest.raises(CannotLower, match="Mod has no kernel for float32"):
        Emitter().node("Mod", [Tensor("x", F32), Tensor("y", F32)], [F32], {})


def test_results_have_the_type_that_onnx_defines():
    assert kernels.result_type("Where", [BOOL, None, I64]) == I64
    assert kernels.result_type("Less", [F32, F32]) == BOOL
    assert kernels.result_type("Shape", [F32]) == I64
    assert kernels.result_type("Clip", [I32, None, I32]) == I32
