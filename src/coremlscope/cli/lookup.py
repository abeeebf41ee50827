"""What the verbs that look things up share: `--device`, `--os` and `--json`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from coremlscope.cli.command import json_target
from coremlscope.cli.terminal import print_note, print_result, write_file
from coremlscope.devices import Device, all_chips, find_device
from coremlscope.errors import UsageError

__all__ = ["add_device", "add_json", "chosen_device", "device_names", "write_json"]


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


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument(
        "--json",
        metavar="PATH",
        type=json_target,
        help="write JSON to a file, or with - to standard output",
    )


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


def write_json(path: str, value: dict[str, Any]) -> None:
    """Writes JSON to a file, or to standard output for `-`.

    Raises:
        OutputError: The file cannot be written.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    if path == "-":
        print_result(text)
    else:
        write_file(Path(path), text)
        print_note(f"wrote {path}")
