"""The base class of classical models: what Core ML computes without a graph."""

from __future__ import annotations

from typing import ClassVar

from coremlscope.model.ir.graph import Content


class Classical(Content):
    """The parameters of a classical model: each type in `coremlscope.ops.classical` derives a Struct.

    Attributes:
        kind: Apple's name of the model type: `treeEnsembleClassifier`, …
    """

    __slots__ = ()
    kind: ClassVar[str]
