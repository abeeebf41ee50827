"""How long Core ML takes on an iPhone or iPad that is connected to this Mac, through coremltools.

coremltools builds its ModelRunner app, installs it on the device, and asks it to load and predict; the app
takes the times there. Written against coremltools' documented interface; not yet confirmed on a device.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from coremlscope.devices import ComputeUnits
from coremlscope.errors import EngineError, MissingDependencyError, UnsupportedModelError, UsageError
from coremlscope.execution.wiring import interface_of
from coremlscope.ir import ArrayFeature, Model, Program
from coremlscope.matrix import Timing
from coremlscope.measure.coreml.timing import LIMIT_S, LOADS, collect_samples
from coremlscope.measure.engine import Progress

__all__ = ["device_timer", "time_on_device"]

_CHILD = (sys.executable, "-m", "coremlscope.measure.coreml.device_child")
_NEEDED = (
    "it needs a Mac with Xcode, an iPhone or iPad connected to it, unlocked and in developer mode, a"
    " development team (--team), and coremltools 9 with its ModelRunner app"
)
#: What Apple's identifiers of teams look like. coremltools puts it into a line for the shell.
_TEAM = re.compile(r"[A-Z0-9]{10}")


@contextmanager
def device_timer(name: str, team: str, *, command: Sequence[str] = _CHILD) -> Iterator[Callable[..., Timing]]:
    """`time_on_device` for one device. The app is built once and goes when the context ends.

    Args:
        name: The name or identifier of the device, or `any`.
        team: The identifier of the development team.
        command: What is run to take times; tests give something else than this package's own child.

    Raises:
        UsageError: This is no Mac, or the device or the team is not given or malformed.
        MissingDependencyError: There is no coremltools.
    """
    if sys.platform != "darwin":
        raise UsageError("a connected device can be measured only from a Mac", _NEEDED)
    if not name:
        raise UsageError("no device is named", "use --on-device NAME, or --on-device any")
    if not _TEAM.fullmatch(team):
        raise UsageError(
            f"{team!r} is not the identifier of a development team"
            if team
            else "no development team is given",
            "use --team ID with the ten letters and digits that the membership page of your Apple account"
            " shows: --team A1B2C3D4E5",
        )
    if importlib.util.find_spec("coremltools") is None:
        raise MissingDependencyError(
            "a connected device is measured through coremltools, which is not installed",
            "pip install coremltools",
        )
    with tempfile.TemporaryDirectory(prefix="coremlscope-device-") as folder:
        yield partial(time_on_device, device=name, team=team, folder=Path(folder), command=command)


def time_on_device(
    model: Model,
    setting: ComputeUnits,
    *,
    device: str,
    team: str,
    folder: Path,
    iterations: int,
    seed: int = 0,
    progress: Progress | None = None,
    limit_s: float = LIMIT_S,
    command: Sequence[str] = _CHILD,
) -> Timing:
    """Times loads and predictions of a model on a connected device under one setting, with made-up inputs.

    Args:
        model: The model. It must have been read from an .mlpackage.
        setting: What the app allows.
        device: The name or identifier of the device, or `any`.
        team: The identifier of the development team that signs the app.
        folder: Where the app is built; it is built again where it is not there yet.
        iterations: How often a prediction is timed, after warm-ups.
        seed: Seeds the inputs.
        progress: Told of each repetition.
        limit_s: How long to wait for the next sample before giving up.
        command: What is run; tests give something else than this package's own child.

    Raises:
        UnsupportedModelError: coremltools cannot measure such a model on a device.
        EngineError: There is no such device, or it failed, or took too long.
    """
    _check(model)
    arguments = [
        str(model.source),
        setting,
        str(iterations),
        str(LOADS),
        str(seed),
        device,
        team,
        str(folder),
    ]
    place, load, predict = collect_samples(
        [*command, *arguments], iterations=iterations, progress=progress, limit_s=limit_s, hint=_NEEDED
    )
    if not place:
        raise EngineError("the device that was measured is not known", _NEEDED)
    # The power mode of the Mac says nothing of the device, and nothing tells that of the device.
    return Timing(f"Core ML on {place}", setting, "", load, predict)


def _check(model: Model) -> None:
    """Refuses what coremltools' remote device cannot take."""
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
