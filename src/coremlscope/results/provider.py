"""What ONNX Runtime's Core ML provider makes of an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.hazard import Hazard

#: ONNX Runtime's name of the provider.
CORE_ML_PROVIDER = "CoreMLExecutionProvider"


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
    """What a session would have after a fix, if nothing else kept its operators out.

    Attributes:
        fix: What to change.
        count: Number of operators that it is for.
        models: Number of Core ML models then: the partitions of all rounds.
        supported: Number of operators in them.
        estimates: Estimated times then, by device and setting; empty where they were not planned again.
    """

    fix: str
    count: int
    models: int
    supported: int
    estimates: tuple[ProviderEstimate, ...] = ()


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
        inside: Number of operators in partitions of all rounds, those that others are expanded into included.
        outside: Number of operators that are in no partition after all rounds.
        rounds: All rounds, those of bodies first, as in the log.
        left: The operators outside, in order.
        hazards: What is known to go wrong.
        notes: What else is known, as sentences.
        fixes: What follows from each fix, the one that leaves the fewest Core ML models first.
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
    inside: int = 0
    outside: int = 0
    rounds: tuple[Round, ...]
    left: tuple[LeftNode, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    notes: tuple[str, ...] = ()
    fixes: tuple[ProviderFix, ...] = ()
    estimates: tuple[ProviderEstimate, ...] = ()


class LoggedNode(msgspec.Struct, frozen=True, kw_only=True):
    """An operator of which ONNX Runtime itself told whether the provider takes it.

    Attributes:
        op: Its type.
        name: Its name; may be empty.
        is_taken: Whether the provider takes it.
        reason: Why not, in ONNX Runtime's words; empty if it did not say.
    """

    op: str
    name: str
    is_taken: bool
    reason: str = ""


class RuleAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How often ONNX Runtime and a rule agree on operators of a type.

    Attributes:
        op: The type of the operators.
        rule: The rule that keeps them out; `taken` for none.
        agreed: Number of operators of which both say the same.
        differing: The others, in ONNX Runtime's words.
    """

    op: str
    rule: str
    agreed: int
    differing: tuple[LoggedNode, ...] = ()


class ProviderAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How a division by the rules agrees with what ONNX Runtime wrote of a session of the same model.

    Attributes:
        format: The format in which both agree best.
        release: The newest release whose rules agree best.
        models: Number of Core ML models by the rules.
        rounds: The rounds by the rules.
        rules: The agreement of each rule on each type of operator.
        only_logged: Number of operators that ONNX Runtime names and the judged graph does not have.
        only_judged: Number of those that only the judged graph has.
    """

    format: str
    release: str
    models: int
    rounds: tuple[Round, ...]
    rules: tuple[RuleAgreement, ...] = ()
    only_logged: int = 0
    only_judged: int = 0


class ProviderLog(msgspec.Struct, frozen=True, kw_only=True):
    """What ONNX Runtime wrote of a session: its log, its profile, or the assignment of operators.

    Attributes:
        file: The name of the file.
        session: The number of the session in the file, from 1.
        rounds: The lines with counts, in order.
        nodes: The operators of the first round that lists them, or of the whole assignment.
        placed: Number of operators at last, by provider; a Core ML model is one operator.
        runs: Number of runs that were profiled.
        seconds: Seconds of operators in a run, by provider: the mean over all runs.
        releases: The releases that write such a line, the first and the last; empty if it does not tell.
        agreement: The agreement with the rules; None without the model.
    """

    file: str
    session: int = 1
    rounds: tuple[Round, ...] = ()
    nodes: tuple[LoggedNode, ...] = ()
    placed: Mapping[str, int] = msgspec.field(default_factory=dict)
    runs: int = 0
    seconds: Mapping[str, float] = msgspec.field(default_factory=dict)
    releases: tuple[str, ...] = ()
    agreement: ProviderAgreement | None = None

    @property
    def models(self) -> int | None:
        """The number of Core ML models that it tells of; None if it does not."""
        if self.rounds:
            return sum(one.partitions for one in self.rounds)
        return self.placed.get(CORE_ML_PROVIDER, 0) if self.placed else None
