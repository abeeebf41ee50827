"""ONNX graphs of one or a few operators, built in code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.formats.onnx.graph import Graph, Node, OnnxModel, Signature
from coremlscope.model.ir import Constant, DType, Immediate, TensorType
from coremlscope.planning.onnxruntime.case import Format, ProviderSettings, Release
from coremlscope.planning.onnxruntime.division import Division, divide

FLOAT, HALF, INT32, INT64, BOOL = DType.FP32, DType.FP16, DType.INT32, DType.INT64, DType.BOOL


class Built:
    """A graph that is being built."""

    def __init__(self, opset: int = 17) -> None:
        self.opset = opset
        self.nodes: list[Node] = []
        self.inputs: list[Signature] = []
        self.constants: dict[str, Constant] = {}
        self.types: dict[str, TensorType] = {}
        self.external: set[str] = set()
        self.raw: set[str] = set()

    def input(self, shape: Sequence[int | None] | None, dtype: DType = FLOAT) -> str:
        """Adds an input of the graph; returns its name."""
        name = f"in{len(self.inputs)}"
        self.types[name] = TensorType(dtype, None if shape is None else tuple(shape))
        self.inputs.append(Signature(name, self.types[name]))
        return name

    def constant(
        self, value: Any, dtype: DType | None = None, *, external: bool = False, raw: bool = False
    ) -> str:
        """Adds an initializer; returns its name."""
        array = np.asarray(value)
        dtype = dtype or (INT64 if array.dtype.kind == "i" else FLOAT)
        array = array.astype(dtype.numpy)
        name = f"c{len(self.constants)}"
        self.constants[name] = Constant(TensorType(dtype, array.shape), Immediate(array))
        self.types[name] = TensorType(dtype, array.shape)
        if external:
            self.external.add(name)
        if raw:
            self.raw.add(name)
        return name

    def node(
        self,
        op: str,
        *inputs: str,
        shape: Sequence[int | None] | None = (1,),
        dtype: DType = FLOAT,
        domain: str = "",
        outputs: int = 1,
        **attributes: Any,
    ) -> str:
        """Adds an operator; returns the name of its first result."""
        names = tuple(f"v{len(self.nodes)}{'abcdef'[index] if index else ''}" for index in range(outputs))
        for name in names:
            self.types[name] = TensorType(dtype, None if shape is None else tuple(shape))
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
        self.nodes.append(
            Node(op=op, domain=domain, name=names[0], inputs=inputs, outputs=names, attributes=given)
        )
        return names[0]

    def model(self) -> OnnxModel:
        """Returns the model; results that nothing reads are outputs."""
        read = {name for node in self.nodes for name in node.inputs}
        ends = [name for node in self.nodes for name in node.outputs if name not in read]
        graph = Graph(
            name="g",
            inputs=self.inputs,
            outputs=[Signature(name, self.types[name]) for name in ends],
            nodes=self.nodes,
            constants=self.constants,
            types=self.types,
            external=frozenset(self.external),
            raw=frozenset(self.raw),
        )
        return OnnxModel(path=Path("m.onnx"), graph=graph, ir_version=8, opsets={"": self.opset})

    def divide(
        self,
        format_: Format = "mlprogram",
        release: Release = (1, 32),
        *,
        core_ml: int = 8,
        is_static: bool = False,
    ) -> Division:
        """Divides the model."""
        settings = ProviderSettings(format=format_, release=release, core_ml=core_ml, is_static=is_static)
        return divide(self.model(), settings)
