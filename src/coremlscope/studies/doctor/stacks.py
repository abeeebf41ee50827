"""Stacks in texts, as lldb, Xcode and Apple's older reports print them.

A stack is no trouble by itself: debuggers print those of sound programs. Its frames count next to a line that
tells of a crash, and those of other threads do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: `frame #5: 0x2423f4414 libBNNS.dylib`BNNSGraphContextExecute_v2 + 480`, and
#: `6   MetalPerformanceShadersGraph   0x221244c80 -[MPSGraphExecutable init] + 300`.
_FRAME = re.compile(
    r"^[\s*>-]{0,20}(?:frame #?(\d{1,4}): (?:0x[0-9a-f]{1,16} )?([\w.+-]{1,80})[`\s]"
    r"|(\d{1,4})\s{1,8}([\w.+-]{1,80})\s{1,40}(?:0x[0-9a-f]{1,16}\s{1,40})+)(\S.*)$",
    re.IGNORECASE,
)
#: A frame in the output of `sample` and in spindumps, which show running programs.
_SAMPLED = re.compile(r"\s\(in [\w.+-]{1,80}\)(?:\s|$)")
_OFFSET = re.compile(r"\s\+\s\d{1,12}\b.*$")
_CRASH = re.compile(
    r"EXC_(?!BREAKPOINT \(code=1)[A-Z]{3}|\bSIG(?:SEGV|ABRT|BUS|ILL|TRAP)\b|^Crashed:"
    r"|\b[Cc]rash (?:stack|trace|log)\b|Thread \d+.{0,80}Crashed|Crashed Thread|Triggered by Thread"
    r"|stop reason = (?:signal|hit program)"
    r"|Segmentation fault|Abort trap|Terminating app due to uncaught exception|Fatal error:"
)
_THREAD = re.compile(r"^\s*(\*?)\s*[Tt]hread #?\d+\b")
_QUEUE = re.compile(r"(?:\b[Qq]ueue\s?[:=]\s?'?|^Crashed: (?=com\.))([\w.]{1,120})")
#: A pasted stack of at most so many lines needs no line that tells of a crash.
_EXCERPT = 40
_MOST_FRAMES = 64


class Stacks:
    """Frames of the thread that crashed, as a log prints them."""

    def __init__(self) -> None:
        self._frames: list[tuple[int, str]] = []
        self._is_elsewhere = False
        self._crashed = False

    def add(self, number: int, text: str) -> bool:
        """Notes a line. Returns True if it is one of a stack, which says nothing else."""
        match = _FRAME.match(text)
        if match is not None:
            if not self._is_elsewhere and len(self._frames) < _MOST_FRAMES:
                symbol = _OFFSET.sub("", match[5]).strip()
                self._frames.append(
                    (number, f"frame {match[1] or match[3]}: {match[2] or match[4]} {symbol}")
                )
            return True
        tells = _CRASH.search(text) is not None
        thread = _THREAD.match(text)
        if thread is not None:
            self._is_elsewhere = not (thread[1] or tells)
            if not tells:
                return True
        if _SAMPLED.search(text) is not None:
            return True
        if tells:
            self._crashed = True
            queue = _QUEUE.search(text)
            if queue is not None:
                self._frames.append((number, f"queue: {queue[1]}"))
        return False

    def lines(self, total: int) -> Iterator[tuple[int, str, bool]]:
        """The number and text of each frame, and whether a line told of a crash.

        Args:
            total: How many lines the log has.
        """
        if self._crashed or total <= _EXCERPT:
            yield from ((number, text, self._crashed) for number, text in self._frames)
