from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.weights import BlobData
from coremlscope.model.ir import Constant, DType, Model, Program, TensorType, Value, constant
from coremlscope.planning.advice import RULES, bind_default_function, find_remarks
from coremlscope.planning.rewrites.transforms import parse_transform
from tests.support import programs
from tests.support.advised_models import MODELS, Builder, few_values, two_layers


def _found(model: Model) -> set[str]:
    return {remark.rule.id for remark in find_remarks(bind_default_function(model))}


_OF_FILES = {"repeated-weights", "few-values"}


def test_every_rule_has_models() -> None:
    assert set(MODELS) | _OF_FILES == {rule.id for rule in RULES}


@pytest.mark.parametrize(("rule", "place"), [(r, k) for r in MODELS for k in range(len(MODELS[r][0]))])
def test_a_model_shows_the_rule(rule: str, place: int) -> None:
    assert rule in _found(MODELS[rule][0][place])


@pytest.mark.parametrize(("rule", "place"), [(r, k) for r in MODELS for k in range(len(MODELS[r][1]))])
def test_a_model_must_not_show_the_rule(rule: str, place: int) -> None:
    assert rule not in _found(MODELS[rule][1][place])


@pytest.mark.parametrize("rule", [rule.transform for rule in RULES if rule.transform])
def test_transforms_are_those_of_what_if(rule: str) -> None:
    assert parse_transform(rule).name == rule


@pytest.mark.parametrize("kind", ["transpose", "reshape", "identity", "relu", "cast", "concat"])
def test_operations_of_a_damaged_file_that_read_each_other(kind: str) -> None:
    b = Builder({"image": (DType.FP32, (1, 3, 32, 32))})
    later = Value("b", TensorType(DType.FP32, (1, 3, 32, 32)))
    given = {"values" if kind == "concat" else "x": later, "perm": [0, 1, 2, 3], "axis": 1, "dtype": "fp32"}
    first = b.op(kind, "a", (1, 3, 32, 32), DType.FP32, **given)
    second = b.op(kind, "b", (1, 3, 32, 32), DType.FP32, **{**given, next(iter(given)): first})
    assert isinstance(find_remarks(bind_default_function(b.model(second))), list)


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def _weights(model: Model) -> list[BlobData]:
    assert isinstance(model.content, Program)
    ops = model.content.functions["main"].graph.ops
    given = [one for op in ops for several in op.inputs.values() for one in several]
    found = [*(op.constant for op in ops), *(one for one in given if isinstance(one, Constant))]
    return [one.data for one in found if one is not None and isinstance(one.data, BlobData)]


@pytest.mark.parametrize("are_equal", [True, False])
def test_weights_that_are_stored_twice(tmp_path: Path, are_equal: bool) -> None:
    path = tmp_path / "m.mlpackage"
    write_mlpackage(two_layers(), path)
    if are_equal:  # our writer stores equal weights once
        (first, size), (second, _) = (one.location() for one in _weights(container.read(path)))
        file = next(path.rglob("weight.bin"))
        content = bytearray(file.read_bytes())
        content[second : second + size] = content[first : first + size]
        file.write_bytes(content)
    found = find_remarks(bind_default_function(container.read(path)))
    saved = [one.found.saved_bytes for one in found if one.rule.id == "repeated-weights"]
    assert saved == ([256 * 256 * 2] if are_equal else [])


@pytest.mark.parametrize(("count", "bits"), [(16, 4), (200, 8), (257, 0)])
def test_weights_of_few_values(tmp_path: Path, count: int, bits: int) -> None:
    path = tmp_path / "m.mlpackage"
    write_mlpackage(few_values(count), path)
    found = find_remarks(bind_default_function(container.read(path)))
    saved = [one.found.saved_bytes for one in found if one.rule.id == "few-values"]
    assert saved == ([256 * 256 * (16 - bits) // 8 - 2 * 2**bits] if bits else [])


def test_vectors_of_few_values_are_left_out_as_coremltools_compresses_none(tmp_path: Path) -> None:
    b = Builder({"x": (DType.FP16, (1, 4096))})
    scale = (np.arange(4096) % 16).astype(np.float16)
    path = tmp_path / "m.mlpackage"
    write_mlpackage(b.model(b.op("mul", "scaled", (1, 4096), x=b["x"], y=constant(scale))), path)
    (weight,) = _weights(container.read(path))
    assert weight.stored_bytes == 2 * 4096
    assert "few-values" not in _found(container.read(path))


def test_an_app_cannot_compute_the_counters_of_loops() -> None:
    def counted(x: Any) -> Any:
        loop = mb.while_loop(
            _cond=lambda i, y: mb.less(x=i, y=np.int32(3)),
            _body=lambda i, y: (mb.add(x=i, y=np.int32(1)), mb.add(x=y, y=mb.gather(x=y, indices=i, axis=0))),
            loop_vars=(np.int32(0), x),
        )
        return mb.relu(x=loop[1])

    assert "integer-indices" not in _found(programs.build(counted, {"x": np.zeros((64, 64), np.float16)}))
