"""Where rules hold, in words."""

from __future__ import annotations

from coremlscope.devices import all_chips
from coremlscope.planning.patterns.rule import Scope

_VARIANTS = (" Pro", " Max", " Ultra")
#: The macOS released with each iOS up to 18; from 26 on both have the same number.
_MACOS_OF_IOS = {14: 11, 15: 12, 16: 13, 17: 14, 18: 15}


def describe_scope(scope: Scope) -> str:
    """Where a rule holds, in words; empty for everywhere."""
    parts = []
    first, last = scope.neural_engine
    if first is not None and first == last:
        parts.append(_generation(first))
    elif first is not None and last is not None:
        parts.append(f"{_generation(first)} to {_generation(last)}")
    elif first is not None:
        parts.append(f"{_generation(first)} and newer")
    elif last is not None:
        parts.append(f"up to {_generation(last)}")
    if scope.chips:
        chips = all_chips()
        parts.append(", ".join(chips[chip].name if chip in chips else chip for chip in scope.chips))
    if scope.since is not None:
        parts.append(f"since {_version(scope.since)}")
    if scope.before is not None:
        parts.append(f"before {_version(scope.before)}")
    return "; ".join(parts)


def _generation(number: int) -> str:
    """The chips with a generation of the Neural Engine: ``A14, M1``."""
    names = [chip.name for chip in all_chips().values() if chip.neural_engine_generation == number]
    plain = [name for name in names if not (name.endswith(_VARIANTS) and name.rpartition(" ")[0] in names)]
    return ", ".join(plain)


def _version(version: tuple[int, int]) -> str:
    major, minor = version
    tail = f".{minor}" if minor else ""
    return f"iOS {major}{tail} and macOS {_MACOS_OF_IOS.get(major, major)}{tail}"
