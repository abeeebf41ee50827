"""Measures Core ML on an iPhone or iPad that is connected to this Mac, through coremltools.

coremltools builds its ModelRunner app, installs it on the device, and asks it to load and predict; the app
takes the times there. Written against coremltools' documented interface; not yet confirmed on a device.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import (
    EngineError,
    InputError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.base.processes.child import ChildLimits, Task, python_child, run_child
from coremlscope.measure.contract import MeasuredModel, Progress, now
from coremlscope.measure.coreml.device.devicectl import check_team
from coremlscope.measure.coreml.failures import FAILURES
from coremlscope.measure.coreml.files import require_coremltools
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.model.ir import ArrayFeature, Model, Program
from coremlscope.results.measurement import Machine, Measurement, Phase, Runtime, Settings
from coremlscope.runtime.execution.wiring import interface_of

_CHILD = python_child("coremlscope.measure.coreml.device.child")
#: How often a model is loaded; the first time compiles for the device.
_LOADS = 3
_NEEDED = (
    "it needs a Mac with Xcode, an iPhone or iPad connected to it, unlocked and in developer mode, a"
    " development team (--team), and coremltools 9 with its ModelRunner app"
)


@contextmanager
def device_measurer(name: str, team: str, *, command: Sequence[str] = _CHILD) -> Iterator[DeviceMeasurer]:
    """A measurer for one connected device. The app is built once and removed when the context ends.

    Args:
        name: The name or identifier of the device, or `any`.
        team: The identifier of the development team.
        command: The child process to run; tests give another one.

    Raises:
        UsageError: This is not a Mac, or the device or the team is missing or malformed.
        MissingDependencyError: coremltools is not installed.
    """
    if sys.platform != "darwin":
        raise UsageError("a connected device can be measured only from a Mac", _NEEDED)
    if not name:
        raise UsageError("no device is named", "use --on-device NAME, or --on-device any")
    check_team(team)
    require_coremltools()
    with tempfile.TemporaryDirectory(prefix="coremlscope-device-") as folder:
        yield DeviceMeasurer(device=name, team=team, folder=Path(folder), command=command)


class DeviceMeasurer(msgspec.Struct, frozen=True, kw_only=True):
    """Measures Core ML on an iPhone or iPad that is connected to this Mac.

    Attributes:
        device: The name or identifier of the device, or `any`.
        team: The identifier of the development team that signs the app.
        folder: Where coremltools' app is built; it is built again where it is absent.
        limits: When to give up.
        command: The child process to run; tests give another one.
    """

    device: str
    team: str
    folder: Path
    limits: ChildLimits = CORE_ML_LIMITS
    command: Sequence[str] = _CHILD

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Times loads and predictions with synthetic inputs; see `Measurer`.

        Raises:
            UnsupportedModelError: coremltools cannot measure such a model on a device.
            EngineError: The device is absent or failed, or took too long.
            InputError: Values of inputs are given: they cannot be passed on yet.
        """
        if inputs:
            raise InputError("a connected device is measured with synthetic inputs", "leave --input out")
        _check(subject.model)
        arguments = [
            str(subject.model.source),
            settings.compute_units,
            str(settings.iterations),
            str(_LOADS),
            str(settings.seed),
            self.device,
            self.team,
            str(self.folder),
        ]
        task = Task("Core ML", _NEEDED, FAILURES)
        with run_child([*self.command, *arguments], self.limits, task) as messages:
            place, seconds = _listen(messages, settings, progress)
        if len(seconds["load"]) < _LOADS or len(seconds["predict"]) < settings.iterations:
            raise EngineError("Core ML made no predictions", _NEEDED)
        if not place:
            raise EngineError("the device that was measured is unknown", _NEEDED)
        # The power mode of the Mac does not apply to the device, and nothing reports that of the device.
        name, _, system = place.partition(", ")
        return Measurement(
            label=f"Core ML on {place}",
            runtime=Runtime("coreml", "Core ML"),
            machine=Machine(processor=name, os=system),
            settings=settings,
            compute_units=settings.compute_units,
            first_load=Phase.of(seconds["load"][:1]),
            load=Phase.of(seconds["load"][1:]),
            predict=Phase.of(seconds["predict"], seconds["warm-up"]),
            measured_at=now(),
        )


def _listen(
    messages: Iterable[Mapping[str, Any]], settings: Settings, progress: Progress | None
) -> tuple[str, dict[str, list[float]]]:
    """The name of the device, empty if unknown, and seconds by phase."""
    place = ""
    seconds: dict[str, list[float]] = {"load": [], "warm-up": [], "predict": []}
    totals = {"load": _LOADS, "predict": settings.iterations}
    for message in messages:
        place = str(message.get("device", place))
        phase = message.get("phase", "")
        if phase not in seconds:
            continue
        seconds[phase].append(float(message["seconds"]))
        if progress is not None:
            done = len(seconds[phase])
            progress(phase, done, totals.get(phase, done))
    return place, seconds


def _check(model: Model) -> None:
    """Rejects models that coremltools' remote device does not support."""
    if model.source is None or model.source.suffix != ".mlpackage" or not isinstance(model.content, Program):
        raise UnsupportedModelError(
            "coremltools measures only ML Programs in an .mlpackage on a device",
            "leave --on-device out to measure on the Mac",
        )
    _, interface = interface_of(model)
    others = [feature.name for feature in interface.inputs if not isinstance(feature.type, ArrayFeature)]
    if others or interface.states:
        what = f"{others[0]!r} is none" if others else "this model has states besides"
        raise UnsupportedModelError(
            f"coremltools sends only arrays to a device, and {what}",
            "convert the model with arrays as inputs, or leave --on-device out to measure on the Mac",
        )
