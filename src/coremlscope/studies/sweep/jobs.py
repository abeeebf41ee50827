"""Jobs of a sweep: the results that are wanted of one model, each with its address."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import msgspec.structs

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.escaping import path_text
from coremlscope.base.version import __version__
from coremlscope.devices import ComputeUnits
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.studies.sweep.rows import Row

#: The origins of the rows that jobs make.
MEASURED, ESTIMATED = "measured", "estimated"
#: How the name of a variant begins that is a session: `onnxruntime-mlprogram`, `onnxruntime-mlprogram-1.27`.
SESSION = "onnxruntime"


class PickledModel(msgspec.Struct, frozen=True):
    """A model in memory, on its way to another process of this package.

    Attributes:
        content: The pickled model.
    """

    content: bytes

    @classmethod
    def of(cls, model: Model) -> PickledModel:
        """Pickles a model."""
        return cls(pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL))

    def read(self) -> Model:
        """Returns the model."""
        model: Model = pickle.loads(self.content)
        return model


class SweptModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, or a part or variant of it.

    Attributes:
        name: Its name in results.
        source: Its path, the bytes of its specification, or the pickled model.
        content: A hash of its content.
        function: The function; empty for the default one.
        shapes: Shapes of flexible inputs.
        variant: Transforms that are applied first; empty for none.
        labels: Texts of the user.
        numbers: Numbers of the user.
    """

    name: str
    source: Path | bytes | PickledModel
    content: str
    function: str = ""
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    variant: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    numbers: Mapping[str, float] = msgspec.field(default_factory=dict)

    @property
    def shape_text(self) -> str:
        """The shapes as `x=1x3x8x8`, in the order of the names."""
        pairs = sorted(self.shapes.items())
        return " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in pairs)


class Measuring(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is measured on the machine that works on the job.

    Attributes:
        iterations: Timed predictions; None for as many as `profile` makes.
        threads: Threads that work on one operation; None for one per core.
        cores: Number of logical processors that the measurement has to itself; 0 for all.
        seed: Seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
        timeout_s: Seconds that it may take; what was measured before is kept.
        memory_bytes: Resident memory that it may take.
    """

    iterations: int | None = 10
    threads: int | None = None
    cores: int = 0
    seed: int = 0
    random_weights: bool = False
    timeout_s: float | None = None
    memory_bytes: int | None = None


class WantedResult(msgspec.Struct, frozen=True, kw_only=True):
    """One wanted result.

    Attributes:
        key: Its address.
        compute_units: The setting.
        device: The device to estimate for; empty for a measurement.
        os: Its system.
    """

    key: str
    compute_units: ComputeUnits
    device: str = ""
    os: str = ""


class SweepJob(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted results of one model that are made together.

    Attributes:
        subject: The model.
        cases: The results.
        measuring: How it is measured; None to estimate it.
        own: The user's own measurements, which refine estimates.
    """

    subject: SweptModel
    cases: tuple[WantedResult, ...]
    measuring: Measuring | None = None
    own: Own = NOTHING_OWN

    @property
    def origin(self) -> str:
        """The origin of its rows."""
        return ESTIMATED if self.measuring is None else MEASURED

    def row(self, case: WantedResult) -> Row:
        """Returns a row for a case with everything that is known before it is worked on."""
        subject = self.subject
        return Row(
            key=case.key,
            origin=self.origin,
            model=subject.name,
            content=subject.content,
            function=subject.function,
            shapes=subject.shape_text,
            variant=subject.variant,
            labels=subject.labels,
            numbers=subject.numbers,
            device=case.device,
            os=case.os,
            compute_units=case.compute_units,
        )


def address(subject: SweptModel, *parts: object) -> str:
    """Returns the address of a result: a hash of everything that it depends on.

    Names, labels and numbers of the user are not part of it.

    Args:
        subject: The model.
        parts: Options, devices, settings, and versions besides that of coremlscope; strings, numbers,
            sequences, and dataclasses of them.
    """
    known = (__version__, subject.content, subject.function, subject.shape_text, subject.variant)
    return hashlib.sha256(msgspec.json.encode([*known, *parts])).hexdigest()[:32]


def split_cases(cases: Sequence[WantedResult]) -> dict[tuple[ComputeUnits, ...], list[tuple[str, str]]]:
    """Groups devices by the settings that are wanted of them, so that each group is planned together."""
    wanted: dict[tuple[str, str], list[ComputeUnits]] = {}
    for case in cases:
        wanted.setdefault((case.device, case.os), []).append(case.compute_units)
    groups: dict[tuple[ComputeUnits, ...], list[tuple[str, str]]] = {}
    for device, settings in wanted.items():
        groups.setdefault(tuple(settings), []).append(device)
    return groups


def timestamp() -> str:
    """Returns the time in UTC as ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def failed_rows(job: SweepJob, error: CoremlscopeError) -> tuple[Row, ...]:
    """Returns a row for each case of a job that has no results."""
    return tuple(
        msgspec.structs.replace(
            job.row(case),
            failure=_named(job.subject, error.message),
            hint=error.hint,
            exit_code=error.exit_code,
            made_at=timestamp(),
            version=__version__,
        )
        for case in job.cases
    )


def _named(subject: SweptModel, message: str) -> str:
    """Returns a message with the name of the model instead of its path."""
    source = subject.source
    return message.replace(path_text(source), subject.name) if isinstance(source, Path) else message
