"""The document of a verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.figures import Figure
from coremlscope.reports.document import (
    Block,
    Bullet,
    Cell,
    Column,
    Conclusion,
    Facts,
    Folded,
    Heading,
    Hint,
    Item,
    Table,
    findings,
)
from coremlscope.reports.words import model_name, plural
from coremlscope.results.verification import (
    Cause,
    ComparedOutput,
    PairedValue,
    Verification,
    VerifiedFault,
)

#: Causes in words.
_CAUSES: dict[Cause, str] = {
    "overflow": "overflow beyond the largest fp16 number",
    "underflow": "underflow below the smallest fp16 number",
    "epsilon": "an epsilon that does not suit the numbers",
    "cancellation": "cancellation of nearly equal numbers",
    "accumulation": "roundings that add up",
    "tie": "a tie",
    "integers": "numbers too large for fp16 to represent their fractions",
    "narrowed integers": "integers in too few bits",
    "infinite constants": "infinite constants",
    "weights": "other weights",
    "swapped weights": "swapped weights",
    "compressed weights": "compressed weights",
    "layout": "wrong layout",
    "preprocessing": "another preprocessing",
    "setting": "another setting",
    "scale": "a dropped or extra scale",
    "offset": "a dropped or extra offset",
    "sign": "wrong sign",
    "cast": "a wrong cast",
    "state": "a state that is not written",
    "initial state": "a state that begins with other values",
    "swapped outputs": "swapped outputs",
    "extra operation": "an operation that the reference lacks",
    "missing operation": "a missing operation",
    "unknown": "cause not known",
}

_OUTPUT_TITLES = ("output", "run", "as", "", "largest", "allowed", "", "relative", "")
_PAIR_TITLES = ("operation", "value", "reference", "paired by", "fp32", "made", "fp16")
#: Pairs, outputs and operations that are shown where not all are wanted.
_SHOWN, _OUTPUTS, _FAULTS = 4, 8, 2
_KINDS = {"conversion": "conversion fault", "precision": "precision fault"}


def verification_document(found: Verification, *, has_pairs: bool = False) -> Iterator[Block]:
    """Yields a verification.

    Args:
        found: The verification.
        has_pairs: Whether to list all paired values, instead of those around the first fault.
    """
    yield _conclude(found)
    yield Facts(
        [
            ("function", found.function),
            ("reference", found.reference),
            ("inputs", "; ".join(found.inputs)),
        ]
    )
    if found.faults:
        yield Heading("The first operation that differs")
    items = [_fault_item(fault) for fault in found.faults]
    yield from items[:_FAULTS]
    if items[_FAULTS:]:
        yield Folded("Further operations", str(len(items) - _FAULTS), tuple(items[_FAULTS:]), is_extra=True)
    yield Heading("Outputs", "next to those of the reference")
    rows = sorted(found.outputs, key=lambda output: output.passed)
    yield Table(_columns(_OUTPUT_TITLES), [_output_row(output) for output in rows[:_OUTPUTS]])
    if rows[_OUTPUTS:]:
        every = Table(_columns(_OUTPUT_TITLES), [_output_row(output) for output in found.outputs])
        yield Folded("All outputs", str(len(rows)), (every,), is_extra=True)
    yield from _pairs(found, has_pairs)
    yield from findings(found.findings)


def _fault_item(fault: VerifiedFault) -> Item:
    text, details = _fault_lines(fault)
    hints = [f"to do: {fault.advice}"] if fault.advice else []
    hints += [f"where you convert: {fault.code}"] if fault.code else []
    return Item(text, hints, "✗", "error", details=details)


def _pairs(found: Verification, has_pairs: bool) -> Iterator[Block]:
    around = tuple(_parted_pairs(found, _SHOWN)) if found.faults and not has_pairs else ()
    pairs = found.pairs if has_pairs else around
    yield Heading("Pairs", _pairing_line(found))
    if pairs:
        yield Table(_columns(_PAIR_TITLES), _pair_rows(found, pairs))
    if len(pairs) < len(found.pairs):
        yield Hint("--pairs lists all")
        every = Table(_columns(_PAIR_TITLES), _pair_rows(found, found.pairs))
        yield Folded("All pairs", str(len(found.pairs)), (every,), is_extra=True)


def _columns(titles: Sequence[str]) -> tuple[Column, ...]:
    """Returns the columns of a table of which the first four are texts, and the others numbers."""
    return tuple(
        Column(
            title,
            is_number=place >= 4 and title != "",
            most=28 if place < 3 else None,
            rank=0 if place in (0, 3) else 1,
        )
        for place, title in enumerate(titles)
    )


def _conclude(found: Verification) -> Conclusion:
    """Returns whether the outputs are the same, or by how much one differs, and why."""
    title = found.model and model_name(found.model)
    failed = [output for output in found.outputs if not output.passed]
    if not failed:
        text = _agreement(found)
        return Conclusion("kept" if found.passed else "doubt", text.partition(" ")[0], text, title)
    if not found.is_comparable:
        nearest = f"; the nearest: {found.contract}" if found.contract else ""
        text = f"not comparable: outputs differ, and no form of the inputs is sure{nearest}"
        return Conclusion("doubt", "not comparable", text, title)
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    cause = f"; {_CAUSES[found.faults[0].cause]}" if found.faults else ""
    text = f"different: {_difference(failed[0])}{more}{cause}"
    return Conclusion("wrong", "different", text, title)


def _agreement(found: Verification) -> str:
    worst = max((output.relative or 0.0 for output in found.outputs), default=0.0)
    within = "fp16" if any(run.startswith("fp16") for run in found.runs) else "float32"
    if_so = f", if {found.contract}" if found.contract else ""
    size = f" within {within}{if_so}: outputs differ by up to {worst:.1g} of their size"
    size = size if worst else f"{if_so}: all outputs are equal"
    alone = [output for output in found.outputs if output.status != "paired"]
    if not alone:
        return f"same{size}"
    return f"outputs agree{size}; not compared: {'; '.join(f'{one.name}, {one.why}' for one in alone)}"


def _difference(output: ComparedOutput) -> str:
    if output.largest is None:
        return f"{output.name}: {output.why}"
    size = "" if output.relative is None else f" ({output.relative:.2g} of its size)"
    return f"{output.name} by up to {output.largest:.3g}{size} in {output.run}"


def _output_row(output: ComparedOutput) -> tuple[Cell, ...]:
    return (
        output.name,
        output.run,
        output.meaning,
        "✓" if output.passed else "✗",
        _number(output.largest),
        "" if output.allowed is None else _number(output.allowed),
        _bullet(output) or "",
        _number(output.relative),
        _meaning_text(output),
    )


def _bullet(output: ComparedOutput) -> Bullet | None:
    """Returns what an output was judged by next to its limit; None where that is not one number."""
    pairs = ((output.largest, output.allowed, False), (output.psnr_db, output.least_psnr_db, True))
    return next(
        (
            Bullet(Figure(value, value, value, "measured"), limit, is_least)
            for value, limit, is_least in pairs
            if value is not None and limit is not None
        ),
        None,
    )


def _meaning_text(output: ComparedOutput) -> str:
    figures = []
    if output.psnr_db is not None and output.meaning == "image":
        figures.append(f"PSNR {output.psnr_db:.1f} dB")
    elif output.meaning == "image" and output.passed:  # Without a ratio a failed one is not comparable.
        figures.append("equal")
    if output.top_1 is not None:
        figures.append(f"top-1 {output.top_1:.1%}")
    if output.top_k is not None:
        figures.append(f"best classes {output.top_k:.1%}")
    is_larger = None not in (output.largest, output.allowed) and output.largest > output.allowed  # type: ignore[operator]
    has_figures = is_larger and output.top_1 in (None, 1.0)  # the columns of the table
    return ", ".join([*figures, *([output.why] if output.why and not has_figures else [])])


def _number(number: float | None) -> str:
    return "∞" if number is None else f"{number:.2g}"


def _pairing_line(found: Verification) -> str:
    """Returns how many values were paired, and how."""
    pairs = [pair for pair in found.pairs if pair.op]
    how: dict[str, int] = {}
    for pair in pairs:
        how[pair.how] = how.get(pair.how, 0) + 1
    parts = ", ".join(f"{number} by {name}" for name, number in how.items())
    what = f"{len(pairs)} of {plural(found.recorded, 'value')}"
    return f"{what} are paired{f': {parts}' if parts else ''}"


def _parted_pairs(found: Verification, most: int) -> list[PairedValue]:
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


def _pair_rows(found: Verification, pairs: Sequence[PairedValue]) -> list[tuple[str, ...]]:
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


def _fault_lines(fault: VerifiedFault) -> tuple[str, list[str]]:
    """Returns the operation at fault, and the cause with its numbers."""
    inherited = "infinite" if fault.inherited is None else f"{fault.inherited:.2g}"
    made = "" if fault.made is None else f"; on exact arguments it is off by {fault.made:.2g}"
    where = f"{fault.type} {fault.name!r} ({fault.op})"
    seen = f", first seen at {fault.seen_at}" if fault.seen_at else ""
    details = [f"{_CAUSES[fault.cause]}: {fault.text}", f"its arguments are off by {inherited}{made}"]
    details += [f"likewise: {', '.join(fault.alike)}"] if fault.alike else []
    if fault.cause != "unknown" and fault.elements:
        details.append(f"all {fault.elements:,} elements are as this predicts")
    if fault.repairs is not None:
        remains = "all outputs are within the tolerance" if fault.repairs else "outputs still differ"
        details.append(f"once this value is right, {remains}")
    start = "differs first" if fault.cause == "unknown" else _KINDS[fault.kind]
    return f"{start} ({fault.run}) {'at' if fault.cause == 'unknown' else 'in'} {where}{seen}", details
