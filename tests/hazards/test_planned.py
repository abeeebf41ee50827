"""Defects are found where a plan puts an operation, and anywhere by the doctor."""

from __future__ import annotations

import itertools
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.devices.release import ios, macos
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.studies.doctor.model import find_problems
from coremlscope.studies.gate.run import check
from tests.support import programs
from tests.support.graphs import graph, op, tensor, value
from tests.support.ir_models import adder, array_feature, model

_HALF = np.float16


def attention(batch: int, head: int, queries: int = 64, keys: int = 64) -> ir.Model:
    """A masked fused attention of scaled queries."""

    def body(q, k, mask):  # type: ignore[no-untyped-def]
        scaled = mb.mul(x=q, y=_HALF(0.5))
        return mb.scaled_dot_product_attention(query=scaled, key=k, value=k, attn_mask=mask)

    arrays = {
        "q": np.zeros((batch, 4, queries, head), _HALF),
        "k": np.zeros((batch, 4, keys, head), _HALF),
        "mask": np.zeros((batch, 1, queries, keys), _HALF),
    }
    return programs.build(body, arrays, target=ct.target.iOS18)


def ids(found: ir.Model, device: str, os: str, units: str = "all") -> set[str]:
    """The warnings of a plan."""
    forecast = api.plan(found, device, os=os, compute_units=units)
    return {one.id for one in forecast.findings if one.severity == "warning"}


@pytest.mark.parametrize(
    ("batch", "os", "is_wrong"),
    [(10, "26.2", True), (9, "26.2", False), (10, "27", False), (10, "15", False)],
)
def test_attention_of_many_on_the_gpu_of_one_system(batch: int, os: str, is_wrong: bool) -> None:
    found = attention(batch, 64, 512, 512)
    assert ("gpu-attention-of-many" in ids(found, "m4", os, "cpu_and_gpu")) is is_wrong
    assert "gpu-attention-of-many" not in ids(found, "m4", os, "cpu_only")


@pytest.mark.parametrize(("head", "queries", "ends"), [(128, 2, True), (64, 2, False), (128, 1, False)])
def test_attention_on_the_cpu_ends_the_app(head: int, queries: int, ends: bool) -> None:
    found = attention(1, head, queries)
    assert ("cpu-fused-attention" in ids(found, "m4-pro", "26.5", "cpu_only")) is ends
    assert "cpu-fused-attention" not in ids(found, "m4-pro", "27", "cpu_only")


def transposed(output_shape: list[int] | None) -> ir.Model:
    more = {} if output_shape is None else {"output_shape": output_shape}

    def body(x):  # type: ignore[no-untyped-def]
        return mb.conv_transpose(x=x, weight=np.ones((3, 3, 3, 3), np.float32), **more)

    return programs.build(body, {"x": np.zeros((1, 3, 4, 4), np.float32)})


def test_a_gate_knows_defects(tmp_path: Path) -> None:
    for name, shape in (("cropped", [1, 3, 4, 4]), ("whole", [1, 3, 6, 6]), ("plain", None)):
        write_mlpackage(transposed(shape), tmp_path / f"{name}.mlpackage")
        report = check(tmp_path / f"{name}.mlpackage", device=["m1"], no_known_crash=True)
        (found,) = report.models[0].checks
        assert (found.kind, found.verdict) == ("no-known-crash", "fail" if name == "cropped" else "pass")
        assert report.exit_code == (9 if name == "cropped" else 0)


def test_the_doctor_knows_them_without_a_device() -> None:
    (problem,) = find_problems(transposed([1, 3, 4, 4]))
    assert problem.id == "cpu-transposed-output-shape"
    assert "On every unit" in problem.text
    assert not find_problems(transposed(None))


def test_the_doctor_asks_for_systems() -> None:
    found = attention(1, 128, 2)
    everywhere = {one.id for one in find_problems(found)}
    assert {"cpu-fused-attention", "ne-attention-mask"} <= everywhere
    assert "cpu-fused-attention" not in {one.id for one in find_problems(found, [macos(27)])}
    assert "ne-attention-mask" not in {one.id for one in find_problems(found, [ios(26, 5)])}


def test_enumerated_shapes_with_operations_on_the_cpu() -> None:
    sizes = ir.EnumeratedShapes(((2, 3), (4, 3)))
    assert "cpu-enumerated-shapes" in ids(adder(sizes), "m1", "27")
    assert "cpu-enumerated-shapes" not in ids(adder(sizes), "m1", "26")
    assert "cpu-enumerated-shapes" not in ids(adder(ir.RangeShapes(((1, 8), (3, 3)))), "m1", "27")


def ranged(flexibility: ir.ShapeFlexibility) -> ir.Model:
    """Thirty activations of a large tensor, which an accelerator runs."""
    values = [value(f"v{k}", tensor(1, 8, None, 128, dtype=ir.DType.FP16)) for k in range(31)]
    ops = tuple(op("relu", after, x=before) for before, after in itertools.pairwise(values))
    return model(
        [array_feature("v0", (1, 8, 128, 128), ir.DType.FP16, flexibility)],
        [array_feature("v30", (), ir.DType.FP16)],
        {"main": graph("main", (values[0],), ops, (values[-1],))},
    )


@pytest.mark.parametrize(
    ("os", "size", "on_engine"), [("15", 64, False), ("15", 128, True), ("26", 64, True), ("27", 64, True)]
)
def test_a_range_keeps_the_default_shape_on_the_neural_engine(os: str, size: int, on_engine: bool) -> None:
    found = ranged(ir.RangeShapes(((1, 1), (8, 8), (32, 256), (128, 128))))
    plan = api.plan(found, "m4", os=os, compute_units="cpu_and_ne", shapes={"v0": (1, 8, size, 128)}).plans[0]
    counts = [op.supported["neural_engine"] == "yes" for op in plan.ops]
    assert all(counts) if on_engine else not any(counts)
