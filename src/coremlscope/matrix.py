"""Models × settings of compute units: what was measured, and apart from it what is planned and estimated."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from coremlscope.devices import ComputeUnits, Device
from coremlscope.engines.base import Engine
from coremlscope.engines.host import power_mode
from coremlscope.engines.sampling import Clock
from coremlscope.errors import CoremlscopeError, EngineError
from coremlscope.figures import Figure
from coremlscope.forecast.estimating import estimate_model
from coremlscope.forecast.planning import plan_model
from coremlscope.ir import Model
from coremlscope.measure.engine import Progress, measure
from coremlscope.notebook import data_frame
from coremlscope.results.profile import Phase, Request

__all__ = [
    "SCHEMA",
    "Forecast",
    "Matrix",
    "MatrixRow",
    "Problem",
    "Timing",
    "fill_matrix",
    "forecast_model",
    "time_on_host",
]

#: Name and version of the form that is written.
SCHEMA = "coremlscope.matrix/1"


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured of one model.

    Attributes:
        by: What did the work: `onnxruntime 1.22 on AMD EPYC`, `Core ML on Apple M4`.
        compute_units: The setting; empty where settings make no difference to what did the work.
        power_mode: The Mac's power mode while it was timed; empty where the system does not tell, and for a
            device that is connected to it.
        load: Loading what was compiled.
        predict: Predictions.
    """

    by: str
    compute_units: str
    power_mode: str
    load: Phase
    predict: Phase


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is planned and estimated of one model on a device under one setting. Nothing was measured.

    Attributes:
        device: The device, or its chip.
        os: The system.
        compute_units: The setting.
        planned_s: What Core ML's cost model says; it only ranks units, and nothing takes that long.
        latency: The estimate in seconds, with an interval that holds 80 % of the cases.
        basis: `calibrated` where published latencies of the chip went into the estimate, else `extrapolated`.
    """

    device: str
    os: str
    compute_units: str
    planned_s: Figure
    latency: Figure
    basis: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be found out.

    Attributes:
        what: What was tried.
        message: Why it failed.
        hint: What to do about it.
        exit_code: That of the error.
    """

    what: str
    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """All that is known of one model.

    Attributes:
        model: What it is called.
        timings: What was measured.
        forecasts: What is planned and estimated.
        problems: What failed.
    """

    model: str
    timings: tuple[Timing, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Matrix:
    """Models × settings.

    Attributes:
        iterations: How often each prediction is timed.
        settings: The settings of compute units that were asked for.
        devices: The devices that plans and estimates are for.
        rows: The models, in the order in which they were given.
        interrupted: True where it was stopped before everything was done.
    """

    iterations: int
    settings: tuple[ComputeUnits, ...]
    devices: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """That of the first problem; 0 where there is none."""
        return next((problem.exit_code for row in self.rows for problem in row.problems), 0)

    def to_pandas(self) -> Any:
        """One row for each figure, measured, planned or estimated, as a pandas DataFrame.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        names = ("model", "origin", "by", "compute_units", "power_mode", "median_s", "low_s", "high_s")
        rows: list[tuple[Any, ...]] = []
        for row in self.rows:
            for t in row.timings:
                median = t.predict.statistics.median
                rows.append((row.model, "measured", t.by, t.compute_units, t.power_mode, median, None, None))
            for f in row.forecasts:
                for figure in (f.planned_s, f.latency):
                    by = f"{f.device}, {f.os}"
                    ends = (figure.value, figure.low, figure.high)
                    rows.append((row.model, figure.origin, by, f.compute_units, "", *ends))
        return data_frame({name: [row[place] for row in rows] for place, name in enumerate(names)})

    def _repr_html_(self) -> str:
        from coremlscope.render.cards import matrix_card

        return matrix_card(self)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; statistics are added for readers that do not compute them."""
        data = {"schema": SCHEMA, **dataclasses.asdict(self)}
        for row, shown in zip(self.rows, data["rows"], strict=True):
            for timing, values in zip(row.timings, shown["timings"], strict=True):
                for name in ("load", "predict"):
                    phase: Phase = getattr(timing, name)
                    values[name]["statistics"] = dataclasses.asdict(phase.statistics)
        return data


_LOADS = 3
Found = TypeVar("Found")
#: Times a model under a setting.
Timer = Callable[[Model, ComputeUnits], Timing]
#: Plans and estimates a model.
Forecaster = Callable[[Model], Sequence[Forecast]]


def fill_matrix(
    models: Sequence[tuple[str, Callable[[], Model]]],
    matrix: Matrix,
    timer: Timer,
    *,
    settings_matter: bool,
    power_matters: bool = True,
    forecast: Forecaster | None = None,
    changed: Callable[[Matrix], None] = lambda _: None,
) -> Matrix:
    """Times, plans and estimates model after model. What fails is told in its row and stops nothing else.

    A timing in which the power mode changed is not kept: it would be the average of two modes.

    Args:
        models: What each is called, and what reads it.
        matrix: The matrix without its rows.
        timer: Times a model under a setting.
        settings_matter: False where the settings make no difference to that; then one is timed.
        power_matters: False where not this host does the work, so that its power mode says nothing.
        forecast: Plans and estimates a model, if that is wanted.
        changed: Called with all that is known whenever something new is.

    Returns:
        The matrix; as far as it was filled when Ctrl-C was pressed.
    """
    settings = matrix.settings if settings_matter else matrix.settings[:1]
    filling = _Filling(matrix, [MatrixRow(name) for name, _ in models], changed)
    filling.tell()
    interrupted = False
    try:
        for index, (_, read) in enumerate(models):
            model = filling.attempt(index, "read", read)
            if model is None:
                continue
            if forecast is not None:
                found = filling.attempt(index, "plan and estimate", partial(forecast, model))
                filling.note(index, forecasts=found or ())
            for setting in settings:
                what = f"measure {setting}" if settings_matter else "measure"
                timed = partial(_steady, timer) if power_matters else timer
                timing = filling.attempt(index, what, partial(timed, model, setting))
                filling.note(index, timings=() if timing is None else (timing,))
    except KeyboardInterrupt:
        interrupted = True
    return dataclasses.replace(matrix, rows=tuple(filling.rows), interrupted=interrupted)


@dataclass(frozen=True, slots=True)
class _Filling:
    """Rows that are being filled."""

    matrix: Matrix
    rows: list[MatrixRow]
    changed: Callable[[Matrix], None]

    def note(self, index: int, **news: Sequence[Any]) -> None:
        """Adds what was found out of a model."""
        known: dict[str, Any] = {
            name: (*getattr(self.rows[index], name), *values) for name, values in news.items()
        }
        self.rows[index] = dataclasses.replace(self.rows[index], **known)
        self.tell()

    def tell(self) -> None:
        """Tells what is known so far."""
        self.changed(dataclasses.replace(self.matrix, rows=tuple(self.rows)))

    def attempt(self, index: int, what: str, work: Callable[[], Found]) -> Found | None:
        """What `work` gives; None, and a problem in the row, where it fails."""
        try:
            return work()
        except CoremlscopeError as error:
            self.note(index, problems=[Problem(what, error.message, error.hint, error.exit_code)])
            return None


def _steady(timer: Timer, model: Model, setting: ComputeUnits) -> Timing:
    before = power_mode()
    timing = timer(model, setting)
    after = power_mode()
    if before != after:
        raise EngineError(
            f"the power mode changed from {before or 'unknown'} to {after or 'unknown'} while this was timed",
            "leave the power mode alone, and run it again",
        )
    return dataclasses.replace(timing, power_mode=after)


def time_on_host(
    model: Model,
    setting: ComputeUnits,
    *,
    iterations: int,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
) -> Timing:
    """Times a model with this runtime, for which settings make no difference.

    Raises:
        CoremlscopeError: The model cannot be run; see `measure`.
    """
    request = Request(
        compute_units=setting, iterations=iterations, compile_iterations=1, load_iterations=_LOADS, seed=seed
    )
    taken = measure(model, request, threads=threads, engine=engine, clock=clock, progress=progress)
    host = taken.host
    threads_used = "1 thread" if host.threads == 1 else f"{host.threads} threads"
    return Timing(f"{host.label}, {threads_used}", "", host.power_mode, taken.load, taken.predict)


def forecast_model(
    model: Model, devices: Sequence[Device], settings: Sequence[ComputeUnits]
) -> list[Forecast]:
    """What is planned and estimated of a model's default function on each device under each setting.

    Raises:
        UnsupportedModelError: The model is a classical one.
    """
    found = []
    for device in devices:
        plan = plan_model(model, device, settings[0], every_setting=len(settings) > 1)
        default = model.description.default
        planned = [plan.functions[default]] if default in plan.functions else [*plan.functions.values()]
        for estimated in estimate_model(model, [device], settings):
            setting, latency = estimated.compute_units, estimated.estimate.latency
            cost_s = sum(function.total_ms[setting] for function in planned) / 1e3
            figure = Figure(cost_s, cost_s, cost_s, "planned")
            found.append(
                Forecast(device.name, str(device.os), setting, figure, latency, estimated.estimate.basis)
            )
    return found
