"""The answer first: how fast models are on devices, where the time goes, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.estimate import Trust

#: How sure it is that a change saves time: the 80 % interval of the gain does not contain 0, or it does.
Certainty = Literal["likely", "unclear", "no gain"]


class SettingChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of compute units next to the default one.

    Attributes:
        compute_units: The setting.
        latency: Estimated seconds, with an 80 % interval; given the estimate under the default setting.
        certainty: Whether it is faster than the default one.
    """

    compute_units: ComputeUnits
    latency: Figure
    certainty: Certainty


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of a model on a device.

    Attributes:
        model: The name of the model.
        device: The device.
        chip: The chip's id.
        os: Its system.
        latency: Seconds of a prediction under the default setting: measured there, else estimated with an
            80 % interval.
        is_at_least: Whether the latency leaves something out, and is a lower bound.
        is_extrapolated: Whether fewer than three publications measured this chip.
        placement: The share of each unit in the time.
        best: The fastest setting.
        tokens_per_s: For a language model, tokens per second of decoding; None for other models.
        prompt_tokens_per_s: Those of a prompt.
    """

    model: str
    device: str
    chip: str
    os: str
    latency: Figure
    is_at_least: bool = False
    is_extrapolated: bool = False
    placement: Mapping[ComputeUnit, float] = msgspec.field(default_factory=dict)
    best: SettingChoice
    tokens_per_s: Figure | None = None
    prompt_tokens_per_s: Figure | None = None


class EqualBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of a model that do the same work one after the other, as the layers of a transformer.

    Attributes:
        times: The number of blocks.
        kernels: The kernels of a block.
        share: The share of all of them in the time.
        kinds: That of each kind of their kernels, the largest first.
    """

    times: int
    kernels: int
    share: float
    kinds: tuple[tuple[str, float], ...]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a model, or of the app that loads it.

    Attributes:
        id: Stable: `setting`, or the rule that found it.
        text: What to do, in a sentence.
        certainty: Whether it saves time.
        before_s: Estimated seconds before.
        after: Estimated seconds after it, with an 80 % interval; None where no time is estimated.
        saved_bytes: How much smaller the files would be.
        code: The line of code to change; may be empty.
        command: The command that tries it, or explains it, of `MODEL`.
        is_checked: Whether the changed model can be made from the file, so that its own plan and estimate
            confirm the gain; or, for a setting, measurements of such pairs do. Others are never likely.
    """

    id: str
    text: str
    certainty: Certainty
    before_s: float
    after: Figure | None = None
    saved_bytes: int = 0
    code: str = ""
    command: str = ""
    is_checked: bool = True


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants to know of models first.

    Attributes:
        models: The names of the models.
        path: The path of a single one.
        verdict: The answer in a sentence.
        speeds: Their speed, by device in the order asked for.
        is_default: Whether the devices are the default ones.
        device: The device that the other parts are about; empty where nothing is estimated.
        waits: The shares of the time by what it waits for, the largest first.
        kinds: The shares of the time by kind of kernel, the largest first.
        blocks: Equal blocks in which much of the time is spent; None where there are none.
        off_engine: Why operations do not run on the Neural Engine, the costliest first.
        proposals: What to change, the largest gain first; those without a gain are left out.
        together: All likely proposals on operations at once; None where there are fewer than two.
        nothing: What takes the time where no proposal saves any; empty otherwise.
        trust: How good such estimates were; None where that is not known.
        notes: What else limits the answer.
    """

    models: tuple[str, ...]
    path: str = ""
    verdict: str
    speeds: tuple[Speed, ...] = ()
    is_default: bool = False
    device: str = ""
    waits: tuple[tuple[str, float], ...] = ()
    kinds: tuple[tuple[str, float], ...] = ()
    blocks: EqualBlocks | None = None
    off_engine: tuple[str, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    together: Proposal | None = None
    nothing: str = ""
    trust: Trust | None = None
    notes: tuple[str, ...] = ()
