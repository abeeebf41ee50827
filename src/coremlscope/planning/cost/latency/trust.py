"""How good estimates were for publications that they did not know: what docs/accuracy.md publishes."""

from __future__ import annotations

import csv
import functools
import io
from pathlib import Path

from coremlscope.devices.unit import ComputeUnit
from coremlscope.results.estimate import Trust

_FILE = "accuracy.csv"


@functools.cache
def load_trust() -> tuple[Trust, ...]:
    """Returns the rows of the first tables of docs/accuracy.md, which `make docs` copies into the package."""
    text = (Path(__file__).parent / "data" / _FILE).read_text()
    return tuple(
        Trust(
            unit=row["unit"],  # type: ignore[arg-type]
            chips=row["chips"],
            count=int(row["count"]),
            error=float(row["error"]),
            within=float(row["within"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    )


def find_trust(unit: ComputeUnit, chip: str) -> Trust | None:
    """Returns how good estimates of a unit were on chips of the same line; None if that is not known."""
    known = [one for one in load_trust() if one.unit == unit]
    of_line = [one for one in known if one.chips == chip[0]]
    return next(iter(of_line or [one for one in known if not one.chips]), None)
