"""Tells by the frames of a call stack which compute units' software it is in."""

from __future__ import annotations

import functools
import re

__all__ = ["classify_frame"]

#: Names of symbols and binaries, by unit. `H11ANE` and `ANERuntimeEngine` are the Neural Engine's, `MTL` and
#: `MPS` those of Metal and Metal Performance Shaders, BNNS is Core ML's library for the CPU.
_SOFTWARE: tuple[tuple[int, re.Pattern[str]], ...] = (
    (1, re.compile(r"BNNS|\bbnns")),
    (2, re.compile(r"(?<![A-Za-z])(?:MTL|MPS)[A-Z_]|MetalPerformanceShaders|\bAGX[A-Z]|^Metal$")),
    (4, re.compile(r"H11ANE|ANERuntimeEngine|AppleNeuralEngine|ANEServices|(?<![A-Za-z])_ANE[A-Z]")),
)
_LONGEST = 400


@functools.lru_cache(maxsize=65536)
def classify_frame(name: str) -> int:
    """Returns the units of a symbol or a binary: the sum of 1 (CPU), 2 (GPU) and 4 (Neural Engine)."""
    return sum(bit for bit, pattern in _SOFTWARE if pattern.search(name[:_LONGEST]))
