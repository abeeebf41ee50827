"""Measures with the faster of the installed engines, after an interleaved trial of them."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.units import format_duration
from coremlscope.measure.contract import MeasuredModel, Measurer, Progress
from coremlscope.measure.embedded.interleaved import loaded
from coremlscope.model.ir import Model
from coremlscope.ops.program import WEIGHTS_FILE
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.statistics import median_interval
from coremlscope.runtime.engines import ENGINES
from coremlscope.runtime.engines import engine as engine_of
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.engines.sampling import Clock, sample

#: Seconds of predictions in a block, and the fewest of them. The first prediction of a block is dropped: the
#: others have used the caches since.
_BLOCK_S, _LEAST_BLOCK = 0.05, 2
#: A trial has this many rounds and seconds at most. From the least number on, it ends once the interval of
#: the median ratio of two engines excludes 1, or is within this share of it: then either engine will do.
_LEAST_ROUNDS, _MOST_ROUNDS, _BUDGET_S = 6, 60, 4.0
_LEVEL, _TIE = 0.95, 0.015
#: Two engines with weights of at least so many bytes would take half as much memory again as the larger one.
_LARGE_BYTES = 64 << 20


class Trial(msgspec.Struct, frozen=True):
    """What each engine took, or why it failed.

    Attributes:
        blocks: By engine, the median seconds of a prediction in each round.
        failed: The messages of engines that failed, by engine.
    """

    blocks: dict[str, list[float]]
    failed: dict[str, str]

    @property
    def medians(self) -> dict[str, float]:
        """The median seconds of a prediction, by engine, the best engine first."""
        found = {name: statistics.median(blocks) for name, blocks in self.blocks.items()}
        return dict(sorted(found.items(), key=lambda item: item[1]))


def installed_engines() -> tuple[str, ...]:
    """Returns the names of the engines whose libraries are installed, the default one first."""
    return tuple(name for name, *_ in ENGINES if importlib.util.find_spec(name) is not None)


def race(
    runners: Mapping[str, Callable[[], object]], *, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Times short blocks of each runner in interleaved rounds until their order is clear, or does not matter.

    Args:
        runners: What runs one prediction, by engine.
        clock: Returns seconds since an arbitrary time.

    Returns:
        By engine, the median seconds of a prediction in each round.
    """
    blocks: dict[str, list[float]] = {name: [] for name in runners}
    began = clock()
    for number in range(_MOST_ROUNDS):
        order = list(runners)
        # A runner's time may depend on the one before it.
        for name in order if number % 2 else reversed(order):
            blocks[name].append(_time_block(runners[name], blocks[name], clock))
        if len(order) < 2 or clock() - began > _BUDGET_S:
            break
        if number + 1 >= _LEAST_ROUNDS and _is_clear(list(blocks.values())):
            break
    return blocks


def _time_block(runner: Callable[[], object], before: Sequence[float], clock: Clock) -> float:
    known = before[-1] if before else _BLOCK_S
    count = max(_LEAST_BLOCK, int(_BLOCK_S / known)) if known > 0 else _LEAST_BLOCK
    return statistics.median(sample(runner, count, 1, clock=clock).seconds)


def _is_clear(blocks: Sequence[Sequence[float]]) -> bool:
    """Returns whether the two fastest differ clearly, or hardly at all."""
    first, second, *_ = sorted(blocks, key=statistics.median)
    ratios = [later / earlier for earlier, later in zip(first, second, strict=True) if earlier > 0]
    low, high = median_interval(ratios, _LEVEL) or (0.0, float("inf"))
    return low > 1.0 or 1.0 - _TIE <= low <= high <= 1.0 + _TIE


