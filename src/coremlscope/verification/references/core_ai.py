"""Core AI's own interpreter as a reference: the values of the operations of a bundle, layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec.structs
import numpy as np

from coremlscope.base.budget import Budget
from coremlscope.base.errors import UsageError
from coremlscope.formats.aimodel.network import find_layers
from coremlscope.formats.aimodel.reader import open_content
from coremlscope.measure.coreai.measurer import require_coreai
from coremlscope.measure.coreai.operations import layers_of
from coremlscope.measure.coreai.values import VALUES_CHILD, OpResult, record_values
from coremlscope.model.ir import Array, Layer, Model, Op, Program, Value
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.intermediates import Intermediate, Run

#: Name given as the reference instead of a file.
CORE_AI = "coreai"
#: The part of the machine's memory that the values may take, as in `own_run`.
_MEMORY_PART = 8
#: A layer as reports name it.
_Key = tuple[str | None, str | None]


class CoreAIReference:
    """Runs the verified bundle itself by Core AI's interpreter.

    Args:
        model: The verified model.
        function: Its function; None for the default one.
        command: The child process to run; tests give another one.

    Raises:
        UsageError: The model is not a Core AI bundle.
        MissingDependencyError: coreai-core is not installed.
    """

    def __init__(
        self, model: Model, function: str | None = None, command: Sequence[str] = VALUES_CHILD
    ) -> None:
        if model.container != "aimodel" or model.source is None or not isinstance(model.content, Program):
            raise UsageError(
                "Core AI runs .aimodel bundles only", "give the file of another reference for other models"
            )
        if command is VALUES_CHILD:
            require_coreai("a program of torch.export as the reference needs no coreai-core")
        self.label = f"Core AI's interpreter, {model.source.name}"
        self._source: Path = model.source
        self._name = choose_function(model, function).name
        self._ops = model.content.functions[self._name].graph.ops
        self._most_bytes = Budget.of_model(model.size_bytes).memory_bytes // _MEMORY_PART
        self._command = command

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the bundle; see `Reference.run`. Values have the names of ours where the layer is the same."""
        found = record_values(self._source, self._name, inputs, self._most_bytes, command=self._command)
        content = open_content(self._source).content
        layers = find_layers(content, content.graphs[self._name], has_parts=False)
        values = {name: Intermediate(name=name, array=array) for name, array in inputs.items()}
        named, others = _by_layer(found.results, layers)
        for value, op, array in self._named(named):
            values[value.name] = Intermediate(name=value.name, array=array, op=op.id, type=op.type)
        for count, result in enumerate(others):
            name = f"{result.op.name} {count}"
            values[name] = Intermediate(name=name, array=result.array, op=result.op.name)
        for name, array in found.outputs.items():
            known = values.pop(name, None)
            values[name] = msgspec.structs.replace(known, array=array) if known else _output(name, array)
        return Run(
            label=f"{self.label}, coreai-core {found.version}",
            values=values,
            outputs={name: name for name in found.outputs},
        )

    def _named(self, results: Mapping[_Key, Sequence[Array]]) -> Iterator[tuple[Value, Op, Array]]:
        """Yields our values with what Core AI computed for them, in our order.

        A layer may have other operations in Core AI than here. Its last results are the same; from there on,
        each value is given the next earlier one of the same shape. Buffers are reported before they have
        their values.
        """
        own: dict[_Key, list[tuple[Value, Op]]] = defaultdict(list)
        for op in self._ops:
            if op.layer is not None and op.constant is None:
                own[op.layer.name, op.layer.type] += [(value, op) for value in op.outputs]
        found: dict[str, Array] = {}
        for key, values in own.items():
            left = list(results.get(key, ()))
            for value, _ in reversed(values):
                place = next((at for at in reversed(range(len(left))) if _suits(left[at], value)), None)
                if place is not None:
                    found[value.name] = left[place]
                    del left[place:]
        for op in self._ops:
            yield from ((value, op, found[value.name]) for value in op.outputs if value.name in found)


def _output(name: str, array: Array) -> Intermediate:
    return Intermediate(name=name, array=array, op=name)


def _by_layer(
    results: Sequence[OpResult], layers: Mapping[int, Sequence[frozenset[Layer]]]
) -> tuple[dict[_Key, list[Array]], list[OpResult]]:
    """Returns the results that were computed for each layer, in the order of the file, and all others.

    A graph that is called several times has results of several layers, which do not say of which.
    """
    by_layer: dict[_Key, list[OpResult]] = defaultdict(list)
    others: list[OpResult] = []
    for result in results:
        found = layers_of(msgspec.structs.replace(result.op, ops=(result.number,)), layers)
        if len(found) == 1:
            (layer,) = found
            by_layer[layer.name, layer.type].append(result)
        elif found:
            others.append(result)
    for several in by_layer.values():
        several.sort(key=lambda result: result.number)
    return {key: [result.array for result in several] for key, several in by_layer.items()}, others


def _suits(array: Array, value: Value) -> bool:
    """True where an array has the shape that a value is declared with."""
    shape = getattr(value.type, "shape", None)
    if shape is None:
        return False
    return len(shape) == np.ndim(array) and all(
        extent is None or extent == given for extent, given in zip(shape, np.shape(array), strict=True)
    )
