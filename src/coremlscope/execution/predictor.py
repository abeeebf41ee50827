"""Predictions with whatever shapes come: executables are compiled as they are needed."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coremlscope.classical.function import with_absent_values
from coremlscope.engines import engine as default_engine
from coremlscope.engines.base import Engine, EngineOptions
from coremlscope.errors import CorruptModelError, EngineError, UnsupportedOpError
from coremlscope.execution.binding import choose_function
from coremlscope.execution.cache import ArtefactCache
from coremlscope.execution.executable import Executable, compile_model, load_compiled
from coremlscope.execution.ranges import OpRange
from coremlscope.execution.state import State
from coremlscope.features import to_tensors
from coremlscope.ir import Array, ArrayFeature, ImageFeature, Model
from coremlscope.ops.program import Precision
from coremlscope.version import __version__

__all__ = ["Predictor"]

_OPTIONS = EngineOptions()
_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class Predictor:
    """Predicts with one function of a model; safe to use from several threads.

    Each set of input shapes has an executable of its own; the ones used last are kept loaded.

    Args:
        model: The model.
        function: The function's name; None for the default one.
        engine: The engine; None for the default one.
        options: What to set on the engine.
        cache: Where compiled functions outlive the process, for models read from a path; None: a temporary
            folder, which goes when the predictor is closed.
        loaded: How many executables are kept loaded.
        random_weights: A seed for weights whose file is absent; None: they are an error.
        precision: `fp16` rounds every result that is declared as fp16, as a device does, and tells its range.
    """

    def __init__(
        self,
        model: Model,
        *,
        function: str | None = None,
        engine: Engine | None = None,
        options: EngineOptions = _OPTIONS,
        cache: ArtefactCache | None = None,
        loaded: int = 4,
        random_weights: int | None = None,
        precision: Precision = "fp32",
    ) -> None:
        chosen = choose_function(model, function)
        self.model = model
        self.function = chosen.name
        self.description = chosen.description
        self._engine = engine or default_engine()
        self._options = options
        self._cache = cache
        self._loaded = loaded
        self._random_weights = random_weights
        self._precision: Precision = precision
        self._lock = threading.Lock()
        self._executables: OrderedDict[_Shapes, Executable] = OrderedDict()
        self._scratch: Path | None = None
        self._compiled = 0

    def predict(self, values: Mapping[str, Any], state: State | None = None) -> dict[str, Any]:
        """Predicts from feature values to feature values; see `Executable.predict`.

        Raises:
            InputError: A value is missing, unknown, or has the wrong type or shape.
            EngineError: The engine failed.
            ModelError: The model cannot be compiled for these shapes.
        """
        return self.predict_with_ranges(values, state)[0]

    def predict_with_ranges(
        self, values: Mapping[str, Any], state: State | None = None
    ) -> tuple[dict[str, Any], tuple[OpRange, ...]]:
        """Like `predict`, and tells the range of every operation's fp16 results; see `run_with_ranges`."""
        values = with_absent_values(self.model.content, self.description, values)
        tensors = to_tensors(self.description.inputs, values)
        executable, results, ranges = self.run(tensors, state)
        return executable.features(results), ranges

    def run(
        self, tensors: Mapping[str, Array], state: State | None = None
    ) -> tuple[Executable, dict[str, Array], tuple[OpRange, ...]]:
        """Runs the executable for the shapes of some tensors; see `Executable.run_with_ranges`.

        Returns:
            The executable, what it gave, and the ranges.
        """
        executable = self.executable(self._shapes(tensors))
        return executable, *executable.run_with_ranges(tensors, state)

    def prepare(self) -> None:
        """Compiles for the default shapes, so that most of what can go wrong does so at once.

        A flexible model may be wrong for its default shapes alone, which nobody has asked for yet. A neural
        network that is meant for sequences may be wrong for a single step.

        Raises:
            EngineError: The engine refuses a model whose shapes are fixed.
            CorruptModelError: Such a model contradicts itself.
            UnsupportedOpError: It has operations that cannot be run.
        """
        types = [feature.type for feature in self.description.inputs]
        takes_sequences = any(isinstance(t, ArrayFeature) and t.takes_sequences for t in types)
        try:
            self.executable()
        except (EngineError, CorruptModelError):
            if not takes_sequences and not any(getattr(type_, "flexibility", None) for type_ in types):
                raise
        except UnsupportedOpError:
            if not takes_sequences:
                raise

    def new_state(self) -> State:
        """States filled with zeros."""
        return self.executable().new_state()

    def executable(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Executable:
        """The executable for input shapes, compiled now if it is not at hand.

        Args:
            shapes: By name of the input; None for the default ones.
        """
        key = tuple(sorted((shapes or self._defaults()).items()))
        with self._lock:
            found = self._executables.get(key)
            if found is None:
                found = self._open(key)
                self._executables[key] = found
                while len(self._executables) > max(1, self._loaded):
                    # Not closed here: another thread may be predicting with it. It goes with its last user.
                    self._executables.popitem(last=False)
            self._executables.move_to_end(key)
            return found

    def close(self) -> None:
        """Lets go of the engine's memory and of the temporary folder."""
        with self._lock:
            for executable in self._executables.values():
                executable.close()
            self._executables.clear()
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
                self._scratch = None

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _flexible(self) -> frozenset[str]:
        """Inputs whose shape may differ from one prediction to the next."""
        names = set()
        for feature in self.description.inputs:
            type_ = feature.type
            open_ended = isinstance(type_, ArrayFeature) and (not type_.shape or type_.takes_sequences)
            if open_ended or (
                isinstance(type_, (ArrayFeature, ImageFeature)) and type_.flexibility is not None
            ):
                names.add(feature.name)
        return frozenset(names)

    def _shapes(self, tensors: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensors[name].shape) for name in sorted(self._flexible())}

    def _defaults(self) -> dict[str, tuple[int, ...]]:
        from coremlscope.features import bind_shapes

        flexible = self._flexible()
        return {name: shape for name, shape in bind_shapes(self.description).items() if name in flexible}

    def _open(self, key: _Shapes) -> Executable:
        if self._cache is None or self.model.source is None:
            return self._compile(key, self._next_folder())
        parts = (
            __version__, self._engine.name, self._engine.version, self.function, repr(key),
            repr(self._random_weights), self._precision,
        )  # fmt: skip
        name = self._cache.key(self.model.source, parts)
        folder = self._cache.find(name)
        if folder is not None:
            try:
                return self._load(folder)
            except EngineError:  # damaged, or taken away by another process in between
                self._cache.remove(name)
        return self._load(self._cache.add(name, lambda making: self._compile(key, making).close()))

    def _load(self, folder: Path) -> Executable:
        return load_compiled(folder, self.model, engine=self._engine, options=self._options)

    def _compile(self, key: _Shapes, folder: Path) -> Executable:
        return compile_model(
            self.model, folder, function=self.function, shapes=dict(key), engine=self._engine,
            options=self._options, random_weights=self._random_weights, precision=self._precision,
        )  # fmt: skip

    def _next_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="coremlscope-"))
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._compiled += 1
        return self._scratch / str(self._compiled)
