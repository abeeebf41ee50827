"""What ONNX Runtime's Core ML provider makes of an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


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
        findings: What else is known to go wrong, as sentences.
    """

    format: str
    release: str
    is_default: bool
    basis: str
    partitions: int
    nodes: int
    supported: int
    models: int
    rounds: Sequence[Round]
    left: Sequence[LeftNode] = ()
    findings: Sequence[str] = ()
