"""The child process that times a model on a connected device and sends each sample to its parent.

`python -m coremlscope.measure.coreml.device_child MODEL UNITS ITERATIONS LOADS SEED DEVICE TEAM FOLDER`
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from coremlscope.errors import CoremlscopeError, UsageError
from coremlscope.execution.wiring import input_functions, interface_of
from coremlscope.features import dummy_values
from coremlscope.formats import container
from coremlscope.measure.coreml.channel import tell

__all__ = ["choose_device", "main"]

_WARMUPS = 3
#: The systems of the devices that are measured, by coremltools' `DeviceType`.
_SYSTEMS = {"iphone": "iOS", "ipad": "iPadOS"}


def main(arguments: Sequence[str]) -> int:
    """Times loads and predictions.

    Args:
        arguments: The model, the name of a `coremltools.ComputeUnit`, how many predictions, how many loads,
            the seed of synthetic inputs, the device, the development team, where to build coremltools' app.
    """
    path, units, iterations, loads, seed, name, team, folder = arguments
    try:
        with tempfile.TemporaryDirectory() as empty:
            values = _inputs(Path(path), int(seed))
            model = _opened(path, units, empty)
            asyncio.run(_time(model, values, int(iterations), int(loads), name, team, Path(folder)))
    except Exception as error:  # whatever it is, the parent process tells it in one line
        print(_said(error), file=sys.stderr, flush=True)
        return 1
    return 0


def _inputs(path: Path, seed: int) -> dict[str, Any]:
    given = container.read(path)
    _, interface = interface_of(given)
    return dummy_values(interface, *input_functions(given), seed=seed)


def _opened(path: str, units: str, empty: str) -> Any:
    """The model without loading it on this Mac."""
    import coremltools

    options = {"compute_units": getattr(coremltools.ComputeUnit, units.upper()), "skip_model_load": True}
    model = coremltools.models.MLModel(path, **options)
    if model.weights_dir is None:  # the benchmarker insists on a folder, which may be empty
        model = coremltools.models.MLModel(model.get_spec(), weights_dir=empty, **options)
    return model


async def _time(
    model: Any, values: dict[str, Any], iterations: int, loads: int, name: str, team: str, folder: Path
) -> None:
    from coremltools.models.ml_program.experimental.perf_utils import MLModelBenchmarker
    from coremltools.models.ml_program.experimental.remote_device import AppSigningCredentials, Device

    found = choose_device(Device.get_devices(), name)
    device = await found.prepare_for_model_debugging(AppSigningCredentials(development_team=team), folder)
    try:
        tell(device=f"{device.name}, {_SYSTEMS[device.type.value]} {device.os_version}")
        benchmarker = MLModelBenchmarker(model, device)
        # One at a time, so that each sample is told when it is there. The model stays loaded in between.
        await _repeat("load", loads, benchmarker.benchmark_load)
        await _repeat("warm-up", _WARMUPS, lambda: benchmarker.benchmark_predict(values))
        await _repeat("predict", iterations, lambda: benchmarker.benchmark_predict(values))
    finally:
        device.session.stop()


async def _repeat(phase: str, times: int, measure: Callable[[], Awaitable[Any]]) -> None:
    for _ in range(times):
        for milliseconds in (await measure()).samples:
            tell(phase=phase, seconds=milliseconds / 1e3)


def choose_device(devices: Iterable[Any], name: str) -> Any:
    """The device that is meant, out of coremltools' `Device`s.

    Args:
        devices: All that the Mac knows.
        name: A name, identifier or UDID; or `any` for the connected iPhone or iPad with the first identifier.

    Raises:
        UsageError: There is no such device, there are several, or it is not ready.
    """
    known = sorted((d for d in devices if d.type.value in _SYSTEMS), key=lambda device: device.identifier)
    ready = [device for device in known if device.state.value == "connected"]
    if name == "any":
        meant = ready[:1]
    else:
        meant = [d for d in known if _plain(name) in map(_plain, (d.name, d.identifier, d.udid))]
    if len(meant) > 1:
        listed = ", ".join(device.identifier for device in meant)
        raise UsageError(f"several devices are called {name!r}; use an identifier: {listed}")
    if not meant:
        listed = ", ".join(repr(device.name) for device in ready) or "none"
        wanted = "iPhone or iPad" if name == "any" else f"iPhone or iPad {name!r}"
        raise UsageError(f"there is no connected {wanted}; connected: {listed}")
    (device,) = meant
    if device not in ready:
        raise UsageError(f"{device.name!r} is not connected but {device.state.value}")
    if device.developer_mode_state == "disabled":
        raise UsageError(
            f"developer mode is off on {device.name!r}; see Settings > Privacy & Security > Developer Mode"
        )
    return device


def _plain(name: str) -> str:
    """A name however it is typed: systems write the apostrophe of `Ann's iPhone` as a curly one."""
    return name.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _said(error: Exception) -> str:
    """An exception in one line. Those of coremltools hold what a command printed, as bytes or not at all."""
    message = getattr(error, "message", str(error))
    if isinstance(message, bytes):
        message = message.decode("utf-8", "replace")
    if message is None:
        message = f"a command of Xcode ended with code {getattr(error, 'error_code', None)}"
    line = " ".join(str(message).split())
    return line if isinstance(error, CoremlscopeError) else f"{type(error).__name__.lstrip('_')}: {line}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
