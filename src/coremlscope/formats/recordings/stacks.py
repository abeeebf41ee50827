"""Call stacks: which compute units' software their frames are in, and stacks that are pasted as text."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit

#: The name under which frames count that resize or convert an image.
CONVERSION: Final = "conversion of images"
#: The bit of each unit in the result of `classify_frame`.
UNIT_BITS: Final[Mapping[ComputeUnit, int]] = {CPU: 1, GPU: 2, NEURAL_ENGINE: 4}
#: Names of symbols and binaries, by unit. `H11ANE` and `ANERuntimeEngine` are the Neural Engine's, `MTL` and
#: `MPS` those of Metal and Metal Performance Shaders, BNNS is Core ML's library for the CPU.
_SOFTWARE: tuple[tuple[int, re.Pattern[str]], ...] = (
    (1, re.compile(r"BNNS|\bbnns")),
    (2, re.compile(r"(?<![A-Za-z])(?:MTL|MPS)[A-Z_]|MetalPerformanceShaders|\bAGX[A-Z]|^Metal$")),
    (4, re.compile(r"H11ANE|ANE(?:Runtime|Compiler)|AppleNeuralEngine|ANEServices|(?<![A-Za-z])_ANE[A-Z]")),
)
#: Layers of software from the app inwards, and those who resize or convert an image, by symbol or binary.
LAYERS: Final[Mapping[str, re.Pattern[str]]] = {
    "Vision": re.compile(r"^Vision$|(?<![A-Za-z])VN[A-Z]"),
    "Core ML": re.compile(r"^CoreML$|(?<![A-Za-z])ML(?:Model|E5|Neural|Delegate|Pipeline|Feature)"),
    "E5RT": re.compile(r"E5RT|e5rt"),
    "Espresso": re.compile(r"[Ee]spresso(?!Tools)"),
    CONVERSION: re.compile(
        r"^vImage|VTPixel|\bCIContext|^CoreImage$|[Rr]esampl|imageFeatureValue|PixelBufferCopy"
    ),
}
_LONGEST = 400
_MOST_FRAMES = 1_000_000

#: `3   AppleNeuralEngine   0x1a2b3c -[_ANEClient evaluate] + 44`, of reports of crashes and of Xcode.
_REPORTED = re.compile(r"^\s*(?P<index>\d{1,4})\s+(?P<binary>\S.{0,80}?)\s+0x[0-9a-fA-F]+\s+(?P<symbol>.+)$")
#: "frame #3: 0x1a2b AppleNeuralEngine`-[_ANEClient evaluate] + 44", of lldb.
_DEBUGGED = re.compile(
    r"^[\s*]*frame #(?P<index>\d{1,4}): (?:0x[0-9a-fA-F]+ )?(?P<binary>[^`]{1,80})`(?P<symbol>.+)$"
)
#: `    + ! 17 -[_ANEClient evaluate]  (in AppleNeuralEngine) + 44  [0x1a2b]`, of `sample`.
_SAMPLED = re.compile(
    r"^(?P<indent>[\s+!:|]*)(?P<count>\d{1,9}) (?P<symbol>.+?)  \(in (?P<binary>[^)]{1,80})\).*$"
)
#: `1.20 s  55.0%	0 s	 	   -[_ANEClient evaluate]`, of a call tree that was copied from Instruments.
_WEIGHED = re.compile(
    r"^(?P<weight>\d{1,6}(?:\.\d{1,6})?) (?P<unit>min|s|ms|µs)\s+[\d.]{1,9}%\s+[\d.]{1,9} (?:min|s|ms|µs)\t"
    r"(?P<indent>\s*)(?P<symbol>\S.*)$"
)
#: Instruments takes a sample every millisecond.
_SAMPLES_IN = {"min": 60_000.0, "s": 1000.0, "ms": 1.0, "µs": 0.001}
_THREAD = re.compile(
    r"^(?P<indent>[\s*+!:|]*)(?:(?P<count>\d{1,9}) )?[Tt]hread[ _]#?(?P<number>\w{1,20})\b(?P<rest>.{0,200})$"
)
_NAME = re.compile(r"(?:name(?: =|:)\s*|queue(?: =|:)\s*|DispatchQueue_\d+: )'?(?P<name>[^',]{1,100})")
_OFFSET = re.compile(r" \+ \d+(?: .*)?$")


@functools.lru_cache(maxsize=65536)
def classify_frame(name: str) -> int:
    """Returns the units of a symbol or a binary: the sum of 1 (CPU), 2 (GPU) and 4 (Neural Engine)."""
    return sum(bit for bit, pattern in _SOFTWARE if pattern.search(name[:_LONGEST]))


@dataclass(slots=True)
class PastedStacks:
    """Stacks that were pasted as text.

    Attributes:
        total: How many stacks there are; of `sample`, how many samples.
        frames: By unit or layer of `LAYERS`, its innermost function and the thread: how many have it.
    """

    total: int = 0
    frames: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, found: Mapping[str, str], thread: str, count: int = 1) -> None:
        """Adds a stack, given the innermost function of each layer's and unit's software in it."""
        self.total += count
        for software, function in found.items():
            self.frames[software, function, thread] += count

    def passing(self, software: str) -> int:
        """How many stacks have frames of a layer's or unit's software."""
        return sum(count for (name, _, _), count in self.frames.items() if name == software)


def is_frame(line: str) -> bool:
    """Returns True if a line is a frame, as a crash report, lldb, `sample` or Instruments writes it."""
    return any(pattern.match(line[:_LONGEST]) for pattern in (_DEBUGGED, _SAMPLED, _REPORTED, _WEIGHED))


def read_stacks(lines: Iterable[str]) -> PastedStacks:
    """Reads stacks of crash reports and lldb (`bt all`), and call trees of `sample` and Instruments."""
    reader = _TextReader()
    for number, line in enumerate(lines):
        if number == _MOST_FRAMES:
            break
        reader.read(line[:_LONGEST].rstrip())
    reader.close(0)
    return reader.stacks


class _TextReader:
    """Reads lines: lists of frames with the innermost first, and trees with the outermost first."""

    def __init__(self) -> None:
        self.stacks = PastedStacks()
        self._thread = ""
        self._list: dict[str, str] | None = None
        #: Of a tree, the open lines: indentation, samples that no line below them has, frames so far, thread.
        self._tree: list[tuple[int, int, dict[str, str], str]] = []

    def read(self, line: str) -> None:
        """Reads a line; those that are no frame and no thread end a list of frames."""
        if match := _SAMPLED.match(line):
            self._enter(len(match["indent"]), int(match["count"]), _units_of(match))
        elif match := _WEIGHED.match(line):
            samples = max(round(float(match["weight"]) * _SAMPLES_IN[match["unit"]]), 1)
            is_thread = _THREAD.match(match["symbol"]) or match["symbol"].startswith("Main Thread")
            self._thread = match["symbol"] if is_thread else self._thread
            self._enter(len(match["indent"]), samples, _units_of(match))
        elif match := _DEBUGGED.match(line) or _REPORTED.match(line):
            if self._list is None or int(match["index"]) == 0:
                self.close(0)
                self._list = {}
            for unit, name in _units_of(match).items():
                self._list.setdefault(unit, name)
        elif match := _THREAD.match(line):
            self.close(0)
            named = _NAME.search(match["rest"])
            if not (self._thread and match["rest"].strip(" :") == "" and match["number"] in self._thread):
                self._thread = f"thread {match['number']}" + (f", {named['name'].strip()}" if named else "")
            if match["count"]:
                self._enter(len(match["indent"]), int(match["count"]), {})
        elif self._list is not None:
            self.close(0)

    def _enter(self, indent: int, count: int, units: Mapping[str, str]) -> None:
        """Opens a line of a tree."""
        self.close(indent)
        around: dict[str, str] = {}
        if self._tree:
            outer, left, around, thread = self._tree[-1]
            self._tree[-1] = outer, left - count, around, thread
        self._tree.append((indent, count, {**around, **units}, self._thread))

    def close(self, indent: int) -> None:
        """Ends the list of frames, and lines of the tree that are indented as far or farther."""
        if self._list is not None:
            self.stacks.add(self._list, self._thread)
            self._list = None
        while self._tree and self._tree[-1][0] >= indent:
            _, left, frames, thread = self._tree.pop()
            if left > 0:
                self.stacks.add(frames, thread, left)


def _units_of(match: re.Match[str]) -> dict[str, str]:
    binary = match.groupdict().get("binary", "")
    binary = binary.strip()
    units = classify_frame(match["symbol"]) | classify_frame(binary)
    name = _OFFSET.sub("", match["symbol"]).strip()
    layers = [layer for layer, by in LAYERS.items() if by.search(name) or by.search(binary)]
    return dict.fromkeys([*(unit for unit, bit in UNIT_BITS.items() if units & bit), *layers], name)
