"""Outputs that are right, but returned under each other's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coremlscope.ir import Function
from coremlscope.verification.check import Check
from coremlscope.verification.diagnosis import Diagnosis
from coremlscope.verification.edits import rename_outputs
from coremlscope.verification.fixes import Candidate
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.trials import try_changes

__all__ = ["find_exchanged_outputs"]


def find_exchanged_outputs(check: Check) -> list[str] | None:
    """Finds outputs of which each is another one of the reference, and gives them each other's names.

    Args:
        check: The verification, of which both have run.

    Returns:
        The values of outputs that still differ in float32; None if the change cannot be run.
    """
    names = _exchanges(check)
    if not names:
        return check.failing("fp32")
    first = next(iter(names))
    held = [f"{name} holds {check.matched[right]}" for name, right in names.items()]
    diagnosis = Diagnosis(
        cause="swapped outputs",
        value=check.exact.outputs[first],
        text=f"the outputs are returned under each other's names: {' and '.join(held)} of the reference",
    )
    check.add_fault("conversion", "fp32", diagnosis, diagnosis.value, (0.0, None))
    before = worst_error(output for output in check.outputs if output.run == "fp32")
    return try_changes(check, _candidates(check, names), "fp32", before)


def _exchanges(check: Check) -> dict[str, str]:
    """Returns the names that outputs should have, by those that they have; empty if none are exchanged."""
    failing = [
        output.name
        for output in check.outputs
        if output.run == "fp32"
        and not output.passed
        and output.name in check.matched
        and output.name not in check.exact.states
    ]
    found: dict[str, str] = {}
    for name in failing:
        others = (other for other in failing if other != name and other not in found.values())
        right = next((other for other in others if check.holds(name, check.matched[other])), None)
        if right is not None:
            found[name] = right
    while found and set(found) != set(found.values()):
        found = {name: right for name, right in found.items() if name in found.values() and right in found}
    return found


def _candidates(check: Check, names: Mapping[str, str]) -> Iterator[Candidate]:
    function: Function | None = rename_outputs(check.working, names)
    if function is None:
        return
    values = check.exact.values
    order = [name for name in check.exact.outputs if name not in check.exact.states]
    types = ", ".join(f'ct.TensorType(name="{names.get(name, name)}")' for name in order)
    yield Candidate(
        text=f"return {', '.join(f'{name} as {right}' for name, right in names.items())}",
        ops=tuple(values[check.exact.outputs[name]].op for name in names),
        function=function,
        code=f"ct.convert(…, outputs=[{types}])",
    )
