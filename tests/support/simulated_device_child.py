"""The child process that measures on a connected device, with a simulated device.

Everything of coremltools takes part but what talks to the device: the list that `devicectl` gives, the app
that Xcode builds, and the service that the app offers. Those are replaced here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import coremlscope
from coremlscope.measure.coreml.device import child as device_child

coremlscope.install()

from coremltools.models.ml_program.experimental import async_wrapper, remote_device  # noqa: E402


class Session:
    """The app on the device."""

    def is_alive(self) -> bool:
        return True

    def stop(self) -> None:
        print("stopped", file=sys.stderr)


class Service:
    """A model on the device: the first load takes 9 s, others 2 s; predictions 3 ms, then one more each."""

    loads = 0

    def __init__(self, compute_units: Any, inputs: set[str]) -> None:
        self.compute_units = compute_units
        self.inputs = inputs
        self.predictions = 0
        Service.loads += 1
        self.load_duration_in_nano_seconds = 9 * 10**9 if Service.loads == 1 else 2 * 10**9
        self.last_predict_duration_in_nano_seconds: int | None = None

    async def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if os.environ.get("DEVICE_FAILS"):
            raise remote_device._DeviceCtlError(b"the app\nis gone", 5)
        assert set(inputs) == self.inputs
        self.last_predict_duration_in_nano_seconds = (3 + self.predictions) * 10**6
        self.predictions += 1
        return {}

    async def unload(self) -> None:
        pass


async def load_on_device(device: Any, compiled_model_path: Path, compute_units: Any, **_: Any) -> Service:
    assert device.session.is_alive()
    assert compute_units.name == os.environ["EXPECTED_UNITS"]
    assert compiled_model_path.is_dir()
    return Service(compute_units, {"x"})


def build(device: Any, build_directory: Path, _: Path, credentials: Any, clean: bool) -> Session:
    assert credentials.development_team == "A1B2C3D4E5"
    assert build_directory.is_dir()
    assert not clean
    return Session()


def devices() -> list[Any]:
    kind, state = remote_device.DeviceType, remote_device.DeviceState
    both = (("Desk", kind.IPAD, "1", state.CONNECTED), ("Ann’s iPhone", kind.IPHONE, "2", state.CONNECTED))
    return [
        remote_device.Device(name, type_, id_, f"udid{id_}", "26.1", "23B85", "enabled", connected, None)
        for name, type_, id_, connected in both
    ]


remote_device._DeviceCtl.get_devices = staticmethod(devices)
remote_device.Device._build_and_launch_model_runner_app = build
async_wrapper._RemoteMLModelService.load_on_device = staticmethod(load_on_device)

if __name__ == "__main__":
    sys.exit(device_child.main(sys.argv[1:]))
