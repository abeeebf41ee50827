"""One function of a model, compiled for one set of input shapes and loaded into an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.model.features import from_tensors, to_tensors
from coremlscope.model.ir import Array, FunctionDescription, ListType, Model, StateType, TensorType, ValueType
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.classical.function import with_absent_values
from coremlscope.ops.emit import carry
from coremlscope.ops.program import OnnxProgram, Precision, check_precision
from coremlscope.ops.view import OpView
from coremlscope.runtime.engines import engine as default_engine
from coremlscope.runtime.engines.base import Engine, EngineOptions, Session
from coremlscope.runtime.execution.artefact import Manifest, read_artefact, write_manifest
from coremlscope.runtime.execution.binding import bind_model, choose_function
from coremlscope.runtime.execution.codec import FeatureCodec
from coremlscope.runtime.execution.lowering import lower_function
from coremlscope.runtime.execution.ranges import OpRange, read_ranges
from coremlscope.runtime.execution.state import State

# Checks that the values of a function fit in the memory of this machine before it is run.

#: Engines compute what depends on constants alone when they load a model, from copies.
_COPIES = 4


def check_values(bound: BoundFunction) -> None:
    """Checks the size of each input and result as the engine holds it.

    Raises:
        UnsupportedModelError: A value is larger than the memory of this machine.
    """
    for value, given in zip(bound.graph.graph.inputs, bound.graph.inputs, strict=True):
        bound.budget.check_value(_carried_bytes(given.type), f"the input {value.name!r}")
    fixed: set[str] = set()  # the values that depend on constants alone
    for view in bound.graph.walk():
        is_fixed = not view.blocks and _depends_on_constants(view, fixed)
        for value, result in zip(view.op.outputs, view.outputs, strict=True):
            if is_fixed:
                fixed.add(value.name)
            nbytes = 0 if result.constant is not None else _carried_bytes(result.type)
            what = f"the result of {view.op.id} ({view.op.type})"
            bound.budget.check_value(nbytes, what, copies=_COPIES if is_fixed else 1)


def _depends_on_constants(view: OpView, fixed: set[str]) -> bool:
    return all(
        known.constant is not None or getattr(argument, "name", None) in fixed
        for name, arguments in view.op.inputs.items()
        for argument, known in zip(arguments, view.inputs[name], strict=True)
    )


def _carried_bytes(type_: ValueType) -> int:
    """The size of a value in the engine; 0 if a dimension is unknown."""
    match type_:
        case StateType(wrapped):
            return _carried_bytes(wrapped)
        case ListType(element, length):
            return _carried_bytes(element) * (length or 0)
        case TensorType(dtype):
            return (type_.elements or 0) * carry(dtype).itemsize
        case _:
            return 0


class CompileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for compiling and loading a function.

    Attributes:
        engine: The engine; None selects the default engine.
        engine_options: The engine's options.
        random_weights: The seed of the random weights that replace missing weights; None makes missing
            weights an error.
        precision: `fp16` rounds every result that the program declares as fp16, and every one of a neural
            network, as a device does, and records its range. `fp32` keeps float32 results.

    Raises:
        UsageError: The precision is invalid.
    """

    engine: Engine | None = None
    engine_options: EngineOptions = msgspec.field(default_factory=EngineOptions)
    random_weights: int | None = None
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        check_precision(self.precision)

    @property
    def chosen_engine(self) -> Engine:
        """The engine, or the default engine."""
        return self.engine or default_engine()


DEFAULT_OPTIONS = CompileOptions()


