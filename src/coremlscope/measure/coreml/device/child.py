"""The child process that times a model on a connected device and sends each sample to its parent.

`python -m coremlscope.measure.coreml.device.child MODEL UNITS ITERATIONS LOADS SEED DEVICE TEAM FOLDER`
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.processes.channel import send
from coremlscope.formats import container
from coremlscope.measure.coreml.device.devicectl import Phone, ready_phone
from coremlscope.model.features import dummy_values
from coremlscope.runtime.execution.wiring import input_functions, interface_of

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
    except Exception as error:  # whatever it is, the parent process reports it in one line
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

    found = prepared_device(Device.get_devices, name)
    device = await found.prepare_for_model_debugging(AppSigningCredentials(development_team=team), folder)
    try:
        send(device=f"{device.name}, {_SYSTEMS[device.type.value]} {device.os_version}")
        benchmarker = MLModelBenchmarker(model, device)
        # One at a time, so that each sample is sent at once. The model stays loaded in between.
        await _repeat("load", loads, benchmarker.benchmark_load)
        await _repeat("warm-up", _WARMUPS, lambda: benchmarker.benchmark_predict(values))
        await _repeat("predict", iterations, lambda: benchmarker.benchmark_predict(values))
    finally:
        device.session.stop()


async def _repeat(phase: str, times: int, measure: Callable[[], Awaitable[Any]]) -> None:
    for _ in range(times):
        for milliseconds in (await measure()).samples:
            send(phase=phase, seconds=milliseconds / 1e3)


def _phone(device: Any) -> Phone:
    """Returns one of coremltools' `Device`s as a phone."""
    return Phone(
        name=device.name,
        identifier=device.identifier,
        udid=device.udid,
        model="",
        system=f"{_SYSTEMS[device.type.value]} {device.os_version}",
        state=device.state.value,
        developer_mode=device.developer_mode_state,
    )


def prepared_device(list_devices: Callable[[], Iterable[Any]], name: str) -> Any:
    """Returns the device that is meant, out of coremltools' `Device`s, once its connection is open.

    Args:
        list_devices: Lists all that the Mac knows.
        name: A name, identifier or UDID; or `any`. See `ready_phone`.

    Raises:
        UsageError: There is no such device, there are several, or it is not ready.
    """

    def phones() -> list[Phone]:
        found = [_phone(device) for device in list_devices() if device.type.value in _SYSTEMS]
        return sorted(found, key=lambda phone: phone.identifier)

    phone = ready_phone(phones, name)
    # coremltools keeps the state that a device had when it was listed, and refuses any but `connected`.
    return next(device for device in list_devices() if device.identifier == phone.identifier)


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
