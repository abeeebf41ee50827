"""The result of verifying a model against a reference."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from coremlscope.base.findings import Finding
from coremlscope.base.units import short_repr
from coremlscope.results.encoding import plain

VERIFICATION: Final = "coremlscope.verification/1"

#: `conversion` the model computes something else than the reference, in float32 as well;
#: `precision`  results or constants that are rounded to fp16 differ.
FaultKind = Literal["conversion", "precision"]

#: Meaning of an output, which decides how it is compared.
Meaning = Literal["classes", "labels", "image", "preprocessing", "array"]

#: On which side an output exists: on both; on one; or it should exist, and running the model failed.
Status = Literal["paired", "only in the model", "only in the reference", "failed"]

#: Why an operation's results differ.
Cause = Literal[
    "overflow",
    "underflow",
    "epsilon",
    "cancellation",
    "accumulation",
    "tie",
    "integers",
    "narrowed integers",
    "infinite constants",
    "weights",
    "swapped weights",
    "compressed weights",
    "layout",
    "preprocessing",
    "setting",
    "scale",
    "offset",
    "sign",
    "cast",
    "state",
    "initial state",
    "swapped outputs",
    "extra operation",
    "missing operation",
    "unknown",
]


class ComparedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """One output of the model next to that of the reference; or an intermediate value, or names of classes.

    Attributes:
        name: The output.
        reference: Its name in the reference.
        run: How the model ran: `fp32`, `fp16`, `fp16-inside` with parts of operations rounded as well,
            or a compute unit; `fp32-call-2` and the
            like for a later call, which begins with the states of the one before; `fp32-zeros` and the like
            for another kind of inputs.
        meaning: What it means.
        passed: Whether it is within the tolerance. An output that exists on one side only has not passed,
            nor one that failed; a state that exists on one side only is not compared, and fails nothing.
        status: On which side it exists.
        largest: The largest absolute difference; None if elements are infinite or NaN in one only.
        allowed: What `largest` may be; None where it is judged by its PSNR or by its best classes instead.
        least_psnr_db: What `psnr_db` must be; None where it is not judged by that.
        relative: The root mean square of the difference over that of the reference; None likewise.
        psnr_db: The ratio of the peak to the noise: that of 255 for images, of the reference's largest
            magnitude for others; None if they are equal or not comparable.
        top_1: For classes, the share of rows whose best class is that of the reference.
        top_k: For classes, the share of the reference's best classes (5, or `--top-k`) that are among the
            best.
        not_finite: The number of elements that are infinite or NaN in the model and not in the reference.
        why: Why it did not pass.
    """

    name: str
    reference: str
    run: str
    meaning: Meaning
    passed: bool
    status: Status = "paired"
    largest: float | None = None
    allowed: float | None = None
    least_psnr_db: float | None = None
    relative: float | None = None
    psnr_db: float | None = None
    top_1: float | None = None
    top_k: float | None = None
    not_finite: int = 0
    why: str = ""


class PairedValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the model and the corresponding value of the reference.

    Attributes:
        op: The id of the operation; empty for inputs.
        type: Its type.
        name: The name of the value.
        reference: Its name in the reference.
        how: How they were paired: `output`, `value`, `name`, `weights`, `flow` or `order`.
        axes: The order of axes in which they are equal; empty if it is the same.
        fp32: The relative error with float32 results; None if it is infinite.
        made: The part of it that the operation makes from the reference's own values; None if it is unknown.
        fp16: The relative error with results rounded to fp16; None if it is infinite or unknown.
    """

    op: str
    type: str
    name: str
    reference: str
    how: str
    axes: tuple[int, ...] = ()
    fp32: float | None = None
    made: float | None = None
    fp16: float | None = None


class VerifiedFault(msgspec.Struct, frozen=True, kw_only=True):
    """The first operation whose results differ, and why.

    Attributes:
        kind: Whether the conversion or the precision is at fault.
        run: The run that differs; see `ComparedOutput.run`.
        op: The id of the operation.
        type: Its type.
        name: The author's name for it.
        cause: The cause.
        text: The cause as a sentence, with the numbers.
        seen_at: The id of the operation whose results show it first, where that is another one.
        inherited: The largest relative error of its arguments; None if it is infinite.
        made: The relative error of its results on exact arguments; None if it is infinite or unknown.
        alike: Ids of further operations with the same cause.
        elements: The number of elements that the cause predicts, on all inputs and at all steps.
        advice: What mends it, as a sentence; empty if that is not known.
        code: The line that does it where the model is converted, or in the network; empty likewise.
        repairs: Whether all outputs are within the tolerance once this value, and those of the faults before
            it, are the right ones: evidence for the cause. None if that was not tried.
    """

    kind: FaultKind
    run: str
    op: str
    type: str
    name: str
    cause: Cause
    text: str
    seen_at: str = ""
    inherited: float | None = None
    made: float | None = None
    alike: tuple[str, ...] = ()
    elements: int = 0
    advice: str = ""
    code: str = ""
    repairs: bool | None = None


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """A model beside a reference.

    Attributes:
        model: The path of the model.
        function: The function.
        reference: What it was verified against.
        inputs: What the inputs were, as clauses.
        contract: In which form the reference takes the inputs where that is not known: `image as RGB 0…1`.
            The verdict holds if it is so. Empty if it takes them as the model does.
        is_comparable: False if outputs differ, and no form of the inputs gives the reference what the model's
            first operations compute: nothing tells a fault from another form then.
        outputs: The outputs, of each run.
        passed: Whether all outputs exist on both sides, and are within the tolerance.
        runs: How the model ran; see `ComparedOutput.run`.
        recorded: The number of the model's values that were recorded.
        pairs: The values that have a counterpart in the reference.
        faults: The first operation whose results differ, for each kind of fault.
        findings: Other remarks.
        version: The version of coremlscope.
    """

    model: str
    function: str
    reference: str
    inputs: tuple[str, ...]
    contract: str = ""
    is_comparable: bool = True
    outputs: tuple[ComparedOutput, ...]
    passed: bool
    runs: tuple[str, ...]
    recorded: int
    pairs: tuple[PairedValue, ...] = ()
    faults: tuple[VerifiedFault, ...] = ()
    findings: tuple[Finding, ...] = ()
    version: str = ""

    __repr__ = short_repr

    def to_json(self) -> dict[str, Any]:
        """Converts the verification to plain JSON values, with the schema's name."""
        return {"schema": VERIFICATION, **plain(self)}
