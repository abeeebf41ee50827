"""Single numbers that the reference does not name, and that its results tell."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from coremlscope.errors import CoremlscopeError
from coremlscope.units import shown
from coremlscope.verification.causes.numbers import scalars
from coremlscope.verification.diagnosis import Case, Diagnosis
from coremlscope.verification.distance import SAME

__all__ = ["check_solved_number"]

#: Elements that one number must make right together, values whose numbers are searched for, and steps.
_MANY, _MOST_SOLVED, _MOST_STEPS = 8, 6, 6


def check_solved_number(case: Case) -> Diagnosis | None:
    """With another single number, which the result itself tells, the result is right."""
    if case.site.expected.size < _MANY or not np.isfinite(case.site.expected).all():
        return None
    for value in case.region[:_MOST_SOLVED]:
        for name, mine in scalars(value):
            number = _solved(case, (value.op, name), mine)
            right = np.array(number or 0.0, np.float32)
            if number is None or not case.explains(changes={(value.op, name): right}, most=SAME / 4):
                continue
            text = f"its {shown(name)} is {mine:.6g}: with {number:.6g} its result is that of the reference"
            return Diagnosis(
                cause="constant", value=value.name, text=text, changes={(value.name, name): right}
            )
    return None


def _solved(case: Case, key: tuple[str, str], mine: float) -> float | None:
    """Returns the number that brings the wrong value nearest to the right one, by the method of Gauss and
    Newton; None if it hardly brings it nearer.

    Args:
        case: The difference.
        key: The id of the operation and the name of the parameter.
        mine: The number of the model.
    """
    wanted = case.site.expected.astype(np.float64).reshape(-1)

    def rest(number: float) -> npt.NDArray[np.float64]:
        made = case.result(case.site.value, {}, {key: np.array(number, np.float32)})
        return made.astype(np.float64).reshape(-1) - wanted

    try:
        number, left = mine, rest(mine)
        for _ in range(_MOST_STEPS):
            step = 1e-3 * max(abs(number), 1e-2)
            slope = (rest(number + step) - left) / step
            length = float(np.square(slope).sum())
            if not 0 < length < np.inf or time.monotonic() > case.until:
                return None
            before = float(np.square(left).sum())
            number -= float((slope * left).sum()) / length
            left = rest(number)
            after = float(np.square(left).sum())
            if not after < before / 4:
                return number if after <= before and number != mine else None
    except (CoremlscopeError, ValueError):
        return None
    return number
