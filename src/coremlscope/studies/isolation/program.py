"""Cutting of ML Programs: any operations of a function, with the real values that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.platforms import oldest_version
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    Description,
    DType,
    Feature,
    FunctionDescription,
    Metadata,
    Model,
    Program,
    StateFeature,
    StateType,
    TensorType,
    Value,
)
from coremlscope.ops.program import Precision
from coremlscope.results.isolation import IsolatedUnit
from coremlscope.runtime.execution.binding import bind_model, choose_function
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.predictor import FunctionPredictor
from coremlscope.runtime.execution.state import State
from coremlscope.studies.isolation.graph_part import (
    GraphPart,
    cut_graph,
    known_operations,
    part_function,
    prefix_function,
    results_before,
)
from coremlscope.studies.isolation.parts import EXACT, Part, Values


class ProgramCutter:
    """Cuts operations out of one function of an ML Program.

    Values inside the function are computed with every fp16 result rounded to fp16, as on a device; those of
    programs without fp16 results in float32.

    Args:
        model: The model.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        inputs: Values of inputs by name; absent ones are synthetic.
        seed: The seed of synthetic inputs.

    Raises:
        ModelError: The function cannot be read.
        InputError: A shape or a value is not allowed.
        UsageError: The model has no such function.
    """

    suffix = ".mlpackage"

    def __init__(
        self,
        model: Model,
        function: str | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        inputs: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        chosen = choose_function(model, function)
        self._model, self._name, self._interface = model, chosen.name, chosen.description
        # Core AI has no specification version; its operations are read as those of an opset.
        self._version = model.spec_version or oldest_version(chosen.function.opset)
        self._shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self._given, self._seed = dict(inputs or {}), seed
        self._bound = bind_model(model, chosen.name, self._shapes)
        self._views = known_operations(self._bound)
        self.units = tuple(IsolatedUnit(view.op.id, view.op.name, view.op.type) for view in self._views)
        is_half = any(
            isinstance(found.type, TensorType) and found.type.dtype is DType.FP16
            for view in self._views
            for found in view.outputs
        )
        self.precision: Precision = "fp16" if is_half else "fp32"

    def cut(self, chosen: Sequence[int]) -> Part:
        """Cuts out the units of these indices, with the values that they read and compute.

        Raises:
            UnsupportedModelError: The part cannot be a model, see `cut_graph`, or returns nothing.
            ModelError: The operations up to the end of the part cannot be run.
            EngineError: The engine failed.
        """
        part = self._cut(chosen)
        values, states = self._run(part)
        return self._built(part, values, states)

    def write(self, part: Part, path: Path, *, overwrite: bool = False) -> None:
        """Writes a part as a package, that of a Core AI model as well; raises as `write_mlpackage`."""
        model = replace(part.model, content=replace(part.model.program, kind="mlProgram"))
        write_mlpackage(model, path, overwrite=overwrite)

    def _cut(self, chosen: Sequence[int]) -> GraphPart:
        part = cut_graph(self._bound, [self._views[index] for index in sorted(chosen)])
        if not part.outputs:
            raise UnsupportedModelError(
                "this part returns nothing: it only writes states",
                "choose more operations, one of which has a result",
            )
        return part

    def _run(self, part: GraphPart) -> tuple[Values, Values]:
        """Runs the function up to the end of a part.

        Returns:
            The inputs and outputs of the part by their names in the function, and the content of its states
            where it begins.
        """
        given = {value.name: value for value in self._bound.function.graph.inputs}
        tensors = to_tensors(self._interface.inputs, self._inputs())
        computed = [value for value in part.inputs if value.name not in given]
        results, _ = self._run_up_to([*computed, *part.outputs], tensors)
        found = {v.name: _typed(results[v.name], v) for v in (*computed, *part.outputs)}
        found.update((v.name, _typed(tensors[v.name], v)) for v in part.inputs if v.name in given)
        return found, self._states_before(part, tensors)

    def _run_up_to(self, wanted: Sequence[Value], tensors: Values, before: str = "") -> tuple[Values, State]:
        """Returns values inside the function, and its states by then, or before an operation."""
        options = CompileOptions(precision=self.precision, engine_options=EXACT)
        prefix = self._prefix(wanted, before)
        with FunctionPredictor(prefix, function=self._name, options=options) as predictor:
            executable = predictor.executable(self._shapes or None)
            state = executable.new_state()
            return executable.run(tensors, state), state

    def _states_before(self, part: GraphPart, tensors: Values) -> Values:
        """Returns the content of each of a part's states when its first operation with the state begins."""
        found: dict[str, Array] = {}
        for begin in dict.fromkeys(part.begins.values()):
            results = results_before(self._bound, begin)
            content = self._run_up_to(results[-1:], tensors, begin)[1] if results else None
            for state in part.states:
                if part.begins[state.name] != begin:
                    continue
                if content is None:
                    found[state.name] = np.zeros(_array_feature(state).shape, np.float32)
                elif state.name in content.names:
                    found[state.name] = content.read(state.name)
        return {state.name: found[state.name] for state in part.states if state.name in found}

    def _prefix(self, wanted: Sequence[Value], before: str = "") -> Model:
        function = prefix_function(self._bound, wanted, before)
        interface = self._interface_of(self._interface.inputs, self._interface.states, wanted, wanted)
        content = replace(self._model.program, functions={self._name: function})
        return replace(
            self._model,
            description=Description({self._name: interface}, self._name),
            content=content,
            source=None,
        )

    def _inputs(self) -> dict[str, Any]:
        synthetic = dummy_values(self._interface, self._bound.function, seed=self._seed, shapes=self._shapes)
        return {**synthetic, **self._given}

    def _built(self, part: GraphPart, values: Values, states: Values) -> Part:
        fixed = replace(part, inputs=tuple(_with_shape_of(v, values.get(v.name)) for v in part.inputs))
        function = part_function(fixed, self._bound, self._version)
        graph = function.graph
        inputs, outputs = graph.inputs[: len(part.inputs)], graph.outputs
        given = {
            new.name: _fitting(values[old.name], new)
            for new, old in zip(inputs, part.inputs, strict=True)
            if old.name in values
        }
        interface = self._interface_of(
            [Feature(value.name, _array_feature(value)) for value in inputs],
            [Feature(v.name, StateFeature(_array_feature(v))) for v in graph.inputs[len(inputs) :]],
            part.outputs,
            outputs,
        )
        model = Model(
            spec_version=self._version,
            description=Description({"main": interface}, "main"),
            content=Program(functions={"main": function}, kind=self._model.content.kind),
            metadata=Metadata(description=self._describe(part)),
            container="mlpackage",
        )
        return Part(
            model=model,
            units=tuple(unit for unit in self.units if unit.id in set(part.chosen)),
            inputs=given,
            expected={
                new.name: _fitting(values[old.name], new) if _is_numeric(new) else values[old.name]
                for new, old in zip(outputs, part.outputs, strict=True)
                if old.name in values
            },
            states=states,
            precision=self.precision,
        )

    def _interface_of(
        self,
        inputs: Sequence[Feature],
        states: Sequence[Feature],
        inside: Sequence[Value],
        outputs: Sequence[Value],
    ) -> FunctionDescription:
        """Describes outputs, which have other names `inside` the whole model where they are converted."""
        whole = {feature.name: feature for feature in self._interface.outputs}
        features = tuple(
            Feature(new.name, _array_feature(new)) if _is_numeric(new) else whole[old.name]
            for old, new in zip(inside, outputs, strict=True)
        )
        names = {feature.name for feature in features}
        label, probabilities = self._interface.predicted_feature, self._interface.predicted_probabilities
        return FunctionDescription(
            inputs=tuple(inputs),
            outputs=features,
            states=tuple(states),
            predicted_feature=label if label in names else "",
            predicted_probabilities=probabilities if probabilities in names else "",
        )

    def _describe(self, part: GraphPart) -> str:
        source = "" if self._model.source is None else f" of {self._model.source.name}"
        count, first, last = len(part.chosen), part.chosen[0], part.chosen[-1]
        span = first if count == 1 else f"{first} to {last}"
        return f"{count} {'operation' if count == 1 else 'operations'}{source}: {span}"


