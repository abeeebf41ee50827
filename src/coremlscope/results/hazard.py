"""Known hazards that a model meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.findings import Confidence
from coremlscope.devices.unit import ComputeUnit

#: What happens:
#: `refused`          the model does not load, under any setting or for the named units;
#: `crash`            the app ends;
#: `endless load`     loading does not end;
#: `wrong values`     the prediction returns other values than it should, without an error;
#: `silent fallback`  everything leaves the unit without an error.
HazardKind = Literal["refused", "crash", "endless load", "wrong values", "silent fallback"]

#: When it happens.
HazardPhase = Literal["load", "predict"]

#: The kinds, the gravest first.
HAZARD_KINDS: tuple[HazardKind, ...] = (
    "refused",
    "crash",
    "endless load",
    "wrong values",
    "silent fallback",
)


class Hazard(msgspec.Struct, frozen=True, kw_only=True):
    """A known hazard that a model meets.

    Attributes:
        id: The row's id, in kebab case; that of the placement rule where one has it.
        kind: What happens.
        phase: When.
        text: What happens and where in the model, one clause without a full stop.
        fix: What to do.
        source: Who published it.
        confidence: How the source knows.
        units: Where it happens; empty where it does not depend on the unit.
        scope: The chips and systems for which it holds, in words; empty for all.
        ops: The operations concerned: names by id; empty for the whole model.
        is_certain: False where the evidence does not decide whether the plan puts one of the operations on
            one of the units.
    """

    id: str
    kind: HazardKind
    phase: HazardPhase
    text: str
    fix: str
    source: str
    confidence: Confidence
    units: tuple[ComputeUnit, ...] = ()
    scope: str = ""
    ops: Mapping[str, str] = {}
    is_certain: bool = True

    @property
    def is_sure(self) -> bool:
        """True where the plan decides that it is met, and more than an anecdote tells of it."""
        return self.is_certain and self.confidence != "anecdotal"
