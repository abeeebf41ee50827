"""Finds the smallest part of a model with a property."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.measure.contract import Progress
from coremlscope.results.isolation import PartSearch, PartTest, Verdict
from coremlscope.studies.isolation.files import write_part
from coremlscope.studies.isolation.parts import Cutter
from coremlscope.studies.isolation.predicates import Predicate, TestResult
from coremlscope.studies.isolation.search import RangeSearch, limit_of

_VERDICTS: Mapping[bool | None, Verdict] = {True: "yes", False: "no", None: "untestable"}


def find_smallest(
    cutter: Cutter, predicate: Predicate, progress: Progress | None = None
) -> tuple[list[int], PartSearch]:
    """Finds the smallest part of a model with a property, in at most 2·log2(n) tests of n operations.

    A property is taken to hold for every range of operations that contains one for which it holds. The
    smallest range is found first, then operations inside it that do not matter are left out with the tests
    that remain.

    Args:
        cutter: Cuts parts out of the model.
        predicate: The property.
        progress: Called with `search`, the tests done, and how many there will be at most.

    Returns:
        The indices of the units of the part, and the tests.

    Raises:
        UsageError: The whole model does not have the property, or every part has it.
        ModelError: A part cannot be run.
        EngineError: The engine failed, or a script ended the search.
    """
    if not cutter.units:
        raise UsageError("this model has no operations to test", "choose another function")
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        limit = limit_of(len(cutter.units))
        return _Search(cutter, predicate, Path(folder), limit, progress).find()


class _Search:
    """The search for the smallest part, test by test."""

    def __init__(
        self, cutter: Cutter, predicate: Predicate, folder: Path, limit: int, progress: Progress | None
    ) -> None:
        self._cutter, self._predicate, self._folder = cutter, predicate, folder
        self._progress = progress
        self._ranges = RangeSearch(count=len(cutter.units), limit=limit)
        self._tests: list[PartTest] = []
        self._notes: dict[tuple[int, ...], str] = {}

    def find(self) -> tuple[list[int], PartSearch]:
        """Returns the indices of the units of the smallest part, and the tests."""
        search, count = self._ranges, len(self._cutter.units)
        if self._predicate.names_suspects:
            self._try_suspect()
        while (tested := search.next_range()) is not None:
            self._ask_range(*tested)
        if not search.has_yes:
            raise self._holds_for_nothing()
        chosen = list(range(search.first, search.last + 1))
        if not search.has_no and count > 1 and len(chosen) == 1:
            self._check_another(chosen[0])
        is_smallest = search.found == (chosen[0], chosen[-1]) or len(chosen) == 1
        if len(chosen) > 2 and is_smallest:
            chosen = self._without_idle(chosen)
        return chosen, PartSearch(
            question=self._predicate.question,
            count=count,
            limit=search.limit,
            tests=tuple(self._tests),
            is_smallest=is_smallest,
            note=self._notes.get(tuple(chosen), ""),
        )

    def _try_suspect(self) -> None:
        """Tests the whole model, then the first operation that is known to have the property."""
        last = self._ranges.count - 1
        answer = self._ask_range(0, last)
        if answer.holds is False:
            raise self._holds_for_nothing()
        places = {unit.name: index for index, unit in enumerate(self._cutter.units)}
        suspects = sorted(places[name] for name in answer.suspects if name in places)
        if suspects and last > 0 and self._ranges.tests < self._ranges.limit:
            self._ask_range(suspects[0], suspects[0])

    def _check_another(self, found: int) -> None:
        """Tests one other operation, where every part that was tested has the property.

        Raises:
            UsageError: It has the property, too.
        """
        other = 0 if found else self._ranges.count - 1
        if self._ranges.tests < self._ranges.limit and self._ask_range(other, other).holds:
            units = self._cutter.units
            raise UsageError(
                f"every part {self._predicate.question}, also {units[found].type} {units[found].name} and "
                f"{units[other].type} {units[other].name} alone",
                self._notes.get((found,), "") or "the cause is not a part of the model",
            )

    def _without_idle(self, chosen: Sequence[int]) -> list[int]:
        """Leaves out operations inside a range that do not matter, in halves, with the tests that remain."""
        kept, size = list(chosen), len(chosen) - 2
        while size and self._ranges.tests < self._ranges.limit:
            start = 1
            while start < len(kept) - 1 and self._ranges.tests < self._ranges.limit:
                fewer = [*kept[:start], *kept[min(start + size, len(kept) - 1) :]]
                if self._ask(fewer).holds:
                    kept = fewer
                else:
                    start += size
            size //= 2
        return kept

    def _ask_range(self, first: int, last: int) -> TestResult:
        answer = self._ask(range(first, last + 1), counts=False)
        self._ranges.record(first, last, answer.holds)
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
            PartTest(
                first=units[chosen[0]].id,
                last=units[chosen[-1]].id,
                units=len(chosen),
                verdict=_VERDICTS[answer.holds],
                note=answer.note,
                seconds=time.perf_counter() - start,
            )
        )
        self._notes[tuple(chosen)] = answer.note
        self._ranges.tests += counts
        if self._progress is not None:
            self._progress("search", len(self._tests), self._ranges.limit)
        return answer

    def _holds_for_nothing(self) -> UsageError:
        search = self._ranges
        if search.is_impossible or self._tests[0].verdict == "no":
            question = self._predicate.question
            return UsageError(f"no part {question}, the whole model included", "there is nothing to find")
        return UsageError(
            f"no part was found that {self._predicate.question}: {len(self._tests)} tests, "
            f"{sum(test.verdict == 'untestable' for test in self._tests)} of them without a result",
            "choose parts with --range, and test each",
        )
