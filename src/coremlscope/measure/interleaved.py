"""Timing several models in turn, so that whatever slows the machine down slows all of them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coremlscope.engines import engine as default_engine
from coremlscope.engines.base import Engine, EngineOptions
from coremlscope.engines.sampling import Clock, sample
from coremlscope.execution.executable import CompileOptions
from coremlscope.execution.pipeline import Runnable, compile_whole
from coremlscope.execution.wiring import input_functions
from coremlscope.features import dummy_values, to_tensors
from coremlscope.ir import Array, Model
from coremlscope.measure.engine import Progress
from coremlscope.results.profile import Request

__all__ = ["ROUNDS", "time_in_turns"]

#: Enough for an interval of the median over the rounds, few enough to be short.
ROUNDS = 16


def time_in_turns(
    models: Sequence[Model],
    requests: Sequence[Request],
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress | None = None,
) -> list[list[tuple[float, ...]]]:
    """Times predictions of each model in short rounds: first all models once, then all again.

    All models are loaded at the same time. The first prediction of a round is not counted: the others have
    had the caches meanwhile.

    Args:
        models: The models.
        requests: What is asked of each; see `Request`.
        inputs: Values of inputs by name; those that are absent are made up.
        threads: Threads that work on one operation; None for one per physical core.
        engine: The engine; None for the default one.
        clock: What durations are measured with.
        progress: Told of each round.

    Returns:
        For each model, the seconds of the predictions of each round.

    Raises:
        CoremlscopeError: A model cannot be run; see `assemble.measure`.
    """
    chosen, options = engine or default_engine(), EngineOptions(threads)
    taken: list[list[tuple[float, ...]]] = [[] for _ in models]
    with ExitStack() as stack:
        runners = [
            stack.enter_context(_loaded(model, request, chosen, options, inputs or {}))
            for model, request in zip(models, requests, strict=True)
        ]
        for done in range(ROUNDS):
            if progress is not None:
                progress("turns", done, ROUNDS)
            for runner, request, seconds in zip(runners, requests, taken, strict=True):
                count = -(-request.iterations // ROUNDS)
                seconds.append(sample(runner, count, 1, clock=clock).seconds)
    if progress is not None:
        progress("turns", ROUNDS, ROUNDS)
    return taken


@dataclass(frozen=True, slots=True)
class _Runner:
    executable: Runnable
    tensors: Mapping[str, Array]
    state: Any

    def __call__(self) -> None:
        self.executable.run(self.tensors, self.state)


@contextmanager
def _loaded(
    model: Model, request: Request, engine: Engine, options: EngineOptions, inputs: Mapping[str, Any]
) -> Iterator[_Runner]:
    with tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True) as folder:
        executable = compile_whole(
            model,
            Path(folder) / "compiled",
            function=request.function,
            shapes=request.shapes,
            options=CompileOptions(
                engine=engine,
                engine_options=options,
                random_weights=request.seed if request.random_weights else None,
            ),
        )
        try:
            bodies = input_functions(model, request.function or None)
            made = dummy_values(executable.description, *bodies, seed=request.seed, shapes=request.shapes)
            given = {name: value for name, value in inputs.items() if name in made}
            tensors = to_tensors(executable.description.inputs, {**made, **given}, executable.shapes)
            yield _Runner(executable, tensors, executable.new_state())
        finally:
            executable.close()
