"""Options shared by commands that measure on a connected iPhone or iPad."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import one_of

if TYPE_CHECKING:
    from coremlscope.devices import ComputeUnits
    from coremlscope.measure.contract import Progress
    from coremlscope.measure.runner.request import PowerMode
    from coremlscope.model.ir import Model
    from coremlscope.results.profile import Profile

#: Repetitions on a connected device, which neither detects a steady state nor ends phases early.
_ITERATIONS, _COMPILES, _LOADS, _WARMUPS = 50, 10, 10, 5


def add_on_device(parser: argparse.ArgumentParser, where: str = "on that device: ") -> None:
    """Adds `--on-device`, `--team` and `--power-mode`; `where` begins the help of the last."""
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
    return arguments.on_device is not None or bool(arguments.team)


def check_power_mode(arguments: argparse.Namespace) -> None:
    """Checks that this machine is in the power mode that is asked for.

    Raises:
        UsageError: It is not, or it does not report its power mode.
    """
    from coremlscope.runtime.engines.host import power_mode

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


def measure_connected(
    arguments: argparse.Namespace,
    models: Sequence[Path | Model],
    settings: Sequence[ComputeUnits],
    progress: Progress | None,
    changed: Callable[[tuple[Profile, ...]], None] = lambda _: None,
) -> tuple[Profile, ...]:
    """Measures models on a connected device.

    Args:
        arguments: The parsed arguments of a verb that measures.
        models: The models.
        settings: The settings of compute units.
        progress: Called with what happens, settings done, and how many there are.
        changed: Called with all profiles whenever one of them changed.

    Raises:
        UsageError: An option has no effect on a connected device.
        CoremlscopeError: See `measure_on_device`.
    """
    from coremlscope.api.connected_devices import measure_on_device
    from coremlscope.measure.runner.request import RunnerSettings

    names = (
        "input",
        "threads",
        "random_weights",
        "trace",
        "tokens",
        "other_predictions",
        "timeout",
        "memory",
    )
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name, None)]
    given += ["--engine"] if arguments.engine not in (None, "coreml") else []
    given += ["--precision fp16"] if getattr(arguments, "precision", "") == "fp16" else []
    if given:
        raise UsageError(f"{given[0]} has no effect on a connected device", f"leave {given[0]} out")
    wanted = RunnerSettings(
        compute_units=tuple(settings),
        function=arguments.function or "",
        power_mode=chosen_power_mode(arguments),
        iterations=arguments.iterations or _ITERATIONS,
        compiles=arguments.compile_iterations or _COMPILES,
        loads=arguments.load_iterations or _LOADS,
        warmups=_WARMUPS if arguments.warmups is None else arguments.warmups,
        seed=arguments.seed,
        shapes=dict(arguments.shape),
    )
    return measure_on_device(
        *models,
        on_device=arguments.on_device,
        team=arguments.team,
        settings=wanted,
        devices=arguments.device,
        os=arguments.os,
        progress=progress,
        changed=changed,
    )