def _is_numeric(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype is not DType.STRING


def _is_static(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.is_static


def _array_feature(value: Value) -> ArrayFeature:
    type_ = value.type.wrapped if isinstance(value.type, StateType) else value.type
    assert isinstance(type_, TensorType)
    shape = type_.shape or ()
    return ArrayFeature(dtype=type_.dtype, shape=tuple(d or 0 for d in shape) if None not in shape else ())


def _with_shape_of(value: Value, array: Array | None) -> Value:
    """Returns a value with the shape that it has in this prediction."""
    if array is None or not isinstance(value.type, TensorType) or value.type.is_static:
        return value
    return Value(value.name, TensorType(value.type.dtype, array.shape))


def _typed(array: Array, value: Value) -> Array:
    """Returns the content of a value in its own type; float32 results of fp16 programs are rounded."""
    if not _is_numeric(value):
        return array  # The index of a label, or probabilities.
    assert isinstance(value.type, TensorType)
    with np.errstate(over="ignore"):
        typed = np.asarray(array).astype(value.type.dtype.numpy, copy=False)
    is_known = value.type.is_static and typed.size == value.type.elements
    return typed.reshape(value.type.shape) if is_known else typed  # type: ignore[arg-type]


def _fitting(array: Array, value: Value) -> Array:
    """Returns the content of an input or output of the part, whose interface may lack the original type."""
    assert isinstance(value.type, TensorType)
    typed = array.astype(value.type.dtype.numpy, copy=False)
    return typed.reshape(value.type.shape) if value.type.is_static else typed  # type: ignore[arg-type]
