"""Options shared by commands that take devices: `--device` and `--os`."""

from __future__ import annotations

import argparse
from typing import Any, cast

from coremlscope.base.errors import UsageError
from coremlscope.cli.terminal import print_note
from coremlscope.devices import Device, expand_names, find_device
from coremlscope.devices.catalog import DEFAULT_DEVICES


class _Extend(argparse.Action):
    """Adds devices to those of the same option before."""

    def __call__(
        self, _: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: object = None
    ) -> None:
        """Adds the names that are new."""
        names = (*getattr(namespace, self.dest), *values)
        setattr(namespace, self.dest, tuple(dict.fromkeys(names)))


def add_devices(parser: argparse.ArgumentParser, doc: str) -> None:
    """Adds `--device` with one device or several, and `--os`.

    Args:
        parser: The verb's parser.
        doc: The purpose of the devices.
    """
    parser.add_argument(
        "--device", metavar="NAME,…", type=_device_names, default=(), action=_Extend, help=doc
    )
    parser.add_argument(
        "--os",
        metavar="VERSION",
        help="iOS, macOS or visionOS on all of them: 18, 14.5 (default: the newest of each)",
    )


def require_devices(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Returns the names given with `--device`.

    Raises:
        UsageError: None is given.
    """
    names: tuple[str, ...] = arguments.device
    if not names:
        raise UsageError(
            "--device is missing", "name a chip or a device: --device m1; `coremlscope devices` lists them"
        )
    return names


def choose_devices(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Returns the names given with `--device`; without any the default ones, and says so."""
    if arguments.device:
        return cast("tuple[str, ...]", arguments.device)
    if not arguments.quiet:
        print_note(f"for {', '.join(DEFAULT_DEVICES)}; --device names others")
    return DEFAULT_DEVICES


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds `--device` with one device, and `--os`."""
    parser.add_argument(
        "--device", metavar="NAME", help="only what applies to this chip or device: m1, iphone-15-pro, …"
    )
    parser.add_argument("--os", metavar="VERSION", help="and to this system (default: the newest)")


def _device_names(text: str) -> tuple[str, ...]:
    """A type of arguments: devices by name, `every` for all chips, `all-current` for the newest ones."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError("no device is named\nwrite it as --device iphone-13,m1")
    return expand_names(names)


def chosen_device(arguments: argparse.Namespace) -> Device | None:
    """The device of `--device`, if any.

    Raises:
        UsageError: It is unknown, or a version was given without a device.
    """
    if arguments.device is None:
        if arguments.os is not None:
            raise UsageError("--os needs --device", "add for instance --device m4")
        return None
    return find_device(arguments.device, arguments.os)
