"""Models whose computation is not in the file, but in Apple's operating systems or in an app."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coremlscope.model.ir.graph import Content
from coremlscope.model.ir.types import Shape


class External(msgspec.Struct, Content, frozen=True, kw_only=True):
    """What a file tells of a model that is not in it.

    Attributes:
        kind: Apple's name of the model type: `visionFeaturePrint`, `customModel`, …
        absent: Why the computation is not in the file, as a clause.
        how_to_run: What is needed to run it, as a clause.
        facts: All that the file says, as pairs of label and value; labels of classes excluded.
        labels: The possible results of a classifier.
        shapes: The known shapes of outputs by name, also of those that the description leaves open.
    """

    kind: str
    absent: str
    how_to_run: str = "Core ML runs it on an Apple device"
    facts: tuple[tuple[str, str], ...] = ()
    labels: tuple[str, ...] | tuple[int, ...] = ()
    shapes: Mapping[str, Shape] = msgspec.field(default_factory=dict)
