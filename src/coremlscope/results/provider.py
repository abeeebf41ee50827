"""What ONNX Runtime's Core ML provider makes of an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnit, ComputeUnits


class LeftRule(msgspec.Struct, frozen=True):
    """A rule that keeps an operator out of Core ML.

    Attributes:
        id: Its id.
        reason: Why, as a clause.
        fix: What to change; empty if nothing is known.
        source: The file of microsoft/onnxruntime.
    """

    id: str
    reason: str
    fix: str = ""
    source: str = ""


class LeftNode(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that stays with another provider.

    Attributes:
        name: The author's name, or that of its first result.
        op: Its type.
        rule: The rule that keeps it out.
        reason: Why, as a clause.
        fix: What to change.
        source: The file of microsoft/onnxruntime.
    """

    name: str
    op: str
    rule: str
    reason: str
    fix: str = ""
    source: str = ""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round of partitioning: one line of ONNX Runtime's log.

    Attributes:
        graph: The graph; empty for that of the model.
        partitions: Number of partitions.
        nodes: Number of operators of the graph then.
        supported: Number of operators in partitions.
        line: The line.
    """

    graph: str = ""
    partitions: int
    nodes: int
    supported: int
    line: str


class ProviderEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated time of a prediction by a session with the provider. Nothing was measured.

    Attributes:
        device: The device, or its chip.
        os: The system.
        compute_units: The setting of compute units, MLComputeUnits.
        latency: Seconds, with an interval: the sum of the parts.
        inside: Seconds in Core ML models.
        boundaries: Seconds of calls of Core ML models, and of copies of tensors to and from them.
        outside: Seconds of operators that stay with the CPU provider.
        placement: The share of each unit in the time of the Core ML models.
    """

    device: str
    os: str
    compute_units: ComputeUnits
    latency: Figure
    inside: Figure
    boundaries: Figure
    outside: Figure
    placement: Mapping[ComputeUnit, float]


class ProviderFix(msgspec.Struct, frozen=True, kw_only=True):
    """What a session would have if one rule kept no operator of a type out.

    Attributes:
        op: The type of the operators.
        rule: The rule.
        count: Number of operators.
        fix: What to change.
        partitions: Number of partitions then, in the first round.
        supported: Number of operators in partitions then.
    """

    op: str
    rule: str
    count: int
    fix: str
    partitions: int
    supported: int


class ProviderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the provider is faster than ONNX Runtime's CPU provider on a device, by estimates.

    Attributes:
        device: The device, or its chip.
        os: The system.
        outcome: What is faster; `close` where the ratio is between 0.67 and 1.5.
        format: The format in which the provider is fastest; empty where it takes nothing.
        compute_units: The setting under which it is.
        provider: Seconds of a prediction with the provider; None where it takes nothing.
        cpu: Seconds of a prediction with the CPU provider alone.
        ratio: Those of the CPU provider by those of the provider.
        converted: Seconds of a prediction by the whole model, converted by coremltools, under the best
            setting; None where it is not estimated.
    """

    device: str
    os: str
    outcome: Literal["provider", "cpu", "close", "unknown"]
    format: str = ""
    compute_units: str = ""
    provider: Figure | None = None
    cpu: Figure | None = None
    ratio: float | None = None
    converted: Figure | None = None


class ProviderReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the provider divides a model in one format.

    Attributes:
        format: `neuralnetwork` or `mlprogram`.
        release: The release of ONNX Runtime.
        is_default: Whether the format is the provider's own default.
        basis: Which graph was judged.
        partitions: Number of partitions in the first round.
        nodes: Number of operators in the first round.
        supported: Number of operators in partitions of the first round.
        models: Number of Core ML models: the partitions of all rounds.
        rounds: All rounds, those of bodies first, as in the log.
        left: The operators outside, in order.
        findings: What is known to go wrong, as sentences.
        notes: What else is known, as sentences.
        fixes: What each rule costs, the one that leaves the fewest partitions first.
        estimates: Estimated times, by device and setting.
    """

    format: str
    release: str
    is_default: bool
    basis: str
    partitions: int
    nodes: int
    supported: int
    models: int
    rounds: tuple[Round, ...]
    left: tuple[LeftNode, ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fixes: tuple[ProviderFix, ...] = ()
    estimates: tuple[ProviderEstimate, ...] = ()
