"""Properties of parts: kept off a compute unit, overflows in fp16, has what a script tests for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from coremlscope import api
from coremlscope.base.errors import EngineError, LimitError, UsageError
from coremlscope.base.units import shown
from coremlscope.devices import expand_names, find_device
from coremlscope.devices.targets import Targets
from coremlscope.devices.unit import UNIT_WORDS, UNITS, ComputeUnit
from coremlscope.model.features import to_tensors
from coremlscope.ops.half_precision import in_half_precision
from coremlscope.ops.lower import lower
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines import engine as default_engine
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.execution.binding import bind_model, choose_function
from coremlscope.runtime.execution.codec import FeatureCodec
from coremlscope.runtime.execution.ranges import OpRange, read_ranges
from coremlscope.runtime.execution.state import State
from coremlscope.studies.isolation.parts import Part

_OVERFLOW = "fp16-overflow"
_OFF_UNIT: Mapping[str, ComputeUnit] = {f"off-{unit.replace('_', '-')}": unit for unit in UNITS}
#: The properties that have a name.
PROPERTIES = (*_OFF_UNIT, _OVERFLOW)

#: Exit codes of scripts, as for `git bisect run`: a part that cannot be tested, and the first that ends all.
_SKIP, _FATAL = 125, 128
_LONGEST_NOTE = 200


class TestResult(msgspec.Struct, frozen=True):
    """The result of testing a part.

    Attributes:
        holds: Whether the part has the property; None if it cannot be tested.
        note: Why.
        suspects: The names of operations inside the part that have the property.
    """

    holds: bool | None
    note: str = ""
    suspects: tuple[str, ...] = ()


class Predicate(Protocol):
    """A property of parts."""

    #: The property, as a clause.
    question: str
    #: Whether the values of a part's inputs are needed.
    needs_values: bool
    #: Whether the part is tested as a file.
    needs_file: bool
    #: Whether a test of the whole model names suspects.
    names_suspects: bool

    def test(self, part: Part, path: Path) -> TestResult:
        """Tests a part, which is at the path if a file is needed."""


def find_predicate(
    smallest: str | os.PathLike[str] | Callable[[Path], bool | None],
    targets: Targets,
    timeout_s: float | None,
) -> Predicate:
    """Returns a property by its name, or that of a script or a function.

    Args:
        smallest: One of `PROPERTIES`, the path of a script, or a function; see `Script`, `FunctionPredicate`.
        targets: The chip or device of the units that parts are kept off; on a Mac none for this one.
        timeout_s: Seconds that a script may take for one part.

    Raises:
        UsageError: There is no such property or script, or not exactly one device is named.
    """
    if callable(smallest):
        return FunctionPredicate(smallest)
    if smallest == _OVERFLOW:
        return Overflow()
    if smallest not in _OFF_UNIT:
        return Script(smallest, timeout_s)
    names = expand_names(targets.names)
    if not names and sys.platform != "darwin":
        raise UsageError("--device is missing", "name a chip or a device: --device m1")
    if len(names) > 1:
        raise UsageError("several devices are named", "name one: each may need another part")
    return OffUnit(_OFF_UNIT[str(smallest)], names[0] if names else None, targets.os)


class OffUnit:
    """A part with an operation that a compute unit does not run, by our rules or on a Mac by Core ML's plan.

    Args:
        unit: The compute unit.
        device: The chip or device; None for this Mac, which asks Core ML (not yet confirmed on a device).
        system: The version of its system; None for the newest known one.
    """

    names_suspects = True
    needs_values = False

    def __init__(self, unit: ComputeUnit, device: str | None, system: str | None = None) -> None:
        """Raises `UsageError` for an unknown device or system."""
        self.unit, self._device, self._system = unit, device, system
        self.needs_file = device is None
        known = None if device is None else find_device(device, system)
        where = "this Mac" if known is None else f"{known.name}, {known.os}"
        self.question = f"keeps operations off {UNIT_WORDS[unit]} of {where}"

    def test(self, part: Part, path: Path) -> TestResult:
        """Plans the part.

        Raises:
            UsageError: The device is unknown.
            EngineError: Core ML did not return a plan.
        """
        if self._device is None:
            return self._judge(api.plan_by_core_ml(path, shapes=part.shapes), part)
        profile = api.plan(part.model, self._device, os=self._system, shapes=part.shapes)
        return self._judge(profile, part)

    def _judge(self, profile: Profile, part: Part) -> TestResult:
        plan = profile.plans[0]
        names = {unit.name for unit in part.units}
        found: dict[str, str] = {}
        for row, supported in enumerate(plan.supported[self.unit][: len(profile.ops.id)]):
            layer = profile.ops.layer[row] if profile.ops.layer else None
            name = layer or profile.ops.name[row]
            if supported == 0 and name in names:
                reasons = (plan.reasons[i] for i in (plan.why[row] if plan.why else ()))
                why = next((r.text for r in reasons if r.unit == self.unit), "")
                found.setdefault(name, f"{profile.ops.type[row]} {name}: {why}".removesuffix(": "))
        more = f" (and {len(found) - 1} more operations)" if len(found) > 1 else ""
        return TestResult(bool(found), f"{next(iter(found.values()), '')}{more}", tuple(found))


class Overflow:
    """A part in which finite numbers become infinite by rounding to fp16, with the inputs of the whole model.

    Programs in float32 and neural networks are computed as if every float were fp16, as on the Neural Engine.
    """

    question = "overflows in fp16"
    names_suspects = True
    needs_values = True
    needs_file = False

    def test(self, part: Part, path: Path) -> TestResult:
        """Runs the part.

        Raises:
            ModelError: The part cannot be run.
            EngineError: The engine failed.
        """
        del path
        found = [(row, _op_name(part, row.id)) for row in _ranges(part) if row.overflows]
        known = {unit.name for unit in part.units}
        if not found:
            return TestResult(False)
        row, name = found[0]
        reached = "" if row.largest is None else f" reaches {row.largest:.3g}"
        note = f"{name}{reached}: {_elements(row.overflows)} to infinity"
        return TestResult(True, note, tuple(dict.fromkeys(name for _, name in found if name in known)))


class Script:
    """A part that a script rejects: it is called with the path of the part, as by `git bisect run`.

    Exit code 0 accepts the part, 1 to 127 reject it, except 125: it cannot be tested. Others end the search.
    The values of the inputs are in a file beside the part that ends in `.npz`.

    Args:
        path: The script. One that ends in `.py` is run by this Python.
        timeout_s: Seconds that a test may take; None for no limit.

    Raises:
        UsageError: The script does not exist.
    """

    names_suspects = False
    needs_values = True
    needs_file = True

    def __init__(self, path: str | os.PathLike[str], timeout_s: float | None = None) -> None:
        self._path, self._timeout_s = Path(path), timeout_s
        if not self._path.is_file():
            raise UsageError(
                f"{path} is neither a script nor a known property", f"use one of {', '.join(PROPERTIES)}"
            )
        self.question = f"is rejected by {self._path.name}"

    def test(self, part: Part, path: Path) -> TestResult:
        """Runs the script.

        Raises:
            UsageError: The script cannot be started.
            EngineError: The script ended by a signal or with an exit code of 128 or more.
            LimitError: It took too long.
        """
        del part
        python = [sys.executable] if self._path.suffix == ".py" else []
        try:
            done = subprocess.run(
                [*python, str(self._path.resolve()), str(path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LimitError(
                f"{self._path.name} took longer than {self._timeout_s:g} s for one part",
                "raise --timeout, or end the script earlier",
            ) from None
        except OSError as error:
            raise UsageError(
                f"{self._path} cannot be run: {error.strerror or error}",
                "make it executable, or write it in Python with a name that ends in .py",
            ) from None
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        note = shown(lines[-1][:_LONGEST_NOTE]) if lines else ""
        if not 0 <= done.returncode < _FATAL:
            raise EngineError(
                f"{self._path.name} ended with {_ending(done.returncode)}{f' ({note})' if note else ''}",
                "exit code 0 accepts a part, 1 to 127 reject it, but 125 says that it cannot be tested",
            )
        return TestResult(None if done.returncode == _SKIP else done.returncode > 0, note)


class FunctionPredicate:
    """A part for which a function of Python returns True.

    Args:
        function: Takes the path of a part; the values of its inputs are beside it, in a file that ends in
            `.npz`. Returns whether the part has the property, or None if it cannot be tested.
    """

    names_suspects = False
    needs_values = True
    needs_file = True

    def __init__(self, function: Callable[[Path], bool | None]) -> None:
        self._function = function
        self.question = f"is rejected by {getattr(function, '__name__', 'the function')}"

    def test(self, part: Part, path: Path) -> TestResult:
        """Calls the function."""
        del part
        found = self._function(path)
        return TestResult(None if found is None else bool(found))


def _elements(count: int) -> str:
    return "1 element overflows" if count == 1 else f"{count} elements overflow"


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _ranges(part: Part) -> tuple[OpRange, ...]:
    """Runs a part with every float rounded to fp16 and returns the ranges of its operations."""
    bound = bind_model(part.model, None, part.shapes)
    is_float32 = part.precision == "fp32"
    program = lower(in_half_precision(bound) if is_float32 else bound, "fp16")
    interface = part.model.description.main
    state = State(program.states)
    for name, content in part.states.items():
        state.write(name, content)
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        session = default_engine().build(program, Path(folder), EngineOptions(fuses=False))
        feeds = FeatureCodec(program.inputs, program.outputs).encode(
            to_tensors(interface.inputs, part.inputs)
        )
        results = session.run({**feeds, **state.feeds()})
        session.close()
    return () if program.ranges is None else read_ranges(program.ranges, results)


def _op_name(part: Part, op_id: str) -> str:
    """Returns the name of the unit that an operation of a part belongs to."""
    for op in choose_function(part.model).function.graph.walk():
        if op.id == op_id:
            return op.layer.name if op.layer is not None else op.name
    return op_id
