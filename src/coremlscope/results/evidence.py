"""Evidence for rules: what Core ML planned for operations, without what identifies a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.encoding import plain
from coremlscope.results.plan import Support

#: Name and version of the schema.
SCHEMA = "coremlscope.evidence/1"


class OpForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of an operation, on which placement depends.

    Attributes:
        inputs: Types of the arguments of each parameter: `tensor<fp16, [1, 8]>`, with `const ` before those
            whose value is in the file. From a profile without its model they are all under the key
            `operands`, without constants.
        attributes: Values of small parameters: numbers, booleans, words, and lists of up to 16 whole numbers
            or booleans. Weights are never among them.
    """

    inputs: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)


class UnitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one plan on an operation.

    Attributes:
        unit: The unit that it is planned on; None if it is unknown.
        backend: The implementation on that unit; None if it is unknown.
        supported: Whether each unit can run it.
        cost_ms: Its planned cost in milliseconds, by backend.
        reasons: Why units cannot run it: Core ML's messages, or the ids of rules, by unit.
    """

    unit: ComputeUnit | None = None
    backend: str | None = None
    supported: Mapping[ComputeUnit, Support] = msgspec.field(default_factory=dict)
    cost_ms: Mapping[str, float] = msgspec.field(default_factory=dict)
    reasons: Mapping[ComputeUnit, tuple[str, ...]] = msgspec.field(default_factory=dict)


class EvidenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation under one setting.

    Attributes:
        type: Apple's name of the operation.
        layer_type: In a neural network, Apple's name of the layer's type; empty otherwise.
        form: Types of its inputs, and its small parameters.
        outputs: Types of its results.
        before: Types of the operations whose results it reads.
        ours: What the rules say.
        theirs: Core ML's verdict.
        share: Its share of the planned cost of all compared operations; None if costs are unknown.
    """

    type: str
    layer_type: str = ""
    form: OpForm = msgspec.field(default_factory=OpForm)
    outputs: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    ours: UnitVerdict
    theirs: UnitVerdict
    share: float | None = None


class EvidencePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of one model on one chip, under one setting.

    Attributes:
        chip: The chip's id.
        os: The system.
        compute_units: The setting.
        kind: Apple's name of the model type.
        spec_version: The specification version of the model; 0 if it is unknown.
        opset: The operation set of the default function; empty if it is unknown.
        compared: Number of operations that both plans place on a unit.
        agreed: Number of them that both place on the same unit.
        unknown: Number of operations that Core ML places and no rule covers.
        cost_share: The agreement weighted by planned cost; None if costs are unknown.
        weighted_by: Whose costs are the weights; see `Agreement`.
        rows: The operations on different units, and those that no rule covers.
    """

    chip: str
    os: str
    compute_units: ComputeUnits
    kind: str = ""
    spec_version: int = 0
    opset: str = ""
    compared: int
    agreed: int
    unknown: int = 0
    cost_share: float | None = None
    weighted_by: str = ""
    rows: tuple[EvidenceRow, ...] = ()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that can correct rules. They contain no weights, names, paths or descriptions.

    Attributes:
        version: The version of coremlscope, whose rules made our plans.
        plans: The plans.
    """

    version: str
    plans: tuple[EvidencePlan, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Converts the evidence to plain JSON values, with the schema's name."""
        return {"schema": SCHEMA, **plain(self)}