def try_engines(
    model: Model,
    settings: Settings,
    engines: Sequence[str],
    inputs: Mapping[str, Any],
    threads: int | None,
    limits: ChildLimits | None = None,
) -> Trial:
    """Loads the model into each engine, and times them; see `race`.

    Args:
        model: The model.
        settings: What is measured.
        engines: The names of the engines.
        inputs: Values of inputs by name; absent ones are synthetic.
        threads: Threads that work on one operation; None for one per physical core.
        limits: When to give up, in a process of its own; None to stay in this one.

    Raises:
        EngineError: No engine can run it, or the process failed.
        CoremlscopeError: The model cannot be run; see `contract.Measurer`.
    """
    if limits is not None:
        from coremlscope.measure.embedded.process import call_isolated, file_of

        given = {"file": file_of(model), "settings": settings, "engines": engines, "inputs": inputs}
        trial: Trial = call_isolated(_try_file, {**given, "threads": threads}, limits=limits)
        return trial
    with scratch_folder() as scratch:
        compiled = Path(scratch) / "compiled"

        def load(name: str) -> AbstractContextManager[Callable[[], None]]:
            return loaded(model, settings, engine_of(name), EngineOptions(threads), inputs, compiled)

        return _try_loaded(load, engines, compiled / WEIGHTS_FILE)


def _try_loaded(
    load: Callable[[str], AbstractContextManager[Callable[[], None]]], engines: Sequence[str], weights: Path
) -> Trial:
    """Tries engines at the same time, or in turn if the file of weights is large."""
    runners: dict[str, Callable[[], object]] = {}
    failed: dict[str, EngineError] = {}
    blocks: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for name in engines:
            try:
                runner = stack.enter_context(load(name))
                runner()
            except EngineError as error:
                failed[name] = error
                continue
            runners[name] = runner
            if weights.exists() and weights.stat().st_size >= _LARGE_BYTES:
                break
        else:
            if runners:
                blocks = race(runners)
    if runners and not blocks:
        _take_turns(load, [name for name in engines if name not in failed], blocks, failed)
    if not blocks:
        raise next(iter(failed.values()))
    return Trial(blocks, {name: error.message for name, error in failed.items()})


def _take_turns(
    load: Callable[[str], AbstractContextManager[Callable[[], None]]],
    engines: Sequence[str],
    blocks: dict[str, list[float]],
    failed: dict[str, EngineError],
) -> None:
    """Times one engine after the other and back, so that a drift of the machine affects all of them."""
    turns = [*engines, *reversed(engines[:-1])]
    for name in turns:
        try:
            with load(name) as runner:
                began, taken = time.perf_counter(), blocks.get(name, [])
                runner()
                while not taken or time.perf_counter() - began < _BUDGET_S / len(turns):
                    taken.append(_time_block(runner, taken, time.perf_counter))
                blocks[name] = taken
        except EngineError as error:
            failed[name] = error


def _try_file(file: Path, **options: Any) -> Trial:
    from coremlscope.formats import container

    return try_engines(container.read(file), **options)


class FastestMeasurer(msgspec.Struct, frozen=True):
    """Tries each engine, and measures with the one whose median is lower.

    Attributes:
        measurer_of: Returns what measures with an engine.
        tries: Tries the engines; see `try_engines`.
        engines: The engines to try.
    """

    measurer_of: Callable[[str], Measurer]
    tries: Callable[[Model, Settings, Sequence[str], Mapping[str, Any]], Trial]
    engines: tuple[str, ...] = msgspec.field(default_factory=installed_engines)

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Compiles, loads and runs a function repeatedly; see `Measurer`. A finding names the choice.

        Raises:
            EngineError: No engine runs the model.
        """
        best = self.engines[0]
        found: tuple[Finding, ...] = ()
        if len(self.engines) > 1:
            if progress is not None:
                progress("choose the engine", 0, 1)
            trial = self.tries(subject.model, settings, self.engines, inputs or {})
            best, found = next(iter(trial.medians)), (_chosen(trial),)
        measured = self.measurer_of(best).measure(subject, settings, inputs=inputs, progress=progress)
        return msgspec.structs.replace(measured, findings=(*found, *measured.findings))


def _chosen(trial: Trial) -> Finding:
    """Returns what the trial found."""
    best, *others = trial.medians
    rounds = len(trial.blocks[best])
    text = (
        f"{engine_of(best).title} was chosen after a trial of {rounds} rounds: a prediction took"
        f" {format_duration(trial.medians[best])}"
    )
    rest = [f"{engine_of(name).title} took {format_duration(trial.medians[name])}" for name in others]
    rest += [f"{engine_of(name).title} failed ({message})" for name, message in trial.failed.items()]
    return Finding(
        id="engine-chosen",
        severity="info",
        text=f"{'; '.join([text, *rest])}.",
        hint=f"--engine {best} repeats it",
    )
