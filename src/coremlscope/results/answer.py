"""The answer: how fast a model is on a device under a setting, where the time goes, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import CPU, ComputeUnit, ComputeUnits
from coremlscope.results.estimate import LoadEstimate
from coremlscope.results.hazard import Hazard

#: How sure a statement is: the worst of its premises.
Certainty = Literal["likely", "unclear", "unknown"]

#: `no change`: the ratio is 1 within a few percent. `unclear`: it may be a change in either direction, or a
#: premise is in doubt. `unknown`: a figure is absent, or leaves something out.
ChangeVerdict = Literal["faster", "slower", "no change", "unclear", "unknown"]


class SettingChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of compute units.

    Attributes:
        compute_units: The setting.
        latency: Estimated seconds under it; given the estimate under the setting that it is compared with.
        certainty: How sure it is that it is faster than that one; `likely` for the setting itself.
        unit: The unit that does most of the work under it.
    """

    compute_units: ComputeUnits
    latency: Figure
    certainty: Certainty
    unit: ComputeUnit = CPU


class PairVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether another model, device or setting is faster than a base, and the two rows that say so.

    Attributes:
        device: The device of the base.
        os: Its system.
        is_best: Whether each side is under its own best setting; else both are under given ones.
        before: The setting of the base and its latency; None where none is known.
        after: Those of the other side.
        ratio: Seconds of the other side divided by those of the base, with an 80 % interval; None where one
            of them is not known.
        verdict: Whether the other side is faster: the worst of its premises.
        doubts: What makes it doubtful, the worst first.
        hazards: What goes wrong on either side, before any speed.
        text: It in a sentence.
    """

    device: str
    os: str
    is_best: bool
    before: SettingChoice | None
    after: SettingChoice | None
    ratio: Figure | None
    verdict: ChangeVerdict
    doubts: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    text: str = ""


class TimePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a prediction; the shares of all parts add up to 1.

    Attributes:
        part: What the time is spent on.
        share: Its share of the time.
        kernels: Indices of its kernels in the estimate; empty for what belongs to none.
    """

    part: str
    share: float
    kernels: tuple[int, ...]


class HeldTime(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why operations are not on a faster unit, and the time that it holds.

    Attributes:
        text: The reason.
        unit: The unit that it keeps them from.
        rule: The id of the rule.
        ops: How many operations it concerns.
        share: The share of the time that their kernels take where they are.
        example: The id of one of them.
        saved_s: What a prediction takes less without the reason; None where that was not planned again.
    """

    text: str
    unit: ComputeUnit
    rule: str
    ops: int
    share: float
    example: str = ""
    saved_s: Figure | None = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a model, or of the app that loads it.

    Attributes:
        id: Stable: `setting`, `compression`, `limit` where nothing saves time, or the rule that found it.
        text: What to do, in a sentence.
        certainty: How sure it is that it saves time.
        before_s: Estimated seconds before; None where no time is estimated.
        after: Estimated seconds after it, with an 80 % interval; None where none is saved.
        saved_bytes: How much smaller the files are.
        is_planned_again: Whether the changed model, or the other setting, was planned by itself.
        overlaps: Whether it saves some of what another change in the list saves.
        code: The line of code to change; may be empty.
        command: The command that tries or explains it; may be empty.
        ops: Ids of operations that it concerns.
    """

    id: str
    text: str
    certainty: Certainty
    before_s: float | None
    after: Figure | None = None
    saved_bytes: int = 0
    is_planned_again: bool = True
    overlaps: bool = False
    code: str = ""
    command: str = ""
    ops: tuple[str, ...] = ()

    @property
    def saved_s(self) -> float:
        """Estimated seconds that it saves; 0 where none."""
        return 0.0 if self.after is None or self.before_s is None else self.before_s - self.after.value


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A latency that others published of the same network, on the same chip under the same setting.

    Attributes:
        network: The network.
        seconds: The latency.
        unit: The unit that ran it.
        publication: Who measured it.
        url: Where; may be empty.
        os: The system as published; may be empty.
        is_believed: Whether it says more than the estimate: its system is at most two years from the
            device's.
        is_within: Whether the interval of the estimate holds it.
    """

    network: str
    seconds: float
    unit: ComputeUnit
    publication: str
    url: str = ""
    os: str = ""
    is_believed: bool
    is_within: bool


class AnswerTrust(msgspec.Struct, frozen=True, kw_only=True):
    """How far an answer is to be believed.

    Attributes:
        certainty: The worst of the doubts; `likely` without any.
        doubts: What makes it doubtful, the worst first.
        accuracy: How good estimates of the nearest published networks are, in a sentence; may be empty.
        published: Published latencies of the same network on the same chip.
    """

    certainty: Certainty
    doubts: tuple[str, ...] = ()
    accuracy: str = ""
    published: tuple[PublishedFigure, ...] = ()


class TokenSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of a language model, in tokens per second.

    Attributes:
        decode: Of decoding; None where the model has no such step.
        prefill: Of a prompt; None where the model has no such step.
        context: Tokens that the cache has room for.
        unknown: Why there is no rate, for a model that takes tokens and gives probabilities of a vocabulary;
            empty for others.
    """

    decode: Figure | None = None
    prefill: Figure | None = None
    context: int = 0
    unknown: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants to know first of a model on a device under a setting.

    Attributes:
        model: The path of the model.
        device: The device.
        chip: The chip's id.
        os: Its system.
        compute_units: The setting.
        is_asked: Whether the setting was asked for: only then changes of the model are planned again.
        headline: The answer in a sentence: hazards first, then the speed, one doubt, and the first change.
        latency: Estimated seconds of a prediction, with an 80 % interval; None where nothing is estimated.
        is_at_least: Whether the latency leaves something out, and is a lower bound.
        is_extrapolated: Whether fewer than three publications measured this chip.
        units: The share of each unit in the time of the kernels.
        tokens: The speed of a language model; None for other models.
        load: Times of the first and later loads; None where they are not known.
        best: The fastest setting without a hazard; None where nothing is estimated, or not enough is known.
        time: Where the time goes; the shares add up to 1.
        why: Why operations are not on the Neural Engine, by the time that each reason holds.
        changes: What to change, the largest gain first; never empty where a latency is known.
        is_hazardous: Whether a prediction as planned meets a hazard.
        hazards: What is known to go wrong, the gravest first.
        trust: How far to believe it.
    """

    model: str
    device: str
    chip: str
    os: str
    compute_units: ComputeUnits
    is_asked: bool
    headline: str = ""
    latency: Figure | None = None
    is_at_least: bool = False
    is_extrapolated: bool = False
    units: Mapping[ComputeUnit, float] = msgspec.field(default_factory=dict)
    tokens: TokenSpeed | None = None
    load: LoadEstimate | None = None
    best: SettingChoice | None = None
    time: tuple[TimePart, ...] = ()
    why: tuple[HeldTime, ...] = ()
    changes: tuple[Proposal, ...] = ()
    is_hazardous: bool = False
    hazards: tuple[Hazard, ...] = ()
    trust: AnswerTrust
