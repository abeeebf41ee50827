"""The words and tables of verifications, the same in every format."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.render.words import plural
from coremlscope.results.verification import (
    Cause,
    ComparedOutput,
    PairedValue,
    ProposedFix,
    Verification,
    VerifiedFault,
)

__all__ = [
    "CAUSES",
    "OUTPUT_TITLES",
    "PAIR_TITLES",
    "fault_lines",
    "fix_lines",
    "headline",
    "output_rows",
    "pair_rows",
    "pairing_line",
    "parted_pairs",
]

#: Causes in words.
CAUSES: dict[Cause, str] = {
    "overflow": "overflow beyond the largest fp16 number",
    "underflow": "underflow below the smallest fp16 number",
    "epsilon": "an epsilon that does not suit the numbers",
    "saturation": "a saturating activation",
    "cancellation": "cancellation of large numbers",
    "accumulation": "roundings that add up",
    "tie": "a tie",
    "integers": "numbers too large for fp16 to represent their fractions",
    "layout": "wrong layout",
    "scale": "a dropped or extra scale",
    "offset": "a dropped or extra offset",
    "sign": "wrong sign",
    "swapped outputs": "swapped outputs",
    "swapped weights": "swapped weights",
    "weights": "other weights",
    "compressed weights": "compressed weights",
    "cast": "a wrong cast",
    "constant": "another constant",
    "extra operation": "an operation that the reference lacks",
    "missing operation": "a missing operation",
    "other operation": "another operation",
    "setting": "another setting",
    "swapped arguments": "arguments in another order",
    "wrong argument": "a wrong argument",
    "undefined": "an undefined result",
    "unknown": "cause not known",
}

OUTPUT_TITLES = ("output", "run", "as", "", "largest", "relative", "SNR", "cosine", "")
PAIR_TITLES = ("operation", "value", "reference", "paired by", "fp32", "made", "fp16")
_KINDS = {"conversion": "conversion fault", "precision": "precision fault", "unit": "fault of a compute unit"}


def headline(found: Verification) -> str:
    """Returns the verdict as one line."""
    if found.passed:
        return "all outputs are within the tolerance"
    failed = dict.fromkeys(output.run for output in found.outputs if not output.passed)
    return f"outputs differ in {', '.join(failed)}"


def output_rows(found: Verification) -> list[tuple[str, ...]]:
    """Returns a row for each output of each run."""
    return [_output_row(output) for output in found.outputs]


def _output_row(output: ComparedOutput) -> tuple[str, ...]:
    return (
        output.name,
        output.run,
        output.meaning,
        "✓" if output.passed else "✗",
        _number(output.largest),
        _number(output.relative),
        "equal" if output.relative == 0 else "" if output.snr_db is None else f"{output.snr_db:.1f} dB",
        "" if output.cosine is None else f"{output.cosine:.6f}",
        _meaning_text(output),
    )


def _meaning_text(output: ComparedOutput) -> str:
    figures = []
    if output.meaning == "image":
        figures.append("equal" if output.psnr_db is None else f"PSNR {output.psnr_db:.1f} dB")
    if output.iou is not None:
        figures.append(f"IoU {output.iou:.4f}")
    if output.top_1 is not None:
        figures.append(f"top-1 {output.top_1:.1%}")
    if output.top_k is not None:
        figures.append(f"best classes {output.top_k:.1%}")
    return ", ".join([*figures, *([output.why] if output.why else [])])


def _number(number: float | None) -> str:
    return "∞" if number is None else f"{number:.2g}"


def pairing_line(found: Verification) -> str:
    """Returns how many values were paired, and how."""
    pairs = [pair for pair in found.pairs if pair.op]
    how: dict[str, int] = {}
    for pair in pairs:
        how[pair.how] = how.get(pair.how, 0) + 1
    parts = ", ".join(f"{number} by {name}" for name, number in how.items())
    what = f"{len(pairs)} of {plural(found.recorded, 'value')}"
    return f"{what} are paired{f': {parts}' if parts else ''}"


def parted_pairs(found: Verification, most: int) -> list[PairedValue]:
    """Returns the pairs around the first fault: those just before it, and those behind it.

    Args:
        found: The verification.
        most: How many.
    """
    ops = [fault.seen_at or fault.op for fault in found.faults]
    place = next((i for i, pair in enumerate(found.pairs) if pair.op in ops), None)
    if place is None:
        return list(found.pairs[:most])
    start = max(0, min(place - most // 2, len(found.pairs) - most))
    return list(found.pairs[start : start + most])


def pair_rows(found: Verification, pairs: Sequence[PairedValue]) -> list[tuple[str, ...]]:
    """Returns a row for each of some pairs of a verification."""
    is_rounded = "fp16" in found.runs
    return [
        (
            f"{pair.type} {pair.op}".strip(),
            pair.name,
            pair.reference,
            pair.how + (f", transposed {pair.axes}" if pair.axes else ""),
            _number(pair.fp32),
            "" if pair.made is None else f"{pair.made:.2g}",
            _number(pair.fp16) if is_rounded else "",
        )
        for pair in pairs
    ]


def fault_lines(fault: VerifiedFault) -> tuple[str, str]:
    """Returns the operation at fault, and the cause with its numbers."""
    inherited = "infinite" if fault.inherited is None else f"{fault.inherited:.2g}"
    made = "" if fault.made is None else f"; on exact arguments it is off by {fault.made:.2g}"
    where = f"{fault.type} {fault.name!r} ({fault.op})"
    seen = f", first seen at {fault.seen_at}" if fault.seen_at else ""
    more = f"\nalso off on exact arguments: {', '.join(fault.others)}" if fault.others else ""
    text = f"{CAUSES[fault.cause]}: {fault.text}\nits arguments are off by {inherited}{made}{more}"
    return f"{_KINDS[fault.kind]} ({fault.run}) in {where}{seen}", text


def fix_lines(fix: ProposedFix) -> tuple[str, str]:
    """Returns a change, and what it brings."""
    before, after = (_number(number) for number in (fix.before, fix.after))
    verdict = "all outputs are within the tolerance" if fix.works else "outputs still differ"
    code = f"\nwhere you convert: {fix.code}" if fix.code else ""
    return fix.text, f"tried in {fix.run}: relative error {before} → {after}, {verdict}{code}"
