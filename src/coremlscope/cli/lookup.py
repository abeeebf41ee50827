"""What verbs that ask for devices share: `--device` and `--os`."""

from __future__ import annotations

import argparse

from coremlscope.devices import Device, all_chips, find_device
from coremlscope.errors import UsageError

__all__ = ["add_device", "chosen_device", "device_names"]


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds `--device` and `--os`."""
    parser.add_argument(
        "--device", metavar="NAME", help="only what holds on this chip or device: m1, iphone-15-pro, …"
    )
    parser.add_argument("--os", metavar="VERSION", help="and on this system (default: the newest)")


def device_names(text: str) -> tuple[str, ...]:
    """A type of arguments: devices by name, or `every` for all chips."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError("--device names no device\nwrite it as --device iphone-13,m1")
    return tuple(all_chips()) if names == ("every",) else names


def chosen_device(arguments: argparse.Namespace) -> Device | None:
    """The device that was asked for, if any.

    Raises:
        UsageError: It is not known, or a version was given without a device.
    """
    if arguments.device is None:
        if arguments.os is not None:
            raise UsageError("--os needs --device", "add for instance --device m4")
        return None
    return find_device(arguments.device, arguments.os)
