"""Options shared by commands that measure on a connected iPhone or iPad."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, cast

from coremlscope.cli.command import one_of

if TYPE_CHECKING:
    from coremlscope.runner.request import PowerMode

__all__ = ["add_on_device", "add_power_mode", "chosen_power_mode", "is_on_device"]


def add_on_device(parser: argparse.ArgumentParser) -> None:
    """Adds `--on-device`, `--team`, `--through` and `--power-mode`."""
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
        help="coremltools for its remote device, or runner for the app of `coremlscope runner` (default:"
        " coremltools where that can measure all of it, else runner)",
    )
    add_power_mode(parser, "on that device: ")


def add_power_mode(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Adds `--power-mode`; `where` begins its help."""
    parser.add_argument(
        "--power-mode",
        metavar="MODE",
        type=one_of("power mode", "current", "normal", "low-power", "both"),
        default="current",
        help=f"{where}current, normal, low-power or both, for which the app waits until you have switched"
        " Low Power Mode (default: current)",
    )


def is_on_device(arguments: argparse.Namespace) -> bool:
    """Returns whether a connected device is asked for, even if its name is missing."""
    return arguments.on_device is not None or bool(arguments.team or arguments.through)


def chosen_power_mode(arguments: argparse.Namespace) -> PowerMode:
    """Returns the power mode as results name it."""
    return cast("PowerMode", arguments.power_mode.replace("-", " "))
