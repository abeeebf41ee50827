"""The search for faults: the first operation that differs, and its cause."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec.structs
import numpy as np

from coremlscope.base.units import shown
from coremlscope.model.ir import Array
from coremlscope.planning.hazards.values import EXPONENTIAL_LIMITS
from coremlscope.results.verification import ComparedOutput
from coremlscope.verification.arithmetic import INSIDE
from coremlscope.verification.causes.rounding import LARGEST_FP16, ROUNDING_ROWS, Rounded
from coremlscope.verification.causes.site import Site, Verdict, in_float32, judge
from coremlscope.verification.causes.table import ROWS
from coremlscope.verification.check import Check
from coremlscope.verification.input_forms import Form
from coremlscope.verification.intermediates import Run
from coremlscope.verification.locate import (
    locate_conversion,
    locate_precision,
    locate_stage,
    same_site,
)
from coremlscope.verification.pairing import plain_name

#: How many faults are named: a swap is two.
_MOST_FAULTS = 4
#: Operations among which a fault is searched for without values on the way.
_FEW = 40
#: Causes that are told once for all layers: those of another checkpoint, or of a compression.
_OF_MANY_LAYERS = frozenset({"weights", "compressed weights", "infinite constants"})
#: How long the search takes at most, in seconds.
_MOST_SECONDS = 30.0
#: Dimensions of pictures.
_PLANES = 4
#: Code to write in the module instead of an operation inside which numbers overflow: its exponentials are at
#: most 1.
_STABLE_CODE: Mapping[str, str] = {
    "softplus": "x.relu() + torch.log(1 + torch.exp(-x.abs())) instead of softplus(x)",
    "reduce_log_sum_exp": "m + torch.log(torch.exp(x - m).sum(dim, keepdim=True)) with m = x.amax(dim,"
    " keepdim=True) instead of logsumexp(x)",
}


def find_faults(check: Check) -> None:
    """Finds faults of the conversion, then of the precision."""
    until = time.monotonic() + _MOST_SECONDS
    _find_conversion_faults(check, until)
    _find_precision_faults(check)
    _find_overflow_inside(check)
    if time.monotonic() > until:
        text = f"The search for the cause was stopped after {_MOST_SECONDS:.0f} s: the rest was not tried."
        check.note("search-stopped", text, severity="info")


def _find_conversion_faults(check: Check, until: float) -> None:
    """Finds faults in float32, in the order of the graph, until the outputs are right without them."""
    failing: Sequence[str] = check.failing("fp32")
    if check.passes and check.theirs.has_intermediates:
        _find_hidden_fault(check, until)
    if failing and not check.is_explained:
        failing = _exchange_outputs(check)
    if not failing:
        return
    if not _has_intermediates(check):
        _note_no_intermediates(check)
        return
    if check.is_explained or _exchange_colours(check):
        return
    check.progress("looking for the first operation that differs")
    sites, check.made = locate_conversion(check, check.pairs, failing, until)
    _add_sites(check, sites)


def _add_sites(check: Check, sites: Iterable[Site]) -> None:
    """Adds the faults of values that are wrong, until the outputs are right without them."""
    right: dict[str, Array] = {}
    for site in sites:
        right[site.value.name] = site.expected
        verdict = _judge_site(check, site)
        last = check.faults[-1] if check.faults else None
        is_more = last is not None and verdict.cause == last.cause and verdict.cause in _OF_MANY_LAYERS
        if not is_more and len(check.faults) >= _MOST_FAULTS:
            return
        is_right = all(output.passed for output in check.outputs_with("fp32", right))
        if last is not None and is_more:
            op = site.ours.values[verdict.value].op
            check.faults[-1] = msgspec.structs.replace(last, alike=(*last.alike, op), repairs=is_right)
        else:
            _add_site(check, site, verdict, repairs=is_right)
        if is_right:
            return
    if not right:
        _note_gradual(check)


def _find_hidden_fault(check: Check, until: float) -> None:
    """Finds an operation that differs though the outputs agree on these inputs."""
    stage = locate_stage(check, until)
    if stage is None:
        return
    site = stage.site
    verdict = _judge_site(check, site)
    text = f"outputs agree here, and {shown(site.value.name)} differs by {stage.error:.0%}"
    if not stage.is_sure or verdict.cause == "compressed weights":
        more = "its weights are compressed" if stage.is_sure else "it may be merged with what follows"
        hint = "compare more inputs, such as those of an app, with --input"
        check.note("hidden-difference", f"{text[0].upper()}{text[1:]}: {more}.", hint)
        return
    row = ComparedOutput(
        name=site.value.name,
        reference=site.pair.theirs,
        run="fp32",
        meaning="array",
        passed=False,
        relative=stage.error,
        why=f"{text} on equal arguments: other inputs will show it",
    )
    check.outputs.append(row)
    _add_site(check, site, verdict, repairs=None)


def _judge_site(check: Check, site: Site) -> Verdict:
    """Returns the cause of the error that a value has of its own."""
    what = f"off by {site.made:.2g}" if np.isfinite(site.made) else "infinite or NaN"
    text = f"on the reference's own values its result is {what}, relative to {shown(site.pair.theirs)}"
    unknown = Verdict(cause="unknown", value=site.value.name, text=text)

    def others() -> list[Site]:
        return [same_site(site, call, theirs) for call, theirs in check.others()]

    return judge(site, ROWS, unknown, functools.cache(others))


def _add_site(check: Check, site: Site, verdict: Verdict, *, repairs: bool | None) -> None:
    check.add_fault(
        "fp32",
        verdict,
        (site.inherited, site.made),
        seen_at=site.value.name,
        repairs=repairs,
    )


def _exchange_colours(check: Check) -> bool:
    """Tries the colours of pictures in the other order, behind what the model prepares: where with that all
    outputs are those of the reference in one of its forms, they are the cause.

    Returns:
        Whether they are.
    """
    given: dict[str, Array] = {}
    for name, step in check.steps.items():
        ops = {value.op: value for value in check.exact.values.values()}
        value = ops.get(step.ops[-1]) if step.ops else check.exact.values.get(name)
        if value is not None and value.array.ndim == _PLANES and value.array.shape[1] == len("RGB"):
            given[value.name] = np.ascontiguousarray(value.array[:, ::-1])
    if not given:
        return False
    before, form = check.theirs, next((one for one in check.tried if _agrees(check, given, *one)), None)
    check.theirs = before
    if form is None:
        return False
    check.form, check.is_comparable = form[0], True
    first, array = next(iter(given.items()))
    verdict = Verdict(
        cause="preprocessing",
        value=first,
        text="the colours are in another order: with red and blue exchanged all outputs are right",
        elements=array.size,
        advice="convert with the order of colours that the reference takes",
        code="ct.ImageType(…, color_layout=ct.colorlayout.RGB), or BGR",
    )
    check.add_fault("fp32", verdict, (0.0, None), repairs=True)
    return True


def _agrees(check: Check, given: Mapping[str, Array], form: Form, theirs: Run) -> bool:
    check.theirs = theirs
    return form.is_turned and all(output.passed for output in check.outputs_with("fp32", given))


def _exchange_outputs(check: Check) -> list[str]:
    """Finds outputs that are returned under each other's names, and returns what still differs."""
    failing, found = check.failing("fp32"), _exchanged(check)
    if not found:
        return failing
    first = check.exact.outputs[next(iter(found))]
    held = " and ".join(f"{name} holds {check.matched[right]}" for name, right in found.items())
    order = [name for name in check.exact.outputs if name not in check.exact.states]
    types = ", ".join(f'ct.TensorType(name="{found.get(name, name)}")' for name in order)
    verdict = Verdict(
        cause="swapped outputs",
        value=first,
        text=f"the outputs are returned under each other's names: {held} of the reference",
        elements=sum(check.exact.output(name).size for name in found),
        advice=f"return {', '.join(f'{name} as {right}' for name, right in found.items())}",
        code=f"ct.convert(…, outputs=[{types}])",
    )
    left = [name for name in failing if name not in {check.exact.outputs[one] for one in found}]
    check.add_fault("fp32", verdict, (0.0, None), repairs=not left)
    return left


