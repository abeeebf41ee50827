"""A known failure text, and the sources and fixes that several share."""

from __future__ import annotations

import msgspec

from coremlscope.base.findings import Confidence

#: Sources that several failures have.
COREMLTOOLS = "apple/coremltools"
VALIDATORS = f"{COREMLTOOLS}: mlmodel/src/Validation"
PUBLIC_NOTES = "notes of public projects"
#: Fixes that several failures have.
SEE_PLAN = "`coremlscope plan MODEL --device NAME` names the operations that each unit rejects"
TRY_UNITS = "load the model with CPU_ONLY, CPU_AND_GPU and CPU_AND_NE in turn to see which unit fails"
CLEAR_CACHE = (
    "quit the program, delete its folder com.apple.e5rt.e5bundlecache in ~/Library/Caches, and load again"
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of failure, and how its texts are recognized. Case is ignored.

    Attributes:
        id: A stable identifier in kebab case.
        texts: A line must contain at least one of these texts, written in lower case.
        pattern: A regular expression that the line must match as well; empty if the text is enough. The group
            `op` holds the type of the operation, `where` its name, `seconds` and `minutes` a duration. Any
            other group is a detail that the report shows under the group's name.
        cause: The likely cause, one sentence or two.
        fix: What to try.
        source: Where this was published.
        confidence: How the source knows.
        op: The operation type that the text is about, if it is always the same.
        rules: The placement rules that the text is about.
        least_seconds: The duration in the line must be at least this long.
        is_general: True for a text that passes a reason on or says little. It is reported only where no other
            row matches the line; of several the one that is next to the reason.
        examples: Lines that match.
        negative_examples: Lines that do not match.
    """

    id: str
    texts: tuple[str, ...]
    pattern: str = ""
    cause: str
    fix: str
    source: str
    confidence: Confidence
    op: str = ""
    rules: tuple[str, ...] = ()
    least_seconds: float = 0.0
    is_general: bool = False
    examples: tuple[str, ...]
    negative_examples: tuple[str, ...]
