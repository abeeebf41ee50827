"""Networks converted to Core AI beside what they were made from: PyTorch, and coreai-core's own reading.

Import this where torch and coreai-torch are installed.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import coreai_torch
import numpy as np
import pytest
import torch
from torch import nn

from coremlscope import api
from coremlscope.formats.aimodel.bundle import open_program
from coremlscope.formats.aimodel.content import Content, StoredData, StoredOp, read_content
from coremlscope.formats.aimodel.dialect import Attribute, EnumMember, OtherType, Type
from coremlscope.formats.aimodel.reader import read_aimodel
from coremlscope.model import ir
from tests.support.coreai_walk import walk

__all__ = ["TOLERANCE", "check_predictions", "check_walk", "convert"]

#: Largest error relative to the largest absolute value of the reference: only the order of sums differs.
TOLERANCE = 1e-4

#: Names of element types in coreai-core.
_ELEMENTS = {
    ir.DType.FP32: "f32",
    ir.DType.FP16: "f16",
    ir.DType.BOOL: "i1",
    ir.DType.INT8: "si8",
    ir.DType.INT16: "si16",
    ir.DType.INT32: "si32",
    ir.DType.INT64: "si64",
    ir.DType.INT4: "si4",
    ir.DType.UINT8: "ui8",
    ir.DType.UINT16: "ui16",
    ir.DType.UINT32: "ui32",
    ir.DType.UINT64: "ui64",
    ir.DType.UINT4: "ui4",
    ir.DType.UINT2: "ui2",
}


def convert(module: nn.Module, inputs: tuple[Any, ...], bundle: Path) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module.eval(), inputs)
        exported = exported.run_decompositions(coreai_torch.get_decomp_table())
        try:
            program = coreai_torch.TorchConverter().add_exported_program(exported).to_coreai()
        except ValueError as error:
            if "unsupported ATen ops" in str(error):
                pytest.skip(f"coreai-torch: {error}")
            raise
    program.save_asset(bundle)


def check_predictions(module: nn.Module, inputs: tuple[Any, ...], bundle: Path) -> None:
    """Compares predictions with those of PyTorch."""
    with torch.no_grad():
        result = module.eval()(*inputs)
    expected = [one.numpy() for one in (result if isinstance(result, tuple) else (result,))]
    model = read_aimodel(bundle)
    given = [one.numpy().astype(np.int32) if not one.is_floating_point() else one.numpy() for one in inputs]
    names = [feature.name for feature in model.description.main.inputs]
    found = api.predict(bundle, dict(zip(names, given, strict=True)))
    for feature, reference in zip(model.description.main.outputs, expected, strict=True):
        error = np.abs(found[feature.name] - reference).max() / max(np.abs(reference).max(), 1e-6)
        assert found[feature.name].shape == reference.shape
        assert error <= TOLERANCE, f"{feature.name}: off by {error:.2e}"


def _spelled(type_: Type) -> str:
    """Returns a type as coreai-core spells it."""
    if isinstance(type_, ir.StateType):
        assert isinstance(type_.wrapped, ir.TensorType)
        return f"!coreai.handle<{_spelled(type_.wrapped)}>"
    if isinstance(type_, OtherType):
        return f"!coreai.{type_.name}"
    dims = "".join(f"{'?' if size is None else size}x" for size in type_.shape or ())
    return f"tensor<{dims}{_ELEMENTS[type_.dtype]}>"


def _bytes_of(constant: ir.Constant) -> bytes:
    """Returns the elements of a constant: packed from a resource, or as NumPy has them."""
    if isinstance(constant.data, StoredData) and constant.data.is_packed:
        return bytes(constant.data.packed())
    return constant.numpy().tobytes()


#: Members of enumerations in coreai-core, by the number with which the file stores them.
_CHOICES = {
    "padding_mode": ("circular", "constant", "reflect", "replicate", "symmetric"),
    "approximate": ("none", "tanh", "sigmoid"),
    "interpolation_mode": ("linear", "nearest_neighbor"),
    "scatter_mode": ("update", "add", "sub", "mul", "div", "max", "min"),
}


def _text(value: Attribute) -> str:
    """Returns an attribute of a composite as coreai-core spells it, without types."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{np.float32(value):.6g}"
        case tuple():
            return f"[{', '.join(map(_text, value))}]"
        case _:
            return f'"{value}"' if isinstance(value, str) else str(value)


def _untyped(text: str) -> str:
    """Returns the text of an attribute without types, and with numbers to six digits."""
    bare = re.sub(r" : [a-z]+\d+", "", text)
    return re.sub(r"-?\d+\.\d+([eE][+-]?\d+)?", lambda found: f"{np.float32(found[0]):.6g}", bare)


def _check_attributes(op: StoredOp, theirs: Mapping[str, str]) -> None:
    assert set(op.attributes) - {"value", "arg_attrs", "res_attrs"} == set(theirs)
    for name, text in theirs.items():
        ours = op.attributes[name]
        if isinstance(ours, EnumMember):
            known = _CHOICES.get(name)
            assert known is None or text == f"#coreai.{name}<{known[ours.number]}>"
        elif name == "callee":
            assert text == f"#param.constant<@{ours}> : !param.symbol"


def _check_ops(content: Content, ours: Sequence[StoredOp], theirs: Sequence[Mapping[str, Any]]) -> None:
    assert len(ours) == len(theirs)
    for op, other in zip(ours, theirs, strict=True):
        plain = other["name"].rpartition(".")[2]
        assert op.name.replace("logical_", "") == plain.replace("logical_", "")
        assert [_spelled(content.type(value)) for value in op.results] == other["types"]
        assert len(op.operands) == other["operands"]
        _check_attributes(op, other["attributes"])
        if "sha256" in other:
            assert hashlib.sha256(_bytes_of(content.constant(op))).hexdigest() == other["sha256"]
        # coreai-core makes decompositions anew, and does not keep those of the file.
        for block, inner in zip(op.blocks if other["blocks"] else (), other["blocks"], strict=True):
            _check_ops(content, block.ops, inner)


def check_walk(bundle: Path) -> None:
    """Compares operations, types, attributes and the bytes of constants with what coreai-core reads."""
    content: Content = read_content(open_program(bundle)[0])
    theirs = walk(bundle)
    assert list(content.graphs) == list(theirs)
    assert content.unknown == {}
    for name, graph in content.graphs.items():
        attributes = theirs[name]["attributes"]
        assert [_spelled(feature.type) for feature in graph.inputs] == theirs[name]["inputs"]
        assert attributes["sym_name"] == f'"{name}"'
        assert ("priv" in attributes) == graph.is_private
        unnamed = [one for one in graph.outputs if one.name.startswith("output_")]
        for feature in (*graph.inputs, *(one for one in graph.outputs if one not in unnamed)):
            assert f'coreai.name = "{feature.name}"' in attributes["arg_attrs"] + attributes["res_attrs"]
        composite = _untyped(attributes.get("composite_decl", ""))
        assert bool(graph.composite) == bool(composite)
        for key, value in graph.composite_attributes.items():
            assert f"{key} = {_text(value)}" in composite
        _check_ops(content, graph.body.ops, theirs[name]["ops"])
