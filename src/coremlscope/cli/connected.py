"""Options shared by commands that measure on a connected iPhone or iPad."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, cast

from coremlscope.cli.command import one_of
from coremlscope.errors import UsageError

if TYPE_CHECKING:
    from coremlscope.runner.request import PowerMode

__all__ = ["add_on_device", "add_power_mode", "check_power_mode", "chosen_power_mode", "is_on_device"]


def add_on_device(parser: argparse.ArgumentParser, where: str = "on that device: ") -> None:
    """Adds `--on-device`, `--team`, `--through` and `--power-mode`; `where` begins the help of the last."""
    parser.add_argument(
        "--on-device",
        metavar="NAME",
        help="on a Mac: measure on a connected iPhone or iPad, by its name or identifier, or any",
    )
    parser.add_argument(
        "--team",
        metavar="ID",
        default="",
        help="the development team that signs the app on that device: A1B2C3D4E5",
    )
    parser.add_argument(
        "--through",
        metavar="HOW",
        type=one_of("way to a device", "coremltools", "runner"),
        help="runner for the app of `coremlscope runner`, or coremltools for its remote device (default:"
        " runner)",
    )
    add_power_mode(parser, where)


def add_power_mode(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Adds `--power-mode`; `where` begins its help."""
    parser.add_argument(
        "--power-mode",
        metavar="MODE",
        type=one_of("power mode", "current", "normal", "low-power", "both"),
        default="current",
        help=f"{where}current, normal, low-power or both, for which measuring waits until you have switched"
        " Low Power Mode (default: current)",
    )


def is_on_device(arguments: argparse.Namespace) -> bool:
    """Returns whether a connected device is asked for, even if its name is missing."""
    return arguments.on_device is not None or bool(arguments.team or arguments.through)


def check_power_mode(arguments: argparse.Namespace) -> None:
    """Checks that this machine is in the power mode that is asked for.

    Raises:
        UsageError: It is not, or it does not report its power mode.
    """
    from coremlscope.engines.host import power_mode

    asked, present = chosen_power_mode(arguments), power_mode()
    if asked in ("current", present) or (asked == "both" and present):
        return
    if not present:
        raise UsageError("this machine does not report a power mode", "leave --power-mode out")
    raise UsageError(
        f"the power mode of this machine is {present}, not {asked}",
        "switch it in System Settings > Battery, or use --power-mode both",
    )


def chosen_power_mode(arguments: argparse.Namespace) -> PowerMode:
    """Returns the power mode as results name it."""
    return cast("PowerMode", arguments.power_mode.replace("-", " "))
