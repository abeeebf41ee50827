"""Apple chips and the devices that contain them. Each chip has one data file."""

from __future__ import annotations

from coremlscope.devices.catalog import all_chips, expand_names, find_device, find_devices, product_name
from coremlscope.devices.chip import Chip, Device, Fact, Product
from coremlscope.devices.release import OSRelease, Platform, ios, macos, parse_release
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, SETTINGS, UNITS, ComputeUnit, ComputeUnits

__all__ = [
    "CPU",
    "GPU",
    "NEURAL_ENGINE",
    "SETTINGS",
    "UNITS",
    "Chip",
    "ComputeUnit",
    "ComputeUnits",
    "Device",
    "Fact",
    "OSRelease",
    "Platform",
    "Product",
    "all_chips",
    "expand_names",
    "find_device",
    "find_devices",
    "ios",
    "macos",
    "parse_release",
    "product_name",
]
