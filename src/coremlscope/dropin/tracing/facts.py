"""The facts of a loaded model, from the objects of coremltools, ONNX Runtime and coremlscope."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from coremlscope.dropin.tracing.call import Call

Facts = dict[str, Any]

#: Larger specifications are not hashed.
_MOST_HASHED = 64 << 20
_MULTI_ARRAY = {65552: "float16", 65568: "float32", 65600: "float64", 131104: "int32", 131080: "int8"}
_FP16 = 10
#: The type of an image's values and the number of its channels by color space, and Apple's numbers of these.
_PIXELS: dict[str, tuple[str, list[int]]] = {
    "GRAYSCALE": ("uint8", []),
    "RGB": ("uint8", [3]),
    "BGR": ("uint8", [3]),
    "GRAYSCALE_FLOAT16": ("float16", []),
}
_SPACES = {10: "GRAYSCALE", 20: "RGB", 30: "BGR", 40: "GRAYSCALE_FLOAT16"}
_IS_MAC_PATH = "/System/Library/Frameworks/CoreML.framework"


def facts_of_coremltools(model: Any, call: Call) -> Facts | None:
    """The facts of an `MLModel` or `CompiledMLModel`; None if it was created without loading."""
    if getattr(model, "__proxy__", getattr(model, "_proxy", None)) is None:
        return None
    source = call.argument(1, "model", call.kwargs.get("path"))
    units = getattr(model, "compute_unit", None)
    given = source if isinstance(source, (str, os.PathLike)) else None
    facts: Facts = {
        "runtime": "Core ML" if Path(_IS_MAC_PATH).exists() else "coremlscope",
        "function": getattr(model, "function_name", None) or "",
        "compute_units": str(getattr(units, "name", "")).lower(),
    }
    spec = getattr(model, "_spec", None)
    if given is not None:
        facts |= _names(given)
    else:
        facts |= {"name": "model in memory", "path": "", "key": _key_of(spec)}
    if spec is not None:
        facts |= _interface_of(spec)
    elif given is not None:
        facts |= _interface_of_file(Path(given))
    return facts


def facts_of_predictor(predictor: Any, call: Call) -> Facts:
    """The facts of a predictor of coremlscope."""
    source = getattr(predictor.model, "source", None)
    facts: Facts = {"runtime": "coremlscope", "function": call.argument(1, "function") or ""}
    facts |= (
        _names(source) if source is not None else {"name": "model in memory", "key": f"object {id(call)}"}
    )
    return facts | _described(predictor.description) | {"is_half": _computes_in_half(predictor.model)}


def facts_of_session(session: Any, call: Call) -> Facts | None:
    """The facts of a session of ONNX Runtime; None if the runtime has not made it."""
    if getattr(session, "_sess", None) is None:
        return None
    source = call.argument(1, "path_or_bytes")
    facts: Facts = {"runtime": "ONNX Runtime"}
    if isinstance(source, (str, os.PathLike)):
        facts |= _names(source)
    else:
        data = bytes(source) if len(source) <= _MOST_HASHED else bytes(source[:_MOST_HASHED])
        facts |= {"name": "graph in memory", "key": hashlib.sha256(data).hexdigest()}
    return facts | {
        "inputs": [_node(node) for node in session.get_inputs()],
        "outputs": [_node(node) for node in session.get_outputs()],
    }


def _names(path: str | os.PathLike[str]) -> Facts:
    resolved = Path(path).expanduser().resolve()
    return {"name": resolved.stem, "path": str(resolved), "key": str(resolved)}


def _key_of(spec: Any) -> str:
    """A key that is equal for equal specifications."""
    if spec is None or spec.ByteSize() > _MOST_HASHED:
        return f"object {id(spec)}"
    return hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest()


def _node(node: Any) -> Facts:
    shape = [size if isinstance(size, int) else 0 for size in node.shape]
    dtype = str(node.type).removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    return {"name": node.name, "type": "array", "dtype": dtype, "shape": shape}


def _interface_of(spec: Any) -> Facts:
    """The inputs and outputs of a specification, and whether its program computes in fp16."""
    description = spec.description
    facts: Facts = {
        "inputs": [_message(feature) for feature in description.input],
        "outputs": [_message(feature) for feature in description.output],
    }
    if spec.WhichOneof("Type") == "mlProgram":
        facts["is_half"] = any(
            output.type.tensorType.dataType == _FP16
            for function in spec.mlProgram.functions.values()
            for block in function.block_specializations.values()
            for operation in block.operations
            if operation.type != "const"
            for output in operation.outputs
        )
    return facts


def _message(feature: Any) -> Facts:
    kind = feature.type.WhichOneof("Type") or ""
    facts: Facts = {"name": feature.name, "type": kind.removesuffix("Type")}
    if kind == "multiArrayType":
        array = feature.type.multiArrayType
        facts |= {"type": "array", "dtype": _MULTI_ARRAY.get(array.dataType, ""), "shape": list(array.shape)}
    elif kind == "imageType":
        image = feature.type.imageType
        facts["dtype"], channels = _PIXELS.get(_SPACES.get(image.colorSpace, ""), ("", []))
        facts["shape"] = [image.height, image.width, *channels]
    return facts


def _interface_of_file(path: Path) -> Facts:
    """The inputs and outputs of a compiled model."""
    from coremlscope.formats import container

    model = container.read(path)
    return _described(model.description.main) | {"is_half": _computes_in_half(model)}


def _computes_in_half(model: Any) -> bool | None:
    """True if a program has fp16 values besides its constants; None for models without a program."""
    functions = getattr(model.content, "functions", None)
    if functions is None:
        return None
    ops = (op for function in functions.values() for op in function.graph.walk() if op.constant is None)
    types = (getattr(value.type, "dtype", None) for op in ops for value in op.outputs)
    return any(dtype is not None and str(dtype.numpy) == "float16" for dtype in types)


def _described(description: Any) -> Facts:
    return {
        "inputs": [_feature(feature) for feature in description.inputs],
        "outputs": [_feature(feature) for feature in description.outputs],
    }


def _feature(feature: Any) -> Facts:
    kind = type(feature.type).__name__.removesuffix("Feature").lower()
    facts: Facts = {"name": feature.name, "type": kind}
    dtype = getattr(feature.type, "dtype", None)
    if dtype is not None and hasattr(dtype, "numpy"):
        facts["dtype"] = str(dtype.numpy)
    space = getattr(feature.type, "color_space", None)
    if space is not None:
        facts["dtype"], channels = _PIXELS.get(space, ("", []))
        facts["shape"] = [feature.type.height, feature.type.width, *channels]
    shape = getattr(feature.type, "shape", None)
    if shape:
        facts["shape"] = [int(size) if isinstance(size, int) else 0 for size in shape]
    return facts
