"""Predictors: loaded models that predict repeatedly, compiled for each set of input shapes on demand."""

from __future__ import annotations

import shutil
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from coremlscope.base.errors import (
    CorruptModelError,
    EngineError,
    OutputError,
    UnsupportedOpError,
    UsageError,
)
from coremlscope.base.scratch import new_scratch
from coremlscope.base.version import __version__
from coremlscope.model.features import bind_shapes, to_tensors
from coremlscope.model.ir import Array, ArrayFeature, FunctionDescription, ImageFeature, Model
from coremlscope.ops.classical.function import with_absent_values
from coremlscope.runtime.engines.host import processor_name
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.cache import ArtefactCache
from coremlscope.runtime.execution.declared import find_contradictions
from coremlscope.runtime.execution.executable import (
    DEFAULT_OPTIONS,
    CompileOptions,
    Executable,
    compile_model,
    load_compiled,
)
from coremlscope.runtime.execution.ranges import OpRange
from coremlscope.runtime.execution.state import State

#: Layers of neural networks that must fit the default shapes, even if predictions use others (source:
#: coremltools' tests of stacks of flexible shapes).
_CHECKED_AT_LOAD = frozenset({"stack"})

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class Predictor(ABC):
    """A loaded model that predicts.

    `open_predictor` creates one for any model. A predictor holds the resources of an engine and temporary
    files until `close`; use it in a `with` statement. It is safe to predict from several threads at once, but
    not while another thread closes the predictor.

    Attributes:
        model: The model as it was read.
        description: The names and types of the inputs, outputs and states.
        contradictions: How the results of the last prediction contradict the description, as sentences.
    """

    def __init__(self, model: Model, description: FunctionDescription) -> None:
        self.model = model
        self.description = description
        self._is_closed = False
        self.contradictions: tuple[str, ...] = ()

    def predict(self, values: Mapping[str, Any], state: State | None = None) -> dict[str, Any]:
        """Predicts from feature values, which have the types of coremltools' `MLModel.predict`.

        The first prediction with new input shapes compiles the model for them.

        | feature | value in | value out |
        |---|---|---|
        | array | NumPy array, number or nested sequence | NumPy array of rank 1 or higher |
        | image | Pillow image, or array of 0 … 255: height × width (× 3 or 4) | Pillow image: RGBA, L or F |
        | int64, double | number | `int`, `float` |
        | string | `str` | `str` |
        | dictionary | mapping from `str` or `int` to numbers | `dict` from `str` or `int` to `float` |
        | sequence | sequence of `str` or `int` | `list` of `str` or `int` |

        Arrays must have the shape of their input, or a shape that a flexible input allows. Inputs of type
        fp16 are rounded to fp16, and floats for integer inputs are truncated. The dtype of output arrays is
        float32 for fp16 and fp32, float64 for fp64, and int32 for integers.

        Args:
            values: By input name. Optional inputs may be omitted.
            state: The state to read and update, from `new_state`; None uses a temporary state filled with
                zeros.

        Returns:
            By output name. Results that contradict the description are a RuntimeWarning, once.

        Raises:
            InputError: A value is missing or unknown, or has the wrong type or shape.
            ModelError: The model cannot be compiled for these shapes.
            EngineError: The engine failed.
            UsageError: The predictor is closed.
        """
        before, results = self.contradictions, self.predict_with_ranges(values, state)[0]
        for text in self.contradictions if self.contradictions != before else ():
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return results

    @abstractmethod
    def predict_with_ranges(
        self, values: Mapping[str, Any], state: State | None = None
    ) -> tuple[dict[str, Any], tuple[OpRange, ...]]:
        """Predicts like `predict` and also returns the range of every operation's fp16 results.

        The ranges are empty unless the predictor was opened with the precision `fp16`.
        """

    @abstractmethod
    def new_state(self) -> State:
        """Creates states filled with zeros, which predictions read and update.

        Predictions that share a state run one after another. A model without states has an empty state.

        Raises:
            ModelError: The model cannot be compiled for its default shapes.
            UsageError: The predictor is closed.
        """

    @abstractmethod
    def prepare(self) -> None:
        """Compiles for the default shapes, so that most errors occur before the first prediction.

        Errors at the default shapes are ignored for flexible inputs and for neural networks that take
        sequences, because predictions may use other shapes.

        Raises:
            EngineError: The engine rejects a model with fixed shapes.
            CorruptModelError: A model with fixed shapes contradicts itself.
            UnsupportedOpError: The model has operations that cannot be run.
            UsageError: The predictor is closed.
        """

    def close(self) -> None:
        """Releases engine resources and removes temporary files. Closing again has no effect."""
        self._is_closed = True
        self._release()

    @abstractmethod
    def _release(self) -> None:
        """Releases all resources; called by every `close`."""

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError("the predictor is closed", "open the model again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FunctionPredictor(Predictor):
    """Predicts with one function of a model that is not a pipeline.

    Each set of input shapes has its own executable. The most recently used ones stay loaded.

    Args:
        model: The model.
        function: The function's name; None selects the default function.
        options: The engine, its options, random weights and the precision.
        cache: The cache of compiled functions, for models that were read from a path; None uses a temporary
            folder, which `close` removes.
        max_loaded: The number of executables that stay loaded.

    Attributes:
        function: The function's name in the model's description.

    Raises:
        UsageError: The function is unknown.
        UnsupportedModelError: Models of this kind cannot be run.
        CorruptModelError: The model describes the function but does not hold it.
    """

    def __init__(
        self,
        model: Model,
        *,
        function: str | None = None,
        options: CompileOptions = DEFAULT_OPTIONS,
        cache: ArtefactCache | None = None,
        max_loaded: int = 4,
    ) -> None:
        chosen = choose_function(model, function)
        super().__init__(model, chosen.description)
        self.function = chosen.name
        self._options = options
        self._cache = cache
        self._max_loaded = max(1, max_loaded)
        self._lock = threading.Lock()
        self._executables: OrderedDict[_Shapes, Executable] = OrderedDict()
        self._scratch: Path | None = None
        self._compiled = 0

    def predict_with_ranges(
        self, values: Mapping[str, Any], state: State | None = None
    ) -> tuple[dict[str, Any], tuple[OpRange, ...]]:
        """Predicts like `predict` and also returns the ranges; see `Predictor.predict_with_ranges`."""
        self._require_open()
        values = with_absent_values(self.model.content, self.description, values)
        tensors = to_tensors(self.description.inputs, values)
        executable, results, ranges = self.run(tensors, state)
        self.contradictions = tuple(find_contradictions(self.model, self.description, results))
        return executable.features(results), ranges

    def run(
        self, tensors: Mapping[str, Array], state: State | None = None
    ) -> tuple[Executable, dict[str, Array], tuple[OpRange, ...]]:
        """Runs the executable for the shapes of the tensors; see `Executable.run_with_ranges`.

        Returns:
            The executable, the results by output name, and the ranges.
        """
        executable = self.executable(self._shapes(tensors))
        return executable, *executable.run_with_ranges(tensors, state)

    def prepare(self) -> None:
        """Compiles for the default shapes; see `Predictor.prepare`."""
        types = [feature.type for feature in self.description.inputs]
        takes_sequences = any(isinstance(t, ArrayFeature) and t.takes_sequences for t in types)
        is_flexible = any(getattr(type_, "flexibility", None) for type_ in types)
        try:
            self.executable()
        except (EngineError, CorruptModelError):
            if not takes_sequences and not is_flexible:
                raise
        except UnsupportedOpError as error:
            # Neural networks are translated again for each set of shapes.
            is_checked = any(op_type in _CHECKED_AT_LOAD for op_type, _, _ in error.ops)
            if not takes_sequences and (not is_flexible or not self.model.content.is_network or is_checked):
                raise

    def new_state(self) -> State:
        """Creates states filled with zeros; see `Predictor.new_state`."""
        return self.executable().new_state()

    def executable(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Executable:
        """The executable for input shapes, compiled or loaded now if necessary.

        Args:
            shapes: Shapes of flexible inputs by name; None selects the default shapes.

        Raises:
            UsageError: The predictor is closed.
        """
        key = tuple(sorted(shapes.items())) if shapes else self._defaults
        with self._lock:
            self._require_open()
            found = self._executables.get(key)
            if found is None:
                found = self._open(key)
                self._executables[key] = found
                while len(self._executables) > self._max_loaded:
                    # Another thread may be predicting with it: its last reference closes it.
                    self._executables.popitem(last=False)
            self._executables.move_to_end(key)
            return found

    def _release(self) -> None:
        with self._lock:
            for executable in self._executables.values():
                executable.close()
            self._executables.clear()
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
                self._scratch = None

    @cached_property
    def _flexible(self) -> tuple[str, ...]:
        """The inputs whose shape may vary between predictions, in order."""
        names = []
        for feature in self.description.inputs:
            type_ = feature.type
            is_unbounded = isinstance(type_, ArrayFeature) and (not type_.shape or type_.takes_sequences)
            if is_unbounded or (
                isinstance(type_, (ArrayFeature, ImageFeature)) and type_.flexibility is not None
            ):
                names.append(feature.name)
        return tuple(sorted(names))

    @cached_property
    def _defaults(self) -> _Shapes:
        shapes = bind_shapes(self.description)
        return tuple((name, shapes[name]) for name in self._flexible if name in shapes)

    def _shapes(self, tensors: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensors[name].shape) for name in self._flexible}

    def _open(self, key: _Shapes) -> Executable:
        source = self.model.source
        if self._cache is None or source is None:
            return self._compile(key, self._next_folder())
        cache_key = self._cache.key(source, self._key_parts(key))
        folder = self._cache.find(cache_key)
        if folder is not None:
            try:
                return self._load(folder)
            except EngineError:  # The folder is damaged, or another process has removed it.
                self._cache.remove(cache_key)
        try:
            return self._load(
                self._cache.add(
                    cache_key, lambda folder: self._compile(key, folder).close(), self._entry_name(source)
                )
            )
        except (OutputError, EngineError):  # It cannot be written, or another process has removed the folder.
            return self._compile(key, self._next_folder())

    def _entry_name(self, source: Path) -> str:
        function = "" if self.function == self.model.description.default else self.function
        return " ".join(filter(None, (source.name, self.model.stage, function)))

    def _key_parts(self, key: _Shapes) -> tuple[str, ...]:
        """Everything besides the model that a compiled function depends on."""
        engine = self._options.chosen_engine
        return (
            __version__,
            engine.name,
            engine.version,
            processor_name(),
            self.model.stage,
            self.function,
            repr(key),
            repr(self._options.random_weights),
            self._options.precision,
        )

    def _load(self, folder: Path) -> Executable:
        return load_compiled(folder, self.model, options=self._options)

    def _compile(self, key: _Shapes, folder: Path) -> Executable:
        return compile_model(
            self.model, folder, function=self.function, shapes=dict(key), options=self._options
        )

    def _next_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = new_scratch()
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._compiled += 1
        return self._scratch / str(self._compiled)