def _exchanged(check: Check) -> dict[str, str]:
    """Returns the outputs that hold others of the reference, all of which are held by one of them."""
    failing = check.failing("fp32")
    names = [n for n in check.matched if check.exact.outputs[n] in failing and n not in check.exact.states]
    found: dict[str, str] = {}
    for name in names:
        others = (other for other in names if other != name and other not in found.values())
        right = next((other for other in others if check.holds(name, check.matched[other])), None)
        if right is not None:
            found[name] = right
    return found if set(found) == set(found.values()) else {}


def _has_intermediates(check: Check) -> bool:
    """Returns whether values on the way to the outputs are paired, or the model is so small that none need
    be."""
    if not check.theirs.has_intermediates:
        return False
    returned = set(check.exact.outputs.values())
    computed = {name for name, value in check.exact.values.items() if value.op}
    is_paired = any(pair.ours in computed - returned for pair in check.pairs)
    return is_paired or len(computed) <= _FEW


def _note_no_intermediates(check: Check) -> None:
    compared = {check.theirs.outputs[name] for name in check.matched.values()}
    others = {name for name, value in check.theirs.values.items() if value.op} - compared
    text = "The reference has no intermediate values, so that the operation at fault cannot be found."
    hint = "give an ONNX model, a program of torch.export, a module, or an .npz file with intermediate values"
    if others:
        text = (
            "No intermediate value of the reference is one of the model, so that the operation at fault"
            " cannot be found: it may be another network."
        )
        hint = "give the network that the model was converted from"
    check.note("no-intermediates", text, hint)


