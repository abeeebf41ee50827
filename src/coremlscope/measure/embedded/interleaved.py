"""Interleaved timing of several models, so that a slowdown of the machine affects all of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.scratch import scratch_folder
from coremlscope.measure.contract import Progress
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.model.ir import Array, Model
from coremlscope.results.measurement import Settings
from coremlscope.runtime.engines import engine as default_engine
from coremlscope.runtime.engines.base import Engine, EngineOptions
from coremlscope.runtime.engines.sampling import Clock, sample
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.pipeline import Runnable, compile_whole, load_whole
from coremlscope.runtime.execution.wiring import input_functions

#: Number of rounds: enough for an interval of the median, few enough to be fast.
ROUNDS = 16


def time_interleaved(
    models: Sequence[Model],
    settings: Sequence[Settings],
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress | None = None,
) -> list[list[tuple[float, ...]]]:
    """Times predictions of each model in short interleaved rounds: every model once, then every model again.

    All models are loaded at the same time. The first prediction of a round is a warm-up: the other models
    have used the caches since.

    Args:
        models: The models.
        settings: The settings of each model.
        inputs: Values of inputs by name; absent ones are synthetic.
        threads: Threads that work on one operation; None for one per physical core.
        engine: The engine; None for the default one.
        clock: Returns seconds since an arbitrary time.
        progress: Called after each round.

    Returns:
        For each model, the seconds of the predictions of each round.

    Raises:
        CoremlscopeError: A model cannot be run; see `contract.Measurer`.
    """
    chosen, options = engine or default_engine(), EngineOptions(threads)
    taken: list[list[tuple[float, ...]]] = [[] for _ in models]
    with ExitStack() as stack:
        runners = [
            stack.enter_context(loaded(model, wanted, chosen, options, inputs or {}))
            for model, wanted in zip(models, settings, strict=True)
        ]
        for done in range(ROUNDS):
            if progress is not None:
                progress("interleaved", done, ROUNDS)
            for runner, wanted, seconds in zip(runners, settings, taken, strict=True):
                count = -(-wanted.iterations // ROUNDS)
                seconds.append(sample(runner, count, 1, clock=clock).seconds)
    if progress is not None:
        progress("interleaved", ROUNDS, ROUNDS)
    return taken


class _Runner(msgspec.Struct, frozen=True):
    executable: Runnable
    tensors: Mapping[str, Array]
    state: Any

    def __call__(self) -> None:
        self.executable.run(self.tensors, self.state)


@contextmanager
def loaded(
    model: Model,
    settings: Settings,
    engine: Engine,
    options: EngineOptions,
    inputs: Mapping[str, Any],
    folder: Path | None = None,
) -> Iterator[Callable[[], None]]:
    """Loads a model, and gives what runs one prediction.

    Args:
        model: The model.
        settings: What is run.
        engine: The engine.
        options: The engine's options.
        inputs: Values of inputs by name; absent ones are synthetic.
        folder: That of the compiled model, also for other engines; it is compiled if there is none. None
            for a temporary one.

    Raises:
        CoremlscopeError: The model cannot be run; see `contract.Measurer`.
    """
    with scratch_folder() as scratch:
        compiled = folder or Path(scratch) / "compiled"
        chosen = CompileOptions(
            engine=engine,
            engine_options=options,
            random_weights=settings.seed if settings.random_weights else None,
        )
        if compiled.exists():
            executable = load_whole(compiled, model, options=chosen)
        else:
            try:
                executable = compile_whole(
                    model, compiled, function=settings.function, shapes=settings.shapes, options=chosen
                )
            except CoremlscopeError:
                shutil.rmtree(compiled, ignore_errors=True)
                raise
        try:
            bodies = input_functions(model, settings.function or None)
            synthetic = dummy_values(
                executable.description, *bodies, seed=settings.seed, shapes=settings.shapes
            )
            given = {name: value for name, value in inputs.items() if name in synthetic}
            tensors = to_tensors(executable.description.inputs, {**synthetic, **given}, executable.shapes)
            yield _Runner(executable, tensors, executable.new_state())
        finally:
            executable.close()
