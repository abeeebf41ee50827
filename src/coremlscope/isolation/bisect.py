"""Finds the smallest part of a model with a property."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coremlscope.api import Source
from coremlscope.devices.unit import UNITS, ComputeUnit
from coremlscope.errors import UnsupportedModelError, UsageError
from coremlscope.isolation.files import check_target, write_part
from coremlscope.isolation.isolate import name_of, open_cutter
from coremlscope.isolation.parts import Cutter
from coremlscope.isolation.predicates import (
    FunctionPredicate,
    OffUnit,
    Overflow,
    Predicate,
    Script,
    TestResult,
)
from coremlscope.isolation.search import RangeSearch, limit_of
from coremlscope.measure.contract import Progress
from coremlscope.results.isolation import Bisection, BisectionTest, Verdict

__all__ = ["bisect"]

_VERDICTS: Mapping[bool | None, Verdict] = {True: "yes", False: "no", None: "untestable"}


def bisect(
    source: Source,
    *,
    unit: ComputeUnit | None = None,
    fp16_overflow: bool = False,
    predicate: str | os.PathLike[str] | Callable[[Path], bool | None] | None = None,
    device: str | None = None,
    os: str | None = None,
    output: str | os.PathLike[str] | None = None,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    random_weights: bool = False,
    most_tests: int | None = None,
    timeout_s: float | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Bisection:
    """Finds the smallest part of a model with a property, in at most 2·log2(n) tests of n operations.

    A property is taken to hold for every range of operations that contains one for which it holds. The
    smallest range is found first, then operations inside it that do not matter are left out with the tests
    that remain.

    Args:
        source: An ML Program, or a neural network in a `.mlmodel` file or a `.mlpackage` folder.
        unit: Looks for what is kept off this compute unit: `neural_engine`, `gpu` or `cpu`.
        fp16_overflow: Looks for what overflows in fp16.
        predicate: Looks for what a script rejects, see `Script`; or a function that takes the path of a part
            and returns True if the part has the property, None if it cannot be tested.
        device: For `unit`, the chip or device; None for this Mac, on a Mac.
        os: The version of its system; the newest known one by default.
        output: The file or package to write the part to; None writes nothing.
        function: The function of an ML Program; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        inputs: Values of the whole model's inputs by name; absent ones are synthetic.
        seed: The seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
        most_tests: The largest number of tests; None for 2·log2 of the number of operations.
        timeout_s: Seconds that a script may take for one part.
        overwrite: Replaces an existing package.
        progress: Called with `bisect`, the tests done, and how many there will be at most.

    Raises:
        UsageError: Not exactly one property is asked for, the whole model does not have it, or every part
            has it.
        ModelError: The model cannot be read or run, or has no parts.
        EngineError: The engine failed, or a script ended the search.
        OutputError: The part cannot be written.
    """
    asked = _predicate(unit, fp16_overflow, predicate, device, os, timeout_s)
    cutter, _ = open_cutter(
        source, function, shapes=shapes, inputs=inputs, seed=seed, random_weights=random_weights
    )
    if not cutter.units:
        raise UsageError("this model has no operations to test", "choose another function")
    if output is not None:
        check_target(cutter, Path(output), name_of(source), overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        limit = most_tests or limit_of(len(cutter.units))
        found, chosen = _Bisecting(cutter, asked, Path(folder), limit, progress).find(name_of(source))
    if output is None:
        return found
    part = cutter.cut(chosen)
    files = write_part(cutter, part, Path(output), overwrite=overwrite)
    return replace(found, files=(str(output), *map(str, files)))


def _predicate(
    unit: str | None,
    fp16_overflow: bool,
    predicate: str | os.PathLike[str] | Callable[[Path], bool | None] | None,
    device: str | None,
    system: str | None,
    timeout_s: float | None,
) -> Predicate:
    if sum((unit is not None, fp16_overflow, predicate is not None)) != 1:
        raise UsageError(
            "what to look for is not clear", "give one of --unit UNIT, --fp16-overflow and --predicate SCRIPT"
        )
    if unit is not None:
        if unit not in UNITS:
            raise UsageError(f"invalid compute unit {unit!r}", f"use one of {', '.join(UNITS)}")
        return OffUnit(unit, _device(device), system)
    if predicate is None:
        return Overflow()
    return FunctionPredicate(predicate) if callable(predicate) else Script(predicate, timeout_s)


def _device(device: str | None) -> str | None:
    if device is None and sys.platform != "darwin":
        raise UsageError("--device is missing", "name a chip or a device: --device m1")
    if device is not None and "," in device:
        raise UsageError("several devices are named", "name one: each may need another part")
    return device


class _Bisecting:
    """The search for the smallest part, test by test."""

    def __init__(
        self, cutter: Cutter, predicate: Predicate, folder: Path, limit: int, progress: Progress | None
    ) -> None:
        self._cutter, self._predicate, self._folder = cutter, predicate, folder
        self._progress = progress
        self._search = RangeSearch(count=len(cutter.units), limit=limit)
        self._tests: list[BisectionTest] = []
        self._notes: dict[tuple[int, ...], str] = {}

    def find(self, source: str) -> tuple[Bisection, list[int]]:
        """Returns the smallest part, and the indices of its units."""
        search, units = self._search, self._cutter.units
        if self._predicate.names_suspects:
            self._try_suspect()
        while (tested := search.next_range()) is not None:
            self._ask_range(*tested)
        if not search.has_yes:
            raise self._holds_for_nothing()
        chosen = list(range(search.first, search.last + 1))
        if not search.has_no and len(units) > 1 and len(chosen) == 1:
            self._check_another(chosen[0])
        is_smallest = search.found == (chosen[0], chosen[-1]) or len(chosen) == 1
        if len(chosen) > 2 and is_smallest:
            chosen = self._without_idle(chosen)
        found = Bisection(
            source=source,
            question=self._predicate.question,
            count=len(units),
            limit=search.limit,
            tests=tuple(self._tests),
            units=tuple(units[i] for i in chosen),
            is_smallest=is_smallest,
            note=self._notes.get(tuple(chosen), ""),
        )
        return found, chosen

    def _try_suspect(self) -> None:
        """Tests the whole model, then the first operation that is known to have the property."""
        last = self._search.count - 1
        answer = self._ask_range(0, last)
        if answer.holds is False:
            raise self._holds_for_nothing()
        places = {unit.name: index for index, unit in enumerate(self._cutter.units)}
        suspects = sorted(places[name] for name in answer.suspects if name in places)
        if suspects and last > 0 and self._search.tests < self._search.limit:
            self._ask_range(suspects[0], suspects[0])

    def _check_another(self, found: int) -> None:
        """Tests one other operation, where every part that was tested has the property.

        Raises:
            UsageError: It has the property, too.
        """
        other = 0 if found else self._search.count - 1
        if self._search.tests < self._search.limit and self._ask_range(other, other).holds:
            units = self._cutter.units
            raise UsageError(
                f"every part {self._predicate.question}, also {units[found].type} {units[found].name} and "
                f"{units[other].type} {units[other].name} alone",
                self._notes.get((found,), "") or "the cause is not a part of the model",
            )

    def _without_idle(self, chosen: Sequence[int]) -> list[int]:
        """Leaves out operations inside a range that do not matter, in halves, with the tests that remain."""
        kept, size = list(chosen), len(chosen) - 2
        while size and self._search.tests < self._search.limit:
            start = 1
            while start < len(kept) - 1 and self._search.tests < self._search.limit:
                fewer = [*kept[:start], *kept[min(start + size, len(kept) - 1) :]]
                if self._ask(fewer).holds:
                    kept = fewer
                else:
                    start += size
            size //= 2
        return kept

    def _ask_range(self, first: int, last: int) -> TestResult:
        answer = self._ask(range(first, last + 1), counts=False)
        self._search.record(first, last, answer.holds)
        return answer

    def _ask(self, chosen: Sequence[int], *, counts: bool = True) -> TestResult:
        """Cuts a part and tests it. `counts` is False if the search counts the test itself."""
        start = time.perf_counter()
        try:
            needs_values = self._predicate.needs_values
            part = (self._cutter.cut if needs_values else self._cutter.cut_without_values)(chosen)
        except UnsupportedModelError as error:
            answer = TestResult(None, error.message)
        else:
            path = self._folder / f"part-{len(self._tests) + 1}{self._cutter.suffix}"
            if self._predicate.needs_file:
                write_part(self._cutter, part, path)
            answer = self._predicate.test(part, path)
        units = self._cutter.units
        self._tests.append(
            BisectionTest(
                first=units[chosen[0]].id,
                last=units[chosen[-1]].id,
                units=len(chosen),
                verdict=_VERDICTS[answer.holds],
                note=answer.note,
                seconds=time.perf_counter() - start,
            )
        )
        self._notes[tuple(chosen)] = answer.note
        self._search.tests += counts
        if self._progress is not None:
            self._progress("bisect", len(self._tests), self._search.limit)
        return answer

    def _holds_for_nothing(self) -> UsageError:
        search = self._search
        if search.is_impossible or self._tests[0].verdict == "no":
            question = self._predicate.question
            return UsageError(f"no part {question}, the whole model included", "there is nothing to find")
        return UsageError(
            f"no part was found that {self._predicate.question}: {len(self._tests)} tests, "
            f"{sum(test.verdict == 'untestable' for test in self._tests)} of them without a result",
            "allow more tests with --most-tests",
        )