def _note_gradual(check: Check) -> None:
    worst = max(check.made, key=lambda name: check.made[name], default="")
    more = f" The largest, {check.made[worst]:.2g}, is made by {worst}." if worst else ""
    text = f"No operation makes a large error of its own: small ones add up over the network.{more}"
    hint = "compare with weights in float32, or allow a larger --rtol"
    check.note("errors-add-up", text, hint)


def _judge_rounding(check: Check, case: Rounded) -> None:
    """Adds the fault of rounding."""
    size = f"{case.total:.2g}" if np.isfinite(case.total) else "an infinite number"
    text = f"rounding moves its result by {size}, relative to its size, and no cause explains all elements"
    unknown = Verdict(cause="unknown", value=case.name, text=text, kind="precision")
    verdict = judge(case, ROUNDING_ROWS, unknown)
    ids, repairs = _lost_until(check, "fp16", case, verdict.value)
    if ids:
        advice, code = in_float32(case.exact, ids)
        if not repairs:
            advice, code = "convert in float32", "compute_precision=ct.precision.FLOAT32"
        elif verdict.cause == "epsilon":
            advice, code = (
                verdict.advice,
                f"eps=1e-4 in the module that {plain_name(verdict.value)} belongs to",
            )
        verdict = msgspec.structs.replace(verdict, advice=advice, code=code)
    check.add_fault(
        "fp16",
        verdict,
        (case.inherited, case.made),
        seen_at=case.name,
        repairs=repairs,
    )


def _lost_until(check: Check, run: str, case: Rounded, value: str) -> tuple[list[str], bool]:
    """Returns the ids of the operations from that at fault to the first value that fp16 can represent again,
    and whether all outputs are right with what these compute in float32."""
    exact = case.exact
    above = set(exact.above(case.name, lambda name: name == value))
    chosen = {value, *(name for name in above if value in exact.above(name, lambda _: False))}
    waiting = list(chosen)
    while waiting:
        name = waiting.pop()
        if not _fits(exact.values[name].array):
            fresh = set(exact.readers.get(name, ())) - chosen
            chosen |= fresh
            waiting += fresh
    given = {
        name: exact.values[name].array for name in exact.values if name in chosen and exact.values[name].op
    }
    is_right = all(output.passed for output in check.outputs_with(run, given))
    return [exact.values[name].op for name in given], is_right


def _fits(array: Array) -> bool:
    """Returns whether fp16 can represent the elements of a value."""
    return array.dtype.kind != "f" or np.abs(array[np.isfinite(array)]).max(initial=0.0) < LARGEST_FP16


def _find_precision_faults(check: Check) -> None:
    """Finds what rounding to fp16 does, in a program that computes the right results in float32."""
    failing = check.failing("fp16")
    if check.rounded is None or not failing or check.failing("fp32"):
        return
    check.progress("looking for the first operation that rounding changes")
    made = check.errors_of_rounding()
    case = locate_precision(check.call, check.exact, check.rounded, failing, made)
    if case is not None:
        _judge_rounding(check, case)


def _find_overflow_inside(check: Check) -> None:
    """Finds operations inside which the Neural Engine's exponentials overflow, where all else is right."""
    if check.rounded is None or not check.theirs.has_intermediates or not check.passes:
        return
    if not any(value.type in EXPONENTIAL_LIMITS for value in check.exact.values.values()):
        return
    check.progress(f"running the model as {INSIDE}")
    run = check.run_in(INSIDE, names=set(check.rounded.values))
    outputs = check.compare(run, INSIDE)
    check.outputs += outputs
    failing = check.failing(INSIDE)
    case = locate_precision(check.call, check.rounded, run, failing, {}) if failing else None
    if case is None or case.value.type not in EXPONENTIAL_LIMITS:
        return
    size, lost = case.value.array.size, int(((case.value.array != 0) & (case.seen == 0)).sum())
    ids, repairs = _lost_until(check, INSIDE, case, case.name)
    verdict = Verdict(
        cause="overflow",
        value=case.name,
        text="the Neural Engine computes it from exponentials, which overflow fp16 although its result does"
        f" not: {lost} of {size} elements are lost (apple/coremltools issues 2687, 2690)",
        elements=size,
        advice=in_float32(check.rounded, ids)[0],
        code=_STABLE_CODE[case.value.type],
        kind="precision",
    )
    check.add_fault(INSIDE, verdict, (case.inherited, case.made), repairs=repairs)
