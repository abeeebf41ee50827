"""A function of a model, compiled and loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, get_args

from coremlscope.classical.function import with_absent_values
from coremlscope.engines import engine as default_engine
from coremlscope.engines.base import Engine, EngineOptions, Session
from coremlscope.errors import UsageError
from coremlscope.execution.artefact import Manifest, read_artefact, write_manifest
from coremlscope.execution.binding import bind_model, choose_function
from coremlscope.execution.border import Border
from coremlscope.execution.lowering import lower_function
from coremlscope.execution.ranges import OpRange, read_ranges
from coremlscope.execution.state import State
from coremlscope.features import from_tensors, to_tensors
from coremlscope.ir import Array, FunctionDescription, Model
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.program import OnnxProgram, Precision

__all__ = ["CompileOptions", "Executable", "check_precision", "compile_model", "load_compiled"]

_OPTIONS = EngineOptions()


class Executable:
    """One function of a model, bound to one set of input shapes, loaded into an engine.

    Predictions may be made from several threads at once.

    Attributes:
        model: The model, as it was read.
        manifest: Which function, which shapes, by which engine.
        description: The function's interface.
        program: The lowered program.
        session: The engine's session.
        folder: Where the compiled function lies.
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
        self._border = Border(program.inputs, program.outputs)

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
        """The shape of each input of the program."""
        return {port.name: port.type.shape for port in self.program.inputs if port.type.shape is not None}

    def new_state(self) -> State:
        """States filled with zeros."""
        return State(self.program.states)

    def predict(self, values: Mapping[str, Any], state: State | None = None) -> dict[str, Any]:
        """Predicts from feature values to feature values, as coremltools takes and gives them.

        Args:
            values: By name of the input.
            state: What to go on from and to update; None for one that begins with zeros and is not kept.

        Raises:
            InputError: A value is missing, unknown, or has the wrong type or shape.
            EngineError: The engine failed.
        """
        values = with_absent_values(self.model.content, self.description, values)
        tensors = self.run(to_tensors(self.description.inputs, values, self.shapes), state)
        return self.features(tensors)

    @property
    def labels(self) -> dict[str, tuple[str | int, ...]]:
        """By name of the output: what the indices and numbers that `run` gives stand for."""
        return self._border.labels()

    def features(self, tensors: Mapping[str, Array]) -> dict[str, Any]:
        """Feature values from the tensors that `run` gives."""
        return from_tensors(self.description.outputs, tensors, self.labels)

    def feeds(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """What the engine is fed, states excluded, from tensors by feature name.

        Raises:
            InputError: A tensor is missing, has the wrong number of elements, or holds an unknown category.
        """
        return self._border.feeds(tensors)

    def run(self, tensors: Mapping[str, Array], state: State | None = None) -> dict[str, Array]:
        """Predicts from tensors to tensors, by feature name and in the dtypes that the program carries.

        Raises:
            InputError: A tensor is missing or has the wrong number of elements.
            EngineError: The engine failed.
        """
        return self._outputs(self._run(tensors, state))

    def run_with_ranges(
        self, tensors: Mapping[str, Array], state: State | None = None
    ) -> tuple[dict[str, Array], tuple[OpRange, ...]]:
        """Like `run`, and tells the range of every operation's fp16 results.

        There are ranges where the function was compiled with the precision `fp16`, and none otherwise.
        """
        results = self._run(tensors, state)
        port = self.program.ranges
        return self._outputs(results), () if port is None else read_ranges(port, results)

    def _run(self, tensors: Mapping[str, Array], state: State | None) -> dict[str, Array]:
        feeds = self.feeds(tensors)
        if not self.program.states:
            return self.session.run(feeds)
        state = state or self.new_state()
        with state.lock:
            results = self.session.run({**feeds, **state.feeds()})
            state.update(results)
        return results

    def _outputs(self, results: Mapping[str, Array]) -> dict[str, Array]:
        return self._border.results(results)

    def close(self) -> None:
        """Lets go of the engine's memory. The folder stays."""
        self.session.close()


def check_precision(precision: str) -> None:
    """Refuses a precision that there is none of.

    Raises:
        UsageError: It is neither `fp32` nor `fp16`.
    """
    if precision not in get_args(Precision):
        raise UsageError(
            f"there is no precision {precision!r}", f"use one of {', '.join(get_args(Precision))}"
        )


class CompileOptions(TypedDict, total=False):
    """How `compile_model` compiles, as keywords."""

    engine: Engine | None
    options: EngineOptions
    random_weights: int | None
    precision: Precision


def compile_model(
    model: Model,
    folder: Path,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    engine: Engine | None = None,
    options: EngineOptions = _OPTIONS,
    random_weights: int | None = None,
    precision: Precision = "fp32",
) -> Executable:
    """Compiles a function of a model: binds, lowers, writes weights, and loads it into an engine.

    Args:
        model: The model.
        folder: Where the compiled function goes; made if absent.
        function: The function's name; None for the default one.
        shapes: Shapes of inputs, for those that are flexible.
        engine: The engine; None for the default one.
        options: What to set on the engine.
        random_weights: A seed: weights whose file is absent are made up. None: they are an error.
        precision: `fp16` rounds every result that is declared as fp16, as a device does, and tells its range.

    Raises:
        MissingWeightsError: Weights are absent and `random_weights` is not given.
        UnsupportedOpError: Names every operation that cannot be lowered.
        UsageError: There is no such function or precision.
        InputError: A shape is not allowed.
        CorruptModelError: The function contradicts itself or its description.
        EngineError: The engine refused the program, or the folder cannot be written.
    """
    check_precision(precision)
    engine = engine or default_engine()
    asked = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    lowered = lower_function(model, function, asked, random_weights=random_weights, precision=precision)
    folder.mkdir(parents=True, exist_ok=True)
    session = engine.build(lowered.program, folder, options)
    manifest = Manifest(
        lowered.function, asked, engine.name, engine.version, lowered.random_weights, precision
    )
    write_manifest(folder, manifest, lowered.program)
    executable = Executable(model, manifest, lowered.program, session, folder)
    executable.__dict__["bound"] = lowered.bound  # what `bound` would otherwise work out anew
    return executable


def load_compiled(
    folder: Path, model: Model, *, engine: Engine | None = None, options: EngineOptions = _OPTIONS
) -> Executable:
    """Loads what `compile_model` wrote.

    Args:
        folder: Where it lies; may have been moved or copied.
        model: The model that was compiled.
        engine: The engine; None for the default one.
        options: What to set on the engine.

    Raises:
        EngineError: The folder does not hold a compiled function, or the engine refused it.
    """
    engine = engine or default_engine()
    manifest, program = read_artefact(folder)
    session = engine.load(folder, options)
    return Executable(model, manifest, program, session, folder)
