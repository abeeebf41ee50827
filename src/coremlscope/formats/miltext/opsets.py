"""Names of operation sets: in programs, and in MIL text."""

from __future__ import annotations

PRINTED_OPSETS = {
    "CoreML5": "ios15",
    "CoreML6": "ios16",
    "CoreML7": "ios17",
    "CoreML8": "ios18",
    "CoreML9": "ios26",
}
READ_OPSETS = {printed: name for name, printed in PRINTED_OPSETS.items()}
#: Operation sets of the first compilers, which printed the earlier dialect.
EARLY_OPSETS = ("CoreML5", "CoreML6", "CoreML7")
