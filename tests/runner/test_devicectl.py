"""Which connected device is meant, and whether it is ready."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec.structs
import pytest

from coremlscope.base.errors import UsageError
from coremlscope.measure.runner import devicectl
from coremlscope.measure.runner.devicectl import Phone, ready_phone


def phone(name: str, identifier: str, state: str = "connected", developer_mode: str = "enabled") -> Phone:
    return Phone(
        name=name,
        identifier=identifier,
        udid=f"udid-{identifier}",
        model="",
        system="iOS 26.1",
        state=state,
        developer_mode=developer_mode,
    )


FAR = phone("Far", "1", "unavailable")
KNOWN = [phone("Twin", "3"), phone("Twin", "4"), FAR, phone("Off", "5", developer_mode="disabled")]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Phone]:
    """The devices that are listed; a test adds them."""
    phones: list[Phone] = []
    monkeypatch.setattr(devicectl, "list_phones", lambda: phones)
    return phones


@pytest.mark.parametrize(
    ("name", "identifier"), [("any", "3"), ("4", "4"), ("UDID-4", "4"), ("ann's iphone", "9")]
)
def test_which_device_is_meant(name: str, identifier: str, known: list[Phone]) -> None:
    known += [*KNOWN, phone("Ann’s iPhone", "9")]
    assert ready_phone(name).identifier == identifier


@pytest.mark.parametrize(
    ("name", "devices", "message"),
    [
        ("any", [FAR], "no connected iPhone or iPad; connected: none"),
        ("Watch", KNOWN, "no connected iPhone or iPad 'Watch'"),
        ("far", KNOWN, "'Far' is not connected but unavailable"),
        ("twin", KNOWN, "several devices are called 'twin'; use an identifier: 3, 4"),
        ("off", KNOWN, "developer mode is off on 'Off'"),
    ],
)
def test_devices_that_cannot_be_meant(
    name: str, devices: list[Phone], message: str, known: list[Phone]
) -> None:
    known += devices
    with pytest.raises(UsageError, match=message):
        ready_phone(name)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a devicectl, which can do nothing else, was called with."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "xcrun"
    script.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "calls"


@pytest.mark.parametrize("name", ["any", "Resting"])
def test_a_device_at_rest_is_woken(name: str, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`disconnected` is the resting state of a reachable device; devicectl opens the connection on demand."""
    resting = phone("Resting", "7", "disconnected")
    awake = msgspec.structs.replace(resting, state="connected")
    monkeypatch.setattr(devicectl, "list_phones", lambda: [FAR, awake if calls.exists() else resting])
    assert ready_phone(name) == awake
    assert "devicectl device info details --device 7" in calls.read_text()


def test_a_device_that_does_not_wake(calls: Path, known: list[Phone]) -> None:
    known.append(phone("Resting", "7", "disconnected"))
    with pytest.raises(
        UsageError, match="'Resting' is not connected but disconnected, and could not be woken"
    ):
        ready_phone("any")
    assert calls.exists()


def test_a_connected_device_is_not_woken(calls: Path, known: list[Phone]) -> None:
    known += [phone("Resting", "1", "disconnected"), phone("Ready", "9")]
    assert ready_phone("any").identifier == "9"
    assert not calls.exists()