class Executable:
    """One function of a model, bound to one set of input shapes and loaded into an engine.

    It is safe to predict from several threads at once.

    Attributes:
        model: The model as it was read.
        manifest: The function, the shapes and the options that it was compiled with.
        description: The function's inputs, outputs and states.
        program: The lowered program.
        session: The engine's session.
        folder: The folder of the compiled function.
    """

    def __init__(
        self, model: Model, manifest: Manifest, program: OnnxProgram, session: Session, folder: Path
    ) -> None:
        self.model = model
        self.manifest = manifest
        self.description: FunctionDescription = choose_function(model, manifest.function).description
        self.program = program
        self.session = session
        self.folder = folder
        self._codec = FeatureCodec(program.inputs, program.outputs)

    @property
    def function(self) -> str:
        """The function's name in the model's description."""
        return self.manifest.function

    @cached_property
    def bound(self) -> BoundFunction:
        """The function with bound shapes."""
        return bind_model(self.model, self.function, self.manifest.shapes)

    @property
    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """The shape of each input of the program, where it is known; unknown dimensions are None."""
        return {port.name: port.type.shape for port in self.program.inputs if port.type.shape is not None}

    def new_state(self) -> State:
        """Creates states filled with zeros."""
        return State(self.program.states)

    def predict(self, values: Mapping[str, Any], state: State | None = None) -> dict[str, Any]:
        """Predicts from feature values; see `Predictor.predict`.

        Args:
            values: By input name.
            state: The state to read and update; None uses a temporary state filled with zeros.

        Returns:
            Feature values by output name.

        Raises:
            InputError: A value is missing or unknown, or has the wrong type or shape.
            EngineError: The engine failed.
        """
        values = with_absent_values(self.model.content, self.description, values)
        tensors = self.run(to_tensors(self.description.inputs, values, self.shapes), state)
        return self.features(tensors)

    @property
    def labels(self) -> dict[str, tuple[str | int, ...]]:
        """The labels that the indices and numbers in the results of `run` refer to, by output name."""
        return self._codec.labels()

    def features(self, tensors: Mapping[str, Array]) -> dict[str, Any]:
        """Converts the results of `run` into feature values."""
        return from_tensors(self.description.outputs, tensors, self.labels)

    def feeds(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Encodes tensors by feature name as inputs of the engine, states excluded.

        Raises:
            InputError: A tensor is missing, has the wrong number of elements, or holds an unknown category.
        """
        return self._codec.encode(tensors)

    def run(self, tensors: Mapping[str, Array], state: State | None = None) -> dict[str, Array]:
        """Predicts from tensors, in the dtypes of the lowered program.

        Args:
            tensors: By input name, as `to_tensors` returns them.
            state: The state to read and update; None uses a temporary state filled with zeros.

        Returns:
            Tensors by output name.

        Raises:
            InputError: A tensor is missing or has the wrong number of elements.
            EngineError: The engine failed.
        """
        return self._codec.decode(self._run(tensors, state))

    def run_with_ranges(
        self, tensors: Mapping[str, Array], state: State | None = None
    ) -> tuple[dict[str, Array], tuple[OpRange, ...]]:
        """Predicts like `run` and also returns the range of every operation's fp16 results.

        The ranges are empty unless the function was compiled with the precision `fp16`.
        """
        results = self._run(tensors, state)
        port = self.program.ranges
        return self._codec.decode(results), () if port is None else read_ranges(port, results)

    def _run(self, tensors: Mapping[str, Array], state: State | None) -> dict[str, Array]:
        feeds = self.feeds(tensors)
        if not self.program.states:
            return self.session.run(feeds)
        return (state or self.new_state()).run(self.session, feeds)

    def close(self) -> None:
        """Releases engine resources. The folder stays."""
        self.session.close()


def compile_model(
    model: Model,
    folder: Path,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    options: CompileOptions = DEFAULT_OPTIONS,
) -> Executable:
    """Compiles one function: binds and lowers it, writes its weights and loads it into an engine.

    Args:
        model: The model.
        folder: The folder to write into; created if it does not exist.
        function: The function's name; None selects the default function.
        shapes: Shapes of flexible inputs by name. The others get their default shapes.
        options: The engine, its options, random weights and the precision.

    Raises:
        MissingWeightsError: Weights are missing and `options.random_weights` is None.
        UnsupportedOpError: Operations cannot be lowered. The error lists all of them.
        UnsupportedModelError: Weights or values do not fit in the memory of this machine.
        UsageError: The function is unknown.
        InputError: A shape is not allowed.
        CorruptModelError: The function contradicts itself or its description.
        EngineError: The engine rejects the program, or the folder cannot be written.
    """
    engine = options.chosen_engine
    requested = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    lowered = lower_function(
        model, function, requested, random_weights=options.random_weights, precision=options.precision
    )
    check_values(lowered.bound)
    folder.mkdir(parents=True, exist_ok=True)
    session = engine.build(lowered.program, folder, options.engine_options)
    manifest = Manifest(
        function=lowered.function,
        shapes=requested,
        engine=engine.name,
        engine_version=engine.version,
        random_weights=lowered.random_weights,
        precision=options.precision,
    )
    write_manifest(folder, manifest, lowered.program)
    executable = Executable(model, manifest, lowered.program, session, folder)
    executable.__dict__["bound"] = lowered.bound  # fills the cached property, which would bind again
    return executable


def load_compiled(folder: Path, model: Model, *, options: CompileOptions = DEFAULT_OPTIONS) -> Executable:
    """Loads a function that `compile_model` wrote.

    Args:
        folder: The folder of the compiled function. It may have been moved or copied.
        model: The model that was compiled.
        options: The engine and its options. The precision and the random weights are those of the folder.

    Raises:
        EngineError: The folder does not hold a compiled function, or the engine rejects it.
    """
    manifest, program = read_artefact(folder)
    session = options.chosen_engine.load(folder, options.engine_options, program.states)
    return Executable(model, manifest, program, session, folder)
