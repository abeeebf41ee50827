"""Says of an ONNX model what Core ML, and ONNX Runtime's Core ML provider, do with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.escaping import path_text
from coremlscope.base.units import shown
from coremlscope.studies.doctor.model import ModelReport, Problem

#: A larger file is not a message.
_LARGEST = 2**31 - 1
_MOST_NAMES = 8
#: The greatest rank that the provider passes on (microsoft/onnxruntime PR 17086).
_RANK = 5
#: Operators that the provider takes as ML Programs, some of them in certain forms only
#: (microsoft/onnxruntime: tools/ci_build/github/apple/coreml_supported_mlprogram_ops.md).
_TAKEN = frozenset(
    (
        "Add",
        "ArgMax",
        "AveragePool",
        "BatchNormalization",
        "Cast",
        "Ceil",
        "Clip",
        "Concat",
        "Constant",
        "Conv",
        "ConvTranspose",
        "Cos",
        "DepthToSpace",
        "Div",
        "Elu",
        "Erf",
        "Exp",
        "FusedConv",
        "Gather",
        "GatherND",
        "Gelu",
        "Gemm",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "GridSample",
        "GroupNormalization",
        "HardSigmoid",
        "Identity",
        "InstanceNormalization",
        "LayerNormalization",
        "LeakyRelu",
        "MatMul",
        "Max",
        "MaxPool",
        "Mul",
        "PRelu",
        "Pad",
        "Pow",
        "QuickGelu",
        "Range",
        "Reciprocal",
        "ReduceMax",
        "ReduceMean",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Resize",
        "Round",
        "Shape",
        "Sigmoid",
        "Sin",
        "Slice",
        "Softmax",
        "Softplus",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tanh",
        "Tile",
        "Transpose",
        "Unsqueeze",
    )
)
_PROVIDER = "ONNX Runtime's Core ML provider"


def examine_onnx(path: Path) -> ModelReport:
    """Examines an ONNX model without running it.

    Raises:
        OSError: The file cannot be read.
    """
    import onnx
    from google.protobuf.message import DecodeError

    problems = [
        Problem(
            id="onnx-model",
            effect="not in Core ML",
            text="It is an ONNX model, which Core ML does not read; coremltools converts networks of PyTorch"
            " and TensorFlow, and no ONNX since version 6 (5.2 was the last).",
            fix="convert the network that it was exported from; or run it as it is with ONNX Runtime and its"
            " CoreMLExecutionProvider, which gives the parts that it takes to Core ML and the rest to the"
            " CPU; `coremlscope verify --reference` compares a Core ML model with it",
        )
    ]
    try:
        if path.stat().st_size > _LARGEST:
            raise DecodeError
        graph = onnx.load(path, load_external_data=False).graph
    except (DecodeError, RecursionError):
        return ModelReport(
            path=path_text(path),
            kind="",
            needs="",
            problems=(
                *problems,
                Problem(
                    id="damaged",
                    effect="nothing works",
                    text="It cannot be read as ONNX either: it is damaged, truncated or a pointer.",
                    fix="export or download it again; with Git LFS run `git lfs pull`",
                ),
            ),
        )
    problems += [*_check_operators(graph), *_check_shapes(graph)]
    return ModelReport(path=path_text(path), kind="ONNX", needs="ONNX Runtime", problems=tuple(problems))


def _check_operators(graph: Any) -> Iterator[Problem]:
    types = Counter(node.op_type for node in graph.node)
    left = Counter({type_: count for type_, count in types.items() if type_ not in _TAKEN})
    if left:
        named = [f"{shown(type_)} ({count})" for type_, count in left.most_common()]
        yield Problem(
            id="onnxruntime-operators",
            effect="needs care",
            text=f"{_PROVIDER} does not list {left.total()} of its {types.total()} operations as supported:"
            f" {_listed(named)}. They stay on the CPU and cut the graph into parts, each a model of its own.",
            fix="set ModelFormat to MLProgram; replace them, or convert the network with coremltools instead",
            ops=tuple(named[:_MOST_NAMES]),
        )


def _check_shapes(graph: Any) -> Iterator[Problem]:
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {one.name: one.type.tensor_type.shape for one in graph.input if one.name not in constants}
    open_ = [
        f"{shown(name)}"
        f" ({', '.join(shown(d.dim_param) or '?' for d in shape.dim if not d.HasField('dim_value'))})"
        for name, shape in inputs.items()
        if any(not d.HasField("dim_value") for d in shape.dim)
    ]
    if open_:
        yield Problem(
            id="onnxruntime-shapes",
            effect="needs care",
            text=f"Inputs have dimensions that are not known: {_listed(open_)}. {_PROVIDER} makes partitions"
            f" with"
            " flexible shapes of it, many of which load and then fail with error code -1, or at a size of 0.",
            fix="fix them (python -m onnxruntime.tools.make_dynamic_shape_fixed), or set"
            " RequireStaticInputShapes to 1, so that such operations stay on the CPU",
        )
    shapes = [*inputs.values(), *(one.type.tensor_type.shape for one in graph.value_info)]
    if any(len(shape.dim) > _RANK for shape in shapes):
        yield Problem(
            id="onnxruntime-rank",
            effect="needs care",
            text=f"Tensors have more than {_RANK} dimensions, which Core ML does not take; {_PROVIDER}"
            f" leaves these"
            " operations to the CPU.",
            fix="merge dimensions before the operation and split them after it",
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
